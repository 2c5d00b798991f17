"""Fetching bytes from an address that is not trusted, within bounds.

Size is bounded while the bytes arrive, and time over the whole transfer, because a peer that sends one byte a second
never trips the timeout of a single read. Proxies and credentials of the environment play no part.
"""

from __future__ import annotations

import io
import os
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import certifi

from zeroclaw_host.errors import Kind, RegistryError, Remedy, RemedyAction
from zeroclaw_host.package.reader import open_regular_file
from zeroclaw_host.registry.location import Location

_CHUNK_BYTES: Final = 64 * 1024

Progress = Callable[[int, int | None], None]
"""Told ``(bytes so far, bytes announced or None)`` after every chunk."""


class DownloadTooLarge(RegistryError):
    """A registry served more bytes than may be read. ``details`` holds ``limit_bytes``."""

    code = "registry_too_large"
    kind = Kind.LIMIT


def machine_trust() -> ssl.SSLContext:
    """TLS that trusts the bundled roots and those this machine trusts (``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` included)."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes, and the address that served them after all redirects."""

    data: bytes = field(repr=False)
    location: Location


@dataclass(frozen=True, slots=True)
class Opened:
    """An address that answers: where it is after all redirects, the bytes it announces, and its bytes."""

    location: Location
    announced: int | None
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Downloader:
    """How to fetch. All times are seconds.

    :param proxy: a proxy's URL, for those who want one; the environment's is not used.
    :param total_timeout: the whole transfer's, redirects included.
    """

    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    total_timeout: float = 600.0
    trust: Callable[[], ssl.SSLContext] = machine_trust
    now: Callable[[], float] = time.monotonic

    def fetch(self, location: Location, *, limit: int, progress: Progress | None = None) -> Download:
        """All the bytes at an address.

        :param limit: the most that is read.
        :raises DownloadTooLarge: there are more.
        :raises RegistryError: the address does not answer, answers with anything but the bytes, leads where it may not,
            or breaks off.
        """
        source = _open_file(location) if location.scheme == "file" else _open_http(location, self)
        received = io.BytesIO()  # hands its bytes over without a second copy of them
        end = self.now() + self.total_timeout
        with source as opened:
            if opened.announced is not None and opened.announced > limit:
                raise _too_large(location, limit)
            for chunk in opened.chunks:
                received.write(chunk)
                if received.tell() > limit:
                    raise _too_large(location, limit)
                if self.now() > end:
                    raise too_slow(location, self.total_timeout)
                if progress is not None:
                    progress(received.tell(), opened.announced)
        return Download(received.getvalue(), opened.location)


def _open_http(location: Location, downloader: Downloader) -> AbstractContextManager[Opened]:
    # An HTTP library takes longer to load than a package from a directory takes to be checked.
    from zeroclaw_host.registry.http_source import open_http

    return open_http(
        location,
        proxy=downloader.proxy,
        trust=downloader.trust,
        connect_timeout=downloader.connect_timeout,
        read_timeout=downloader.read_timeout,
        total_timeout=downloader.total_timeout,
    )


@contextmanager
def _open_file(location: Location) -> Generator[Opened, None, None]:
    try:
        with open_regular_file(location.path) as file:
            size = os.fstat(file.fileno()).st_size
            yield Opened(location, size, iter(lambda: file.read(_CHUNK_BYTES), b""))
    except OSError as error:
        raise failed(location, f"cannot be read: {(error.strerror or 'failed').lower()}") from error


def failed(location: Location, what: str) -> RegistryError:
    """The error of an address that did not deliver: ``what`` continues the sentence that begins with the address."""
    return RegistryError(
        f"{location} {what}", remedy=Remedy(RemedyAction.NAME_REGISTRY), details={"location": str(location)}
    )


def too_slow(location: Location, seconds: float) -> RegistryError:
    """The error of an address that takes longer than a whole transfer may."""
    return failed(location, f"did not finish within {seconds:g} seconds")


def _too_large(location: Location, limit: int) -> DownloadTooLarge:
    return DownloadTooLarge(
        f"{location} serves more than {limit} bytes",
        remedy=Remedy(RemedyAction.NAME_REGISTRY),
        details={"location": str(location), "limit_bytes": limit},
    )
