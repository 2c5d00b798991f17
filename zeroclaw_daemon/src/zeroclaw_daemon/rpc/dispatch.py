"""From a method's name to its handler: lookup, handshake gate, authority, parameters, call — in this order.

The lookup comes before the gate and the gate before the parameters, so that an unknown method is unknown to everybody and
a refusal says nothing about what would have been valid (RPC-040, RPC-235).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zeroclaw_daemon.authority.principal import Authority, Grant
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.envelope import Request
from zeroclaw_daemon.rpc.errors import InitializeRequired, UnknownMethod
from zeroclaw_daemon.rpc.models import Params, Result
from zeroclaw_daemon.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the method table.

    ``handler`` takes the caller and the parsed parameters (None where ``params`` is None). ``grant`` is what the caller
    needs. ``opens`` marks the method that is served before the handshake, because it is the handshake; ``beside`` one
    that runs beside the other calls of its connection.
    """

    name: str
    handler: Callable[[Caller, Any], Awaitable[Result]]
    params: type[Params] | None
    result: type[Result]
    grant: Grant | None = None
    opens: bool = False
    beside: bool = False


class Dispatcher:
    """The method table of a server.

    :raises ValueError: two methods have one name.
    """

    def __init__(self, methods: Iterable[Method], authority: Authority) -> None:
        self._methods: dict[str, Method] = {}
        self._authority = authority
        for method in methods:
            if method.name in self._methods:
                raise ValueError(f"two methods are named {method.name}")
            self._methods[method.name] = method

    @property
    def methods(self) -> Mapping[str, Method]:
        """Every method by its name."""
        return self._methods

    def runs_beside(self, name: str) -> bool:
        """Whether calls of this method run beside the others of their connection."""
        method = self._methods.get(name)
        return method is not None and method.beside

    async def call(self, caller: Caller, request: Request) -> JsonValue:
        """The result of one call, as JSON.

        :raises ZeroclawError: the call failed, for any reason that has a code word.
        """
        method = self._methods.get(request.method)
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
        result = await method.handler(caller, params)
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
