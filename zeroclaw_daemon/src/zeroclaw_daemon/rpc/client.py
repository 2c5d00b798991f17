"""The other end: what a program uses to talk to the daemon.

The rules of the wire bind both peers (RPC-251), so this is the same connection with another handler: it has its own
``zc-out-N`` ids, and it answers every question of the daemon, if only by saying that it does not know the method.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

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
    initialize_seconds=None,
    frame_seconds=None,
)
"""A client trusts its daemon with its time, and with much more of its memory than the other way round."""


@dataclass(frozen=True, slots=True)
class Notification:
    """Something the daemon said unasked."""

    method: str
    params: Any


class Client:
    """One connection to a daemon, entered with :func:`connected`."""

    def __init__(self, transport: Transport, *, limits: ConnectionLimits, clock: Clock | None) -> None:
        self._connection = Connection(transport, self, limits=limits, clock=clock)
        self._listeners: set[MemoryObjectSendStream[Notification]] = set()

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
        """
        return await self._connection.request(method, dict(params or {}))

    @contextmanager
    def notifications(self) -> Generator[MemoryObjectReceiveStream[Notification]]:
        """What the daemon says unasked while the block runs, in order. When a call returns, everything the daemon said
        before its answer is already there. The stream ends with the connection.
        """
        send, receive = anyio.create_memory_object_stream[Notification](math.inf)
        self._listeners.add(send)
        with send, receive:
            try:
                yield receive
            finally:
                self._listeners.discard(send)

    # What the connection asks of its handler.

    def observe(self, notification: Request) -> bool:
        """Hand a notification to everybody who listens."""
        for listener in self._listeners:
            listener.send_nowait(Notification(notification.method, notification.params))
        return True

    def runs_beside(self, method: str) -> bool:
        """Nothing does."""
        return False

    async def handle(self, request: Request) -> JsonValue:
        """No method is served to the daemon."""
        raise UnknownMethod

    async def _run(self) -> None:
        await self._connection.run()
        for listener in tuple(self._listeners):
            listener.close()

    def _end(self) -> None:
        self._connection.abort()


@asynccontextmanager
async def connected(
    transport: Transport, *, limits: ConnectionLimits = CLIENT_LIMITS, clock: Clock | None = None
) -> AsyncGenerator[Client]:
    """A client on this transport, which is closed when the block is left."""
    client = Client(transport, limits=limits, clock=clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client._run)  # pyright: ignore[reportPrivateUsage]
        try:
            yield client
        finally:
            client._end()  # pyright: ignore[reportPrivateUsage]
