"""The sessions that are in memory now. What outlives them is the business of a store (see :mod:`.journal`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import anyio

from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.agent.providers.base import NO_CHOICE, ModelChoice
from zeroclaw_daemon.attachments.index import AttachmentIndex
from zeroclaw_daemon.sessions.asking import Asking, Audience
from zeroclaw_daemon.sessions.errors import SessionLimit, SessionNotFound
from zeroclaw_daemon.sessions.permit import TurnPermit
from zeroclaw_daemon.sessions.ticket import Ticket
from zeroclaw_daemon.strict_json import JsonValue

MAX_LIVE: Final = 64
"""Sessions that are live at once (RPC-246)."""

MAX_OWNED: Final = 16
"""Those of them that one principal brings about that is held to its own: a quarter, so that it takes nobody else's room. Whoever sees
every session may close every session, and is bounded by the whole alone.
"""


class ChatMode(StrEnum):
    """Which family of sessions one belongs to; the two share no ids and no store."""

    CHAT = "chat"
    ACP = "acp"


@dataclass(slots=True, eq=False, weakref_slot=True)
class LiveSession:
    """One conversation. The object is its generation: a session that is closed and opened again under the same id is
    another object.

    ``client_id`` is the client it answers to, ``owner`` the principal that made it, None where that is the shared
    operator. ``prompts`` are those that run or wait, in the order they came; ``running`` is the one whose turn it is, from
    its begin on. ``closing`` is how many are about to end it: meanwhile it takes no turns. ``choice`` is what the next turn
    talks to instead of what the agent is configured with. ``asking`` is how its agent asks the client that it is bound to.
    ``attachments`` are the files that it was sent. ``env`` is the environment that it was made with: whoever joins has to have the
    same (RPC-062); its turns have that of whoever asks for them.

    ``history`` is what the model is given, ``shown`` how many entries a client sees, which is another number once the model has
    forgotten something. ``call_ids`` are the ids of all its tool calls, ``turns`` is how many it has begun. ``lost`` says that
    it is live no more because the store knows more of it: it is to be taken up again from there.
    """

    id: str
    agent_alias: str
    mode: ChatMode
    workspace: str
    permit: TurnPermit
    client_id: str = ""
    owner: str | None = None
    surface: str | None = None
    history: list[Message] = field(default_factory=list[Message])
    prompts: list[Ticket] = field(default_factory=list[Ticket])
    running: Ticket | None = None
    closing: int = 0
    choice: ModelChoice = NO_CHOICE
    asking: Asking = field(default_factory=Asking)
    attachments: AttachmentIndex = field(default_factory=AttachmentIndex)
    shown: int = 0
    plan: JsonValue = None
    call_ids: set[str] = field(default_factory=set[str])
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    turns: int = 0
    lost: bool = False

    @property
    def audience(self) -> Audience | None:
        """The client that is asked when something is to be asked, None once it is gone. Set it to bind the session to another."""
        return self.asking.audience

    @audience.setter
    def audience(self, audience: Audience | None) -> None:
        self.asking.audience = audience

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        return bool(self.prompts) or self.permit.pending > 0


class LiveSessions:
    """The live sessions by id, oldest first.

    ``lock`` guards which session is live under an id, and whose it is: whoever adds, removes, replaces or re-owns one holds it,
    and whoever needs that to stay as it is for more than one step (D-44). It is held for moments: nobody waits for a turn while
    holding it, and a turn permit is taken before it, never after.

    :param limit: how many there may be.
    :param owned: how many of them one principal may bring about that is held to its own.
    """

    def __init__(self, limit: int = MAX_LIVE, owned: int = MAX_OWNED) -> None:
        self.lock = anyio.Lock()
        self._limit = limit
        self._owned = owned
        self._sessions: dict[str, LiveSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def ids(self) -> list[str]:
        """Their ids, oldest first."""
        return list(self._sessions)

    def all(self) -> tuple[LiveSession, ...]:
        """The sessions, oldest first."""
        return tuple(self._sessions.values())

    def find(self, session_id: str) -> LiveSession | None:
        """The live session of this id, or None."""
        return self._sessions.get(session_id)

    def get(self, session_id: str) -> LiveSession:
        """The live session of this id.

        :raises SessionNotFound: there is none.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound
        return session

    def is_live(self, session: LiveSession) -> bool:
        """Whether this very session, and not another of its id, is live."""
        return self._sessions.get(session.id) is session

    def require_room(self, session_id: str, scope: str | None = None) -> None:
        """See that a session of this id can be made live.

        :param scope: the principal that brings it about and is held to its own; None for whoever sees every session.
        :raises SessionLimit: there are too many, or too many of the scope's.
        """
        if session_id in self._sessions:
            return
        if scope is not None and sum(each.owner == scope for each in self._sessions.values()) >= self._owned:
            raise SessionLimit(self._owned, own=True)
        if len(self._sessions) >= self._limit:
            raise SessionLimit(self._limit)

    def add(self, session: LiveSession) -> None:
        """Make a session live, in place of another of the same id.

        :raises SessionLimit: there are too many; nothing changed.
        """
        self.require_room(session.id)
        self._sessions[session.id] = session

    def remove(self, session: LiveSession) -> None:
        """Make this very session no longer live; one that is not does nothing."""
        if self.is_live(session):
            del self._sessions[session.id]

    def evict_siblings(self, of: LiveSession) -> list[str]:
        """Drop the idle sessions of the same client, owner and mode; their ids (RPC-063). A client says itself who it is, so
        the owner has to be the same as well.
        """
        siblings = [
            session
            for session in self._sessions.values()
            if session is not of
            and session.client_id == of.client_id
            and session.owner == of.owner
            and session.mode is of.mode
            and not session.busy
        ]
        for session in siblings:
            self.remove(session)
        return [session.id for session in siblings]
