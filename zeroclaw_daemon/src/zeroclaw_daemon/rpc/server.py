"""The server: connections of one listener, the methods they may call, and an orderly end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.authority.principal import Authority
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.access import SessionAccess
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.connection import Connection
from zeroclaw_daemon.rpc.dispatch import CallerHandler, Dispatcher
from zeroclaw_daemon.rpc.envelope import error_line
from zeroclaw_daemon.rpc.errors import ConnectionLimit, error_object
from zeroclaw_daemon.rpc.limits import ServerLimits
from zeroclaw_daemon.rpc.methods.config import ConfigMethods
from zeroclaw_daemon.rpc.methods.handshake import Handshake
from zeroclaw_daemon.rpc.methods.session import SessionMethods
from zeroclaw_daemon.rpc.methods.status import Facts, Status
from zeroclaw_daemon.rpc.transport.base import AcceptFailed, Listener, Transport, TransportClosed, linger
from zeroclaw_daemon.sessions.live import LiveSessions
from zeroclaw_daemon.sessions.turns import TurnRunner
from zeroclaw_daemon.strict_json import JsonValue

_NO_FACTS: Final[Mapping[str, JsonValue]] = {}

logger = logging.getLogger(__name__)


class Server:
    """JSON-RPC for everyone who connects to one listener.

    :param listener: where clients connect; held while :meth:`serve` runs.
    :param agents: the agents that sessions may be opened with.
    :param authority: who may do what.
    :param version: the daemon's version, as clients are told it (D-28).
    :param facts: further members of ``status``, by their camelCase names.
    :param config: serves ``config/*``; left out, nobody does.
    """

    def __init__(
        self,
        listener: Listener,
        *,
        agents: AgentDirectory,
        authority: Authority,
        version: str,
        facts: Facts = lambda: _NO_FACTS,
        config: ConfigMethods | None = None,
        limits: ServerLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._listener = listener
        self._limits = limits or ServerLimits()
        self._clock = clock or SystemClock()
        self._connections: set[Connection] = set()
        self._refusing = False
        self._notices = 0
        self._accepting = anyio.CancelScope()
        self._left = anyio.Event()
        self.sessions = LiveSessions()
        self._turns = TurnRunner(self.sessions, agents, clock=self._clock)
        handshake = Handshake(authority, version)
        access = SessionAccess(self.sessions, authority)
        status = Status(
            version=version,
            endpoint=listener.endpoint,
            connections=lambda: self.open_connections,
            sessions=access,
            facts=facts,
        )
        sessions = SessionMethods(self.sessions, self._turns, agents, access, clock=self._clock)
        self._dispatcher = Dispatcher(
            {
                **handshake.handlers(),
                **status.handlers(),
                **sessions.handlers(),
                **(config.handlers() if config is not None else {}),
            },
            authority,
        )
        handshake.announce(self._dispatcher.methods)

    @property
    def dispatcher(self) -> Dispatcher:
        """The method table."""
        return self._dispatcher

    @property
    def open_connections(self) -> int:
        """Connections being served, their turns included; refused ones do not count."""
        return len(self._connections)

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called. Reports ``started`` once clients can connect.

        :raises ZeroclawError: the listener's place cannot be had.
        """
        async with self._listener.opened(), self._turns.running(), anyio.create_task_group() as tasks:
            record(logger, logging.INFO, "listening", action="listening", endpoint=self._listener.endpoint)
            task_status.started()
            with self._accepting:
                await self._accept(tasks)
            await self._drain()
            tasks.cancel_scope.cancel()

    def stop(self) -> None:
        """Take no more connections, let the open ones finish what was asked, cancel their turns, end."""
        self._accepting.cancel()

    async def _accept(self, tasks: anyio.abc.TaskGroup) -> None:
        failing = False
        while True:
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
                tasks.start_soon(self._serve_connection, self._admit(transport))
            else:
                self._refuse(transport, tasks)

    def _admit(self, transport: Transport) -> Connection:
        caller = Caller()
        handler = CallerHandler(self._dispatcher, caller)
        connection = Connection(transport, handler, limits=self._limits.connection, clock=self._clock)
        caller.attach(connection)
        self._connections.add(connection)
        record(
            logger,
            logging.INFO,
            "a client connected",
            action="connected",
            category="audit",
            peer=transport.peer.label,
        )
        return connection

    async def _serve_connection(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._left.set()
            self._left = anyio.Event()

    def _refuse(self, transport: Transport, tasks: anyio.abc.TaskGroup) -> None:
        if not self._refusing:
            self._refusing = True
            record(
                logger, logging.WARNING, "connections are refused: the ceiling is reached",
                action="connection_limit", limit=self._limits.max_connections,
            )  # fmt: skip
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

    async def _drain(self) -> None:
        for connection in tuple(self._connections):
            connection.disconnect()
        with self._clock.move_on_after(self._limits.drain_seconds):
            while self._connections:
                await self._left.wait()
