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
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import certifi
import httpx

from zeroclaw_host.errors import Kind, RegistryError, Remedy, RemedyAction
from zeroclaw_host.package.reader import open_regular_file
from zeroclaw_host.registry.hang_up import HangUp
from zeroclaw_host.registry.location import Location

MAX_REDIRECTS: Final = 5
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
class _Opened:
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
        source = _open_file(location) if location.scheme == "file" else self._open_http(location)
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
                    raise _too_slow(location, self.total_timeout)
                if progress is not None:
                    progress(received.tell(), opened.announced)
        return Download(received.getvalue(), opened.location)

    @contextmanager
    def _open_http(self, location: Location) -> Generator[_Opened, None, None]:
        client = httpx.Client(
            trust_env=False,
            proxy=self.proxy,
            verify=self.trust(),
            timeout=httpx.Timeout(self.read_timeout, connect=self.connect_timeout),
            headers={"accept-encoding": "identity"},
        )
        with (
            _in_time(location, self.total_timeout) as hang_up,
            _said_plainly(location),
            client,
            _final_response(client, location, hang_up) as (response, here),
        ):
            yield _Opened(here, _announced(response), response.iter_raw())


@contextmanager
def _final_response(
    client: httpx.Client, location: Location, hang_up: HangUp
) -> Generator[tuple[httpx.Response, Location], None, None]:
    request = client.build_request("GET", location.url, extensions={"trace": hang_up.trace})
    here = location
    for _ in range(MAX_REDIRECTS + 1):
        response = client.send(request, stream=True)
        try:
            if response.next_request is None:
                _require_bytes(response, location)
                yield response, here
                return
            request = response.next_request
            here = here.follow(str(request.url))
        finally:
            response.close()
    raise failed(location, f"redirects more than {MAX_REDIRECTS} times")


def _require_bytes(response: httpx.Response, location: Location) -> None:
    if response.status_code != HTTPStatus.OK:
        raise failed(location, f"answers {response.status_code} {response.reason_phrase}".rstrip())
    if response.headers.get("content-encoding", "identity") != "identity":
        raise failed(location, "answers with a compressed body, which was not asked for")


def _announced(response: httpx.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None


@contextmanager
def _in_time(location: Location, seconds: float) -> Generator[HangUp, None, None]:
    """Hang up when the time of the whole transfer is over, and say so whatever that looked like to the protocol."""
    with HangUp(seconds) as hang_up:
        try:
            yield hang_up
        except RegistryError as error:
            if hang_up.over:
                raise _too_slow(location, seconds) from error
            raise
        # A body without an announced length ends where the connection does, so hanging up passes for its end.
        if hang_up.over:
            raise _too_slow(location, seconds)


@contextmanager
def _said_plainly(location: Location) -> Generator[None, None, None]:
    """Turn what httpx and TLS raise into one sentence about the registry."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise failed(location, "does not answer: the connection timed out") from error
    except (httpx.ConnectError, httpx.ProxyError) as error:
        raise failed(location, "cannot be reached") from error
    except httpx.TimeoutException as error:
        raise failed(location, "stopped sending") from error
    except httpx.TransportError as error:
        raise failed(location, "broke off in the middle of its answer") from error
    except httpx.InvalidURL:
        # Its text can hold a part of the address that is a credential.
        raise failed(location, "is no address that can be connected to") from None


@contextmanager
def _open_file(location: Location) -> Generator[_Opened, None, None]:
    try:
        with open_regular_file(location.path) as file:
            size = os.fstat(file.fileno()).st_size
            yield _Opened(location, size, iter(lambda: file.read(_CHUNK_BYTES), b""))
    except OSError as error:
        raise failed(location, f"cannot be read: {(error.strerror or 'failed').lower()}") from error


def failed(location: Location, what: str) -> RegistryError:
    """The error of an address that did not deliver: ``what`` continues the sentence that begins with the address."""
    return RegistryError(
        f"{location} {what}", remedy=Remedy(RemedyAction.NAME_REGISTRY), details={"location": str(location)}
    )


def _too_slow(location: Location, seconds: float) -> RegistryError:
    return failed(location, f"did not finish within {seconds:g} seconds")


def _too_large(location: Location, limit: int) -> DownloadTooLarge:
    return DownloadTooLarge(
        f"{location} serves more than {limit} bytes",
        remedy=Remedy(RemedyAction.NAME_REGISTRY),
        details={"location": str(location), "limit_bytes": limit},
    )
