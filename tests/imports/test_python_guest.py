"""A Python plugin in the empty system: it finds nothing, and what it may have is fresh in every call."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import DeadlineExceeded, PluginError
from zeroclaw_host.sandbox.frame import MAX_CAPTURED_BYTES
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.logging import MemoryLogSink

pytestmark = pytest.mark.slow

Probe = Callable[..., Any]


@pytest.fixture(scope="module")
def sink() -> MemoryLogSink:
    return MemoryLogSink()


@pytest.fixture(scope="module")
def probe(python_guest: Callable[[str], bytes], load_tool: Callable[..., Any], sink: MemoryLogSink) -> Probe:
    """Runs one probe of the guest in a call of its own and gives what it found."""
    loaded: dict[Limits, Any] = {}

    def run(name: str, limits: Limits | None = None, **arguments: object) -> Any:
        limits = limits or Limits()
        if limits not in loaded:
            loaded[limits] = load_tool(python_guest("probe"), limits, sink)
        sink.records.clear()
        result = loaded[limits].execute_sync({"probe": name, **arguments})
        assert result.success
        return json.loads(result.output)

    return run


@pytest.mark.req("PLG-015", "PLG-012")
def test_there_is_no_file_to_list_read_write_or_remove(probe: Probe) -> None:
    for action, outcome in probe("files").items():
        assert outcome.get("error") == "FileNotFoundError", (action, outcome)
    assert not Path("/tmp/left-behind").exists()
    assert Path("/etc/passwd").exists()


@pytest.mark.req("PLG-015")
def test_there_is_no_network_not_even_to_a_server_on_this_machine(probe: Probe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        for action, outcome in probe("network", host="127.0.0.1", port=port).items():
            assert outcome.get("error") == "PermissionError", (action, outcome)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.req("PLG-015")
def test_environment_arguments_and_input_are_empty_and_nothing_is_a_terminal(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROCLAW_TEST_SECRET", "not for guests")
    found = probe("surroundings")
    assert found["environment"] == {}
    assert [word for word in found["arguments"] if word] == []
    assert found["stdin"] == ""
    assert found["terminals"] == [False, False, False]


@pytest.mark.req("PAINS-8")
def test_randomness_and_clocks_differ_between_two_fresh_calls(probe: Probe) -> None:
    first, second = probe("chance"), probe("chance")
    assert set(first) == set(second)
    for source in first:
        assert first[source] != second[source], source
    assert first["monotonic"] < second["monotonic"]
    assert abs(second["wall"] - time.time()) < 60


@pytest.mark.req("PLG-018", "PLG-019", "PAINS-3")
@pytest.mark.realtime
def test_a_guest_that_sleeps_past_its_deadline_is_woken_by_it(probe: Probe) -> None:
    with pytest.raises(DeadlineExceeded, match="past its deadline while waiting") as caught:
        probe("sleep", Limits(call_timeout_ms=2000), seconds=10**6)
    assert caught.value.details["host_ms"] > 0


@pytest.mark.req("PAINS-4")
@pytest.mark.realtime
def test_a_sleep_within_the_deadline_lasts_as_long_as_asked(probe: Probe) -> None:
    assert probe("sleep", seconds=0.1) >= 0.1


def test_a_guest_that_leaves_ends_its_call_and_the_next_one_works(probe: Probe) -> None:
    with pytest.raises(PluginError):
        probe("leave", status=3)
    assert probe("nothing") is None


def test_random_bytes_come_in_the_number_asked_for(probe: Probe) -> None:
    assert probe("random_bytes", count=100_000) == 100_000


def test_output_reaches_the_log_under_its_own_source(probe: Probe, sink: MemoryLogSink) -> None:
    assert probe("speak", out="to the front", err="to the side") == "spoken"
    spoken = {record.source: record.message for record in sink.records if record.source != "log"}
    assert "to the front" in spoken["stdout"]
    assert "to the side" in spoken["stderr"]


def test_output_beyond_the_capture_does_not_stop_the_guest_and_its_end_is_kept(
    probe: Probe, sink: MemoryLogSink
) -> None:
    assert probe("fill", bytes=5 * MAX_CAPTURED_BYTES + 1) == "filled"
    [kept] = [record.message for record in sink.records if record.source == "stderr"]
    assert kept.endswith("the end")
