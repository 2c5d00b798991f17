"""One way in: a listener, the connections that came by it, and the ceiling they share."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager

import anyio
import anyio.abc
import anyio.lowlevel

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import Pace, record
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.connection import Connection
from zeroclaw_daemon.rpc.dispatch import CallerHandler, Dispatcher
from zeroclaw_daemon.rpc.envelope import error_line
from zeroclaw_daemon.rpc.errors import ConnectionLimit, error_object
from zeroclaw_daemon.rpc.limits import ServerLimits
from zeroclaw_daemon.rpc.presence import Presence
from zeroclaw_daemon.rpc.transport.base import (
    AcceptFailed,
    Listener,
    Peer,
    Transport,
    TransportClosed,
    linger,
)

logger = logging.getLogger(__name__)


class Intake:
    """Accepts the connections of one listener and serves them, up to its ceiling (RPC-033…036).

    Whoever reaches a port of this machine can connect to it without having anything to show, and as often as it likes. So at the
    ceiling a stranger gives way to the next connection: a peer of another machine that has not introduced itself, the one that
    has waited the longest of the host that has the most of them.

    :param presence: where every connection that is served is counted; one that is refused is not (RPC-222).
    :param at_goodbye: called with a client that is gone, after its turns have ended.
    """

    def __init__(
        self,
        listener: Listener,
        dispatcher: Dispatcher,
        *,
        limits: ServerLimits,
        clock: Clock,
        presence: Presence,
        at_goodbye: Callable[[Caller], None] = lambda _: None,
    ) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._limits = limits
        self._clock = clock
        self._presence = presence
        self._at_goodbye = at_goodbye
        self._connections: dict[Connection, Caller] = {}
        self._strangers = Pace(clock.now)
        self._refusing = False
        self._notices = 0
        self._left = anyio.Event()

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return self._listener.endpoint

    @property
    def open_connections(self) -> int:
        """Connections being served, their turns included; refused ones do not count."""
        return len(self._connections)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Hold the listener's place.

        :raises ZeroclawError: it cannot be had.
        """
        async with self._listener.opened():
            record(logger, logging.INFO, "listening", action="listening", endpoint=self.endpoint)
            yield

    async def accept(self, tasks: anyio.abc.TaskGroup) -> None:
        """Take connections until this is cancelled; they are served in ``tasks``."""
        failing = False
        while True:
            # Where many connect at once, nothing is waited for: whoever does so without end would be the only one who is served.
            await anyio.lowlevel.checkpoint()
            try:
                transport = await self._listener.accept()
            except AcceptFailed as error:
                if not failing:  # Tried many times a second: only the first of a row of failures is told.
                    record(
                        logger, logging.WARNING, "connections cannot be accepted; it is tried again and again",
                        action="accept_failed", cause=str(error),
                    )  # fmt: skip
                failing = True
                await self._clock.sleep(self._limits.accept_pause_seconds)
                continue
            failing = False
            if len(self._connections) < self._limits.max_connections:
                self._refusing = False
                self._admit(transport, tasks)
            elif (stranger := self._stranger()) is not None:
                self._tell_of_ceiling(transport.peer)
                del self._connections[stranger]
                stranger.abort()
                self._admit(transport, tasks)
            else:
                self._tell_of_ceiling(transport.peer)
                self._refuse(transport, tasks)

    def disconnect(self) -> None:
        """Read nothing more of anybody; what was asked is answered."""
        for connection in tuple(self._connections):
            connection.disconnect()

    async def emptied(self) -> None:
        """Wait until nobody is served any more."""
        while self._connections:
            await self._left.wait()

    def _admit(self, transport: Transport, tasks: anyio.abc.TaskGroup) -> None:
        local = transport.peer.local
        caller = Caller(None if local else self._strangers)
        handler = CallerHandler(self._dispatcher, caller)
        connection = Connection(
            transport, handler, limits=self._limits.connection, clock=self._clock, pace=caller.pace
        )
        caller.attach(connection)
        self._connections[connection] = caller
        present = ExitStack()
        present.enter_context(self._presence.counted())
        if local:  # Whoever comes from afar is recorded when it is known who that is.
            record(
                logger, logging.INFO, "a client connected",
                action="connected", category="audit", peer=transport.peer.label,
            )  # fmt: skip
        tasks.start_soon(self._serve, connection, caller, present)

    async def _serve(self, connection: Connection, caller: Caller, present: ExitStack) -> None:
        with present:
            try:
                await connection.run()
            except Exception:
                # What all connections are served in must not end for a fault of ours in one of them.
                logger.exception("the connection of %s ended by a fault of the daemon", connection.peer.label)
            finally:
                self._connections.pop(connection, None)
                self._left.set()
                self._left = anyio.Event()
                self._at_goodbye(caller)

    def _stranger(self) -> Connection | None:
        """The one that is to give way, if there is any; the oldest come first."""
        strangers = [
            connection
            for connection, caller in self._connections.items()
            if caller.principal is None and not connection.peer.local
        ]
        hosts = Counter(_host(connection) for connection in strangers)
        return max(strangers, key=lambda connection: hosts[_host(connection)], default=None)

    def _tell_of_ceiling(self, peer: Peer) -> None:
        told, self._refusing = self._refusing, True
        words: str | None = "connections are refused: the ceiling is reached"
        if not told and (peer.local or (words := self._strangers.spend(words)) is not None):
            record(
                logger, logging.WARNING, words,
                action="connection_limit", limit=self._limits.max_connections, endpoint=self.endpoint,
            )  # fmt: skip

    def _refuse(self, transport: Transport, tasks: anyio.abc.TaskGroup) -> None:
        if self._notices >= self._limits.refusal_notices:
            transport.close()
            return
        self._notices += 1
        tasks.start_soon(self._tell_refused, transport)

    async def _tell_refused(self, transport: Transport) -> None:
        line = memoryview(error_line(error_object(ConnectionLimit(self._limits.max_connections)), None))
        try:
            with self._clock.move_on_after(self._limits.refusal_seconds):
                while line:
                    line = line[await transport.send(line) :]
            await linger(transport, self._clock, self._limits.connection.linger_seconds)
        except TransportClosed:
            pass  # The refused client did not wait for the reason.
        finally:
            transport.close()
            self._notices -= 1


def _host(connection: Connection) -> str:
    """The address without the port, which is another one each time."""
    return connection.peer.label.rpartition(":")[0]
