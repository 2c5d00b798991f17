"""From a method's name to its handler: lookup, handshake gate, authority, parameters, call — in this order.

The lookup comes before the gate and the gate before the parameters, so that an unknown method is unknown to everybody and
a refusal says nothing about what would have been valid (RPC-040, RPC-235).
"""

from __future__ import annotations

from collections.abc import Mapping

from zeroclaw_daemon.authority.principal import Authority
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.envelope import Request
from zeroclaw_daemon.rpc.errors import InitializeRequired, UnknownMethod
from zeroclaw_daemon.rpc.methods.table import TABLE, Signature
from zeroclaw_daemon.strict_json import JsonValue


class Dispatcher:
    """The rows of the method table that a server serves.

    :param handlers: by the names of their methods.
    :raises KeyError: the table has no such method.
    """

    def __init__(self, handlers: Mapping[str, Handler], authority: Authority) -> None:
        self._handlers = dict(handlers)
        self._authority = authority
        self._served = {name: TABLE[name] for name in self._handlers}

    @property
    def methods(self) -> Mapping[str, Signature]:
        """Every method that is served, by its name."""
        return self._served

    def runs_beside(self, name: str) -> bool:
        """Whether calls of this method run beside the others of their connection."""
        method = self._served.get(name)
        return method is not None and method.beside

    async def call(self, caller: Caller, request: Request) -> JsonValue:
        """The result of one call, as JSON.

        :raises ZeroclawError: the call failed, for any reason that has a code word.
        """
        method = self._served.get(request.method)
        if method is None:
            raise UnknownMethod
        if method.opens:
            if not request.wants_reply:
                return None  # A handshake that nobody waits for opens nothing (RPC-235).
        elif caller.principal is None:
            raise InitializeRequired
        elif method.grant is not None:
            self._authority.require(caller.principal, method.grant)
        params = method.params.parse(request.params) if method.params is not None else None
        result = await self._handlers[method.name](caller, params)
        return result.to_json()


class CallerHandler:
    """The dispatcher as one connection sees it."""

    def __init__(self, dispatcher: Dispatcher, caller: Caller) -> None:
        self._dispatcher = dispatcher
        self._caller = caller

    def observe(self, notification: Request) -> bool:
        """Notifications of clients are calls like any other."""
        return False

    def runs_beside(self, method: str) -> bool:
        """See :meth:`Dispatcher.runs_beside`."""
        return self._dispatcher.runs_beside(method)

    async def handle(self, request: Request) -> JsonValue:
        """See :meth:`Dispatcher.call`."""
        return await self._dispatcher.call(self._caller, request)
