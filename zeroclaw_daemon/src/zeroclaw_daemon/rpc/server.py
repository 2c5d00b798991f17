"""The server: the ways in, the methods that may be called there, and an orderly end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.attachments.folder import FolderSteps
from zeroclaw_daemon.authority.principal import Authority
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.access import SessionAccess
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.dispatch import Dispatcher
from zeroclaw_daemon.rpc.gateway import Gateway
from zeroclaw_daemon.rpc.intake import Intake
from zeroclaw_daemon.rpc.limits import ServerLimits
from zeroclaw_daemon.rpc.methods.approving import ApprovalMethods
from zeroclaw_daemon.rpc.methods.config import ConfigMethods
from zeroclaw_daemon.rpc.methods.files import FileMethods
from zeroclaw_daemon.rpc.methods.handshake import Handshake
from zeroclaw_daemon.rpc.methods.session import SessionMethods
from zeroclaw_daemon.rpc.methods.session_reading import SessionReading
from zeroclaw_daemon.rpc.methods.status import Facts, Status
from zeroclaw_daemon.rpc.presence import Presence
from zeroclaw_daemon.rpc.transport.base import Listener
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.idling import IdleSessions
from zeroclaw_daemon.sessions.lifecycle import SessionLifecycle
from zeroclaw_daemon.sessions.live import LiveSessions
from zeroclaw_daemon.sessions.opening import SessionOpener
from zeroclaw_daemon.sessions.reading import SessionReader
from zeroclaw_daemon.sessions.ticket import Cause
from zeroclaw_daemon.sessions.turns import TurnRunner
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_daemon.uploads.binding import Binding
from zeroclaw_daemon.uploads.idling import IdleUploads
from zeroclaw_daemon.uploads.placing import FilePlacer
from zeroclaw_daemon.uploads.staging import Staging, StagingLimits

_NO_FACTS: Final[Mapping[str, JsonValue]] = {}

logger = logging.getLogger(__name__)


class Server:
    """JSON-RPC for everyone who connects to its listeners: the local one, and a further one where there is one.

    :param listener: where clients of this machine connect; held while :meth:`serve` runs.
    :param agents: the agents that sessions may be opened with.
    :param authority: who may do what.
    :param version: the daemon's version, as clients are told it (D-28).
    :param facts: further members of ``status``, by their camelCase names.
    :param config: serves ``config/*``; left out, nobody does.
    :param gateway: where clients of other machines connect (RPC-227).
    :param gateway_limits: the bounds of that.
    :param staging: the bounds of uploads.
    :param folder: the steps of storing a file that was sent.
    :param durable: the stores of sessions, which are closed by whoever made them; left out, sessions live in memory alone.
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
        gateway: Listener | None = None,
        gateway_limits: ServerLimits | None = None,
        staging: StagingLimits | None = None,
        folder: FolderSteps | None = None,
        durable: DurableSessions | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._clock = clock or SystemClock()
        self._accepting = anyio.CancelScope()
        self._began = 0.0
        self.presence = Presence()
        self.sessions = LiveSessions()
        keepers = durable.keepers if durable is not None else None
        opener = SessionOpener(self.sessions, agents, keepers=keepers, clock=self._clock)
        self._turns = TurnRunner(
            self.sessions,
            agents,
            journals=durable.journals if durable is not None else None,
            opener=opener,
            clock=self._clock,
            counted=self.presence.counted,
        )
        handshake = Handshake(authority, version)
        access = SessionAccess(self.sessions, authority)
        status = Status(
            version=version,
            endpoint=listener.endpoint,
            connections=lambda: self.open_connections,
            sessions=access,
            facts=facts,
            gateway=self.gateway_facts,
            uptime=lambda: self._clock.now() - self._began,
        )
        self._idling = IdleSessions(self.sessions, keepers, self._clock) if keepers else None
        lifecycle = SessionLifecycle(self.sessions, keepers)
        sessions = SessionMethods(
            self.sessions, self._turns, agents, access, opener=opener, lifecycle=lifecycle
        )
        reading = None
        if durable is not None:
            reading = SessionReading(SessionReader(self.sessions, durable), access)
        self.staging = Staging[Binding](self._clock.now, staging)
        placer = FilePlacer(self.sessions, authority, agents, steps=folder)
        files = FileMethods(self.sessions, access, placer, self.staging)
        self._dispatcher = Dispatcher(
            {
                **handshake.handlers(),
                **status.handlers(),
                **sessions.handlers(),
                **(reading.handlers() if reading is not None else {}),
                **ApprovalMethods(self.sessions, access).handlers(),
                **(config.handlers() if config is not None else {}),
                **files.handlers(),
            },
            authority,
        )
        handshake.announce(self._dispatcher.methods)
        self._local = self._intake(listener, self._limits)
        self._gateway = Gateway(
            self._intake(gateway, gateway_limits or self._limits) if gateway is not None else None
        )

    @property
    def dispatcher(self) -> Dispatcher:
        """The method table."""
        return self._dispatcher

    @property
    def open_connections(self) -> int:
        """Connections being served, their turns included; refused ones do not count."""
        return sum(intake.open_connections for intake in self._intakes)

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called. Reports ``started`` once clients can connect.

        :raises ZeroclawError: the local listener's place cannot be had. A further one that cannot be had is told of.
        """
        self._began = self._clock.now()
        async with self._local.opened(), self._turns.running(), anyio.create_task_group() as tasks:
            if self._idling is not None:
                tasks.start_soon(self._idling.run)
            tasks.start_soon(IdleUploads(self.staging, self._clock).run)
            async with self._gateway.opened() as gateway:
                task_status.started()
                with self._accepting:
                    async with anyio.create_task_group() as intakes:
                        intakes.start_soon(self._local.accept, tasks)
                        if gateway is not None:
                            intakes.start_soon(self._gateway.accept, gateway, tasks)
            await self._drain()
            tasks.cancel_scope.cancel()

    def gateway_facts(self) -> dict[str, JsonValue]:
        """What ``status`` tells of the further way in."""
        return self._gateway.facts()

    async def deserted(self) -> None:
        """Wait until every client that there was is gone, their turns have ended, and no other came for a moment (RPC-217)."""
        await self.presence.deserted(self._clock)

    def stop(self) -> None:
        """Take no more connections, let the open ones finish what was asked, cancel their turns, end."""
        self._accepting.cancel()

    @property
    def _intakes(self) -> tuple[Intake, ...]:
        remote = self._gateway.intake
        return (self._local,) if remote is None else (self._local, remote)

    def _intake(self, listener: Listener, limits: ServerLimits) -> Intake:
        return Intake(
            listener,
            self._dispatcher,
            limits=limits,
            clock=self._clock,
            presence=self.presence,
            at_goodbye=self._goodbye,
        )

    async def _drain(self) -> None:
        # Before the connections hang up on them: the daemon's end is why these turns end, and not a client's going.
        for session in self.sessions.all():
            for prompt in tuple(session.prompts):
                prompt.cancel(Cause.STOPPING)
        for intake in self._intakes:
            intake.disconnect()
        with self._clock.move_on_after(self._limits.drain_seconds):
            for intake in self._intakes:
                await intake.emptied()

    def _goodbye(self, caller: Caller) -> None:
        """Forget what a client that is gone has begun to send (RPC-187), and record its going, with the sessions that stay
        although it went.
        """
        self.staging.drop(caller)
        if caller.principal is None and not caller.link.peer.local:
            return  # It came and went, and nothing was known of it.
        facts: dict[str, JsonValue] = {}
        if caller.principal is not None:
            facts["principal"] = caller.principal.id
            facts["sessions_retained"] = [
                session.id for session in self.sessions.all() if session.client_id == caller.client_id
            ]
        record(
            logger, logging.INFO, "a client disconnected",
            action="disconnected", category="audit", peer=caller.link.peer.label, **facts,
        )  # fmt: skip
