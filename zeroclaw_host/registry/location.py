"""Where a registry is, and which addresses its index may name."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from zeroclaw_host.errors import Kind, RegistryError, Remedy, RemedyAction
from zeroclaw_host.package.toml_source import printable

INDEX_NAME: Final = "registry.json"
"""The index of a location that names a directory."""

_SHOWN_CHARACTERS: Final = 300

_MAY_NAME: Final = {
    "file": frozenset({"file", "http", "https"}),
    "http": frozenset({"http", "https"}),
    "https": frozenset({"https"}),
}
"""From where to where an index, and a redirect, may lead: never onto this machine's files, never off TLS."""


class RegistryNotNamed(RegistryError):
    """No registry is configured, or what is configured is no address of one (D-22)."""

    code = "registry_not_named"
    kind = Kind.USAGE


@dataclass(frozen=True, slots=True, repr=False)
class Location:
    """The absolute URL of something a registry serves: ``file:``, ``http:`` or ``https:``.

    Its text form leaves out user, password, query and fragment, which may be credentials.
    """

    url: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """A registry's address as a person writes it: a URL, or the path of an index or of its directory.

        A URL that ends in ``/``, and a directory, mean the ``registry.json`` in it.

        :raises RegistryNotNamed: the text is blank, or its scheme is none of the three.
        """
        text = text.strip()
        if not text:
            raise RegistryNotNamed("no registry is named", remedy=Remedy(RemedyAction.NAME_REGISTRY))
        if "://" not in text and not text.startswith("file:"):
            path = Path(text).expanduser() if text == "~" or text.startswith("~/") else Path(text)
            return cls(_index_in(cls(path.absolute().as_uri()).path).as_uri())
        location = cls(text)
        if location.scheme not in _MAY_NAME or not (location.scheme == "file" or urlsplit(text).hostname):
            raise RegistryNotNamed(
                f"{location} is no registry: use file:, http: or https:, or a path",
                remedy=Remedy(RemedyAction.NAME_REGISTRY),
            )
        if location.scheme == "file":
            return cls(_index_in(location.path).as_uri())
        return cls(urljoin(text, INDEX_NAME)) if urlsplit(text).path.endswith("/") else location

    @property
    def scheme(self) -> str:
        """``file``, ``http`` or ``https``."""
        return _split(self.url)[0].lower()

    @property
    def path(self) -> Path:
        """The local path of a ``file:`` URL.

        :raises RegistryNotNamed: the URL names another machine, or nothing a path can be.
        """
        parts = urlsplit(self.url)
        if parts.netloc not in ("", "localhost"):
            raise RegistryNotNamed(
                f"{self} names a file on another machine", remedy=Remedy(RemedyAction.NAME_REGISTRY)
            )
        path = unquote(parts.path)
        if "\0" in path:
            raise RegistryNotNamed(f"{self} is no path", remedy=Remedy(RemedyAction.NAME_REGISTRY))
        return Path(path).absolute()

    def follow(self, url: str) -> Self:
        """The address that ``url`` means when it stands here: in this index (D-43), or in this redirect.

        :raises RegistryError: it leads where an address like this one may not lead.
        """
        try:
            target = type(self)(urljoin(self.url, url))
        except ValueError:
            target = type(self)("")
        if target.scheme not in _MAY_NAME[self.scheme]:
            raise RegistryError(
                f"{self} leads to {target}, and an address that starts with {self.scheme}: may only lead to "
                + " or ".join(f"{scheme}:" for scheme in sorted(_MAY_NAME[self.scheme])),
                remedy=Remedy(RemedyAction.REPORT_TO_REGISTRY),
                details={"location": str(self)},
            )
        return target

    @property
    def without_credentials(self) -> str:
        """The whole address to be given again, without what may be a credential."""
        scheme, netloc, path = _split(self.url)
        return urlunsplit((scheme, netloc.rpartition("@")[2], path, "", ""))

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"


def choose_registry(*candidates: str | None) -> Location:
    """The first registry named, strongest first: an option, the environment, the configuration (D-22). Blank is unnamed.

    :raises RegistryNotNamed: none is, or the first one is no address of a registry.
    """
    return Location.parse(next((text for text in candidates if text and text.strip()), ""))


def without_secrets(url: str) -> str:
    """A URL to be read by a person: without what may be a credential (user, password, query, fragment), on one line, and
    with an end.
    """
    scheme, netloc, path = _split(url)
    return printable(urlunsplit((scheme, netloc.rpartition("@")[2], path, "", "")), _SHOWN_CHARACTERS)


def _split(url: str) -> tuple[str, str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed bracket in the host
        parts = urlsplit("")
    if not any(parts):
        return "", "", "an address that is no URL"
    return parts.scheme, parts.netloc, parts.path


def _index_in(path: Path) -> Path:
    # Not Path.is_dir, which raises for a path that is too long.
    return path / INDEX_NAME if os.path.isdir(path) else path  # noqa: PTH112
