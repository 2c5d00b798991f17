"""A provider at the other end of a connection: asks by HTTP, reads the streamed answer, and asks again where that may help."""

from __future__ import annotations

import logging
import random
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Final

import anyio.to_thread
import httpx

from zeroclaw_daemon.agent.providers.base import ModelEvent, ModelRequest, ProviderError
from zeroclaw_daemon.agent.providers.event_stream import LIMITS, MEDIA_TYPE, StreamLimits, event_data
from zeroclaw_daemon.agent.providers.failures import BrokenOff, Failure, shown, words_of
from zeroclaw_daemon.agent.providers.health import HealthBoard
from zeroclaw_daemon.agent.providers.reading import Dialect, may_ask_again
from zeroclaw_daemon.agent.providers.retries import RetryRule, retry_after
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.strict_json import NotJson, encode, parse
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.registry.download import machine_trust

_CONNECT_SECONDS: Final = 15.0
"""A connection takes a few round trips."""
_MAX_ERROR_BYTES: Final = 65_536
"""What is read of an answer that is an error."""
_DENSE: Final = frozenset({"br", "zstd"})
"""Ways to compress that can make gigabytes of one packet, before anybody can count them. So can one way on top of another."""
_OK: Final = 200
_LAST_PORT: Final = 65_535
_RULE: Final = RetryRule()

logger = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """What this machine trusts, read once a process: it takes longer than a connection."""
    return machine_trust()


class AddressInvalid(ValueError):
    """A base address cannot be used. The text says why, and holds no part of the address."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a provider is and how it is asked.

    :param name: what it is called in messages and records.
    :param settings: the path of its settings in the configuration.
    :param uri: the base address; None is that of the dialect.
    :param key: reads the key anew for every question, so that it is kept nowhere. May raise a ProviderError; may block.
    :param timeout_seconds: how long it may say nothing.
    """

    name: str
    settings: str
    uri: str | None = None
    key: Callable[[], str | None] = field(default=lambda: None, repr=False)
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a provider takes of the world. Tests bring their own.

    :param chance: a random number from 0 to 1.
    :param today: seconds since 1970, for servers that name a date.
    :param trust: whom TLS trusts. May block, and is asked in a thread.
    """

    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.random
    today: Callable[[], float] = time.time
    trust: Callable[[], ssl.SSLContext] = _trust
    connect_seconds: float = _CONNECT_SECONDS
    retries: RetryRule = _RULE
    limits: StreamLimits = LIMITS


_WORLD: Final = Surroundings()


class RemoteProvider:
    """A :class:`~zeroclaw_daemon.agent.providers.base.Provider` that speaks a dialect over HTTP.

    Each question has a connection of its own, which is closed as soon as the answer is over or nobody wants it. A question
    that failed for a reason of the server's own is asked again, unless something of the answer was given out. Redirects are
    not followed: whoever is redirected to must not be told the key.

    :param health: told of each outcome.
    :raises AddressInvalid: the base address cannot be used.
    """

    def __init__(
        self,
        remote: Remote,
        dialect: Dialect,
        surroundings: Surroundings = _WORLD,
        health: HealthBoard | None = None,
    ) -> None:
        self._remote = remote
        self._dialect = dialect
        self._around = surroundings
        self._health = health or HealthBoard()
        self._url = _url(remote.uri or dialect.default_uri, dialect)

    def __repr__(self) -> str:
        return f"RemoteProvider({self._remote.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer as it comes.

        :raises ProviderError: there is none, or not the whole of it. ``details`` holds ``provider`` and, where that was it,
            the HTTP ``status``.
        """
        for failures in count(1):
            key = await self._key()
            given = False
            try:
                async with aclosing(self._ask(request, key)) as events:
                    async for event in events:
                        given = True
                        yield event
                self._health.answered(self._remote.name, self._around.today())
                return
            except Failure as failure:
                error = self._failed(self._told(failure, key))
                wait = self._wait(failure, failures) if failure.again and not given else None
            if wait is None:
                raise error
            record(
                logger, logging.WARNING, f"{error.message}; it is asked again in {wait:.1f} seconds",
                action="provider_retry", category="agent", provider=self._remote.name,
            )  # fmt: skip
            await self._around.clock.sleep(wait)

    async def _key(self) -> str | None:
        try:
            return await anyio.to_thread.run_sync(self._remote.key)
        except ProviderError as error:
            self._failed(error)
            raise

    def _failed(self, error: ProviderError) -> ProviderError:
        """The error, once the board knows of it."""
        self._health.failed(self._remote.name, self._around.today(), error.message)
        return error

    def _wait(self, failure: Failure, failures: int) -> float | None:
        return self._around.retries.wait(failures, failure.after, self._around.chance())

    def _told(self, failure: Failure, key: str | None) -> ProviderError:
        """The failure as it may be seen by anybody."""
        path = f"{self._remote.settings}.{failure.setting}"
        return ProviderError(
            f"the model provider {self._remote.name} {shown(failure.said, key)}",
            remedy=Remedy(RemedyAction.SET_CONFIG, {"path": path}) if failure.setting else None,
            details={
                "provider": self._remote.name,
                **({} if failure.status is None else {"status": failure.status}),
            },
        )

    async def _ask(self, request: ModelRequest, key: str | None) -> AsyncGenerator[ModelEvent, None]:
        """One try."""
        reader = self._dialect.reader()
        try:
            async with (
                self._answer(encode(self._dialect.body(request)), self._headers(key)) as response,
                aclosing(self._data(response)) as pieces,
            ):
                async for data in pieces:
                    for event in reader.read(data):
                        yield event
                    if reader.ended:
                        break
        except BrokenOff:
            if not reader.complete:
                raise
        for event in reader.finish():
            yield event

    def _headers(self, key: str | None) -> dict[str, str]:
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
            raise Failure("has a key with characters that no key has", setting="api_key")
        return {
            **self._dialect.headers(key),
            "accept": MEDIA_TYPE,
            # Pieces are not held back until they are worth compressing. A server that compresses all the same is understood.
            "accept-encoding": "identity",
            "content-type": "application/json",
        }

    async def _data(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        around = self._around
        with _plainly():
            async with aclosing(
                event_data(
                    response, clock=around.clock, seconds=self._remote.timeout_seconds, limits=around.limits
                )
            ) as pieces:
                async for data in pieces:
                    yield data

    @asynccontextmanager
    async def _answer(
        self, question: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[httpx.Response, None]:
        """An answer that is a stream of events, until the block ends."""
        async with httpx.AsyncClient(
            verify=await self._trust(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=self._around.connect_seconds),
        ) as client:
            response = await self._response(client, client.build_request(
                "POST", self._url, content=question, headers=headers
            ))  # fmt: skip
            try:
                await self._require_events(response)
                yield response
            finally:
                await response.aclose()

    async def _trust(self) -> ssl.SSLContext:
        if self._url.scheme == "http":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Trusts nobody, and is not used.
        return await anyio.to_thread.run_sync(self._around.trust)

    async def _response(self, client: httpx.AsyncClient, question: httpx.Request) -> httpx.Response:
        seconds = self._remote.timeout_seconds
        with _plainly(), self._around.clock.move_on_after(seconds):
            return await client.send(question, stream=True)
        raise Failure(f"did not answer within {seconds:g} seconds")

    async def _require_events(self, response: httpx.Response) -> None:
        """:raises Failure: the answer is something else."""
        status = response.status_code
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status == _OK and (coding := _dense_coding(response)) is not None:
            raise Failure(f"compresses its answer ({coding}), which it was asked not to")
        if status == _OK and media_type == MEDIA_TYPE:
            return
        words = await self._words(response)
        told = f": {words}" if words else ""
        if status == _OK:
            raise Failure(
                f"answered {media_type or 'something'} and no stream of events{told}", setting="uri"
            )
        if response.is_redirect:
            target = response.headers.get("location", "")
            raise Failure(f"answered {status} and leads to {target}", setting="uri", status=status)
        if status in (401, 403):
            raise Failure(f"did not accept the key ({status}){told}", setting="api_key", status=status)
        raise Failure(
            f"answered {status}{told}",
            again=may_ask_again(status),
            after=retry_after(response.headers.get("retry-after"), self._around.today()),
            status=status,
        )

    async def _words(self, response: httpx.Response) -> str:
        """What the body of an error says, as far as it says it in words and in time."""
        if _dense_coding(response) is not None:
            return ""
        found = bytearray()
        try:
            with self._around.clock.move_on_after(self._remote.timeout_seconds):
                async for chunk in response.aiter_bytes():
                    found += chunk
                    if len(found) > _MAX_ERROR_BYTES:
                        break
        except (httpx.TransportError, httpx.DecodingError):
            pass  # The status says the most of it.
        text = bytes(found[:_MAX_ERROR_BYTES]).decode("utf-8", "replace")
        try:
            return words_of(parse(text))
        except NotJson:
            return "" if "html" in response.headers.get("content-type", "") else text


def _dense_coding(response: httpx.Response) -> str | None:
    """How the answer is compressed, where that is so dense that it is not looked into."""
    told = response.headers.get("content-encoding", "").strip().lower()
    codings = [coding for part in told.split(",") if (coding := part.strip()) not in ("", "identity")]
    return told if len(codings) > 1 or not _DENSE.isdisjoint(codings) else None


@contextmanager
def _plainly() -> Generator[None]:
    """Turn what httpx raises into one sentence. Its errors are not chained: they can hold parts of the question."""
    try:
        yield
    except httpx.ConnectTimeout:
        raise Failure("could not be reached in time") from None
    except httpx.ConnectError as error:
        raise Failure(f"cannot be reached: {error}") from None
    except httpx.DecodingError:
        raise BrokenOff("sent bytes that are not compressed the way it says") from None
    except httpx.TransportError:
        raise BrokenOff("broke off the connection") from None


def _url(base: str, dialect: Dialect) -> httpx.URL:
    try:
        url = httpx.URL(base.strip())
    except (httpx.InvalidURL, ValueError):
        # The text of the error can hold a part of the address that is a credential.
        raise AddressInvalid("is no address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise AddressInvalid("is no http or https address with a host")
    if url.port is not None and not 0 < url.port <= _LAST_PORT:
        raise AddressInvalid("names a port that no address has")
    if url.userinfo or url.query or url.fragment:
        raise AddressInvalid("may not hold a user, a password, a query or a fragment")
    return url.copy_with(path=dialect.path(url.path.rstrip("/")))
