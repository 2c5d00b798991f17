"""Where a value of ``zeroclaw config set`` comes from, and what the package it is for makes of it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import termios
import time
import tomllib

import pytest

from zeroclaw_host.instance import InstanceIdentity

WAIT_SECONDS = 120.0
"""Far above what a command takes, so that only one that hangs fails by it."""
SECRET = "providers.models.openai.main.api_key"
ENTRY = f"plugins.entries.{InstanceIdentity.default_tool('wat-echo').key}"
SCHEMA = """\
permissions = ["config_read"]
[config_schema]
type = "object"
additionalProperties = false
required = ["token"]
[config_schema.properties.depth]
type = "integer"
maximum = 9
default = 3
description = "How deep it looks."
[config_schema.properties.token]
type = "string"
x-secret = true
description = "The service's token."
[config_schema.properties.tags]
type = "array"
items = { type = "string" }
"""


@pytest.fixture
def typing(home):
    """Runs a command on a terminal and types a line whenever it asks; what it showed."""

    def run(line: str, *arguments: str, hidden: bool) -> str:
        controller, terminal = pty.openpty()
        program = subprocess.Popen(
            ["zeroclaw", *arguments],
            env={**home.environment(), "TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        shown = b""
        answered = 0
        limit = time.monotonic() + WAIT_SECONDS
        try:
            while True:
                assert time.monotonic() < limit, shown.decode()
                # Whoever types before the echo is off would be heard, and then not listened to.
                quiet = not termios.tcgetattr(controller)[3] & termios.ECHO
                if shown.count(b": ") > answered and quiet == hidden:
                    os.write(controller, line.encode() + b"\n")
                    answered += 1
                if select.select([controller], [], [], 0.02)[0]:
                    try:
                        shown += os.read(controller, 4096)
                    except OSError:
                        break
            assert program.wait(timeout=60) == 0, shown.decode()
        finally:
            program.kill()
            program.wait()
            os.close(controller)
        assert answered == (2 if hidden else 1)
        return shown.decode().replace("\r\n", "\n")

    return run


@pytest.fixture
def installed(home, zeroclaw, package, compile_cache) -> None:
    """A package with a schema, installed, with the row of its tool."""
    home.configure("schema_version = 1\n")
    assert zeroclaw("plugin", "install", str(package(more=SCHEMA))).status == 0


def entry(home) -> dict[str, str]:
    """What the row's properties hold, unsealed."""
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    key = home.key_file.read()
    return {name: key.unseal(text) for name, text in row["config"].items()}


def test_a_person_is_asked_for_a_secret_without_echo(home, typing) -> None:
    shown = typing("hunter2", "config", "set", SECRET, hidden=True)
    assert "hunter2" not in shown
    assert "secret. The endpoint's key." in shown
    stored = tomllib.loads(home.config_file.read_text())["providers"]["models"]["openai"]["main"]["api_key"]
    assert home.key_file.read().unseal(stored) == "hunter2"


def test_a_person_is_told_what_a_property_takes(typing) -> None:
    shown = typing("80", "config", "set", "gateway.port", hidden=False)
    assert "integer, at least 0, at most 65535. The port it listens on." in shown
    assert "gateway.port = 80\n" in shown


@pytest.mark.req("PLG-119")
@pytest.mark.usefixtures("installed")
def test_a_person_is_asked_as_the_installed_package_describes_it(home, typing) -> None:
    shown = typing("4", "config", "set", f"{ENTRY}.config.depth", hidden=False)
    assert "integer, default 3. How deep it looks.\n" in shown
    shown = typing("hunter2", "config", "set", f"{ENTRY}.config.token", hidden=True)
    assert "a secret, required. The service's token.\n" in shown
    assert "hunter2" not in shown
    assert entry(home) == {"depth": "4", "token": "hunter2"}


@pytest.mark.req("PLG-119", "PLG-148", "PLG-149")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "value", "status", "words"),
    [
        ("depht", "4", 5, "package wat-echo has no property depht; the closest are depth"),
        ("depth", "four", 3, "property depth is not the text of one integer"),
        ("depth", "10", 3, "does not satisfy the schema at properties/depth/maximum, which is 9"),
        ("tags", '["a", 1]', 3, 'properties/tags/items/type, which is "string"'),
        ("tags", "a,b", 3, "property tags is not the text of one array"),
    ],
)
def test_a_value_that_the_package_refuses_is_not_written(
    home, zeroclaw, name: str, value: str, status: int, words: str
) -> None:
    before = home.config_file.read_bytes()
    outcome = zeroclaw("config", "set", f"{ENTRY}.config.{name}", value)
    assert (outcome.status, outcome.out) == (status, "")
    assert words in outcome.err
    patch = f'[{{"op": "add", "path": "/{ENTRY.replace(".", "/")}/config/{name}", "value": {value!r}}}]'
    if "'" not in value and '"' not in value:
        assert zeroclaw("config", "patch", patch.replace("'", '"')).status == status
    assert home.config_file.read_bytes() == before


@pytest.mark.req("PLG-119", "PLG-148")
@pytest.mark.usefixtures("installed")
def test_a_value_that_the_package_takes_is_written_though_others_are_missing(home, zeroclaw) -> None:
    for name, value in (("depth", "9"), ("tags", '["a"]'), ("token", "hunter2")):
        outcome = zeroclaw("config", "set", f"{ENTRY}.config.{name}", value)
        shown = "***MASKED***" if name == "token" else value
        assert (outcome.status, outcome.out) == (0, f"{ENTRY}.config.{name} = {shown}\n")
        again = zeroclaw("config", "set", f"{ENTRY}.config.{name}", value, "--json")
        assert again.json["value"] == shown
        assert "unchecked" not in outcome.err
        assert ("is a secret" in outcome.err) == (name == "token")
    assert entry(home) == {"depth": "9", "tags": '["a"]', "token": "hunter2"}


@pytest.mark.req("PLG-119")
def test_without_the_package_a_value_is_written_and_that_is_said(home, zeroclaw) -> None:
    name = ENTRY.removeprefix("plugins.entries.")
    home.configure(f'schema_version = 1\n[[plugins.entries]]\nname = "{name}"\n')
    outcome = zeroclaw("config", "set", f"{ENTRY}.config.depth", "many")
    assert (outcome.status, outcome.out) == (0, f"{ENTRY}.config.depth = ***MASKED***\n")
    assert (
        f"{ENTRY}.config.depth was written unchecked: no package named wat-echo is installed" in outcome.err
    )
    assert entry(home) == {"depth": "many"}


def test_a_secret_in_an_argument_is_taken_and_warned_of(zeroclaw) -> None:
    outcome = zeroclaw("config", "set", SECRET, "hunter2")
    assert (outcome.status, outcome.out) == (0, f"{SECRET} = ***MASKED***\n")
    assert "in the list of processes" in outcome.err
    assert "hunter2" not in outcome.err
    told = zeroclaw("config", "set", "gateway.port", "80").err
    assert "process" not in told
    assert told == "gateway.port counts from the next start of the daemon on\n"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_value_is_read_from_standard_input(home, end: str) -> None:
    done = subprocess.run(
        ["zeroclaw", "config", "set", "--no-interactive", SECRET, "-"],
        env=home.environment(),
        input=f"hunter2{end}".encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{SECRET} = ***MASKED***\n".encode(), b"")
    stored = tomllib.loads(home.config_file.read_text())["providers"]["models"]["openai"]["main"]["api_key"]
    assert home.key_file.read().unseal(stored) == "hunter2"


@pytest.mark.req("PLG-138")
def test_an_array_of_a_patch_is_what_a_property_of_that_type_is_told(home, zeroclaw, installed) -> None:
    def patched(name: str, value: object):
        pointer = f"/{ENTRY.replace('.', '/')}/config/{name}"
        return zeroclaw("config", "patch", json.dumps([{"op": "add", "path": pointer, "value": value}]))

    assert patched("tags", ["a", "é"]).status == 0
    assert entry(home) == {"tags": '["a", "é"]'}
    for name, value, words in [("tags", [1], "tags"), ("tags", {}, "tags"), ("depth", [4], "type integer is wanted"),
                               ("token", ["t0p"], "type string is wanted")]:  # fmt: skip
        outcome = patched(name, value)
        assert outcome.status == 3
        assert words in outcome.err
        assert "t0p" not in outcome.err
    assert entry(home) == {"tags": '["a", "é"]'}


def test_standard_input_that_is_no_text_is_refused_without_repeating_it(home) -> None:
    done = subprocess.run(
        ["zeroclaw", "config", "set", SECRET, "-"],
        env=home.environment(),
        input=b"hunter2\xff",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"standard input is not UTF-8" in done.stderr
    assert b"hunter2" not in done.stderr
    assert not home.config_file.exists()


@pytest.mark.parametrize("value", ["****", "***MASKED***", "", "enc2:00", "op://vault/item"])
def test_what_stands_for_a_secret_never_replaces_one(home, zeroclaw, value: str) -> None:
    text = 'schema_version = 1\n[providers.models.openai.main]\napi_key = "hunter2"\n'
    home.configure(text)
    assert zeroclaw("config", "set", SECRET, value).status == 3
    assert home.config_file.read_text() == text


@pytest.mark.req("PLG-120")
def test_packages_are_installed_and_found_where_the_configuration_says(
    home, zeroclaw, package, compile_cache
) -> None:
    elsewhere = home.path / "srv" / "plugins"
    assert zeroclaw("config", "set", "plugins.plugins_dir", str(elsewhere)).out == (
        f"plugins.plugins_dir = {elsewhere}\n"
    )
    assert zeroclaw("plugin", "install", str(package())).status == 0
    assert (elsewhere / "wat-echo" / "manifest.toml").is_file()
    assert not (home.plugins / "wat-echo").exists()
    assert "wat-echo" in zeroclaw("plugin", "list").out
    zeroclaw("config", "delete", "plugins.plugins_dir")
    assert "wat-echo" not in zeroclaw("plugin", "list").out
