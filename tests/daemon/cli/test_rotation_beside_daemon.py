"""A running daemon, whose plugin reads a secret and writes state all the time, beside rotations of the key in other processes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import rotation_child
from forge import Forge

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.state_store import DurableState

SUPPORT = Path(rotation_child.__file__).parent
BOUND = 120
"""Seconds after which something hangs."""

COUNTER = InstanceIdentity.default_tool("counter")
SECRET = "the planted secret"
PERMISSIONS = """permissions = ["config_read", "state_read", "state_write"]
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties.token]
type = "string"
x-secret = true
"""
EXECUTE = """
  (local $n i64)
  (i32.store (i32.const 100500) (i32.const 0))
  (i32.store (i32.const 100504) (i32.const 1))
  (i32.store (i32.const 100508) (i32.const 100032))
  (i32.store (i32.const 100512) (i32.const 3))
  (i32.store (i32.const 100516) (i32.const 0))
  (call $secrets.get (i32.const 100016) (i32.const 5) (i32.const 100100))
  (if (i32.load8_u (i32.const 100100)) (then (return (i32.const 100500))))
  (call $state.get (i32.const 100000) (i32.const 1) (i32.const 100200))
  (if (i32.load8_u (i32.const 100200)) (then (return (i32.const 100500))))
  (if (i32.load8_u (i32.const 100208)) (then (local.set $n (i64.load (i32.load (i32.const 100216))))))
  (i64.store (i32.const 100304) (i64.add (local.get $n) (i64.const 1)))
  (call $state.put (i32.const 100000) (i32.const 1) (i32.const 100304) (i32.const 8)
    (i32.load8_u (i32.const 100208)) (i64.load (i32.const 100224)) (i32.const 100400))
  (if (i32.load8_u (i32.const 100400)) (then (return (i32.const 100500))))
  (i32.store (i32.const 100508) (i32.load (i32.const 100104)))
  (i32.store (i32.const 100512) (i32.load (i32.const 100108)))
  (i32.const 100500)"""
"""Counts its calls, and answers with its secret; with ``bad`` if the host denied it anything."""


def counter() -> bytes:
    named = {"plugin-info.plugin-name": "counter", "tool.name": "counter"}
    return Forge().component(
        bodies={"tool.execute": EXECUTE},
        returns=named,
        imports=["secrets.get", "state.get", "state.put"],
        extra='(data (i32.const 100000) "n") (data (i32.const 100016) "token") (data (i32.const 100032) "bad")',
    )


class Caller:
    """Calls the plugin through the daemon's socket until it is told to stop; each call must do all it is meant to do."""

    def __init__(self, endpoint: Path) -> None:
        self.endpoint = endpoint
        self.calls = 0
        self.wrong: list[object] = []
        self._stop = threading.Event()
        self._called = threading.Condition()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._thread.join(BOUND)
        assert not self._thread.is_alive()

    def wait_for_calls(self, more: int) -> None:
        """Until so many calls more are done, or one went wrong."""
        with self._called:
            wanted = self.calls + more
            assert self._called.wait_for(lambda: self.calls >= wanted or self.wrong, BOUND)
            assert self.wrong == []

    def _run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(BOUND)
            client.connect(str(self.endpoint))
            with client.makefile("rwb") as stream:
                ask(stream, 1, "initialize", {"protocolVersion": 1})
                ask(stream, 2, "session/new", {"agentAlias": "assistant", "sessionId": "s"})
                number = 3
                while not self._stop.is_set() and not self.wrong:
                    try:
                        answer = ask(
                            stream, number, "session/prompt", {"sessionId": "s", "prompt": "/tool counter {}"}
                        )
                    except OSError as error:
                        answer = {"error": repr(error)}
                    number += 1
                    with self._called:
                        self.calls += 1
                        if SECRET not in json.dumps(answer.get("result")):
                            self.wrong.append(answer)
                        self._called.notify_all()


def ask(stream: BinaryIO, number: int, method: str, params: object) -> dict[str, Any]:
    """One request and its answer; what is told on the way is passed over."""
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    stream.write(json.dumps(request).encode() + b"\n")
    stream.flush()
    for line in stream:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer
    return {"error": "the daemon closed the connection"}


@pytest.fixture
def calling(home, zeroclaw, package, compile_cache, start_daemon):
    """A daemon and a caller; afterwards every call has been counted, and nothing was wrong."""
    assert zeroclaw("config", "set", "plugins.enabled", "true").status == 0
    assert zeroclaw("config", "set", "plugins.auto_discover", "true").status == 0
    installed = zeroclaw("plugin", "install", str(package("counter", more=PERMISSIONS, component=counter())))
    assert installed.status == 0, installed.err
    row = f"plugins.entries.{COUNTER.key}.config.token"
    assert zeroclaw("config", "set", row, SECRET).status == 0
    daemon = start_daemon()
    with Caller(home.socket) as caller:
        caller.wait_for_calls(1)
        yield caller
        caller.wait_for_calls(5)
    assert caller.wrong == []
    assert daemon.stop()[0] == 0
    entry = DurableState(home.data / "plugin-state.db", home.key_file).get(COUNTER, "n")
    assert entry is not None
    assert int.from_bytes(entry.value, "little") == caller.calls
    assert entry.revision == caller.calls
    assert [found for found in home.log() if found["severity_text"] == "ERROR"] == []


@pytest.mark.req("PLG-159")
def test_a_daemon_goes_on_while_keys_are_replaced(home, zeroclaw_process, calling) -> None:
    keys = [home.key_file.read()]
    for _ in range(4):
        done = zeroclaw_process("secrets", "rotate")
        assert done.status == 0, done.err
        keys.append(home.key_file.read())
        calling.wait_for_calls(2)
    assert not any(one.same_as(two) for number, one in enumerate(keys) for two in keys[:number])


@pytest.mark.req("PLG-159")
def test_a_daemon_goes_on_while_rotations_are_killed(home, zeroclaw, calling) -> None:
    """At every third step; that each step can be the last one is shown beside a store in one process."""
    steps: list[str] = []
    while True:
        child = subprocess.run(
            [sys.executable, rotation_child.__file__, str(home.config_file.parent), str(3 * len(steps))],
            env={**home.environment(), "PYTHONPATH": str(SUPPORT)},
            capture_output=True, text=True, timeout=BOUND, check=False,
        )  # fmt: skip
        if child.returncode == 0:  # it has no further step
            break
        assert child.returncode == -signal.SIGKILL, child.stderr
        steps.append(child.stdout.strip())
        calling.wait_for_calls(1)
        done = zeroclaw("secrets", "rotate")
        assert done.status == 0, done.err
        assert not home.key_file.rotating
    assert {"config", "state"} <= {step.split()[0] for step in steps}
    assert len(steps) > 8
