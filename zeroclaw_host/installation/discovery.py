"""What is installed.

Discovery reads and checks; it never compiles and never runs anything (PLG-044). It goes through the same admission as an
install, so a directory made by hand is held to the same rules (PLG-364). Components are checked and let go again: what is
kept is small, and :meth:`InstalledPackage.read` fetches the bytes when somebody wants to run them.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import (
    DigestMismatch,
    InstallError,
    Kind,
    PackageError,
    PluginNotFound,
    Remedy,
    RemedyAction,
    ZeroclawError,
)
from zeroclaw_host.installation.filesystem import storage_error
from zeroclaw_host.package.admission import AdmittedPackage, ReadManifest, admit
from zeroclaw_host.package.manifest import Manifest
from zeroclaw_host.package.notices import Notice
from zeroclaw_host.package.reader import DirectoryReader, PackageReader, SkillTree
from zeroclaw_host.package.signature import SignaturePolicy, SignatureVerdict

_OTHERS_TOLD: Final = 3
_SUGGESTIONS: Final = 3


class AmbiguousName(PackageError):
    """Two directories hold packages of one name. Neither is loaded (PLG-014)."""

    code = "package_name_ambiguous"
    kind = Kind.CONFLICT


class PackageChanged(InstallError):
    """A package on the disk is no longer the one that was discovered."""

    code = "package_changed"


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package that admission accepts, without its bytes."""

    directory: Path
    manifest: Manifest
    manifest_bytes: bytes = field(repr=False)
    component_sha256: str | None
    signature: SignatureVerdict
    notices: tuple[Notice, ...]
    policy: SignaturePolicy = field(repr=False)
    """What it was judged by, and is judged by again when it is read."""

    @property
    def name(self) -> str:
        """The package's name. The directory's may be another one."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The package's version."""
        return self.manifest.version

    def read(self) -> AdmittedPackage:
        """The package with its bytes, admitted once more: what is returned is what was checked.

        :raises PackageError: admission refuses what is there now.
        :raises PackageChanged: it is another package than the one discovered.
        """
        package = admit(DirectoryReader(self.directory), self.policy)
        if (package.manifest_bytes, package.component_sha256) != (self.manifest_bytes, self.component_sha256):
            raise PackageChanged(
                f"{self.name} in {self.directory} was changed after it was found", details={"name": self.name}
            )
        return package


@dataclass(frozen=True, slots=True)
class Rejected:
    """A directory that is no package this host accepts, and why. ``name`` is the manifest's, where one could be read."""

    directory: Path
    name: str | None
    error: ZeroclawError


@dataclass(frozen=True, slots=True)
class Discovery:
    """Everything found: packages sorted by name, and what was left out, sorted by directory."""

    packages: tuple[InstalledPackage, ...]
    rejected: tuple[Rejected, ...]

    @property
    def manifests(self) -> dict[str, Manifest]:
        """The manifests of the packages, by name."""
        return {package.name: package.manifest for package in self.packages}

    def get(self, name: str) -> InstalledPackage:
        """The installed package of that name.

        :raises PackageError: there is a package of that name or under that directory name, and it was left out.
        :raises PluginNotFound: there is none.
        """
        for package in self.packages:
            if package.name == name:
                return package
        for rejected in self.rejected:
            if name in (rejected.name, rejected.directory.name):
                raise rejected.error
        close = difflib.get_close_matches(name, [package.name for package in self.packages], n=_SUGGESTIONS)
        hint = f"; the closest are {', '.join(close)}" if close else ""
        raise PluginNotFound(
            f"no package named {name} is installed{hint}", details={"name": name, "suggestions": tuple(close)}
        )


def discover(directory: Path, policy: SignaturePolicy, *, only: str | None = None) -> Discovery:
    """Look at every real, visible directory directly inside the plugins directory.

    :param only: look at packages of this name, and the directory of this name, alone.
    :returns: nothing found when the plugins directory does not exist.
    :raises StorageError: the plugins directory cannot be listed.
    """
    named: dict[str, list[_Candidate]] = {}
    rejected: list[Rejected] = []
    for path in _directories(directory):
        try:
            found = _Candidate(path)
        except ZeroclawError as error:
            if only in (None, path.name):
                rejected.append(Rejected(path, None, error))
            continue
        if only in (None, found.name, path.name):
            named.setdefault(found.name, []).append(found)
    packages: list[InstalledPackage] = []
    for namesakes in named.values():
        ambiguous = _ambiguous(namesakes, policy)
        for candidate in namesakes:
            try:
                if candidate in ambiguous:
                    raise _ambiguity(candidate, ambiguous)
                packages.append(_installed(candidate, policy))
            except ZeroclawError as error:
                rejected.append(Rejected(candidate.path, candidate.name, error))
    return Discovery(
        packages=tuple(sorted(packages, key=lambda package: package.name)),
        rejected=tuple(sorted(rejected, key=lambda entry: entry.directory)),
    )


def _directories(directory: Path) -> list[Path]:
    """The directories discovery looks at: no links, and nothing hidden, where transactions live (PLG-054)."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, str(directory), "list the plugins directory") from error


class _Candidate:
    """A directory whose manifest was read, once; a package's reader that goes on from there.

    :raises ManifestError: there is no manifest to speak of.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = DirectoryReader(path)
        self._read = ReadManifest.of(self._reader)
        self.name = self._read.manifest.name

    def admit(self, policy: SignaturePolicy, reader: PackageReader | None = None) -> AdmittedPackage:
        """Judge the package; ``reader`` may stand in for what is read besides the manifest."""
        return admit(reader or self, policy, read=self._read)

    @property
    def origin(self) -> str:
        return self._reader.origin

    def read_manifest(self) -> bytes:
        return self._read.data

    def read_component(self, wasm_path: str) -> bytes:
        return self._reader.read_component(wasm_path)

    def read_skills(self) -> SkillTree:
        return self._reader.read_skills()


def _installed(candidate: _Candidate, policy: SignaturePolicy) -> InstalledPackage:
    try:
        package = candidate.admit(policy)
    except DigestMismatch as error:
        # Installed, it had the declared digest: what helps is another copy, and no other signature (PLG-344).
        remedy = Remedy(RemedyAction.REMOVE_PLUGIN, {"name": candidate.name})
        raise DigestMismatch(error.message, remedy=remedy, details=error.details) from None
    return InstalledPackage(
        directory=candidate.path,
        manifest=package.manifest,
        manifest_bytes=package.manifest_bytes,
        component_sha256=package.component_sha256,
        signature=package.signature,
        notices=package.notices,
        policy=policy,
    )


def _ambiguous(namesakes: list[_Candidate], policy: SignaturePolicy) -> list[_Candidate]:
    """Those of one name that take it from each other.

    A name is ambiguous between the directories whose manifests are acceptable, whatever their components are like. So a
    copy that the signature policy refuses takes nobody's name away.
    """
    if len(namesakes) == 1:
        return []
    standing = [candidate for candidate in namesakes if _manifest_stands(candidate, policy)]
    return standing if len(standing) > 1 else []


def _ambiguity(candidate: _Candidate, ambiguous: list[_Candidate]) -> AmbiguousName:
    others = [other.path.name for other in ambiguous if other is not candidate]
    more = f" and {len(others) - _OTHERS_TOLD} more" if len(others) > _OTHERS_TOLD else ""
    return AmbiguousName(
        f"{candidate.path} holds a package named {candidate.name}, and so does {', '.join(others[:_OTHERS_TOLD])}{more}: "
        "none of them is loaded",
        details={"name": candidate.name, "directories": sorted(str(each.path) for each in ambiguous)},
    )


def _manifest_stands(candidate: _Candidate, policy: SignaturePolicy) -> bool:
    """Whether admission gets as far as the component."""
    try:
        candidate.admit(policy, _UpToComponent(candidate))
    except _ComponentReached:
        return True
    except ZeroclawError:
        return False
    return True


class _ComponentReached(Exception):
    """Everything ahead of the component was accepted."""


class _UpToComponent:
    """A package whose component nobody gets to read."""

    def __init__(self, reader: PackageReader) -> None:
        self._reader = reader

    @property
    def origin(self) -> str:
        return self._reader.origin

    def read_manifest(self) -> bytes:
        return self._reader.read_manifest()

    def read_component(self, wasm_path: str) -> bytes:
        raise _ComponentReached(wasm_path)

    def read_skills(self) -> SkillTree:
        return self._reader.read_skills()
