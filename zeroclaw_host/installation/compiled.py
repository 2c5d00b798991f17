"""Which installed packages the compiled artifacts belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.discovery import InstalledPackage
from zeroclaw_host.sandbox.compiling.cache import COMPONENT
from zeroclaw_host.sandbox.compiling.shared_forms import MODULE, SHARED
from zeroclaw_host.sandbox.compiling.sharing import module_digest, share
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName, StoredArtifact

FORMS: Final = (COMPONENT, SHARED, MODULE)
"""The kinds of artifacts this release makes."""


@dataclass(frozen=True, slots=True)
class OwnedArtifact:
    """An artifact, and the names of the installed packages it is for; none when it is left from something else."""

    artifact: StoredArtifact
    packages: tuple[str, ...]


def owned(
    artifacts: Iterable[StoredArtifact], packages: Sequence[InstalledPackage]
) -> tuple[OwnedArtifact, ...]:
    """Say of each artifact which packages it is for. Packages are read again only where there are shared modules.

    A stale artifact is for them too: it was, and its successor will be.
    """
    stored = tuple(artifacts)
    owners: dict[ArtifactName, list[str]] = {}
    with_modules = any(each.name is not None and each.name.kind == MODULE for each in stored)
    for package in packages:
        for name in _names(package, with_modules=with_modules):
            owners.setdefault(name, []).append(package.name)
    return tuple(
        OwnedArtifact(each, () if each.name is None else tuple(owners.get(each.name, ()))) for each in stored
    )


def _names(package: InstalledPackage, *, with_modules: bool) -> list[ArtifactName]:
    digest = package.component_sha256
    if digest is None:
        return []
    names = [ArtifactName(kind, digest) for kind in (COMPONENT, SHARED)]
    if with_modules:
        names.extend(ArtifactName(MODULE, module) for module in _modules(package))
    return names


def _modules(package: InstalledPackage) -> list[str]:
    try:
        component = package.read().component
    except ZeroclawError:  # changed or gone since it was found; then it needs nothing
        return []
    shared = None if component is None else share(component)
    return [] if shared is None else [module_digest(name) for name in shared.modules]
