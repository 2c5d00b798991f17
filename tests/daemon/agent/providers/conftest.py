"""Providers that talk to servers on loopback."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest
from http_origins import Answer, Origin
from loopback import authority, secure
from peers import PATIENCE

from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.agent.providers.base import ModelEvent, ModelRequest
from zeroclaw_daemon.agent.providers.openai import OpenAi
from zeroclaw_daemon.agent.providers.reading import Dialect
from zeroclaw_daemon.agent.providers.remote import Remote, RemoteProvider, Surroundings
from zeroclaw_daemon.clock import Clock, SystemClock

__all__ = ["authority", "secure"]

KEY = "sk-hunter2-0123456789"
REQUEST = ModelRequest("m", "be brief", (UserMessage("hi"),))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[Callable[..., Origin]]:
    """Servers that end with the test."""
    made: list[Origin] = []

    def start(answers: Answer, *, tls: ssl.SSLContext | None = None) -> Origin:
        made.append(Origin(answers, tls=tls))
        return made[-1]

    yield start
    for one in made:
        one.close()


class Impatient(SystemClock):
    """Does not wait, and keeps how long it should have."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@dataclass
class Asking:
    """A provider over one server, and what a test wants of it."""

    uri: str
    dialect: Dialect = field(default_factory=OpenAi)
    key: str | None = KEY
    clock: Clock = field(default_factory=Impatient)
    around: Surroundings = field(default_factory=Surroundings)

    @property
    def provider(self) -> RemoteProvider:
        around = replace(self.around, clock=self.clock, chance=lambda: 0.5, today=lambda: 1_792_567_680.0)
        remote = Remote("openai.far", "providers.models.openai.far", self.uri, lambda: self.key, 120.0)
        return RemoteProvider(remote, self.dialect, around)

    @property
    def slept(self) -> list[float]:
        assert isinstance(self.clock, Impatient)
        return self.clock.slept

    async def events(self) -> AsyncIterator[ModelEvent]:
        async with aclosing(self.provider.stream(REQUEST)) as events:
            async for event in events:
                yield event

    async def answer(self) -> list[ModelEvent]:
        with anyio.fail_after(PATIENCE):
            return [event async for event in self.events()]


@pytest.fixture
def asking(server: Callable[..., Origin]) -> Callable[..., tuple[Origin, Asking]]:
    """A server with these answers, and a provider that asks it."""

    def make(answers: Answer, *, tls: ssl.SSLContext | None = None, **how: Any) -> tuple[Origin, Asking]:
        origin = server(answers, tls=tls)
        return origin, Asking(f"{'https' if tls else 'http'}://127.0.0.1:{origin.port}/base/", **how)

    return make


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what is going to be; the time is no part of what is asserted."""
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110 - servers are on threads
            await anyio.sleep(0.002)
