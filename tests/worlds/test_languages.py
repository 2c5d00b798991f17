"""What other toolchains build travels the same road as a Python plugin, and keeps its types on the way (PLG-025)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zeroclaw_host.errors import GuestFailure, GuestTrap, MemoryLimit, OutOfFuel
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.sandbox.conversion import CompiledConversion, StockConversion
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.state import StateEntry, StateFault
from zeroclaw_host.worlds.kinds import ToolResult
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_host.worlds.tool import ToolPlugin

PERMISSIONS = ("config_read", "state_read", "state_write")

TOLD = "none 1 conflict 256:32640:1 2 ok none invalid-key hush not-found"
"""What the guests say of their trip: the answer of each host function, in the order in which they call them."""


CONVERSIONS = {"compiled": CompiledConversion, "stock": StockConversion}


@pytest.fixture(scope="module", params=sorted(CONVERSIONS))
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Both ways across the boundary."""
    cache = Path(__file__).parents[2] / ".cache" / "test-guests" / "compiled"
    with Sandbox(cache, threads=2, conversion=CONVERSIONS[request.param]()) as found:
        yield found


class Stored:
    """One secret, and one place for state."""

    def __init__(self) -> None:
        self.entry: StateEntry | None = None
        self.written: list[tuple[bytes, int | None]] = []

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {"token": "hush"})

    def get(self, instance: InstanceIdentity, key: str, *, remaining: object) -> StateEntry | None:
        return self.entry

    def put(
        self,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected_revision: int | None,
        *,
        remaining: object,
    ) -> int:
        self.written.append((value, expected_revision))
        revision = 0 if self.entry is None else self.entry.revision
        if (expected_revision or 0) != revision:
            raise StateFault("conflict")
        self.entry = StateEntry(value, revision + 1)
        return revision + 1

    def delete(
        self, instance: InstanceIdentity, key: str, expected_revision: int, *, remaining: object
    ) -> None:
        assert self.entry is not None
        assert expected_revision == self.entry.revision
        self.entry = None


@pytest.fixture(
    params=[
        "probe_component",
        "c_component",
        pytest.param("javascript_component", marks=pytest.mark.slow),
    ]
)
def component(request: pytest.FixtureRequest) -> bytes:
    """One guest in Python, one in C, one in JavaScript."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def load(sandbox, package_of, tool_scope) -> Callable[..., tuple[ToolPlugin, MemoryLogSink, Stored]]:
    def make(component: bytes, limits: Limits | None = None) -> tuple[ToolPlugin, MemoryLogSink, Stored]:
        package = package_of(component, permissions=PERMISSIONS)
        assert check_load(sandbox, package, Limits()).loads
        log, stored = MemoryLogSink(), Stored()
        services = InstanceServices(config=stored, log=log, state=stored)
        tool = ToolPlugin.load(sandbox, package, tool_scope(package.manifest), services, limits or Limits())
        return tool, log, stored

    return make


@pytest.mark.req("PLG-025")
def test_every_kind_of_value_arrives_and_returns_the_same_from_every_language(component, load):
    tool, log, stored = load(component)
    assert tool.execute_sync({"do": "trip"}) == ToolResult(True, TOLD, None)
    data = bytes(range(256))
    assert stored.written == [(data, None), (data, None), (data, 1)]
    [record] = log.records
    assert (record.level, record.function, record.action, record.outcome) == (
        "error",
        "execute",
        "memory-audit",
        "failure",
    )
    assert (record.duration_ms, record.raw, record.message) == (2**53 - 1, '{"n":1}', "grüß ☃ 😀")


@pytest.mark.req("PLG-025")
def test_a_result_that_is_half_one_keeps_its_option(component, load):
    tool, _, _ = load(component)
    assert tool.execute_sync({"do": "half"}) == ToolResult(False, "half", "on purpose")


@pytest.mark.req("PLG-025")
def test_an_answer_that_is_an_error_is_one_in_every_language(component, load):
    tool, _, _ = load(component)
    with pytest.raises(GuestFailure, match=r"on purpose|the weather is bad"):
        tool.execute_sync({"do": "fail"})
    assert tool.execute_sync({"do": "trip"}).output == TOLD


@pytest.mark.slow
@pytest.mark.req("PLG-017", "PLG-020")
def test_a_javascript_tool_is_bounded_like_any_other(javascript_component, load):
    tool, _, _ = load(javascript_component, Limits(call_fuel=200_000_000, max_memory_mb=64))
    assert tool.name == "shout"
    assert tool.execute_sync({"text": "grüß dich"}).output == "GRÜSS DICH"
    with pytest.raises(OutOfFuel):
        tool.execute_sync({"do": "loop"})
    with pytest.raises((MemoryLimit, GuestTrap, GuestFailure)) as caught:
        tool.execute_sync({"do": "hog"})
    assert "memory" in caught.value.message
    with pytest.raises((GuestTrap, GuestFailure)) as caught:
        tool.execute_sync({"do": "raise"})
    assert "bad weather" in caught.value.message
    assert tool.execute_sync({"do": "trip"}).output == TOLD
