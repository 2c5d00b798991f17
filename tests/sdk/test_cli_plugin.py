"""The author's command, as an author types it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.errors import GuestTrap, MemoryLimit, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key
from zeroclaw_host.services.logging import CallSite, LogRecord
from zeroclaw_sdk.run import RunReport

Run = Callable[..., Any]


def read_until(terminal: int, text: bytes) -> None:
    """Read what appears on a terminal up to a text; waits no longer than a slow machine needs."""
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, seen
        seen += os.read(terminal, 1024)


def answer(terminal: int, prompt: bytes) -> None:
    read_until(terminal, prompt)
    os.write(terminal, b"tea\n")


@pytest.fixture
def hello(plugin_copy: Callable[[str], Path]) -> Path:
    return plugin_copy("hello")


@pytest.fixture
def key(command: Run, tmp_path: Path) -> tuple[Path, str]:
    """A key file and its public half."""
    path = tmp_path / "publisher.pem"
    done = command("zeroclaw-plugin", "keygen", path)
    assert done.status == 0, done.err
    found = re.search(r"\b[0-9a-f]{64}\b", done.out)
    assert found
    return path, found[0]


@pytest.mark.slow
def test_the_readmes_first_five_commands(command: Run, tmp_path: Path):
    assert command("zeroclaw-plugin", "new", "tool", "hello").status == 0
    hello = tmp_path / "hello"
    built = command("zeroclaw-plugin", "build", cwd=hello)
    assert built.status == 0, built.err
    assert (hello / "build" / "hello.wasm").stat().st_size > 1_000_000
    checked = command("zeroclaw-plugin", "check", cwd=hello)
    assert checked.status == 0, checked.err
    assert re.search(r"^load +ok$", checked.out, re.MULTILINE)
    answered = command("zeroclaw-plugin", "run", '{"name": "Ada"}', cwd=hello)
    assert (answered.status, answered.out) == (0, "Hello, Ada.\n")


def test_run_prints_the_output_alone_on_standard_output(command: Run, hello: Path):
    done = command("zeroclaw-plugin", "run", '{"name": "Ada", "excited": true}', cwd=hello)
    assert (done.status, done.out) == (0, "Hello, Ada!\n")
    assert "Hello.run: greeting somebody" in done.err
    assert re.search(r"\d+ ms, [\d,]+ units of fuel", done.err)


def test_a_plugin_that_dies_is_told_once_in_its_own_words():
    instance = InstanceIdentity.default_tool("hello")
    logs = tuple(
        LogRecord(instance, CallSite(), "info", message, source=source)
        for source, message in (("log", "before"), ("log", "it broke"), ("stderr", "Traceback…"))
    )
    with_words = GuestTrap("it broke", details={"stderr": "Traceback…", "traceback": "Traceback…"})
    without = MemoryLimit("no memory")

    def shown(error: ZeroclawError | None) -> list[str]:
        return [record.message for record in RunReport(None, error, logs, 1.0, 1).other_logs()]

    assert shown(with_words) == ["before"]
    assert shown(without) == shown(None) == ["before", "it broke", "Traceback…"]


def test_run_answers_in_json_for_programs(command: Run, hello: Path):
    done = command("zeroclaw-plugin", "run", '{"name": "Ada"}', "--json", cwd=hello)
    assert done.json["result"] == {"success": True, "output": "Hello, Ada.", "error": None}
    [record] = done.json["logs"]
    assert record["message"] == "greeting somebody"


def test_run_tells_a_failed_tool_by_its_status(command: Run, hello: Path):
    done = command("zeroclaw-plugin", "run", '{"name": 1}', cwd=hello)
    assert (done.status, done.out) == (9, "")
    assert "name: expected a string, got an integer" in done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["run", "[1]"], 2, "must be a JSON object"),
        (["run", "{"], 2, "not JSON"),
        (["run", "{}", "--config", "novalue"], 2, "key=value"),
        (["run", "{}", "--config", "a=b"], 2, "declares no configuration"),
        (["run", "{}", "--config-file", "/nowhere.toml"], 7, "/nowhere.toml"),
        (["run", "{}", "--timeout-ms", "0"], 3, "call_timeout_ms"),
        (["run", "{}", "--fuel", "1"], 8, "larger --fuel"),
        (["sign"], 2, "--key"),
        (["sign", "--key", "/nowhere.pem"], 7, "/nowhere.pem"),
        (["verify"], 4, "not signed"),
        (["check", "/nowhere"], 7, "/nowhere"),
        (["build", "/nowhere"], 3, "manifest.toml"),
        (["new", "tool", "No Name"], 3, "name"),
        (["new", "observer", "x"], 2, "observer"),
        (["run", "--inbound", "{}"], 2, "--inbound is for channels"),
        (["run", "--as", "channel"], 2, "hello is no channel"),
        (["frobnicate"], 2, "frobnicate"),
        (["run", "--frobnicate"], 2, "frobnicate"),
    ],
)
def test_every_mistake_is_one_error_with_its_status(
    command: Run, hello: Path, words: list[str], status: int, said: str
):
    done = command("zeroclaw-plugin", *words, cwd=hello)
    assert done.status == status, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "name", ["", "new", "build", "check", "run", "keygen", "sign", "verify", "pack", "wit"]
)
def test_every_command_explains_itself(command: Run, name: str):
    done = command("zeroclaw-plugin", *name.split(), "--help")
    assert done.status == 0
    assert "Usage: zeroclaw-plugin" in done.out
    assert "[bold" not in done.out


def test_configuration_is_given_by_values_and_by_file(
    command: Run, plugin_copy: Callable[[str], Path], tmp_path: Path
):
    redact = plugin_copy("redact")
    values = tmp_path / "values.toml"
    values.write_text('replacement = "#"\npatterns = ["secret", "b"]\n')
    arguments = '{"text": "a secret b ada@example.org"}'
    done = command("zeroclaw-plugin", "run", arguments, "--config-file", values, cwd=redact)
    assert done.out == "a # # #\n"
    more = ["--config", "redact_emails=false", "--config", "replacement=*"]
    done = command("zeroclaw-plugin", "run", arguments, "--config-file", values, *more, cwd=redact)
    assert done.out == "a * * ada@example.org\n"
    (tmp_path / "values.json").write_text('{"patterns": ["a"], "redact_emails": false}')
    done = command("zeroclaw-plugin", "run", arguments, "--config-file", tmp_path / "values.json", cwd=redact)
    assert done.out == "[redacted] secret b [redacted]d[redacted]@ex[redacted]mple.org\n"


def test_configuration_that_breaks_the_schema_names_the_property(
    command: Run, plugin_copy: Callable[[str], Path]
):
    done = command(
        "zeroclaw-plugin", "run", '{"text": ""}', "--config", "redact_emails=maybe", cwd=plugin_copy("redact")
    )
    assert done.status == 3
    assert "redact_emails" in done.err
    assert "maybe" not in done.err


def test_check_reports_what_can_be_configured(command: Run, plugin_copy: Callable[[str], Path]):
    behaves = plugin_copy("behaves")
    done = command("zeroclaw-plugin", "check", behaves)
    assert done.status == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert ["region", "string", "yes"] in rows
    assert ["api_key", "string", "yes"] in rows
    found = command("zeroclaw-plugin", "check", behaves, "--json").json["config"]
    assert [(each["name"], each["required"], each["secret"]) for each in found] == [
        ("region", True, False),
        ("api_key", False, True),
        ("retries", False, False),
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda data: data[: len(data) // 2], "component"),
        (lambda data: b"not wasm at all", "component"),
        (lambda data: b"\0asm\1\0\0\0", "component"),
    ],
)
def test_check_says_why_a_component_does_not_load(
    command: Run, hello: Path, make: Callable[[bytes], bytes], said: str
):
    component = hello / "build" / "hello.wasm"
    component.write_bytes(make(component.read_bytes()))
    done = command("zeroclaw-plugin", "check", cwd=hello)
    assert done.status == 3
    assert re.search(r"^load +fails$", done.out, re.MULTILINE)
    assert said in done.out


def test_what_is_not_built_yet_says_how_to_build_it(command: Run, hello: Path, key: tuple[Path, str]):
    shutil.rmtree(hello / "build")
    for words in (["check"], ["run", "{}"], ["pack"], ["verify"], ["sign", "--key", key[0]]):
        done = command("zeroclaw-plugin", *words, cwd=hello)
        assert done.status == 3
        assert "zeroclaw-plugin build" in done.err


class TestSigning:
    def test_a_signed_plugin_is_one_a_strict_host_admits(
        self, command: Run, hello: Path, key: tuple[Path, str]
    ):
        done = command("zeroclaw-plugin", "sign", hello, "--key", key[0])
        assert done.status == 0, done.err
        assert key[1] in done.out
        policy = SignaturePolicy.of(SignatureMode.STRICT, [key[1]])
        assert admit(DirectoryReader(hello), policy).signature.status.value == "valid"
        assert command("zeroclaw-plugin", "verify", hello, "--trusted-key", key[1]).status == 0
        assert command("zeroclaw-plugin", "verify", hello).status == 0
        assert command("zeroclaw-plugin", "check", hello, "--trusted-key", key[1]).status == 0
        again = (hello / "manifest.toml").read_bytes()
        assert command("zeroclaw-plugin", "sign", hello, "--key", key[0]).status == 0
        assert (hello / "manifest.toml").read_bytes() == again

    def test_another_key_is_not_trusted(self, command: Run, hello: Path, key: tuple[Path, str]):
        command("zeroclaw-plugin", "sign", hello, "--key", key[0])
        other = publisher_key(Ed25519PrivateKey.generate())
        for name in ("verify", "check"):
            done = command("zeroclaw-plugin", name, hello, "--trusted-key", other)
            assert done.status == 4

    @pytest.mark.req("PLG-167")
    def test_a_schema_edited_after_signing_breaks_the_signature(
        self, command: Run, plugin_copy: Callable[[str], Path], key: tuple[Path, str]
    ):
        redact = plugin_copy("redact")
        command("zeroclaw-plugin", "sign", redact, "--key", key[0])
        manifest = redact / "manifest.toml"
        manifest.write_text(manifest.read_text().replace("maxLength = 64", "maxLength = 65"))
        assert command("zeroclaw-plugin", "verify", redact, "--trusted-key", key[1]).status == 4
        command("zeroclaw-plugin", "sign", redact, "--key", key[0])
        assert command("zeroclaw-plugin", "verify", redact, "--trusted-key", key[1]).status == 0

    @pytest.mark.req("PAINS-10")
    def test_a_component_changed_after_signing_is_refused(
        self, command: Run, hello: Path, key: tuple[Path, str]
    ):
        command("zeroclaw-plugin", "sign", hello, "--key", key[0])
        component = hello / "build" / "hello.wasm"
        data = bytearray(component.read_bytes())
        data[-1] ^= 1
        component.write_bytes(data)
        assert command("zeroclaw-plugin", "verify", hello, "--trusted-key", key[1]).status == 4
        assert command("zeroclaw-plugin", "check", hello).status == 4

    def test_signing_rebuilds_nothing(self, command: Run, hello: Path, key: tuple[Path, str]):
        command("zeroclaw-plugin", "sign", hello, "--key", key[0])
        assert "unchanged" in command("zeroclaw-plugin", "build", hello).out

    def test_a_protected_key_takes_its_passphrase_from_a_file(
        self, command: Run, hello: Path, tmp_path: Path
    ):
        secret = tmp_path / "passphrase"
        secret.touch(mode=0o600)
        secret.write_text("tea time\n")
        path = tmp_path / "protected.pem"
        assert command("zeroclaw-plugin", "keygen", path, "--passphrase-file", secret).status == 0
        assert b"ENCRYPTED" in path.read_bytes()
        words = ["sign", hello, "--key", path]
        assert command("zeroclaw-plugin", *words, "--passphrase-file", secret).status == 0
        secret.write_text("coffee\n")
        done = command("zeroclaw-plugin", *words, "--passphrase-file", secret)
        assert done.status == 4
        assert "coffee" not in done.err

    def test_a_protected_key_asks_on_the_terminal(self, tmp_path: Path):
        path = tmp_path / "protected.pem"
        program = Path(sys.executable).with_name("zeroclaw-plugin")
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [str(program), "keygen", str(path), "--passphrase"],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        answer(leader, b"Passphrase")
        answer(leader, b"again")
        read_until(leader, b"public key")
        assert process.wait(20) == 0
        os.close(leader)
        assert b"ENCRYPTED" in path.read_bytes()

    def test_keygen_shows_a_public_key_without_making_anything(self, command: Run, key: tuple[Path, str]):
        before = key[0].read_bytes()
        assert command("zeroclaw-plugin", "keygen", "--show", key[0]).out == key[1] + "\n"
        assert command("zeroclaw-plugin", "keygen", key[0]).status == 6
        assert key[0].read_bytes() == before


class TestPacking:
    def test_the_same_package_gives_the_same_bytes(self, command: Run, hello: Path, tmp_path: Path):
        first = command("zeroclaw-plugin", "pack", hello, "--output", tmp_path / "a.zip")
        assert first.status == 0, first.err
        (hello / "app.py").touch()
        command("zeroclaw-plugin", "pack", hello, "--output", tmp_path / "b.zip")
        assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()

    def test_manifest_and_component_go_in_and_nothing_else(self, command: Run, hello: Path):
        import zipfile

        (hello / "build" / "scratch").write_text("left over")
        assert command("zeroclaw-plugin", "pack", cwd=hello).status == 0
        archive = hello / "dist" / "hello-0.1.0.zip"
        assert sorted(zipfile.ZipFile(archive).namelist()) == ["build/hello.wasm", "manifest.toml"]
        done = command("zeroclaw-plugin", "check", archive, "--json")
        assert done.json["loads"] is True
        assert (
            command("zeroclaw-plugin", "run", '{"name": "Ada"}', "--directory", archive).out
            == "Hello, Ada.\n"
        )


class TestBuilding:
    @pytest.mark.req("PAINS-15")
    def test_imports_that_cannot_work_are_printed_with_file_and_line(self, command: Run, hello: Path):
        (hello / "app.py").write_text("import helper\nimport ssl\n" + (hello / "app.py").read_text())
        (hello / "helper.py").write_text("\n\nimport tkinter\n")
        done = command("zeroclaw-plugin", "build", cwd=hello)
        assert done.status == 3
        assert "app.py:2: native import of ssl" in done.err
        assert "helper.py:3: native import of tkinter" in done.err

    def test_a_build_that_changes_nothing_says_so_in_json(self, command: Run, hello: Path):
        done = command("zeroclaw-plugin", "build", "--json", cwd=hello)
        assert done.json["fresh"] is False
        assert done.json["component"] == "build/hello.wasm"
        assert done.json["findings"] == []
