"""The real host of a built component, reached through the modules that componentize-py generates.

Every call of an import is made by way of :mod:`zeroclaw_sdk.guest.imported`, which says why.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, Final, cast

from zeroclaw_sdk.guest.host import ConfigError, LogEvent, SecretError, StateEntry, StateError
from zeroclaw_sdk.guest.imported import case_of, encodable, interface, with_headroom, word_of
from zeroclaw_sdk.guest.messages import InboundMessage
from zeroclaw_sdk.guest.network import Exchange, HttpRequest, NetworkFault, SocketPeer, WebSocketPeer
from zeroclaw_sdk.guest.wit_http import WitHttp
from zeroclaw_sdk.guest.wit_streams import WitSockets, WitWebSockets

U64_MAX: Final = 2**64 - 1
"""The largest number of the contract."""


class WitHost:
    """:class:`zeroclaw_sdk.guest.host.Host` over the interfaces of the contract that the component imports.

    What it does not import answers as a host does that has nothing to offer: ``unavailable``, no message.
    """

    def __init__(self) -> None:
        # Generated for the component that is being built; there is nothing to import anywhere else.
        self._types: Any = import_module("componentize_py_types")
        self._logging: Any = import_module("wit_world.imports.logging")
        self._secrets = interface("secrets")
        self._config = interface("config")
        self._inbound = interface("inbound")
        self._state = interface("state")
        self.network = WitNetwork()

    def log(self, event: LogEvent) -> None:
        """Queue the record in the host's log."""
        wit = self._logging
        outcome = None if event.outcome is None else wit.PluginOutcome[case_of(event.outcome)]
        record = wit.PluginEvent(
            function_name=encodable(event.function),
            action=wit.PluginAction[case_of(event.action)],
            outcome=outcome,
            duration_ms=None if event.duration_ms is None else min(event.duration_ms, U64_MAX),
            attrs=event.attrs,
            message=encodable(event.message),
        )
        level = wit.LogLevel[case_of(event.level)]
        with_headroom(wit.log_record, level, record)

    def secret(self, name: str) -> str:
        """Ask the host for one secret.

        :raises SecretError: with the contract's word for why not.
        """
        if self._secrets is None:
            raise SecretError(name, "unavailable")
        try:
            value: str = with_headroom(self._secrets.get, encodable(name))
        except self._types.Err as error:
            raise SecretError(name, word_of(error)) from None
        return value

    def config(self) -> str:
        """Ask the host for the public configuration.

        :raises ConfigError: with the contract's word for why not.
        """
        if self._config is None:
            raise ConfigError("unavailable")
        try:
            text: str = with_headroom(self._config.get)
        except self._types.Err as error:
            raise ConfigError(word_of(error)) from None
        return text

    def inbound_poll(self) -> InboundMessage | None:
        """Take a message out of the host's queue."""
        found = None if self._inbound is None else with_headroom(self._inbound.inbound_poll)
        return None if found is None else InboundMessage(**cast("dict[str, Any]", vars(found)))

    def inbound_pending(self) -> int:
        """Ask the host how many there are."""
        return 0 if self._inbound is None else with_headroom(self._inbound.inbound_pending)

    def state_get(self, key: str) -> StateEntry | None:
        """Read from the host's store.

        :raises StateError: with the contract's word for why not.
        """
        found = self._ask_state("get", key)
        return None if found is None else StateEntry(found.value, found.revision)

    def state_put(self, key: str, value: bytes, expected_revision: int | None) -> int:
        """Write to the host's store.

        :raises StateError: with the contract's word for why not.
        """
        return self._ask_state(
            "put", key, value, None if expected_revision is None else _revision(expected_revision)
        )

    def state_delete(self, key: str, expected_revision: int) -> None:
        """Delete from the host's store.

        :raises StateError: with the contract's word for why not.
        """
        self._ask_state("delete", key, _revision(expected_revision))

    def _ask_state(self, name: str, key: str, *more: object) -> Any:
        if self._state is None:
            raise StateError(key, "unavailable")
        try:
            return with_headroom(getattr(self._state, name), encodable(key), *more)
        except self._types.Err as error:
            raise StateError(key, word_of(error)) from None


def _revision(number: int) -> int:
    if not 0 <= number <= U64_MAX:
        raise ValueError("a revision is a number that the host gave out")
    return number


class WitNetwork:
    """:class:`zeroclaw_sdk.guest.network.Network` over the transports that the component imports."""

    def __init__(self) -> None:
        self.looked = 0
        self._http = WitHttp()
        self._websockets = WitWebSockets()
        self._sockets = WitSockets()

    def http(self, request: HttpRequest) -> Exchange:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.http`."""
        if not self._http.present:
            raise NetworkFault("no-permission")
        return self._http.begin(request)

    def websocket(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        subprotocols: tuple[str, ...],
        tls_profile: str | None,
    ) -> WebSocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.websocket`."""
        if not self._websockets.present:
            raise NetworkFault("no-permission")
        return self._websockets.connect(url, headers, subprotocols, tls_profile)

    def socket(self, host: str, port: int, mode: str, tls_profile: str | None) -> SocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.socket`."""
        if not self._sockets.present:
            raise NetworkFault("no-permission")
        return self._sockets.connect(host, port, mode, tls_profile)

    def monotonic(self) -> float:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.sleep`. The end of the call's time ends it."""
        time.sleep(seconds)
