"""``future-incoming-response`` and ``incoming-response``; and ``outgoing-response``, which a guest can make and send nowhere."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.egress.http.body import Upload
from zeroclaw_host.egress.http.exchange import Exchange
from zeroclaw_host.imports.http.bodies import IncomingBody, OutgoingBody
from zeroclaw_host.imports.http.error_codes import code_of
from zeroclaw_host.imports.http.fields import Fields
from zeroclaw_host.imports.wasi.streams import Pollable
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.holdings import Holding
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import OK, Err, Ok

_STATUSES: Final = range(100, 1000)
"""What fits where a status stands."""


class FutureIncomingResponse:
    """A response to come. Dropping it before the response was taken out ends the exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.given = False
        self.handed_on = False

    def close(self) -> None:
        """Dropped."""
        if not self.handed_on:
            self.exchange.close()


class IncomingResponse:
    """A response. Dropping it before its body was taken out ends the exchange."""

    def __init__(self, exchange: Exchange, holding: Holding) -> None:
        head = exchange.head
        assert head is not None, "made when there is a head"
        self.exchange = exchange
        self.status = head.status
        self.headers = Fields.received(head.fields, holding, immutable=True)
        self.consumed = False

    def close(self) -> None:
        """Dropped."""
        if not self.consumed:
            self.exchange.close()


class OutgoingResponse:
    """A response of a guest. Guests of this host answer no requests, so it goes nowhere."""

    def __init__(self, headers: Fields, holding: Holding) -> None:
        self.headers = headers.copy(immutable=True)
        self.holding = holding
        self.status = 200
        self.body_given = False


class ResponseOutparam:
    """Where a guest's response would go. There is never one."""


def _subscribe(frame: CallFrame, future: FutureIncomingResponse) -> Pollable:
    exchange = future.exchange
    return Pollable(lambda: exchange.answered)


def _get(frame: CallFrame, future: FutureIncomingResponse) -> Ok | Err | None:
    exchange = future.exchange
    if not exchange.answered:
        return None
    if future.given:
        return Err()
    future.given = True
    if exchange.head is None:
        assert exchange.download.failure is not None, "it is answered"
        return Ok(Err(code_of(exchange.download.failure)))
    response = IncomingResponse(exchange, frame.table.holdings.open())
    future.handed_on = True
    return Ok(Ok(response))


def _status(frame: CallFrame, response: IncomingResponse) -> int:
    return response.status


def _headers(frame: CallFrame, response: IncomingResponse | OutgoingResponse) -> Fields:
    return response.headers.copy(immutable=True)


def _consume(frame: CallFrame, response: IncomingResponse) -> Ok | Err:
    if response.consumed:
        return Err()
    response.consumed = True
    return Ok(IncomingBody(response.exchange))


def _new_outgoing(frame: CallFrame, headers: Fields) -> OutgoingResponse:
    return OutgoingResponse(headers, frame.table.holdings.open())


def _status_code(frame: CallFrame, response: OutgoingResponse) -> int:
    return response.status


def _set_status_code(frame: CallFrame, response: OutgoingResponse, status: int) -> Ok | Err:
    if status not in _STATUSES:
        return Err()
    response.status = status
    return OK


def _outgoing_body(frame: CallFrame, response: OutgoingResponse) -> Ok | Err:
    if response.body_given:
        return Err()
    response.body_given = True
    return Ok(OutgoingBody(Upload(), None, response.holding.another()))


FUNCTIONS: Final = (
    HostFunction("[method]future-incoming-response.subscribe", _subscribe),
    HostFunction("[method]future-incoming-response.get", _get),
    HostFunction("[method]incoming-response.status", _status),
    HostFunction("[method]incoming-response.headers", _headers),
    HostFunction("[method]incoming-response.consume", _consume),
    HostFunction("[constructor]outgoing-response", _new_outgoing),
    HostFunction("[method]outgoing-response.status-code", _status_code),
    HostFunction("[method]outgoing-response.set-status-code", _set_status_code),
    HostFunction("[method]outgoing-response.headers", _headers),
    HostFunction("[method]outgoing-response.body", _outgoing_body),
)
