"""Bytes from an HTTP address, by httpx: redirects, TLS and the end of a transfer told in one sentence each."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import httpx

from zeroclaw_host.errors import RegistryError
from zeroclaw_host.registry.download import Opened, failed, too_slow
from zeroclaw_host.registry.hang_up import HangUp
from zeroclaw_host.registry.location import Location

MAX_REDIRECTS: Final = 5


@contextmanager
def open_http(
    location: Location,
    *,
    proxy: str | None,
    trust: Callable[[], ssl.SSLContext],
    connect_timeout: float,
    read_timeout: float,
    total_timeout: float,
) -> Generator[Opened, None, None]:
    """Ask an address for its bytes, for the time of the block. All times are seconds.

    :raises RegistryError: it does not answer, answers with anything but the bytes, leads where it may not, or breaks off.
    """
    client = httpx.Client(
        trust_env=False,
        proxy=proxy,
        verify=trust(),
        timeout=httpx.Timeout(read_timeout, connect=connect_timeout),
        headers={"accept-encoding": "identity"},
    )
    with (
        _in_time(location, total_timeout) as hang_up,
        _said_plainly(location),
        client,
        _final_response(client, location, hang_up) as (response, here),
    ):
        yield Opened(here, _announced(response), response.iter_raw())


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
                raise too_slow(location, seconds) from error
            raise
        # A body without an announced length ends where the connection does, so hanging up passes for its end.
        if hang_up.over:
            raise too_slow(location, seconds)


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
