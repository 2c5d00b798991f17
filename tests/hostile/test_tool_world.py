"""Every attack through the tool world: the right error, in bounded time and memory, and nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from attacks import ATTACKS, HARMLESS, Attack, Stage
from attacks.abusing import repeated
from attacks.attack import SMALL, tool
from forge import PLUGIN, Forge

from zeroclaw_host.contract import contract
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_host.worlds.tool import ToolPlugin

MARGIN_SECONDS = 60.0
"""What an attack may take beyond its deadlines on a machine that is busy with other things."""

WORKING_SECONDS = 10.0
"""Processor time of the host's beyond the call's deadline: what reading a guest's values, and refusing them, may take."""

LINKING_SECONDS = 5.0
"""Processor time to find out that a component does not fit. No limit of a call covers it, so it has to be short by itself."""

BEFORE_THE_FIRST_CALL = (Stage.LINKING, Stage.STARTING)

CASES = [
    pytest.param(attack, id=attack.name, marks=[pytest.mark.slow] if attack.slow else [])
    for attack in ATTACKS
    if attack.stage is not Stage.COMPILING
]


def attempt(
    load: Callable[[], ToolPlugin], arguments: Mapping[str, object]
) -> tuple[Stage | None, str | None, str]:
    """Load and call the tool; how far it came, the code word and the message of the error."""
    stage: Stage | None = Stage.LOADING
    try:
        found = load()
        stage = Stage.CALLING
        found.execute_sync(arguments)
    except ZeroclawError as error:
        return stage, error.code, error.message
    return None, None, ""


def reached(attack: Attack) -> Stage | None:
    """The stage as a caller sees it: all that happens before a tool is there is loading."""
    if attack.code is None:
        return None
    return Stage.LOADING if attack.before_the_first_call else Stage.CALLING


@pytest.mark.req("PLG-016", "PLG-019", "PLG-020", "PLG-022")
@pytest.mark.parametrize("attack", CASES)
def test_the_attack_is_stopped_and_nothing_of_it_is_left(
    attack: Attack,
    load_tool: Callable[..., ToolPlugin],
    honest: ToolPlugin,
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    component = attack.build()
    already_compiled(component)
    sink = MemoryLogSink()
    with witness() as seen:
        stage, code, message = attempt(lambda: load_tool(component, attack.limits, sink), attack.arguments)
    assert (code, stage) == (attack.code, reached(attack)), message
    assert re.search(attack.says, message)
    assert seen.seconds < 2 * attack.limits.call_timeout_seconds + MARGIN_SECONDS
    assert seen.worked < attack.limits.call_timeout_seconds + WORKING_SECONDS
    assert attack.stage is not Stage.LINKING or seen.worked < LINKING_SECONDS
    assert seen.grown < attack.host_mib * 1024**2
    assert len(sink.records) <= attack.records
    assert honest.execute_sync({}).output == "harmless"


@pytest.mark.req("PLG-022", "PLG-040")
@pytest.mark.parametrize("attack", [case for case in CASES if case.values[0].stage in BEFORE_THE_FIRST_CALL])
def test_the_load_check_stops_what_strikes_before_the_first_call(
    attack: Attack,
    enemy_package: Callable[..., AdmittedPackage],
    honest: ToolPlugin,
    sandbox: Sandbox,
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    package = enemy_package(attack.build())
    already_compiled(package.component)
    with witness():
        verdict = check_load(sandbox, package, attack.limits)
        told = None if verdict.error is None else verdict.error.code
        causes = verdict.causes
        del verdict
    assert told == attack.code
    assert all(cause.isprintable() for cause in causes)


@pytest.mark.req("PLG-019", "PLG-030")
@pytest.mark.parametrize("function", contract().interface(f"{PLUGIN}tool").functions)
def test_a_trap_in_any_export_ends_its_call_and_nothing_else(
    function: str,
    load_tool: Callable[..., ToolPlugin],
    honest: ToolPlugin,
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    component = Forge().component(
        returns={"tool.execute": HARMLESS}, bodies={f"tool.{function}": "unreachable"}
    )
    already_compiled(component)
    with witness():
        found = attempt(lambda: load_tool(component, SMALL), {})
    assert found[:2] == (Stage.CALLING if function == "execute" else Stage.LOADING, "guest_trap")
    assert honest.execute_sync({}).output == "harmless"


@pytest.mark.req("PLG-017", "PLG-020")
def test_a_budget_of_what_is_used_suffices_and_less_does_not(
    load_tool: Callable[..., ToolPlugin], honest: ToolPlugin, witness: Callable[[], Any]
) -> None:
    """Fuel is looked at where a loop begins again, so the last few instructions are not told apart."""
    component = tool(repeated(1000, ""))()
    used: list[int] = []
    load_tool(component, SMALL).execute_sync({}, meter=used.append)
    for fuel, code in ((used[0], None), (used[0] - 20, "out_of_fuel")):
        with witness():
            found = attempt(lambda fuel=fuel: load_tool(component, replace(SMALL, call_fuel=fuel)), {})
        assert found[1] == code, found


@pytest.mark.req("PLG-019")
def test_one_attack_after_another_changes_nothing_for_the_next(
    load_tool: Callable[..., ToolPlugin], honest: ToolPlugin, witness: Callable[[], Any]
) -> None:
    """A hundred failed calls of one tool, and a good one between any two."""
    component = tool("unreachable")()
    bad = load_tool(component, SMALL)
    with witness() as seen:
        for _ in range(100):
            assert attempt(lambda: bad, {})[1] == "guest_trap"
            assert honest.execute_sync({}).success
    assert seen.grown < 4 * 1024**2
