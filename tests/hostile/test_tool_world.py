"""Every attack through the tool world: the right error, in bounded time and memory, and nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from attacks import ATTACKS, Attack, Stage

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_host.worlds.tool import ToolPlugin

MARGIN_SECONDS = 10.0
"""What a call may take beyond its deadline on a machine that is busy with other things."""

BEFORE_THE_FIRST_CALL = (Stage.LINKING, Stage.STARTING)

CASES = [
    pytest.param(attack, id=attack.name, marks=[pytest.mark.slow] if attack.slow else [])
    for attack in ATTACKS
    if attack.stage is not Stage.COMPILING
]


def attempt(load: Callable[[], ToolPlugin], attack: Attack) -> tuple[Stage | None, str | None, str]:
    """Load and call the tool; how far it came, the code word and the message of the error."""
    stage: Stage | None = Stage.LOADING
    try:
        tool = load()
        stage = Stage.CALLING
        tool.execute_sync(attack.arguments)
    except ZeroclawError as error:
        return stage, error.code, error.message
    return None, None, ""


def compiled(attack: Attack, sandbox: Sandbox) -> bytes:
    """The hostile component, in the cache: what that keeps was not left behind by a call."""
    component = attack.build()
    sandbox.cache.compiled(component)
    return component


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
    sandbox: Sandbox,
    witness: Callable[[], Any],
) -> None:
    component = compiled(attack, sandbox)
    sink = MemoryLogSink()
    with witness() as seen:
        stage, code, message = attempt(lambda: load_tool(component, attack.limits, sink), attack)
    assert (code, stage) == (attack.code, reached(attack)), message
    assert re.search(attack.says, message)
    assert seen.seconds < 2 * attack.limits.call_timeout_seconds + MARGIN_SECONDS
    assert seen.grown < attack.host_mib * 1024**2
    assert len(sink.records) <= attack.records
    assert honest.execute_sync({}).output == "harmless"


@pytest.mark.req("PLG-022", "PLG-040")
@pytest.mark.parametrize("attack", [case for case in CASES if case.values[0].stage in BEFORE_THE_FIRST_CALL])
def test_the_load_check_stops_what_strikes_before_the_first_call(
    attack: Attack,
    enemy_package: Callable[..., AdmittedPackage],
    sandbox: Sandbox,
    witness: Callable[[], Any],
) -> None:
    package = enemy_package(compiled(attack, sandbox))
    with witness():
        verdict = check_load(sandbox, package, attack.limits)
        told = None if verdict.error is None else verdict.error.code
        causes = verdict.causes
        del verdict
    assert told == attack.code
    assert all(cause.isprintable() for cause in causes)
