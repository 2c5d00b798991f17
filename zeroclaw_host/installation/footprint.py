"""What may be deleted under a name the host did not load: only what an interrupted or outdated install leaves.

A directory goes when it is empty, or when admission refuses it for what it is made of and it holds nothing an install
never writes. Everything else is somebody's work, or a package that a changed policy would load, and stays (PLG-066 to
PLG-094).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import cast

from zeroclaw_host.errors import (
    ManifestError,
    PackageError,
    SignatureRefused,
    ZeroclawError,
)
from zeroclaw_host.installation.filesystem import storage_error
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import MANIFEST_NAME, SKILLS_DIRECTORY, Capability, component_path
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.package.toml_source import TomlSource, printable


class Member(Enum):
    """What one path of a directory is. A symbolic link is never what it leads to."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The paths an install of one package writes, as far as its manifest can be read."""

    name: str | None
    """The name the manifest gives, if it gives one."""
    component: str | None = None
    skills: bool = False

    @classmethod
    def of(cls, manifest: bytes) -> Footprint:
        """What a manifest says it consists of, however wrong the rest of it is (PLG-367).

        A manifest that is no TOML, or names no package, says nothing: beside it nothing else may exist (PLG-075).
        """
        try:
            values = TomlSource.parse(manifest, path=MANIFEST_NAME).values
        except ManifestError:
            return cls(None)
        name = values.get("name")
        if not isinstance(name, str):
            return cls(None)
        capabilities = values.get("capabilities")
        listed = cast("list[object]", capabilities) if isinstance(capabilities, list) else []
        return cls(name, component_path(values.get("wasm_path")), Capability.SKILL in listed)

    def foreign(self, members: Mapping[str, Member]) -> str | None:
        """The first path that no install of this package writes, or None (PLG-074)."""
        return next((path for path, member in sorted(members.items()) if not self._own(path, member)), None)

    def _own(self, path: str, member: Member) -> bool:
        if path == MANIFEST_NAME or path == self.component:
            return member is Member.FILE
        if self.skills and path.startswith(f"{SKILLS_DIRECTORY}/"):
            return member is not Member.OTHER
        is_folder = path == SKILLS_DIRECTORY if self.skills else False
        is_folder = is_folder or (self.component is not None and self.component.startswith(f"{path}/"))
        return is_folder and member is Member.DIRECTORY


def why_kept(
    directory: Path, name: str, policy: SignaturePolicy, *, shown: Path
) -> str | ZeroclawError | None:
    """Why ``remove`` may not delete a directory, or None when it may. Changes nothing.

    :param name: the package name that is to be cleared.
    :param shown: how messages call the directory.
    :returns: words, or the error that says it.
    """
    try:
        members = list_members(directory)
    except OSError as error:
        return storage_error(error, str(shown), "look into the directory")
    if not members:
        return None
    if MANIFEST_NAME not in members:
        return f"it holds files and no {MANIFEST_NAME}"
    return _why_admission_keeps(directory, policy, shown) or _what_no_install_writes(
        directory, name, members, shown
    )


def list_members(directory: Path) -> dict[str, Member]:
    """Everything below a directory, by path relative to it; no link is followed.

    :raises OSError: a part of it cannot be listed.
    """
    found: dict[str, Member] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(directory / folder) as listing:
            for entry in listing:
                path = f"{folder}{entry.name}"
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    found[path] = Member.DIRECTORY
                    folders.append(f"{path}/")
                else:
                    found[path] = Member.FILE if stat.S_ISREG(mode) else Member.OTHER
    return found


def _why_admission_keeps(directory: Path, policy: SignaturePolicy, shown: Path) -> str | ZeroclawError | None:
    try:
        admit(DirectoryReader(directory, shown=shown), policy)
    except SignatureRefused as error:
        # A question of policy and not of what the package is made of: with another policy it may well load.
        return error
    except PackageError:
        return None
    except ZeroclawError as error:
        return error
    return "it holds a package that this host accepts"


def _what_no_install_writes(
    directory: Path, name: str, members: Mapping[str, Member], shown: Path
) -> str | ZeroclawError | None:
    if members[MANIFEST_NAME] is not Member.FILE:
        return f"its {MANIFEST_NAME} is no regular file"
    try:
        footprint = Footprint.of(DirectoryReader(directory, shown=shown).read_manifest())
    except PackageError:
        footprint = Footprint(None)  # larger than any manifest
    except ZeroclawError as error:
        return error
    if footprint.name not in (None, name):
        return f"its manifest names the package {printable(footprint.name or '')}"
    foreign = footprint.foreign(members)
    return None if foreign is None else f"it holds {printable(foreign)}, which no install writes"
