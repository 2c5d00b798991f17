"""What an author is told about an ordinary mistake: once, in words of their own files, or as JSON where asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forge import Forge

from zeroclaw_host.contract import ungated_wit

Run = Callable[..., Any]
BIN = Path(sys.executable).parent
RAISES = 'from zeroclaw_sdk.guest import Tool\n\nclass Hello(Tool):\n    name = "hello"\n\n'


@pytest.fixture
def hello(plugin_copy: Callable[[str], Path]) -> Path:
    return plugin_copy("hello")


def test_a_syntax_error_is_said_once_with_its_place(command: Run, hello: Path):
    (hello / "app.py").write_text("x = 1\nclass Hello(Tool)\n    pass\n")
    done = command("zeroclaw-plugin", "build", cwd=hello)
    assert done.status == 3
    assert done.err.count("app.py:2: not Python 3.") == 1
    assert done.err.count("expected ':'") == 1
    assert "import of" not in done.err


@pytest.mark.slow
def test_an_annotation_without_json_form_is_said_without_the_inside_of_the_sdk(command: Run, hello: Path):
    (hello / "app.py").write_text(f"{RAISES}    def run(self, when: complex) -> str:\n        return ''\n")
    done = command("zeroclaw-plugin", "build", cwd=hello)
    assert done.status == 3
    first = "error: the component was not built: Hello.run: parameter when: the annotation <class 'complex'>"
    assert done.err.startswith(first)
    assert "Traceback" not in done.err
    assert "zeroclaw_sdk.guest" not in done.err
    assert "mend app.py" in done.err


def test_a_name_that_is_none_is_refused_without_naming_a_file(command: Run):
    done = command("zeroclaw-plugin", "new", "tool", "Bad_Name!")
    assert done.status == 3
    assert done.err == (
        "error: 'Bad_Name!' is no name of a package: 1 to 128 characters of a-z, 0-9, '.', '_' and '-' "
        "that start and end with a-z or 0-9 are wanted\n"
    )


def test_what_the_system_said_is_not_said_twice(command: Run):
    done = command("zeroclaw-plugin", "keygen", "--show", "nowhere.pem")
    assert done.err == "error: nowhere.pem cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("zeroclaw-plugin", "sign", "--key", "nowhere.pem", "--json"), "storage_failed"),
        (("zeroclaw-plugin", "run", "{", "--json"), "usage"),
        (("zeroclaw-registry", "verify", "nowhere", "--json"), "plugin_project_invalid"),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(
    command: Run, hello: Path, words: tuple[str, ...], code: str
):
    done = command(*words, cwd=hello)
    assert done.out == ""
    error = json.loads(done.err)["error"]
    assert (error["code"], bool(error["message"]), error["causes"]) == (code, True, error["causes"])
    assert {"kind", "details", "remedy"} <= error.keys()


@pytest.mark.slow
def test_a_plugin_that_raises_is_reported_once(command: Run, hello: Path):
    source = (hello / "app.py").read_text().replace("return f", "raise ValueError('boom') or f")
    (hello / "app.py").write_text(source)
    built = command("zeroclaw-plugin", "build", cwd=hello)
    assert built.status == 0, built.err
    done = command("zeroclaw-plugin", "run", '{"name": "Ada"}', cwd=hello)
    assert done.status == 9
    assert done.err.count("ValueError: boom") == 1


@pytest.mark.parametrize("words", [("zeroclaw-plugin", "--help"), ("zeroclaw-registry", "verify", "--json")])
def test_a_reader_that_went_away_ends_the_command_as_if_by_the_pipe(
    command: Run, tmp_path: Path, words: tuple[str, ...]
):
    (tmp_path / "registry").mkdir()
    assert command("zeroclaw-registry", "init", "shop").status == 0
    reading, writing = os.pipe()
    os.close(reading)
    try:
        arguments = [*words, "shop"] if "verify" in words else list(words)
        done = subprocess.run(
            [BIN / arguments[0], *arguments[1:]],
            cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_what_the_output_has_no_letters_for_is_written_as_an_escape(hello: Path, command: Run):
    done = command(
        "zeroclaw-plugin", "run", '{"name": "Zoë ☃"}', cwd=hello, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (done.status, done.out) == (0, "Hello, Zo\\xeb \\u2603.\n")


@pytest.mark.req("PLG-038", "PAINS-9")
def test_a_component_that_drifted_is_shown_difference_by_difference(command, tmp_path: Path):
    text = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
    drifted = text.replace("    memory-audit,\n", "").replace("    not-found,\n", "")
    component = Forge(wit=drifted).component(imports=["logging.log-record", "secrets.get"])
    (tmp_path / "drifted.wasm").write_bytes(component)
    (tmp_path / "manifest.toml").write_text(
        'name = "drifted"\nversion = "1.0.0"\nwasm_path = "drifted.wasm"\ncapabilities = ["tool"]\n'
    )
    done = command("zeroclaw-plugin", "check", str(tmp_path))
    assert done.status == 3
    lines = [line.strip() for line in done.out.splitlines()]
    differences = lines[lines.index("what differs from the contract:") + 1 :]
    assert differences[0].endswith("the enum plugin-action lacks the case memory-audit")
    assert differences[1].endswith("the enum secret-error lacks the case not-found")
