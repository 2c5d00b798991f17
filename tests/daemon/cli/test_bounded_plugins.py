"""Plugins that take more than they may, as an operator meets them: bounded on every path, and nothing else suffers."""

from __future__ import annotations

import json
import time

import pytest
from forge import Forge

from zeroclaw_host.sandbox.values import Ok

pytestmark = pytest.mark.usefixtures("compile_cache")

ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"
BOUNDS = "[plugins.limits]\ncall_fuel = 1_000_000\nmax_memory_mb = 1\n"

ENDLESS = "(loop $again (br $again)) (unreachable)"
ANSWER = Ok({"success": True, "output": "here", "error": None})


@pytest.fixture(scope="session")
def spinning_component() -> bytes:
    """Its start function never ends."""
    return Forge().component(extra="(func $spin (loop $again (br $again))) (start $spin)")


@pytest.fixture(scope="session")
def hungry_component() -> bytes:
    """It begins with two mebibytes of memory."""
    return Forge().component(pages=32)


@pytest.mark.req("PLG-022")
@pytest.mark.parametrize(
    ("guest", "told", "limit"),
    [
        ("spinning_component", "1,000,000 of 1,000,000 units", "call_fuel"),
        (
            "hungry_component",
            "more memory than allowed, 2 to begin with (max_memory_mb is 1)",
            "max_memory_mb",
        ),
    ],
)
def test_every_path_that_loads_a_plugin_stops_it_at_the_operators_values(
    guest, told, limit, request, home, zeroclaw, start_daemon, package
) -> None:
    source = str(package(component=request.getfixturevalue(guest)))
    home.configure(ON + BOUNDS)
    refused = zeroclaw("plugin", "install", source)
    assert refused.status == 8
    assert told in refused.err
    assert f"config set 'plugins.limits.{limit}'" in refused.err
    assert zeroclaw("plugin", "install", source, "--no-verify").status == 0
    info = zeroclaw("plugin", "info", "wat-echo")
    assert info.status == 8
    assert told in info.out
    assert told in zeroclaw("plugin", "list", "--verify").out
    daemon = start_daemon()
    assert "there is no tool" in zeroclaw("prompt", "/tool forged {}").out
    assert told in daemon.stop()[1]


def tool(name: str, execute: str | None) -> bytes:
    """A tool of this name; without a body it answers at once."""
    returns = {"tool.name": name, "tool.parameters-schema": '{"type": "object"}'}
    if execute is None:
        return Forge().component(returns={**returns, "tool.execute": ANSWER})
    return Forge().component(returns=returns, bodies={"tool.execute": execute})


@pytest.mark.req("PLG-019")
@pytest.mark.realtime
@pytest.mark.parametrize(
    ("limits", "told", "limit"),
    [
        ({"call_fuel": 10**15, "call_timeout_ms": 1_000}, "ran past its deadline", "call_timeout_ms"),
        ({"call_fuel": 50_000_000, "call_timeout_ms": 600_000}, "used up its fuel", "call_fuel"),
    ],
)
def test_a_tool_that_loops_forever_ends_just_past_its_bound_and_the_session_goes_on(
    limits, told, limit, home, zeroclaw, start_daemon, package
) -> None:
    for name, execute in (("looping", ENDLESS), ("answering", None)):
        source = package(name, component=tool(name, execute))
        assert zeroclaw("plugin", "install", str(source)).status == 0
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    home.configure(f"{ON}[plugins.limits]\n{lines}")
    daemon = start_daemon()

    def say(text: str) -> str:
        return zeroclaw("prompt", text, "--session", "one").out

    assert say("/tool answering {}") == "here\n"
    started = time.monotonic()
    answer = say("/tool looping {}")
    took = time.monotonic() - started
    assert told in answer
    assert limit in answer
    assert took < 10, "the guest alone would go on for ever"
    if limit == "call_timeout_ms":
        assert took > 1
    assert say("/tool answering {}") == "here\n"
    _, said = daemon.stop()
    assert f"warning: the tool looping failed: {answer.strip().removeprefix('error: ')}" in said
    assert f"config set 'plugins.limits.{limit}'" in said


@pytest.mark.req("PLG-020")
def test_a_prompt_shows_where_a_plugin_died(home, zeroclaw, start_daemon, package) -> None:
    component = Forge().component(
        returns={"tool.name": "crashing", "tool.parameters-schema": '{"type": "object"}'},
        bodies={"tool.execute": "(call $outer) (i32.const 0)"},
        extra="(func $boom (unreachable)) (func $outer (call $boom))",
    )
    zeroclaw("plugin", "install", str(package("crashing", component=component)))
    home.configure(ON)
    start_daemon()
    done = zeroclaw("prompt", "/tool crashing {}", "--json")
    [returned] = [
        event for line in done.out.splitlines() if (event := json.loads(line)).get("type") == "tool_result"
    ]
    lines = returned["rawOutput"].splitlines()
    assert lines[:2] == ["error: the plugin aborted (unreachable)", "where in the plugin, innermost first:"]
    assert [line.partition(" ")[0] for line in lines[2:4]] == ["boom", "outer"]
