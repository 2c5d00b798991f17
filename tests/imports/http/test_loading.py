"""Who has ``wasi:http``: a real component, loaded for every capability with and without the permission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import http_guests
import pytest
from plugin_parts import Config, admitted, scope_of

from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.errors import ComponentMismatch
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.loading import check_load
from zeroclaw_host.worlds.surface import http_of, surface_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(ROOT / ".cache" / "compiled", threads=2) as found:
        yield found


def package(component: bytes, capability: str, permissions: list[str]) -> AdmittedPackage:
    text = (
        f'name = "weather"\nversion = "1.0.0"\nwasm_path = "w.wasm"\ncapabilities = ["{capability}"]\n'
        f"permissions = {permissions}\n"
    ).encode()
    return admitted(text, component)


@pytest.mark.req("PLG-007", "PLG-103", "PLG-178", "PLG-369")
@pytest.mark.parametrize("language", ["surfer.py", "surfer.js"])
def test_a_tool_that_imports_http_loads_with_the_permission_and_not_without(
    sandbox: Sandbox, language: str
) -> None:
    component = http_guests.built(language)
    assert check_load(sandbox, package(component, "tool", ["http_client"]), Limits()).loads
    verdict = check_load(sandbox, package(component, "tool", ["socket_client"]), Limits())
    assert not verdict.loads
    assert isinstance(verdict.error, ComponentMismatch)
    assert "http_client" in str(verdict.error.details["differences"])


@pytest.mark.req("PLG-008", "PLG-103")
def test_a_memory_that_imports_http_loads_under_no_permission(sandbox: Sandbox) -> None:
    component = http_guests.built("surfer.js")
    verdict = check_load(sandbox, package(component, "memory", ["http_client"]), Limits())
    assert not verdict.loads
    assert verdict.error is not None
    assert "a memory plugin has no network" in str(verdict.error.details["differences"])


@pytest.mark.req("PLG-104")
@pytest.mark.parametrize("capability", [Capability.TOOL, Capability.CHANNEL, Capability.MEMORY])
@pytest.mark.parametrize("permission", list(Permission))
def test_a_frame_carries_http_exactly_where_it_is_linked(
    capability: Capability, permission: Permission
) -> None:
    asked = [] if permission is Permission.CONFIG_READ else [permission.value]
    scope = scope_of(capability, *asked)
    services = InstanceServices(config=Config(), log=MemoryLogSink())
    linked = "wasi:http/outgoing-handler" in surface_of(capability, scope.grants).interfaces
    assert isinstance(http_of(scope, services), HttpClient) is linked
    assert linked is (permission is Permission.HTTP_CLIENT and capability is not Capability.MEMORY)
