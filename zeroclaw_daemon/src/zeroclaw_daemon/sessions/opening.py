"""Opening a session: a new one, or the live one of that id again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.authority.principal import Forbidden
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.sessions.asking import Asking
from zeroclaw_daemon.sessions.errors import SessionMismatch
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_host.errors import UsageError

MAX_LOOKERS: Final = 4
"""Directories that are looked at once."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client asks for. ``session_id`` None makes a new one; ``workspace`` None is the agent's own.

    ``owner`` None is whoever may use every session. An owner is held to its own sessions and to its agents' workspaces.
    """

    agent_alias: str
    client_id: str
    mode: ChatMode = ChatMode.CHAT
    session_id: str | None = None
    workspace: str | None = None
    surface: str | None = None
    owner: str | None = None
    keep_siblings: bool = False


class SessionOpener:
    """Opens sessions among the live ones."""

    def __init__(self, sessions: LiveSessions, agents: AgentDirectory, *, clock: Clock | None = None) -> None:
        self._sessions = sessions
        self._agents = agents
        self._clock = clock or SystemClock()
        self._lookers = anyio.CapacityLimiter(MAX_LOOKERS)

    async def open(self, opening: Opening) -> LiveSession:
        """The session, live. A live one of the same id and mode keeps its conversation and changes hands (RPC-061); one of
        the other mode is replaced once its turns are over. The client's idle siblings go, unless it keeps them.

        :raises AgentNotFound: there is no such agent.
        :raises UsageError: the working directory is none.
        :raises Forbidden: the live session of this id is not the owner's, or the directory is outside the agent's workspace.
        :raises SessionMismatch: the live session of this id has another agent.
        :raises SessionLimit: as many sessions are live as may be; none was evicted.
        :raises SessionBusy: the session to replace did not become idle in time.
        """
        agent = await self._agents.agent(opening.agent_alias)
        session = await self._opened(opening, agent.workspace)
        if not opening.keep_siblings:
            self._sessions.evict_siblings(session)
        return session

    async def _opened(self, opening: Opening, workspace: str) -> LiveSession:
        directory = workspace if opening.workspace is None else None
        while True:
            live = self._sessions.find(opening.session_id) if opening.session_id is not None else None
            if live is not None and opening.owner is not None and live.owner != opening.owner:
                raise Forbidden("there is no such session of yours")
            if live is not None and live.mode is opening.mode:
                return self._rebind(live, opening)
            if directory is None:
                # It may lie on a file system that does not answer. Meanwhile there may be another session of this id.
                directory = await anyio.to_thread.run_sync(
                    _directory, opening, workspace, limiter=self._lookers
                )
                continue
            session = self._fresh(opening, directory)
            if live is None:
                self._sessions.add(session)
                return session
            async with live.permit.held():
                # While it waited, somebody else may have put another session in its place, and is not to lose it.
                if self._sessions.is_live(live):
                    self._sessions.add(session)
                    return session

    def _rebind(self, live: LiveSession, opening: Opening) -> LiveSession:
        if live.agent_alias != opening.agent_alias:
            raise SessionMismatch(
                "the live session of this id has another agent", details={"member": "agentAlias"}
            )
        live.client_id = opening.client_id
        return live

    def _fresh(self, opening: Opening, directory: str) -> LiveSession:
        return LiveSession(
            id=opening.session_id if opening.session_id is not None else str(uuid.uuid4()),
            agent_alias=opening.agent_alias,
            mode=opening.mode,
            workspace=directory,
            permit=TurnPermit(self._clock),
            asking=Asking(self._clock),
            client_id=opening.client_id,
            owner=opening.owner,
            surface=opening.surface,
        )


def _directory(opening: Opening, workspace: str) -> str:
    """The directory that was asked for, if the session may work there."""
    path = opening.workspace or ""
    try:
        inside = Path(path).resolve().is_relative_to(Path(workspace).resolve())
        usable = Path(path).is_absolute() and Path(path).is_dir()
    except (OSError, ValueError, RuntimeError):  # no text that can name one, or a loop of links
        inside = usable = False
    if opening.owner is not None and not inside:
        raise Forbidden("the directory is outside the workspace of the agent", details={"member": "cwd"})
    if not usable:
        raise UsageError(
            "the working directory of a session must be an absolute path of a directory that exists"
        )
    return path
