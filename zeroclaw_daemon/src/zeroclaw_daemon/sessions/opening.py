"""Opening a session: a new one, or the live one of that id again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.sessions.errors import SessionMismatch
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_host.errors import UsageError


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client asks for. ``session_id`` None makes a new one; ``workspace`` None is the agent's own."""

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

    async def open(self, opening: Opening) -> LiveSession:
        """The session, live. A live one of the same id and mode keeps its conversation and changes hands (RPC-061); one of
        the other mode is replaced once its turns are over. The client's idle siblings go, unless it keeps them.

        :raises AgentNotFound: there is no such agent.
        :raises SessionMismatch: the live session of this id has another agent.
        :raises SessionLimit: as many sessions are live as may be; none was evicted.
        :raises SessionBusy: the session to replace did not become idle in time.
        """
        agent = await self._agents.agent(opening.agent_alias)
        live = self._sessions.find(opening.session_id) if opening.session_id is not None else None
        if live is not None and live.mode is opening.mode:
            session = self._rebind(live, opening)
        else:
            session = self._fresh(opening, agent.workspace)
            if live is None:
                self._sessions.add(session)
            else:
                async with live.permit.held():
                    self._sessions.add(session)
        if not opening.keep_siblings:
            self._sessions.evict_siblings(session)
        return session

    def _rebind(self, live: LiveSession, opening: Opening) -> LiveSession:
        if live.agent_alias != opening.agent_alias:
            raise SessionMismatch(
                "the live session of this id has another agent", details={"member": "agentAlias"}
            )
        live.client_id = opening.client_id
        return live

    def _fresh(self, opening: Opening, workspace: str) -> LiveSession:
        return LiveSession(
            id=opening.session_id if opening.session_id is not None else str(uuid.uuid4()),
            agent_alias=opening.agent_alias,
            mode=opening.mode,
            workspace=_directory(opening.workspace) if opening.workspace is not None else workspace,
            permit=TurnPermit(self._clock),
            client_id=opening.client_id,
            owner=opening.owner,
            surface=opening.surface,
        )


def _directory(path: str) -> str:
    if not Path(path).is_absolute() or not Path(path).is_dir():
        raise UsageError(
            "the working directory of a session must be an absolute path of a directory that exists"
        )
    return path
