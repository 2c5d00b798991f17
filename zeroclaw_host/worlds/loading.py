"""The load check: does a package's component run on this host at all (PLG-003, PLG-029, PLG-038)?

Each capability that runs code is compared with its world, linked, and instantiated once under the operator's limits.
No service answers meanwhile, nothing is configured, no export is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeroclaw_host.errors import (
    ComponentMissing,
    ConfigInvalid,
    PluginUnavailable,
    StorageError,
    ZeroclawError,
)
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.compiling.compile import CompilerFailed, Progress
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import LogRecord
from zeroclaw_host.worlds.instance import instantiate
from zeroclaw_host.worlds.surface import WORLDS, http_of, surface_of

_CHECK_BINDING: Final = "load-check"


@dataclass(frozen=True, slots=True)
class LoadVerdict:
    """Whether a package's code loads.

    :param loads: it does; also true where there is nothing to load.
    :param applicable: it has code at all. A bundle of skills has none.
    :param causes: why it does not load, the outermost first.
    :param error: the same as an error to raise.
    """

    loads: bool
    applicable: bool = True
    causes: tuple[str, ...] = ()
    error: ZeroclawError | None = None


def check_load(
    sandbox: Sandbox, package: AdmittedPackage, limits: Limits, *, progress: Progress | None = None
) -> LoadVerdict:
    """Whether every capability of the package that runs code loads. Guest code runs on a guest thread, bounded.

    Does not raise for what is wrong with the package; the verdict says it.

    :raises StorageError: the cache of compiled components cannot be used, which says nothing about the package.
    :raises CompilerFailed: nor does this.
    """
    capabilities = [capability for capability in package.manifest.capabilities if capability in WORLDS]
    if not capabilities:
        return LoadVerdict(loads=True, applicable=False)
    try:
        for capability in capabilities:
            _instantiate_once(sandbox, package, capability, limits, progress)
    except ZeroclawError as error:
        if isinstance(error, _NOT_THE_PACKAGE):
            raise
        return LoadVerdict(loads=False, causes=(error.message, *error.causes()), error=error)
    return LoadVerdict(loads=True)


def link_package(
    sandbox: Sandbox, package: AdmittedPackage, scope: InstanceScope, *, progress: Progress | None = None
) -> LinkedComponent:
    """Compile and link a package's component for one instance of it.

    :raises ComponentMissing: the package has no component.
    :raises ComponentMismatch: it does not fit the world of the instance's capability. And as :meth:`Sandbox.load`.
    """
    if package.component is None:
        raise ComponentMissing(f"package {package.manifest.name} has no component")
    surface = surface_of(scope.identity.capability, scope.grants)
    return sandbox.load(package.component, surface, sha256=package.component_sha256, progress=progress)


def _instantiate_once(
    sandbox: Sandbox,
    package: AdmittedPackage,
    capability: Capability,
    limits: Limits,
    progress: Progress | None,
) -> None:
    identity = InstanceIdentity(package.manifest.name, capability, _CHECK_BINDING)
    scope = InstanceScope.admit(identity, package.manifest)
    linked = link_package(sandbox, package, scope, progress=progress)
    http = http_of(scope, _NO_SERVICES)
    frame = CallFrame(scope=scope, services=_NO_SERVICES, limits=limits, http=http)
    sandbox.threads.run(frame, lambda: instantiate(sandbox, linked, frame).close())


_NOT_THE_PACKAGE: Final = (StorageError, CompilerFailed, PluginUnavailable)
"""Errors that say something about this host at this moment."""


class _Nothing:
    """Services of an instance that is only looked at."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        raise ConfigInvalid("no configuration is read while a component is only checked")

    def emit(self, record: LogRecord) -> None:
        """Nobody listens."""

    def drop(self) -> None:
        """Nobody counts."""


_NO_SERVICES: Final = InstanceServices(config=_Nothing(), log=_Nothing())
