"""A command and a client of the daemon write the same file at once: every accepted write is there, and comments survive."""

from __future__ import annotations

import json
import random
import socket
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from config_stores import COMMENTED

PATIENCE = 60
"""Seconds after which a daemon that does not answer hangs."""
ROUNDS = 4
PAUSE = 0.02
"""Seconds between two calls, so that the command beside them comes to its turn."""

Models = dict[str, str]
"""What one writer has in the file: the models of its agents, by their names."""


class Client:
    """Sets, sets many and deletes, by one call each."""

    def __init__(self, connected: socket.socket, answers: Any) -> None:
        self._socket = connected
        self._answers = answers
        self._chance = random.Random("client")
        self.models: Models = {}
        self.calls = 0

    def call(self, method: str, **params: Any) -> None:
        line = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
        self._socket.sendall(json.dumps(line).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert "result" in answer, answer

    def write(self) -> None:
        """One write, which must be accepted."""
        self.calls += 1
        kind, name = self._chance.randrange(3), f"d{self._chance.randrange(9)}"
        if kind == 0 and name in self.models:
            self.call("config/map-key-delete", path="agents", key=name)
            del self.models[name]
        elif kind == 1:
            self.call("config/set", prop=f"agents.{name}.model", value=f"s{self.calls}")
            self.models[name] = f"s{self.calls}"
        else:
            batch = {name: f"b{self.calls}", f"{name}_too": f"b{self.calls}"}
            self.call("config/set-many", sets=[
                {"prop": f"agents.{each}.model", "value": model} for each, model in batch.items()
            ])  # fmt: skip
            self.models |= batch


@contextmanager
def client(path: Path) -> Iterator[Client]:
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(PATIENCE)
        connected.connect(str(path))
        with connected.makefile("rb") as answers:
            found = Client(connected, answers)
            found.call("initialize")
            yield found


@pytest.mark.req("RPC-074", "RPC-249")
def test_every_accepted_write_of_a_command_and_of_a_client_is_there(
    home, zeroclaw_process, start_daemon
) -> None:
    home.configure(COMMENTED)
    start_daemon()
    chance = random.Random("commands")
    commanded: Models = {}
    with ThreadPoolExecutor(1) as beside, client(home.socket) as calling:
        for number in range(ROUNDS):
            if commanded and chance.random() < 0.3:
                name = chance.choice(sorted(commanded))
                arguments = ("delete", f"agents.{name}")
                del commanded[name]
            else:
                name = f"c{number}"
                arguments = ("set", f"agents.{name}.model", f"m{number}")
                commanded[name] = f"m{number}"
            command = beside.submit(zeroclaw_process, "config", *arguments)
            while not wait((command,), timeout=PAUSE).done:
                calling.write()
            done = command.result()
            assert done.status == 0, done.err
        expected = commanded | calling.models
    text = home.config_file.read_text()
    agents = tomllib.loads(text)["agents"]
    assert {name: agent["model"] for name, agent in agents.items()} == expected
    assert calling.calls >= ROUNDS
    assert [line for line in COMMENTED.splitlines() if line not in text] == []
    listed = zeroclaw_process("config", "list", "agents", "--json").json
    shown = {each["path"]: each["value"] for each in listed if each["path"].endswith(".model")}
    assert shown == {f"agents.{name}.model": model for name, model in expected.items()}
