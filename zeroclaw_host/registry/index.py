"""What a registry offers: a list of packages, in the order their versions were published.

Nothing here sorts versions. The last entry of a name is the one a bare name means (D-15), so the order of the file is
part of what it says.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from zeroclaw_host.errors import Kind, RegistryEntryNotFound, RegistryError, Remedy, RemedyAction, UsageError
from zeroclaw_host.package.manifest import is_package_name
from zeroclaw_host.package.toml_source import printable
from zeroclaw_host.registry.location import Location

MAX_INDEX_BYTES: Final = 16 * 1024 * 1024
"""The largest index that is read (D-13)."""

MAX_VERSIONS_TOLD: Final = 10
"""An index can list a name many thousand times over; an error is for a person to read."""

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)

_Text = Annotated[str, StringConstraints(min_length=1)]


class RegistryIndexInvalid(RegistryError):
    """What the registry serves is no plugin index, or an entry of it cannot be used."""

    code = "registry_index_invalid"
    kind = Kind.INVALID


@dataclass(frozen=True, slots=True)
class PackageSpec:
    """A package in a registry: ``name``, or ``name@version`` for exactly that version."""

    name: str
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> PackageSpec:
        """Split at the last ``@``.

        :raises UsageError: the name or the version is empty.
        """
        name, at, version = text.rpartition("@")
        if not at:
            name, version = text, ""
        if not name or (at and not version):
            raise UsageError(f"{text!r} is no package of a registry: write NAME or NAME@VERSION")
        return cls(name, version or None)

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


class Entry(BaseModel):
    """One version of one package. ``url`` is as the index has it, possibly relative to the index."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: _Text
    version: _Text
    url: _Text
    description: str = ""
    author: str | None = None
    capabilities: tuple[str, ...] = ()
    sha256: str | None = None

    def __str__(self) -> str:
        """Name and version, to be read by a person: both are the registry's own text."""
        return f"{printable(self.name)} {printable(self.version)}"

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the archive as 64 lowercase hexadecimal digits, or None when the entry carries none.

        :raises RegistryIndexInvalid: the field is there and is no digest, so that nothing can be checked against it.
        """
        if self.sha256 is None:
            return None
        found = _DIGEST.fullmatch(self.sha256.strip())
        if found is None:
            raise RegistryIndexInvalid(
                f"the registry's sha256 of {self} is no SHA-256 digest",
                remedy=Remedy(RemedyAction.REPORT_TO_REGISTRY, {"package": str(self)}),
                details={"name": self.name, "version": self.version},
            )
        return found[1].lower()


class Index(BaseModel):
    """A registry's whole offer, in its own order."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    plugins: tuple[Entry, ...] = Field()

    def select(self, spec: PackageSpec) -> Entry:
        """The last entry that matches (PLG-365).

        :raises RegistryEntryNotFound: none does. ``details`` holds the last ``versions`` of the name, or ``suggestions``
            of names like it.
        """
        named = [entry for entry in self.plugins if entry.name == spec.name]
        matching = [entry for entry in named if spec.version in (None, entry.version)]
        if matching:
            return matching[-1]
        if named:
            listed = list(dict.fromkeys(entry.version for entry in named))
            versions = listed[-MAX_VERSIONS_TOLD:]
            others = f" and {len(listed) - len(versions)} more" if len(listed) > len(versions) else ""
            raise RegistryEntryNotFound(
                f"the registry lists {spec.name} in no version {spec.version}, but in: "
                + ", ".join(map(printable, versions))
                + others,
                remedy=Remedy(RemedyAction.INSTALL_PLUGIN, {"source": f"{spec.name}@{versions[-1]}"}),
                details={"name": spec.name, "versions": versions},
            )
        raise self._unknown(spec.name)

    def search(self, text: str) -> tuple[Entry, ...]:
        """The entries whose name or description contains the text, letter case aside, in the registry's order."""
        wanted = text.casefold()
        return tuple(
            entry
            for entry in self.plugins
            if wanted in entry.name.casefold() or wanted in entry.description.casefold()
        )

    def _unknown(self, name: str) -> RegistryEntryNotFound:
        # Another name in an index could be a path, and then the suggestion would not be the registry's package.
        names = list(dict.fromkeys(entry.name for entry in self.plugins if is_package_name(entry.name)))
        close = difflib.get_close_matches(name, names, n=3)
        remedy = (
            Remedy(RemedyAction.INSTALL_PLUGIN, {"source": close[0]})
            if close
            else Remedy(RemedyAction.NAME_REGISTRY)
        )
        return RegistryEntryNotFound(
            f"the registry lists no package named {name}",
            remedy=remedy,
            details={"name": name, "suggestions": close},
        )


def parse_index(data: bytes, location: Location) -> Index:
    """Read an index file.

    :param location: where the bytes came from, for the error.
    :raises RegistryIndexInvalid: the bytes are no index. The message tells an HTML page from broken JSON, and names the
        first member that has the wrong shape.
    """
    try:
        return Index.model_validate_json(data.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        raise RegistryIndexInvalid(
            f"{location} serves {_what_is_wrong(data, error)}",
            remedy=Remedy(RemedyAction.NAME_REGISTRY),
            details={"location": str(location)},
        ) from None


def _what_is_wrong(data: bytes, error: ValidationError) -> str:
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        return "an HTML page and not a plugin index"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return f"no valid JSON ({first['msg'].removeprefix('Invalid JSON: ')})"
    where = ".".join(str(part) for part in first["loc"]) or "the index"
    return f"an index in which {where} is wrong ({first['msg'].lower()})"
