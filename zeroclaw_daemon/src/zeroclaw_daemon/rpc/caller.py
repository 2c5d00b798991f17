"""One connected client, as methods see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

from zeroclaw_daemon.authority.principal import Principal
from zeroclaw_daemon.records import Pace, Ration
from zeroclaw_daemon.rpc.models import Result
from zeroclaw_daemon.rpc.transport.base import Peer
from zeroclaw_daemon.strict_json import JsonValue

MAX_REFUSALS_RECORDED: Final = 100
"""Of one connection."""

MAX_BINDINGS_RECORDED: Final = 100
"""Of one connection, which may change whom it acts for as often as it likes."""


class Link(Protocol):
    """What a method may do with the connection of its caller."""

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        ...

    @property
    def hung_up(self) -> bool:
        """Whether the other end is gone."""
        ...

    def mark_ready(self) -> None:
        """The handshake succeeded."""
        ...

    def at_hang_up(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Hear of the caller's hanging up while a block runs."""
        ...

    async def notify(self, method: str, params: JsonValue) -> None:
        """Send a notification."""
        ...

    async def request(self, method: str, params: JsonValue) -> JsonValue:
        """Ask the caller and wait for its answer."""
        ...


class Caller:
    """A client and what its handshake established. Before the handshake ``principal`` is None and the gate is closed.

    ``client_id`` tells clients apart, nothing more: sessions of one client are siblings (RPC-063). ``takes_questions`` says
    whether it takes forms, as it declared. ``env`` is what it forwarded of its environment. ``refusals`` and ``bindings`` bound
    the records of calls that were refused for want of a right, and of whom it acts for.

    :param strangers: what the records of a client count against that has not introduced itself, if it is one of many.
    """

    def __init__(self, strangers: Pace | None = None) -> None:
        self.principal: Principal | None = None
        self.client_id: str = ""
        self.takes_questions = True
        self.env: Mapping[str, str] = {}
        self._strangers = strangers
        self.refusals = Ration(MAX_REFUSALS_RECORDED, self.pace)
        self.bindings = Ration(MAX_BINDINGS_RECORDED)
        self._link: Link | None = None

    def pace(self) -> Pace | None:
        """What its records count against, until it has introduced itself."""
        return self._strangers if self.principal is None else None

    def attach(self, link: Link) -> None:
        """Name the connection; once, before anything is served."""
        self._link = link

    @property
    def link(self) -> Link:
        """The connection."""
        if self._link is None:
            raise RuntimeError("a caller was used before its connection")
        return self._link

    def bind(
        self, principal: Principal, client_id: str, *, takes_questions: bool, env: Mapping[str, str]
    ) -> None:
        """Open the gate for this principal. A later handshake replaces an earlier one as a whole (RPC-046)."""
        self.principal = principal
        self.client_id = client_id
        self.takes_questions = takes_questions
        self.env = env
        self.link.mark_ready()


Handler: TypeAlias = Callable[[Caller, Any], Awaitable[Result]]
"""Does what one method is for. Takes the caller and the parsed parameters, None where the method has none."""
