"""``wasi:http`` for guests: requests and their responses, and nothing that would serve any (PLG-007).

A module is one of the standard's nouns. What happens on the network is :mod:`zeroclaw_host.egress.http.exchange`.
"""

from __future__ import annotations

from typing import Final

from zeroclaw_host.contract import contract
from zeroclaw_host.imports.http import bodies, exchange, fields, options, requests, responses
from zeroclaw_host.imports.http.error_codes import ErrorCode, HttpErrorCode
from zeroclaw_host.imports.http.rules import broken_rule
from zeroclaw_host.imports.wasi.streams import IoError
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface

_TYPES: Final = "wasi:http/types"


def _http_error_code(frame: CallFrame, error: IoError) -> ErrorCode | None:
    return error.code.code if isinstance(error.code, HttpErrorCode) else None


def _of_what_is_never_there(function: str) -> HostFunction:
    """A function of a request to the guest, or of the way for its answer. No guest of this host has either."""

    def unreachable(frame: CallFrame, *values: object) -> object:
        raise broken_rule(f"{function} was called on a resource that cannot exist")

    return HostFunction(function, unreachable)


def _types() -> HostInterface:
    answered = {
        function.name: function
        for function in (
            HostFunction("http-error-code", _http_error_code),
            *fields.FUNCTIONS,
            *options.FUNCTIONS,
            *requests.FUNCTIONS,
            *bodies.FUNCTIONS,
            *responses.FUNCTIONS,
        )
    }
    return interface(
        _TYPES,
        *(
            answered.get(name) or _of_what_is_never_there(name)
            for name in contract().interface(_TYPES).functions
        ),
        resources={
            "fields": fields.Fields,
            "incoming-request": requests.IncomingRequest,
            "outgoing-request": requests.OutgoingRequest,
            "request-options": options.RequestOptions,
            "response-outparam": responses.ResponseOutparam,
            "incoming-response": responses.IncomingResponse,
            "incoming-body": bodies.IncomingBody,
            "future-trailers": bodies.FutureTrailers,
            "outgoing-response": responses.OutgoingResponse,
            "outgoing-body": bodies.OutgoingBody,
            "future-incoming-response": responses.FutureIncomingResponse,
        },
    )


TYPES: Final = _types()
OUTGOING_HANDLER: Final = interface("wasi:http/outgoing-handler", *exchange.FUNCTIONS)
