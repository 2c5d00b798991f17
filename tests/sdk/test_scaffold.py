"""New plugins from templates."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import StorageError
from zeroclaw_host.package.manifest import Capability, parse_manifest
from zeroclaw_sdk.errors import PackageNameInvalid, ScaffoldConflict
from zeroclaw_sdk.imports import audit
from zeroclaw_sdk.scaffold import TEMPLATES, class_name, new_plugin


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_new_plugin_has_everything_it_needs(tmp_path: Path, kind: str):
    target = new_plugin(kind, "send-mail.2", tmp_path)
    assert target == tmp_path / "send-mail.2"
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert files == {
        ".gitignore",
        "README.md",
        "app.py",
        "manifest.toml",
        "pyproject.toml",
        "tests/test_app.py",
    }
    assert not any("{{" in (target / file).read_text() for file in files)
    manifest = parse_manifest((target / "manifest.toml").read_bytes())
    assert (manifest.name, manifest.wasm_path) == ("send-mail.2", "build/send-mail.2.wasm")
    assert manifest.capabilities == (Capability(kind),)
    assert audit("app", target, []).findings == ()


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_new_plugins_own_tests_pass(tmp_path: Path, kind: str):
    target = new_plugin(kind, "hello", tmp_path)
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["", "Hello", "../hello", "-hello", "a" * 129, "hello world", "héllo"])
def test_a_name_no_manifest_may_have_is_refused(tmp_path: Path, name: str):
    with pytest.raises(PackageNameInvalid):
        new_plugin("tool", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_exist_are_never_replaced(tmp_path: Path):
    target = new_plugin("tool", "hello", tmp_path)
    (target / "app.py").write_text("mine")
    with pytest.raises(ScaffoldConflict):
        new_plugin("tool", "hello", tmp_path)
    assert (target / "app.py").read_text() == "mine"


def test_an_empty_directory_is_filled_and_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / "hello").mkdir()
    new_plugin("tool", "hello", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ScaffoldConflict):
        new_plugin("tool", "linked", tmp_path)


def test_where_nothing_can_be_written_nothing_is_left(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        new_plugin("tool", "hello", tmp_path / "file")


@given(st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True))
def test_every_package_name_gives_a_class_name(name: str):
    assert class_name(name).isidentifier()
    assert class_name(name) not in ("Tool", "Config")
    ast.parse(f"class {class_name(name)}: pass")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tool", "PluginTool"), ("config", "PluginConfig"), ("memory-entry", "PluginMemoryEntry")],
)
def test_a_class_is_not_called_like_what_its_file_imports(name: str, expected: str):
    assert class_name(name) == expected


@pytest.mark.parametrize("name", ["counter", "feed-watch", "redact", "weather"])
def test_an_example_plugins_own_tests_pass(name: str):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=Path(__file__).resolve().parents[2] / "example-plugins" / name,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
