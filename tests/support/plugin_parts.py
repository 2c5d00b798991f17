"""What a test needs around a plugin instance: who it is, what it is lent, a clock that stands, callers that wait."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Capability, Permission, parse_manifest
from zeroclaw_host.package.signature import SignatureStatus, SignatureVerdict
from zeroclaw_host.services.config import ResolvedConfig

PATIENCE = 30
"""Seconds after which a test that waits for another thread gives up."""

SCHEMA = """
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties.greeting]
type = "string"
[config_schema.properties.token]
type = "string"
x-secret = true
"""


def manifest_text(capability: Capability, permissions: Iterable[str] = ()) -> str:
    """The manifest of a package named ``forged``."""
    asked = list(permissions)
    return (
        f'name = "forged"\nversion = "1.0.0"\nwasm_path = "forged.wasm"\n'
        f'capabilities = ["{capability.value}"]\npermissions = {asked}\n'
        f"{SCHEMA if 'config_read' in asked else ''}"
    )


def admitted(
    manifest_bytes: bytes, component: bytes, *, signed: SignatureStatus = SignatureStatus.UNSIGNED
) -> AdmittedPackage:
    """A package around a component, as an admission leaves it; without skills and configuration."""
    return AdmittedPackage(
        manifest=parse_manifest(manifest_bytes),
        manifest_bytes=manifest_bytes,
        component=component,
        component_sha256=hashlib.sha256(component).hexdigest(),
        skills={},
        config_schema=None,
        signature=SignatureVerdict(signed, None, ""),
        notices=(),
    )


def scope_of(
    capability: Capability,
    *permissions: str,
    binding: str = "ops",
    grants: frozenset[Permission] | None = None,
) -> InstanceScope:
    """An instance of that package."""
    manifest = parse_manifest(manifest_text(capability, permissions).encode())
    return InstanceScope.admit(InstanceIdentity("forged", capability, binding), manifest, grants=grants)


@dataclass
class Config:
    """A resolver whose answer a test decides, and which counts."""

    public: dict[str, object] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    failing: bool = False
    asked: int = 0

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        self.asked += 1
        if self.failing:
            raise ConfigInvalid("greeting is missing")
        return ResolvedConfig(scope, dict(self.public), dict(self.secrets))


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, start: float = 1000.0) -> None:
        self.seconds = start

    def __call__(self) -> float:
        return self.seconds


class Waiting:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._result: object = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001 - raised again where the test joins
            self._error = error

    def join(self) -> object:
        """The result, or the error raised."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the call still waits"
        if self._error is not None:
            raise self._error
        return self._result
