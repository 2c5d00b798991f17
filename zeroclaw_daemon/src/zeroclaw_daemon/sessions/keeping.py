"""What outlives live sessions, by their modes, as openings and endings of sessions ask for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.authority.principal import not_owned
from zeroclaw_daemon.sessions.errors import SessionAmbiguous, SessionMismatch, SessionNotFound
from zeroclaw_daemon.sessions.live import ChatMode
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.base import AnyStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.facade import Sessions
from zeroclaw_daemon.sessions.store.records import NewSession, Restored, SurfaceUnsupported
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import ZeroclawError


@dataclass(frozen=True, slots=True)
class Seed:
    """What a session begins its life in memory with. ``history`` is what the model is given, ``shown`` how many entries a client sees,
    ``call_ids`` the ids of the calls made so far. ``workspace`` is empty where another release kept none. ``trimmed`` says that the model has forgotten something.
    """

    agent_alias: str
    workspace: str
    surface: str | None
    owner: str | None
    history: tuple[Message, ...] = ()
    shown: int = 0
    call_ids: frozenset[str] = frozenset()
    plan: JsonValue = None
    trimmed: bool = False


Allows = Callable[[str | None, str], None]
"""Raises where a caller may not use the session of this owner with this agent."""


class Keeper(Protocol):
    """Keeps the sessions of one mode.

    A ``scope`` is the principal that a caller is held to, None where it may use every session. To a scope a session of somebody
    else and one that is not there are the same: both are ``Forbidden``. Every method raises
    :class:`~zeroclaw_host.errors.StorageError` where the store cannot be used.
    """

    async def make(self, session: NewSession) -> Seed:
        """A new session under an id that was never used."""
        ...

    async def take_up(self, session: NewSession, scope: str | None, *, moves: bool = False) -> Seed:
        """The session of this id if one is kept, and a new one for whoever may choose an id.

        :param moves: the one that is kept works in the directory of this one from now on, if it is the scope's own.
        :raises Forbidden: none of the scope's is kept.
        :raises SessionKilled: it was killed.
        :raises SessionMismatch: the one that is kept has another agent or is for another kind of client.
        """
        ...

    async def revive(self, session_id: str, scope: str | None, allows: Allows) -> Seed:
        """The session of this id, for a prompt that finds it not live (RPC-146).

        :param allows: is asked before anything is recovered.
        :raises SessionNotFound: none is kept. :raises Forbidden: none of the scope's, or it is not allowed.
        :raises SessionKilled: it was killed. :raises SurfaceUnsupported: it is for another kind of client.
        """
        ...

    async def holds(self, session_id: str, scope: str | None) -> bool:
        """Whether a session of this id is kept, a killed one included."""
        ...

    async def kill(self, session_id: str, scope: str | None) -> bool:
        """Let nothing go on in it; False if that was so before.

        :raises SessionNotFound: none is kept. :raises Forbidden: none of the scope's.
        """
        ...

    async def delete(self, session_id: str, scope: str | None) -> None:
        """Forget it.

        :raises SessionNotFound: none is kept. :raises Forbidden: none of the scope's.
        """
        ...


Keepers = Mapping[ChatMode, Keeper]
"""Who keeps the sessions of each mode."""


class KeepsNothing:
    """Sessions that live in memory alone."""

    async def make(self, session: NewSession) -> Seed:
        """Nothing but what was asked for."""
        return _empty(session)

    async def take_up(self, session: NewSession, scope: str | None, *, moves: bool = False) -> Seed:
        """A new one, unless the caller is held to its own."""
        if scope is not None:
            raise not_owned()
        return _empty(session)

    async def revive(self, session_id: str, scope: str | None, allows: Allows) -> Seed:
        """There is none."""
        raise _no_such(scope)

    async def holds(self, session_id: str, scope: str | None) -> bool:
        """No."""
        return False

    async def kill(self, session_id: str, scope: str | None) -> bool:
        """There is none."""
        raise _no_such(scope)

    async def delete(self, session_id: str, scope: str | None) -> None:
        """There is none."""
        raise _no_such(scope)


Store = TypeVar("Store", bound=AnyStore)


class _Keeps(ABC, Generic[Store]):
    """The sessions of one mode, in their store."""

    def __init__(self, kept: Sessions[Store]) -> None:
        self._kept = kept

    async def make(self, session: NewSession) -> Seed:
        """One row."""
        await self._kept.write(lambda store: store.create(session))
        return _empty(session)

    async def take_up(self, session: NewSession, scope: str | None, *, moves: bool = False) -> Seed:
        """Recovers what a turn left."""
        if scope is None and not await self.holds(session.id, None):
            return await self.make(session)
        return await self._seed(await self._resumed(session, scope, session.workspace if moves else None))

    async def revive(self, session_id: str, scope: str | None, allows: Allows) -> Seed:
        """Recovers what a turn left."""
        stored = await self._kept.read(lambda store: store.find(session_id, scope))
        if stored is not None:
            allows(stored.owner, stored.agent_alias)
        return await self._seed(await self._kept.write(lambda store: store.resume(session_id, scope)))

    async def holds(self, session_id: str, scope: str | None) -> bool:
        """Whether there is a row."""
        return await self._kept.read(lambda store: store.find(session_id, scope)) is not None

    async def delete(self, session_id: str, scope: str | None) -> None:
        """The row goes with everything that belongs to it (RPC-155)."""
        await self._kept.write(lambda store: store.delete(session_id, scope))

    @abstractmethod
    async def _resumed(self, session: NewSession, scope: str | None, workspace: str | None) -> Restored:
        """The session of this id, whose agent and kind of client are these, in the directory, if one is given."""

    @abstractmethod
    async def _call_ids(self, session_id: str) -> frozenset[str]:
        """The ids of its tool calls."""

    async def _seed(self, restored: Restored) -> Seed:
        stored = restored.session
        return Seed(
            agent_alias=stored.agent_alias,
            workspace=stored.workspace,
            surface=stored.surface,
            owner=stored.owner,
            history=restored.context,
            shown=stored.message_count,
            call_ids=await self._call_ids(stored.id),
            plan=stored.plan,
            trimmed=stored.trimmed,
        )


class KeepsAcp(_Keeps[AcpStore]):
    """The sessions of the mode ``acp``. A surface claims a row that has none when it opens the session, not by a prompt."""

    async def kill(self, session_id: str, scope: str | None) -> bool:
        """The row is marked, and keeps everything (RPC-153)."""
        return await self._kept.write(lambda store: store.kill(session_id, scope))

    async def _resumed(self, session: NewSession, scope: str | None, workspace: str | None) -> Restored:
        alias, surface = session.agent_alias, session.surface
        try:
            return await self._kept.write(
                lambda store: store.resume(
                    session.id, scope, agent_alias=alias, workspace=workspace, surface=surface
                )
            )
        except SurfaceUnsupported as error:
            raise SessionMismatch(error.message, details={"member": "interactionSurface"}) from error

    async def _call_ids(self, session_id: str) -> frozenset[str]:
        receipts = await self._kept.read(lambda store: store.receipts(session_id))
        return frozenset(receipt.call_id for receipt in receipts)


class KeepsChats(_Keeps[ChatStore]):
    """The sessions of the mode ``chat``."""

    async def kill(self, session_id: str, scope: str | None) -> bool:
        """A chat that is not live cannot be killed: nothing of it would be there to say so."""
        raise SessionNotFound

    async def _resumed(self, session: NewSession, scope: str | None, workspace: str | None) -> Restored:
        alias = session.agent_alias
        return await self._kept.write(
            lambda store: store.resume(session.id, scope, agent_alias=alias, workspace=workspace)
        )

    async def _call_ids(self, session_id: str) -> frozenset[str]:
        return await self._kept.read(lambda store: store.call_ids(session_id))


def _empty(session: NewSession) -> Seed:
    return Seed(session.agent_alias, session.workspace, session.surface, session.owner)


def _no_such(scope: str | None) -> ZeroclawError:
    """What is said of a session that is not there."""
    return SessionNotFound() if scope is None else not_owned()


async def only_holder(keepers: Keepers, session_id: str, scope: str | None) -> ChatMode:
    """The one mode that keeps a session of this id.

    :raises SessionNotFound: none does. :raises Forbidden: none keeps one of the scope's.
    :raises SessionAmbiguous: both do (RPC-255).
    """
    match [mode for mode, keeper in keepers.items() if await keeper.holds(session_id, scope)]:
        case []:
            raise _no_such(scope)
        case [mode]:
            return mode
        case _:
            raise SessionAmbiguous
