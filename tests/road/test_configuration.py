"""What an operator is promised of the configuration, each promise over real commands, a real daemon and its socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from pages import Reader

DAEMON = "zeroclaw daemon 2>../said"


@pytest.fixture
def reader(short_path: Path) -> Reader:
    """Somebody with an empty home."""
    return Reader(short_path / "home")


def config_file(reader: Reader) -> Path:
    return reader.home / ".zeroclaw" / "config.toml"


def configure(reader: Reader, text: str) -> None:
    config_file(reader).parent.mkdir(mode=0o700)
    config_file(reader).write_text(text, encoding="utf-8")


def ask(reader: Reader, method: str, params: Any, *, token: str | None = None) -> dict[str, Any]:
    """The answer to one request over the socket, from the daemon's own user or whom the token stands for."""
    hello = {"protocolVersion": 1} | ({"authToken": token} if token is not None else {})
    lines = [("initialize", hello), (method, params)]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(reader.home / ".zeroclaw" / "data" / "daemon.sock"))
        for number, (name, given) in enumerate(lines, 1):
            request = {"jsonrpc": "2.0", "method": name, "params": given, "id": number}
            client.sendall(json.dumps(request).encode() + b"\n")
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answers:
            first, second = [json.loads(line) for line in answers]
    assert "result" in first, first
    return second


BATCH = {
    "sets": [
        {"prop": "users.example.uid", "value": 1001},
        {"prop": "users.example.permission_profiles", "value": ["operator"]},
    ]
}

PROFILES = """schema_version = 1

# who may look after the daemon
[permission_profiles.operator]
grants = { system = ["read"] }

[permission_profiles.registrar]
config_write_paths = ["users.example.uid"]
grants = { config = ["update"] }

[users.registrar]
uid = 4200001
permission_profiles = ["registrar"]
"""


@pytest.mark.req("RPC-067", "RPC-074", "RPC-078", "RPC-081")
def test_a_user_is_made_in_one_batch_and_one_forbidden_path_refuses_all_of_it(reader: Reader) -> None:
    configure(reader, PROFILES)
    with reader.leaves_running(DAEMON):
        token = reader.types("zeroclaw auth pair registrar").split()[0]
        before = config_file(reader).read_bytes()
        refused = ask(reader, "config/set-many", BATCH, token=token)
        assert refused["error"]["code"] == -32012
        assert refused["error"]["data"]["index"] == 1
        assert config_file(reader).read_bytes() == before
        assert "users.example" not in reader.types("zeroclaw config list users --json")

        done = ask(reader, "config/set-many", BATCH)
        assert done == {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {"props": ["users.example.uid", "users.example.permission_profiles"], "set": True},
        }
        assert reader.types("zeroclaw config get users.example.uid") == "1001\n"
    text = config_file(reader).read_text(encoding="utf-8")
    assert text.startswith(PROFILES.split("[users.registrar]")[0]), (
        "what was there is as it was, comments too"
    )


MISTAKE = """schema_version = 1

[plugins]
enabled = true

[plugins.entries]
name = "x"
config = { depth = "5" }
"""


@pytest.mark.req("PLG-123", "PAINS-25")
def test_one_bracket_for_two_is_named_with_its_place_wherever_an_operator_looks(reader: Reader) -> None:
    configure(reader, MISTAKE)
    place = f"{config_file(reader)}:6:1: plugins.entries"
    with reader.leaves_running(DAEMON):
        said = {
            command: reader.types(f"{command} 2>&1 || true")
            for command in (
                "zeroclaw config validate",
                "zeroclaw status",
                "zeroclaw plugin list",
                "zeroclaw plugin info x",
            )
        }
        said["zeroclaw daemon"] = (reader.home / "said").read_text(encoding="utf-8")
        status = json.loads(reader.types("zeroclaw status --json"))
    for command, text in said.items():
        assert place in " ".join(text.split()), f"{command} says:\n{text}"
    assert any(place in problem for problem in status["problems"])
    log = (reader.home / ".zeroclaw" / "data" / "logs" / "daemon.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in log.splitlines()]
    assert [record["severity_text"] for record in records if place in record["message"]] == ["ERROR"]
    assert config_file(reader).read_text(encoding="utf-8") == MISTAKE
    # Mended, everything is on again without a restart.
    with reader.leaves_running(DAEMON):
        mended = MISTAKE.replace("[plugins.entries]", "[[plugins.entries]]")
        config_file(reader).write_text(mended, encoding="utf-8")
        assert json.loads(reader.types("zeroclaw status --json"))["pluginsEnabled"] is True
        reader.types("zeroclaw config validate")
