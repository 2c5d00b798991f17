"""From a method's name to its handler: lookup, handshake gate, place, authority, parameters, call — in this order.

The lookup comes before the gate and the gate before the parameters, so that an unknown method is unknown to everybody and
a refusal says nothing about what would have been valid (RPC-040, RPC-235). A row that judges its calls itself is the one
exception: what it finds in another order is authority's all the same (RPC-206).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from zeroclaw_daemon.authority.principal import AuthenticationFailed, Authority, Forbidden, Principal
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.envelope import Request
from zeroclaw_daemon.rpc.errors import InitializeRequired, UnknownMethod
from zeroclaw_daemon.rpc.methods.table import TABLE, Signature
from zeroclaw_daemon.strict_json import Encoded
from zeroclaw_host.errors import ZeroclawError

logger = logging.getLogger(__name__)


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

    async def call(self, caller: Caller, request: Request) -> Encoded | None:
        """The result of one call, as it is written; None for nobody.

        :raises ZeroclawError: the call failed, for any reason that has a code word.
        """
        method = self._served.get(request.method)
        if method is None:
            raise UnknownMethod
        try:
            return await self._call(method, caller, request)
        except (AuthenticationFailed, Forbidden) as error:
            _audit(method, caller, error)
            raise

    async def _call(self, method: Signature, caller: Caller, request: Request) -> Encoded | None:
        if method.opens:
            if not request.wants_reply:
                return None  # A handshake that nobody waits for opens nothing (RPC-235).
        elif caller.principal is None:
            raise InitializeRequired
        else:
            _check_place(method, caller)
            if not method.judges:
                self._require_grant(method, caller.principal)
        try:
            params = method.params.parse(request.params) if method.params is not None else None
        except ZeroclawError:
            if method.judges and caller.principal is not None:
                self._require_grant(method, caller.principal)
            raise
        result = await self._handlers[method.name](caller, params)
        return result.encoded()

    def _require_grant(self, method: Signature, principal: Principal) -> None:
        if method.grant is not None:
            self._authority.require(principal, method.grant)


def _check_place(method: Signature, caller: Caller) -> None:
    if method.local and not caller.link.peer.local:
        raise Forbidden(f"{method.name} is served to local clients only", details={"rule": "local_only"})


def _audit(method: Signature, caller: Caller, error: ZeroclawError) -> None:
    """Record a refusal: who wanted what, and the rule. Nothing that the caller sent, paths included."""
    if (words := caller.refusals.spend("a call was refused")) is None:
        return
    facts = {name: error.details[name] for name in ("rule", "grant") if name in error.details}
    if caller.principal is not None:
        facts |= {"principal": caller.principal.id, "provider": caller.principal.provider}
    record(
        logger, logging.WARNING, words,
        action="denied", category="audit", outcome="failure",
        peer=caller.link.peer.label, method=method.name, reason=error.code, **facts,
    )  # fmt: skip


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

    async def handle(self, request: Request) -> Encoded | None:
        """See :meth:`Dispatcher.call`."""
        return await self._dispatcher.call(self._caller, request)
