"""Opening a session: a new one, the live one of that id again, or one that a store has kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.authority.principal import Forbidden, not_owned
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.sessions.asking import Asking, Audience
from zeroclaw_daemon.sessions.errors import SessionMismatch
from zeroclaw_daemon.sessions.keeping import Allows, Keeper, Keepers, KeepsNothing, Seed, only_holder
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_daemon.sessions.store.records import NewSession
from zeroclaw_host.errors import UsageError

MAX_LOOKERS: Final = 4
"""Directories that are looked at once."""

AudienceOf = Callable[[str], Audience]
"""The client that asks, as the audience of the session of this id."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client asks for. ``session_id`` None makes a new one; ``workspace`` None is the agent's own.

    ``owner`` None is whoever may use every session. An owner is held to its own sessions, to ids that are already its own, and
    to its agents' workspaces. ``env`` is what the client may have forwarded of its environment. What somebody brings into the session of
    another owner stays its own: that one keeps its directory and has no environment.
    """

    agent_alias: str
    client_id: str
    mode: ChatMode = ChatMode.CHAT
    session_id: str | None = None
    workspace: str | None = None
    surface: str | None = None
    owner: str | None = None
    keep_siblings: bool = False
    audience: AudienceOf | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose prompt it is, and who takes up again a session that is not live: as in :class:`Opening`.

    :ivar allows: judges the claimer.
    :ivar env: what the commands of this one turn find in their environment (RPC-247).
    """

    allows: Allows
    scope: str | None = None
    client_id: str = ""
    audience: AudienceOf | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that is live now. ``trimmed`` says that the model it begins with has forgotten something of it."""

    session: LiveSession
    trimmed: bool = False


class SessionOpener:
    """Opens sessions among the live ones.

    :param keepers: what has kept sessions, by mode; without them sessions live in memory alone.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        agents: AgentDirectory,
        *,
        keepers: Keepers | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._sessions = sessions
        self._agents = agents
        self._keepers = keepers or {}
        self._clock = clock or SystemClock()
        self._lookers = anyio.CapacityLimiter(MAX_LOOKERS)

    async def open(self, opening: Opening) -> Opened:
        """The session, live. A live one of the same id and mode keeps its conversation and changes hands (RPC-061); one of
        the other mode is replaced once its turns are over. The client's idle siblings go, unless it keeps them.

        :raises AgentNotFound: there is no such agent.
        :raises UsageError: the working directory is none, or the surface is not known.
        :raises Forbidden: the session of this id is not the owner's or there is none, the directory is outside the agent's
            workspace, or the live session has another environment (RPC-062).
        :raises SessionMismatch: the session of this id has another agent or another kind of client.
        :raises SessionKilled: the session of this id was killed.
        :raises SessionLimit: as many sessions are live as may be, or as many of the owner's; none was evicted.
        :raises SessionBusy: the session to replace did not become idle in time.
        :raises StorageError: it cannot be kept.
        """
        agent = await self._agents.agent(opening.agent_alias)
        return await self._opened(opening, agent.workspace)

    async def require_kept(self, session_id: str, scope: str | None) -> None:
        """See that a session that is not live is kept, before anything is said that depends on it.

        :raises SessionNotFound: none is kept. :raises Forbidden: none of the scope's.
        :raises SessionAmbiguous: both modes keep one. :raises StorageError: it cannot be read.
        """
        await only_holder(self._keepers, session_id, scope)

    async def revive(self, session_id: str, claim: Claim) -> LiveSession:
        """Make a session live again that a prompt is for (RPC-146). The caller holds the lock of the live sessions, and none
        of this id is live.

        :raises SessionNotFound: none is kept.
        :raises Forbidden: none of the scope's, or its agent is not allowed; nothing of it was recovered.
        :raises SessionAmbiguous: both modes keep one.
        :raises SessionKilled: it was killed. :raises SurfaceUnsupported: it is for another kind of client.
        :raises SessionLimit: too many are live. :raises StorageError: it cannot be read.
        :raises AgentNotFound: it was kept without a directory, and there is no such agent whose own it could have.
        """
        mode = await only_holder(self._keepers, session_id, claim.scope)
        self._sessions.require_room(session_id, claim.scope)
        seed = await self._keeper(mode).revive(session_id, claim.scope, claim.allows)
        if not seed.workspace:
            workspace = await anyio.to_thread.run_sync(self._agents.workspace, seed.agent_alias)
            seed = replace(seed, workspace=workspace)
        session = self._live(session_id, mode, seed, claim, claim.scope)
        self._sessions.add(session)
        return session

    async def _opened(self, opening: Opening, workspace: str) -> Opened:
        directory = workspace if opening.workspace is None else None
        while True:
            async with self._sessions.lock:
                live = await self._find(opening)
                if live is not None and live.mode is opening.mode:
                    return self._alone(opening, Opened(_rebound(live, opening)))
                if live is None and directory is not None:
                    return self._alone(opening, await self._add(opening, directory))
            if directory is None:
                # It may lie on a file system that does not answer. Meanwhile there may be another session of this id.
                directory = await anyio.to_thread.run_sync(
                    _directory, opening, workspace, limiter=self._lookers
                )
            elif live is not None:
                async with live.permit.held(), self._sessions.lock:
                    # While it waited, somebody else may have put another session in its place, and is not to lose it.
                    if self._sessions.is_live(live):
                        return self._alone(opening, await self._add(opening, directory, own=True))

    def _alone(self, opening: Opening, opened: Opened) -> Opened:
        """The session, without the siblings that it is not to have. The lock has been held since it became live: two that one
        client opens at once would otherwise each drop the other.
        """
        if not opening.keep_siblings:
            self._sessions.evict_siblings(opened.session)
        return opened

    async def _find(self, opening: Opening) -> LiveSession | None:
        """The live session of this id; the lock is held.

        To an owner, one of somebody else is what one that was never made is: that is judged before anything else, so that no other
        refusal tells the one from the other.
        """
        if opening.session_id is None:
            return None
        live = self._sessions.find(opening.session_id)
        if opening.owner is not None:
            if live is not None:
                own = live.owner == opening.owner
            else:
                own = await self._keeper(opening.mode).holds(opening.session_id, opening.owner)
            if not own:
                raise not_owned()
        return live

    async def _add(self, opening: Opening, directory: str, *, own: bool = False) -> Opened:
        """Make the session live that is kept under the id, or a new one; the lock is held.

        :param own: the id is known to be the caller's, because it has the live session of the other mode.
        """
        session_id = opening.session_id if opening.session_id is not None else str(uuid.uuid4())
        self._sessions.require_room(session_id, opening.owner)
        keeper = self._keeper(opening.mode)
        wanted = NewSession(session_id, opening.agent_alias, directory, opening.surface, opening.owner)
        if opening.session_id is None or (own and not await keeper.holds(session_id, None)):
            seed = await keeper.make(wanted)
        else:
            moves = opening.workspace is not None
            seed = await keeper.take_up(wanted, opening.owner, moves=moves)
        if not seed.workspace:
            seed = replace(seed, workspace=directory)
        session = self._live(session_id, opening.mode, seed, opening, opening.owner)
        self._sessions.add(session)
        return Opened(session, seed.trimmed)

    def _live(
        self, session_id: str, mode: ChatMode, seed: Seed, by: Opening | Claim, scope: str | None
    ) -> LiveSession:
        session = LiveSession(
            id=session_id,
            agent_alias=seed.agent_alias,
            mode=mode,
            workspace=seed.workspace,
            permit=TurnPermit(self._clock),
            asking=Asking(self._clock),
            client_id=by.client_id,
            owner=seed.owner,
            surface=seed.surface,
            history=list(seed.history),
            shown=seed.shown,
            plan=seed.plan,
            call_ids=set(seed.call_ids),
            env=by.env if seed.owner == scope else {},
        )
        if by.audience is not None:
            session.audience = by.audience(session_id)
        return session

    def _keeper(self, mode: ChatMode) -> Keeper:
        return self._keepers.get(mode) or KeepsNothing()


def _rebound(live: LiveSession, opening: Opening) -> LiveSession:
    """The live session, in the hands of whoever asks; its owner stays who it is."""
    if live.agent_alias != opening.agent_alias:
        raise SessionMismatch(
            "the live session of this id has another agent", details={"member": "agentAlias"}
        )
    if opening.surface is not None and live.surface is not None and opening.surface != live.surface:
        raise SessionMismatch(
            "the live session of this id belongs to another kind of client",
            details={"member": "interactionSurface"},
        )
    if live.env != opening.env:
        raise Forbidden(
            "the session was made with another environment", details={"rule": "environment_differs"}
        )
    live.client_id = opening.client_id
    if opening.audience is not None:
        live.asking.join(opening.audience(live.id), opening.owner)
    return live


def _directory(opening: Opening, workspace: str) -> str:
    """The directory that was asked for, if the session may work there."""
    path = opening.workspace or ""
    try:
        inside = Path(path).resolve().is_relative_to(Path(workspace).resolve())
        usable = Path(path).is_absolute() and Path(path).is_dir()
    except (OSError, ValueError, RuntimeError):  # no text that can name one, or a loop of links
        inside = usable = False
    if opening.owner is not None and not inside:
        raise Forbidden(
            "the directory is outside the workspace of the agent",
            details={"rule": "path_outside_workspace", "member": "cwd"},
        )
    if not usable:
        raise UsageError(
            "the working directory of a session must be an absolute path of a directory that exists"
        )
    return path
