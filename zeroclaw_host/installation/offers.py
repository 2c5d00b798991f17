"""Where an update takes the new version of a package from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from zeroclaw_host.errors import PackageError, Remedy, RemedyAction, UsageError
from zeroclaw_host.installation.source import LocalSource
from zeroclaw_host.package.manifest import Manifest, is_package_name
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.toml_source import printable
from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.download import Progress
from zeroclaw_host.registry.index import Index, PackageSpec
from zeroclaw_host.registry.location import RegistryNotNamed


class AnotherPackage(PackageError):
    """What is offered is not the package that is to be updated, or not the version that was asked for (PLG-371)."""

    code = "update_other_package"


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """An installed package, and the version it is to have; any, when left out."""

    name: str
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> UpdateSpec:
        """``NAME`` or ``NAME@VERSION``. No name holds an ``@``, so a version may.

        :raises UsageError: the text has no name, or an ``@`` and no version.
        """
        name, at, version = text.partition("@")
        if not is_package_name(name) or (at and not version):
            raise UsageError(f"{printable(text)!r} is no package to update: write NAME or NAME@VERSION")
        return cls(name, version or None)

    def check(self, manifest: Manifest) -> None:
        """Whether a manifest is what was asked for.

        :raises AnotherPackage: it is not.
        """
        if manifest.name != self.name:
            raise AnotherPackage(
                f"{self.name} can only be replaced by another version of itself, and this is {manifest.name}",
                details={"name": self.name, "found": manifest.name},
            )
        if self.version not in (None, manifest.version):
            raise AnotherPackage(
                f"{self.name} {printable(self.version or '')} was asked for, and this is {printable(manifest.version)}",
                details={"name": self.name, "version": self.version, "found": manifest.version},
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """One package to replace the installed one by."""

    version: str | None
    """What is known of its version before it is fetched."""
    open: Callable[[], PackageReader]


class Offer(Protocol):
    """A source of new versions."""

    @property
    def always(self) -> bool:
        """Whether the installed version is replaced by the same version too (PLG-299)."""
        ...

    @property
    def repeated(self) -> Mapping[str, str]:
        """What names this source when the command is given again (PLG-372)."""
        ...

    def select(self, spec: UpdateSpec) -> Selection:
        """What this source has for a package. Nothing is fetched yet.

        :raises ZeroclawError: it has nothing, or cannot be asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class DirectoryOffer:
    """A package directory on this machine."""

    path: Path
    always: bool = True

    @property
    def repeated(self) -> Mapping[str, str]:
        """See :class:`Offer`."""
        return {"from": str(self.path.absolute())}

    def select(self, spec: UpdateSpec) -> Selection:
        """See :class:`Offer`."""
        del spec
        return Selection(None, LocalSource(self.path).open)


class RegistryOffer:
    """A registry, whose index is read once, when it is first needed.

    :param client: None when no registry is named, which is an error only once one is asked (D-22).
    :param named: whether this run named the registry itself, so that a repetition must name it too.
    """

    always = False

    def __init__(
        self, client: RegistryClient | None, *, named: bool = False, progress: Progress | None = None
    ) -> None:
        self._client = client
        self._named = named
        self._progress = progress

    @property
    def repeated(self) -> Mapping[str, str]:
        """See :class:`Offer`."""
        if self._client is None or not self._named:
            return {}
        return {"registry": self._client.location.without_credentials}

    def select(self, spec: UpdateSpec) -> Selection:
        """The last entry that matches (PLG-303)."""
        client = self._require()
        entry = self._index.select(PackageSpec(spec.name, spec.version))
        return Selection(entry.version, lambda: client.fetch(entry, progress=self._progress))

    @cached_property
    def _index(self) -> Index:
        return self._require().index()

    def _require(self) -> RegistryClient:
        if self._client is None:
            raise RegistryNotNamed(
                "no registry is named to take a new version from",
                remedy=Remedy(RemedyAction.NAME_REGISTRY),
            )
        return self._client
