"""Attacks that end before there is a compiled component."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import ATTACKS, HARMLESS, Attack, Stage, answering

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.compiling.compile import CompileLimits
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.loading import check_load

CASES = [pytest.param(attack, id=attack.name) for attack in ATTACKS if attack.stage is Stage.COMPILING]


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox whose compiler gets little, so that reaching its limits takes no time."""
    limits = CompileLimits(memory_bytes=640 * 1024**2, seconds=60)
    with Sandbox(tmp_path_factory.mktemp("cramped"), threads=2, compile_limits=limits) as found:
        found.cache.compiled(answering(HARMLESS)())
        yield found


@pytest.mark.req("PLG-022", "PLG-040")
@pytest.mark.parametrize("attack", CASES)
def test_what_cannot_be_compiled_costs_the_host_nothing(
    attack: Attack,
    cramped: Sandbox,
    enemy_package: Callable[..., AdmittedPackage],
    witness: Callable[[], Any],
) -> None:
    package = enemy_package(attack.build())
    before = sorted(Path(cramped.cache.directory).iterdir())
    with witness() as seen:
        found = told(cramped, package)
    assert found[0] == attack.code, found
    assert re.search(attack.says, found[1])
    assert seen.grown < attack.host_mib * 1024**2
    assert check_load(cramped, enemy_package(answering(HARMLESS)()), Limits()).loads
    assert [path for path in sorted(Path(cramped.cache.directory).iterdir()) if path.suffix != ".lock"] == [
        path for path in before if path.suffix != ".lock"
    ]


def told(sandbox: Sandbox, package: AdmittedPackage) -> tuple[str, str]:
    """The code word and the message of the verdict."""
    error = check_load(sandbox, package, Limits()).error
    assert isinstance(error, ZeroclawError)
    assert all(cause.isprintable() for cause in (error.message, *error.causes()))
    return error.code, error.message
