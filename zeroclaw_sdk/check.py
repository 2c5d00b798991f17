"""Whether a host would accept and load a plugin: the host's own checks, run on the author's machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import PackageError
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.config_schema import ConfigProperty
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.loading import LoadVerdict, check_load
from zeroclaw_sdk.signing import author_policy, open_package

_TRANSPORTS: Final = (Permission.HTTP_CLIENT, Permission.WEBSOCKET_CLIENT, Permission.SOCKET_CLIENT)
_READERS: Final = frozenset({Capability.TOOL, Capability.CHANNEL})


class ConfigWithoutReader(PackageError):
    """A package asks for ``config_read``, and nothing of it can read a configuration: a memory has none (PLG-150)."""

    code = "config_without_reader"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a host says about a package."""

    package: AdmittedPackage
    verdict: LoadVerdict
    config: tuple[ConfigProperty, ...]

    @property
    def transports(self) -> tuple[Permission, ...]:
        """The permissions with which it asks for a network (PLG-013)."""
        return tuple(each for each in _TRANSPORTS if self.package.manifest.requests(each))

    @property
    def network_doubt(self) -> str | None:
        """What is odd about its network though a host accepts it."""
        declared = self.package.manifest.egress.hosts
        if self.transports and not declared:
            return "it declares no hosts ([egress] hosts), so that an operator is not told what it needs"
        if declared and not self.transports:
            return "it declares hosts, and has no permission that reaches them"
        if self.transports and _READERS.isdisjoint(self.package.manifest.capabilities):
            return "nothing of it has a network: only tools and channels do"
        return None


def check(
    source: Path,
    sandbox: Sandbox,
    *,
    policy: SignaturePolicy | None = None,
    limits: Limits | None = None,
) -> CheckReport:
    """Admit a project or an archive and instantiate its component once, exactly as an install would.

    :param policy: an author's own host when left out: a signature is not asked for.
    :raises PackageError: admission refused it.
    :raises ConfigWithoutReader: only tools and channels read a configuration, and the package is neither.
    :raises StorageError: it cannot be read.
    """
    reader = open_package(source)
    package = admit(reader, policy or author_policy(reader.read_manifest()))
    manifest = package.manifest
    if manifest.requests(Permission.CONFIG_READ) and _READERS.isdisjoint(manifest.capabilities):
        raise ConfigWithoutReader(
            f"{manifest.name} asks for config_read, which only a tool or a channel can use: take it out of the permissions, and "
            "config_schema with it"
        )
    verdict = check_load(sandbox, package, limits or Limits())
    return CheckReport(package, verdict, config_properties(package))


def config_properties(package: AdmittedPackage) -> tuple[ConfigProperty, ...]:
    """The configuration a package declares, required properties first."""
    schema = package.config_schema
    found = () if schema is None else schema.properties.values()
    return tuple(sorted(found, key=lambda each: (not each.required, each.name)))
