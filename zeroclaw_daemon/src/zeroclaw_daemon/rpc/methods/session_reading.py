"""``session/messages``, ``session/list`` and ``session/list-acp``: what was kept of sessions, live or not (RPC-244)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import Field, StringConstraints, model_validator

from zeroclaw_daemon.rpc.access import SessionAccess
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.errors import InvalidParams
from zeroclaw_daemon.rpc.methods.session import SessionParams
from zeroclaw_daemon.rpc.models import Params, Result
from zeroclaw_daemon.rpc.updates import fitting
from zeroclaw_daemon.sessions.live import ChatMode
from zeroclaw_daemon.sessions.reading import SessionReader
from zeroclaw_daemon.sessions.store.acp import MAX_LISTED as MAX_LISTED_ACP
from zeroclaw_daemon.sessions.store.chat import MAX_LISTED, PREFIX
from zeroclaw_daemon.sessions.store.entries import MAX_PAGE, Entry, EntryKind, Place
from zeroclaw_daemon.sessions.store.records import StoredSession
from zeroclaw_daemon.sessions.store.rows import stamp
from zeroclaw_daemon.sessions.store.searching import MAX_QUERY_CHARACTERS
from zeroclaw_daemon.strict_json import JsonValue

DEFAULT_PAGE: Final = 100
"""Entries of a page, and sessions of a list, where the caller does not say."""

MAX_LIST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one list of sessions, half of what a line of the protocol may have."""

_CURSOR: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,8})", re.ASCII)
_LAST_ROW: Final = 2**63 - 1


class MessagesParams(SessionParams):
    """Which entries of which session. With ``cursor``, also a null one, pages are named by cursors; without, by numbers.

    ``chat_mode`` says which session is meant where two of different modes have the id.
    """

    chat_mode: Annotated[ChatMode | None, Field(strict=False)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="How many entries at most.")] = DEFAULT_PAGE
    before_index: Annotated[
        int | None,
        Field(ge=0, le=_LAST_ROW, description="The page that ends before the entry of this number."),
    ] = None
    cursor: Annotated[
        str | None,
        StringConstraints(max_length=64),
        Field(description="The page of this `nextCursor`; null is the newest one."),
    ] = None

    @property
    def by_cursor(self) -> bool:
        """Whether the caller reads by cursors."""
        return "cursor" in self.model_fields_set

    @model_validator(mode="after")
    def _one_way_of_paging(self) -> MessagesParams:
        if self.by_cursor and self.before_index is not None:
            raise ValueError("cursor and beforeIndex exclude each other")
        return self


class MessageEntry(Result):
    """One thing that was said or done in a session. ``tool_input`` is of a call alone, ``tool_output`` of a result alone."""

    role: str
    content: str
    kind: EntryKind
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_input: JsonValue = None
    tool_output: str | None = None
    created_at: str


class MessagesResult(Result):
    """Entries that follow each other, the oldest first. By numbers: how many there are in ``total``, and the number of the first
    one. By cursors: whether there are older ones, and then the cursor of their page.
    """

    session_id: str
    messages: list[MessageEntry]
    total: int | None = None
    start: int | None = None
    has_older: bool | None = None
    next_cursor: str | None = None


class ListParams(Params):
    """Which chats: those in which one message has every word of the query, the latest activity first."""

    query: Annotated[
        str | None,
        StringConstraints(max_length=MAX_QUERY_CHARACTERS),
        Field(description="Words; the last may be only begun."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="How many at most.")] = DEFAULT_PAGE


class ListedSession(Result):
    """A session that was kept."""

    session_id: str
    session_key: str
    created_at: str
    last_activity: str
    message_count: int
    agent_alias: str | None = None
    channel_id: str | None = None
    name: str | None = None


class ListResult(Result):
    """Sessions, the latest activity first."""

    sessions: list[ListedSession]


class SessionReading:
    """The methods that read what was kept."""

    def __init__(self, reader: SessionReader, access: SessionAccess) -> None:
        self._reader = reader
        self._access = access

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves them."""
        return {
            "session/messages": self.messages,
            "session/list": self.list_chats,
            "session/list-acp": self.list_acp,
        }

    async def messages(self, caller: Caller, params: MessagesParams) -> MessagesResult:
        """A page of a session's transcript. What a broken-off turn left is brought into it first, unless the session is live."""
        scope = self._access.owner(caller)
        if params.by_cursor:
            before = None if params.cursor is None else _place_of(params.cursor)
            page = await self._reader.page(
                params.session_id, scope, mode=params.chat_mode, limit=params.limit, before=before
            )
            return MessagesResult(
                session_id=params.session_id,
                messages=[_entry(entry) for entry in page.entries],
                has_older=page.older is not None,
                next_cursor=None if page.older is None else f"{page.older.row}.{page.older.entry}",
            )
        window = await self._reader.window(
            params.session_id, scope, mode=params.chat_mode, limit=params.limit, before=params.before_index
        )
        return MessagesResult(
            session_id=params.session_id,
            messages=[_entry(entry) for entry in window.entries],
            total=window.total,
            start=window.start,
        )

    async def list_chats(self, caller: Caller, params: ListParams) -> ListResult:
        """The caller's chats."""
        found = await self._reader.chats(
            self._access.owner(caller), query=params.query or "", limit=params.limit
        )
        return _listed(found, PREFIX)

    async def list_acp(self, caller: Caller, params: None) -> ListResult:
        """The caller's ``acp`` sessions that were not killed."""
        found = await self._reader.acps(self._access.owner(caller), limit=MAX_LISTED_ACP)
        return _listed(found, "")


def _place_of(cursor: str) -> Place:
    """:raises InvalidParams: no page ever named it."""
    named = _CURSOR.fullmatch(cursor)
    if named is None or int(named[1]) > _LAST_ROW:
        raise InvalidParams("the cursor is none that a page named", details={"member": "cursor"})
    return Place(int(named[1]), int(named[2]))


def _entry(entry: Entry) -> MessageEntry:
    return MessageEntry(
        role=entry.role,
        content=fitting(entry.content),
        kind=entry.kind,
        tool_call_id=entry.tool_call_id,
        tool_name=entry.tool_name,
        tool_input=fitting(entry.tool_input),
        tool_output=entry.tool_output,
        created_at=entry.created_at,
    )


def _listed(found: Iterable[StoredSession], prefix: str) -> ListResult:
    """So many of the sessions as fit, for a line of the protocol is bounded and their names are long if their makers like."""
    sessions: list[ListedSession] = []
    size = 0
    for session in found:
        listed = ListedSession(
            session_id=session.id,
            session_key=prefix + session.id,
            created_at=stamp(session.created),
            last_activity=stamp(session.last_activity),
            message_count=session.message_count,
            agent_alias=session.agent_alias or None,
        )
        size += len(listed.encoded())
        if size > MAX_LIST_BYTES:
            break
        sessions.append(listed)
    return ListResult(sessions=sessions)
