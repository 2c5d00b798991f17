"""WebSockets and streams of a built component, over ``websocket`` and ``sockets``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from zeroclaw_sdk.guest.imported import case_of, encodable, interface, release, with_headroom, word_of
from zeroclaw_sdk.guest.network import Closed, Ended, NetworkFault, SocketPeer, WebSocketPeer

_CLOSE_CODES: Final[Mapping[str, int]] = {
    "Normal": 1000,
    "GoingAway": 1001,
    "ProtocolError": 1002,
    "UnsupportedData": 1003,
    "InvalidPayload": 1007,
    "PolicyViolation": 1008,
    "MessageTooBig": 1009,
    "MandatoryExtension": 1010,
    "InternalError": 1011,
    "ServiceRestart": 1012,
    "TryAgainLater": 1013,
}
"""The interface's cases of a close code, and their numbers in RFC 6455 and its registry."""


class _Interface:
    """One generated module, asked for answers or the interface's word for why there is none."""

    def __init__(self, name: str) -> None:
        self.wit: Any = interface(name)
        self._err: Any = import_module("componentize_py_types").Err

    @property
    def present(self) -> bool:
        """Whether the component imports it."""
        return self.wit is not None

    def ask(self, question: Callable[..., Any], *arguments: object) -> Any:
        """An answer of the host.

        :raises NetworkFault: it says why not.
        """
        try:
            return with_headroom(question, *arguments)
        except self._err as error:
            raise NetworkFault(word_of(error)) from None


class WitWebSockets(_Interface):
    """The interface ``websocket``."""

    def __init__(self) -> None:
        super().__init__("websocket")

    def connect(
        self,
        url: str,
        headers: tuple[tuple[str, str], ...],
        subprotocols: tuple[str, ...],
        tls_profile: str | None,
    ) -> WebSocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.websocket`."""
        options = self.wit.ConnectOptions(
            url=encodable(url),
            headers=[self.wit.Header(encodable(name), encodable(value)) for name, value in headers],
            subprotocols=[encodable(each) for each in subprotocols],
            tls_profile=None if tls_profile is None else encodable(tls_profile),
        )
        return _WebSocket(self, self.ask(self.wit.connect, options))


class _WebSocket:
    def __init__(self, home: WitWebSockets, connection: Any) -> None:
        self._home = home
        self._connection: Any = connection

    def send(self, message: str | bytes) -> None:
        wit = self._home.wit
        value = (
            wit.Message_Text(encodable(message)) if isinstance(message, str) else wit.Message_Binary(message)
        )
        self._home.ask(self._connection.send, value)

    def receive(self) -> str | bytes | Closed | None:
        wit = self._home.wit
        event = self._home.ask(self._connection.receive)
        if event is None:
            return None
        if isinstance(event, wit.Event_Message):
            return event.value.value
        if isinstance(event, wit.Event_Failed):
            raise NetworkFault(word_of(event))
        frame = event.value
        return Closed() if frame is None else Closed(_number(frame.code), frame.reason)

    def close(self, code: int | None, reason: str) -> None:
        wit = self._home.wit
        frame = None if code is None else wit.CloseFrame(_close_code(wit, code), encodable(reason))
        self._home.ask(self._connection.close, frame)

    def subprotocol(self) -> str | None:
        return self._home.ask(self._connection.negotiated_subprotocol)

    def drop(self) -> None:
        if self._connection is not None:
            release(self._connection)
            self._connection = None


class WitSockets(_Interface):
    """The interface ``sockets``."""

    def __init__(self) -> None:
        super().__init__("sockets")

    def connect(self, host: str, port: int, mode: str, tls_profile: str | None) -> SocketPeer:
        """See :meth:`~zeroclaw_sdk.guest.network.Network.socket`."""
        request = self.wit.ConnectRequest(
            host=encodable(host),
            port=port,
            mode=self.wit.ConnectMode[case_of(mode)],
            tls_profile=None if tls_profile is None else encodable(tls_profile),
        )
        return _Socket(self, self.ask(self.wit.connect, request), negotiating=mode == "start-tls")


class _Socket:
    def __init__(self, home: WitSockets, connection: Any, *, negotiating: bool) -> None:
        self._home = home
        self._connection: Any = connection
        self._negotiating = negotiating

    def send(self, data: bytes) -> None:
        connection = self._connection
        self._home.ask(connection.send_negotiation if self._negotiating else connection.send, data)

    def receive(self) -> bytes | Ended | None:
        wit, connection = self._home.wit, self._connection
        event = self._home.ask(connection.receive_negotiation if self._negotiating else connection.receive)
        if isinstance(event, wit.ReceiveEvent_Data):
            return event.value
        return Ended(word_of(event)) if isinstance(event, wit.ReceiveEvent_Closed) else None

    def upgrade(self) -> None:
        self._home.ask(self._connection.upgrade_tls)
        self._negotiating = False

    def drop(self) -> None:
        if self._connection is not None:
            # Closing takes the connection, so that there is nothing left to release.
            with_headroom(self._home.wit.close, self._connection)
            self._connection = None


def _close_code(wit: Any, number: int) -> Any:
    for case, code in _CLOSE_CODES.items():
        if code == number:
            return getattr(wit, f"CloseCode_{case}")()
    return wit.CloseCode_Other(number)


def _number(code: Any) -> int:
    case = type(code).__name__.partition("_")[2]
    return code.value if case == "Other" else _CLOSE_CODES[case]
