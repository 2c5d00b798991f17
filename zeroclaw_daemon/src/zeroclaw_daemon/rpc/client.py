"""The other end, without types: what :mod:`zeroclaw_daemon.client` is built on.

The rules of the wire bind both peers (RPC-251), so this is the same connection with another handler: it has its own
``zc-out-N`` ids, and it answers every question of the daemon, if only by saying that it does not know the method.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.rpc.connection import Connection
from zeroclaw_daemon.rpc.envelope import PROTOCOL_VERSION, Request
from zeroclaw_daemon.rpc.errors import UnknownMethod
from zeroclaw_daemon.rpc.limits import ConnectionLimits
from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_daemon.strict_json import JsonValue

CLIENT_LIMITS: Final = ConnectionLimits(
    frame_bytes=256 * 1024 * 1024,
    frame_values=None,
    initialize_seconds=None,
    frame_seconds=None,
)
"""A client trusts its daemon with its time, and with much more of its memory than the other way round."""


@dataclass(frozen=True, slots=True)
class Notification:
    """Something the daemon said unasked."""

    method: str
    params: Any


Answer: TypeAlias = Callable[[JsonValue], Awaitable[JsonValue]]
"""Answers one method that the daemon calls: takes the parameters, None where there are none, and gives the result."""

_NO_ANSWERS: Final[Mapping[str, Answer]] = {}


class Client:
    """One connection to a daemon, entered with :func:`connected`."""

    def __init__(
        self,
        transport: Transport,
        *,
        limits: ConnectionLimits,
        clock: Clock | None,
        answers: Mapping[str, Answer],
    ) -> None:
        self._connection = Connection(transport, self, limits=limits, clock=clock)
        self._answers = answers
        self._listeners: set[MemoryObjectSendStream[Notification]] = set()
        self._hearers: set[Callable[[Notification], None]] = set()
        self._ended = anyio.Event()

    async def initialize(self, params: Mapping[str, JsonValue] | None = None) -> dict[str, Any]:
        """Introduce this client; what the daemon says of itself.

        :raises RemoteError: the daemon refused.
        :raises ConnectionLost: the daemon is gone.
        """
        return await self.call("initialize", {"protocolVersion": PROTOCOL_VERSION, **(params or {})})

    async def call(self, method: str, params: Mapping[str, JsonValue] | None = None) -> Any:
        """Ask the daemon; its result.

        :raises RemoteError: the daemon answered with an error.
        :raises ConnectionLost: the daemon is gone.
        :raises FrameTooLarge: the call does not fit in a line; it was not sent.
        """
        return await self._connection.request(method, dict(params or {}))

    @contextmanager
    def notifications(self) -> Generator[MemoryObjectReceiveStream[Notification]]:
        """What the daemon says unasked while the block runs, in order. When a call returns, everything the daemon said
        before its answer is already there. The stream ends with the connection.
        """
        send, receive = anyio.create_memory_object_stream[Notification](math.inf)
        if self._ended.is_set():
            send.close()
        self._listeners.add(send)
        with send, receive:
            try:
                yield receive
            finally:
                self._listeners.discard(send)

    @contextmanager
    def hearing(self, hear: Callable[[Notification], None]) -> Generator[None]:
        """While the block runs, have ``hear`` called with everything the daemon says unasked, before anything that came
        after it is looked at, and after the calls have gone on that were answered before it.
        """
        self._hearers.add(hear)
        try:
            yield
        finally:
            self._hearers.discard(hear)

    def at_hang_up(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block runs, have ``call`` called once when the daemon is gone; at once if it is already."""
        return self._connection.at_hang_up(call)

    async def ended(self) -> None:
        """Wait until the connection has ended."""
        await self._ended.wait()

    # What the connection asks of its handler.

    def observe(self, notification: Request) -> bool:
        """Hand a notification to everybody who listens."""
        heard = Notification(notification.method, notification.params)
        for hear in tuple(self._hearers):
            hear(heard)
        for listener in self._listeners:
            with suppress(anyio.BrokenResourceError):  # nobody listens there any more
                listener.send_nowait(heard)
        return True

    def runs_beside(self, method: str) -> bool:
        """What takes a person's time must hold up nothing else."""
        return method in self._answers

    async def handle(self, request: Request) -> JsonValue:
        """The answer to what the daemon asks.

        :raises UnknownMethod: the method is not one of ``answers``.
        """
        answer = self._answers.get(request.method)
        if answer is None:
            raise UnknownMethod
        return await answer(request.params)

    async def _run(self) -> None:
        await self._connection.run()
        self._ended.set()
        for listener in tuple(self._listeners):
            listener.close()

    def _end(self) -> None:
        self._connection.abort()


@asynccontextmanager
async def connected(
    transport: Transport,
    *,
    limits: ConnectionLimits = CLIENT_LIMITS,
    clock: Clock | None = None,
    answers: Mapping[str, Answer] = _NO_ANSWERS,
) -> AsyncGenerator[Client]:
    """A client on this transport, which is closed when the block is left.

    :param answers: the methods that the daemon may call, by name; any other is unknown to it (RPC-251).
    """
    client = Client(transport, limits=limits, clock=clock, answers=answers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client._run)  # pyright: ignore[reportPrivateUsage]
        try:
            yield client
        finally:
            client._end()  # pyright: ignore[reportPrivateUsage]
