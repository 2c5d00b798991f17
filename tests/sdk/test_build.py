"""Building: what goes in, what is refused with file and line, and what a failure leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from zeroclaw_host.errors import ManifestError, StorageError
from zeroclaw_sdk.build import STAMP_SUFFIX, build
from zeroclaw_sdk.errors import BuildFailed, ProjectInvalid
from zeroclaw_sdk.project import Project
from zeroclaw_sdk.scaffold import new_plugin

GOOD = """
from zeroclaw_sdk.guest import Tool

class Good(Tool):
    name = "good"

    def run(self) -> str:
        return ""
"""

Make = Callable[..., Project]


@pytest.fixture
def project(tmp_path: Path) -> Make:
    """A project of the given files."""

    def make(files: Mapping[str, str], manifest: str = "") -> Project:
        target = new_plugin("tool", "sample", tmp_path)
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
        with (target / "manifest.toml").open("a") as file:
            file.write(manifest)
        return Project.open(target)

    return make


def refusal(project: Project, **options: bool) -> BuildFailed:
    with pytest.raises(BuildFailed) as raised:
        build(project, **options)
    assert not project.component_path.exists()
    return raised.value


@pytest.mark.req("PAINS-15")
def test_a_native_import_ends_the_build_with_file_and_line(project: Make):
    error = refusal(project({"app.py": "import helper\n" + GOOD, "helper.py": "\nimport ssl\n"}))
    assert error.message.startswith("helper.py:2: import of ssl cannot work")
    assert error.remedy is not None
    assert error.remedy.arguments["line"] == "2"


@pytest.mark.req("PAINS-15")
def test_a_strict_build_refuses_lazy_imports_too(project: Make):
    error = refusal(project({"app.py": GOOD + "\ndef later():\n    import csv\n"}), strict=True)
    assert "app.py:11" in error.message
    [finding] = error.details["findings"]
    assert (finding.problem, finding.module) == ("lazy", "csv")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (GOOD + "\nraise RuntimeError('at import')\n", "app.py:10", "RuntimeError: at import"),
        (GOOD + "\nimport helper\n", "helper.py:2", "ZeroDivisionError"),
        ("x = 1\n", None, "app defines no subclass of Tool"),
        (GOOD.replace('name = "good"', "pass"), None, 'Good: set `name = "..."`'),
        (GOOD.replace("def run(self)", "def run(self, thing: bytes)"), None, "Good.run: parameter thing"),
    ],
)
def test_a_mistake_in_the_plugin_ends_the_build_with_the_authors_line(
    project: Make, text: str, where: str | None, what: str
):
    error = refusal(project({"app.py": text, "helper.py": "\n1 / 0\n"}))
    assert what in error.message
    assert where is None or where in error.message
    # What the author's own code raised comes with its traceback; what the class lacks is one sentence.
    assert ("Traceback" in str(error.details.get("output"))) is (where is not None)


@pytest.mark.slow
def test_a_config_class_that_differs_from_the_manifest_ends_the_build(project: Make):
    text = GOOD.replace(
        "class Good(Tool):",
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    words: list[str]\n\nclass Good(Tool):\n    config: Config",
    )
    schema = '[config_schema]\ntype = "object"\nadditionalProperties = false\n[config_schema.properties.words]\ntype = "string"\n'
    target = project({"app.py": text})
    path = target.directory / "manifest.toml"
    path.write_text(path.read_text().replace("permissions = []", 'permissions = ["config_read"]') + schema)
    error = refusal(Project.open(target.directory))
    assert "words: array in the class, string in config_schema" in error.message


def test_a_skill_has_nothing_to_build(project: Make):
    target = project({})
    path = target.directory / "manifest.toml"
    path.write_text(
        path.read_text().replace('["tool"]', '["skill"]').replace('wasm_path = "build/sample.wasm"\n', "")
    )
    with pytest.raises(ProjectInvalid):
        build(Project.open(target.directory))


def test_a_directory_without_manifest_is_no_project(tmp_path: Path):
    with pytest.raises(ProjectInvalid, match=r"manifest\.toml"):
        Project.open(tmp_path)


def test_a_broken_manifest_is_named_with_its_line(project: Make):
    with pytest.raises(ManifestError) as raised:
        project({}, manifest="\nversion = [\n")
    assert raised.value.details["line"]


def test_an_unchanged_plugin_is_not_built_again(plugin_copy: Callable[[str], Path]):
    target = plugin_copy("hello")
    before = (target / "build" / "hello.wasm").stat().st_mtime_ns
    report = build(Project.open(target))
    assert not report.fresh
    assert report.component.stat().st_mtime_ns == before
    (target / "README.md").write_text("other words")
    assert not build(Project.open(target)).fresh


def test_what_a_stamp_says_counts_only_for_the_bytes_it_names(plugin_copy: Callable[[str], Path]):
    target = plugin_copy("hello")
    component = target / "build" / "hello.wasm"
    stamp = component.with_name(component.name + STAMP_SUFFIX)
    facts = json.loads(stamp.read_text())
    component.write_bytes(component.read_bytes()[:-1])
    (target / "app.py").write_text("not python (")
    with pytest.raises(BuildFailed):  # it would be built again, and that finds the mistake
        build(Project.open(target))
    assert json.loads(stamp.read_text()) == facts


def test_a_component_that_cannot_be_written_leaves_no_half(project: Make):
    target = project({"app.py": GOOD})
    (target.directory / "build").write_text("in the way")
    with pytest.raises(StorageError):
        build(target)
    assert [path.name for path in target.directory.iterdir() if path.name.startswith(".sample")] == []


@pytest.mark.slow
def test_an_installed_package_is_found_and_built_in(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import zeroclaw_sdk.build as module

    site = tmp_path / "site"
    (site / "lib").mkdir(parents=True)
    (site / "lib" / "__init__.py").write_text("WORD = 'found'\n")
    monkeypatch.setattr(module, "site_directories", lambda: [site])
    target = project({"app.py": "from lib import WORD\n" + GOOD})
    first = build(target)
    assert first.fresh
    assert not build(target).fresh
    (site / "lib" / "__init__.py").write_text("WORD = 'other'\n")
    assert build(target).fresh


@pytest.mark.req("PAINS-15")
@pytest.mark.parametrize(
    ("line", "permission"),
    [
        ("from zeroclaw_sdk.guest import Tool, http", "http_client"),
        ("from zeroclaw_sdk.guest.http import get", "http_client"),
        ("import zeroclaw_sdk.guest.websocket", "websocket_client"),
        ("from zeroclaw_sdk.guest.sockets import connect as dial", "socket_client"),
    ],
)
def test_a_network_module_without_its_permission_ends_the_build_with_its_name(
    project: Make, line: str, permission: str
):
    made = project({"app.py": "import helper\n" + GOOD, "helper.py": f"\n{line}\n"})
    error = refusal(made)
    assert error.message.startswith("helper.py:2: import of zeroclaw_sdk.guest.")
    assert f"needs the permission {permission}; add it to permissions in manifest.toml" in error.message
    assert error.remedy is not None
    assert error.remedy.arguments == {"path": str(made.directory / "manifest.toml")}


def test_a_late_import_of_a_network_module_is_about_the_permission_too(project: Make):
    text = GOOD + "\ndef later():\n    from zeroclaw_sdk.guest import http\n    return http\n"
    error = refusal(project({"app.py": text}), strict=True)
    [finding] = error.details["findings"]
    assert (finding.problem, finding.severity) == ("unpermitted", "warning")
