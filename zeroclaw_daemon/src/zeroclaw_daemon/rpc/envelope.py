"""What a line is: the JSON-RPC 2.0 envelope, as a function of bytes.

The shape decides what happens to a bad message, before anything else does: what looks like a request is answered, what
looks like a response never is, because an answer could complete an unrelated request of the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from zeroclaw_daemon.rpc.errors import ErrorObject, InvalidRequest, ParseError
from zeroclaw_daemon.strict_json import MAX_VALUES, Encoded, JsonValue, NotJson, TooManyValues, encode, parse
from zeroclaw_host.errors import ZeroclawError

VERSION: Final = "2.0"

PROTOCOL_VERSION: Final = 1
"""The version of the protocol inside the envelopes, as ``initialize`` negotiates it (RPC-039)."""

MAX_ID_CHARACTERS: Final = 16 * 1024
"""Of the id of a request, which its answer repeats. Ids of ten thousand are in the protocol's tests (RPC-088)."""

RequestId: TypeAlias = str | int | float | None
Params: TypeAlias = "dict[str, JsonValue] | list[JsonValue]"


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request or, without ``wants_reply``, a notification. ``params`` is None where the member is absent."""

    method: str
    params: Params | None
    id: RequestId
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class Response:
    """A valid response: ``error`` where it failed, else ``result``, which may be null and is a success then too."""

    id: RequestId
    result: JsonValue
    error: ErrorObject | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is answered with an error and has no other effect (RPC-253)."""

    id: RequestId
    error: ZeroclawError


@dataclass(frozen=True, slots=True)
class Dropped:
    """A malformed response, which is never answered. ``fault`` is a word for the rule it breaks."""

    fault: str


Envelope: TypeAlias = Request | Response | Rejected | Dropped


def classify(line: bytes, max_values: int | None = MAX_VALUES) -> Envelope:
    """What one line is. Total: every sequence of bytes is exactly one of the four (RPC-096…118).

    :param max_values: how many values it may hold; None for any number (RPC-233).
    """
    try:
        message = parse(line, max_values=max_values)
    except TooManyValues as error:
        return Rejected(None, ParseError(error.limit))
    except NotJson:
        return Rejected(None, ParseError())
    match message:
        case dict():
            return _classify_object(message)  # pyright: ignore[reportUnknownArgumentType]
        case list():
            return Rejected(None, InvalidRequest("batch", "a line holds one message; batches are not served"))
        case _:
            return Rejected(None, InvalidRequest("no_object", "a message is a JSON object"))


def request_line(method: str, params: JsonValue, request_id: RequestId) -> bytes:
    """A request as it is written."""
    return encode({"jsonrpc": VERSION, "method": method, "params": params, "id": request_id}) + b"\n"


def notification_line(method: str, params: JsonValue) -> bytes:
    """A notification as it is written."""
    return encode({"jsonrpc": VERSION, "method": method, "params": params}) + b"\n"


def result_line(result: JsonValue | Encoded, request_id: RequestId) -> bytes:
    """A success as it is written."""
    text = result if isinstance(result, Encoded) else encode(result)
    return b'{"jsonrpc":"2.0","result":%b,"id":%b}\n' % (text, encode(request_id))


def error_line(error: ErrorObject, request_id: RequestId) -> bytes:
    """A failure as it is written."""
    return encode({"jsonrpc": VERSION, "error": error.to_json(), "id": request_id}) + b"\n"


def _classify_object(message: dict[str, JsonValue]) -> Envelope:
    answers = "result" in message or "error" in message
    if "method" not in message and answers:
        return _classify_response(message)
    if isinstance(message.get("method"), str) and not answers:
        return _classify_request(message)
    return Rejected(None, InvalidRequest("ambiguous", "the message is neither a request nor a response"))


def _classify_request(message: dict[str, JsonValue]) -> Request | Rejected:
    request_id = message.get("id")
    if not _is_id(request_id):
        return Rejected(
            None,
            InvalidRequest(
                "id",
                f"the id of a request is a string of up to {MAX_ID_CHARACTERS} characters, a number or null",
            ),
        )
    if not _is_version(message.get("jsonrpc")):
        return Rejected(request_id, InvalidRequest("version", 'the member jsonrpc must be the string "2.0"'))
    if "params" in message and not isinstance(message["params"], (dict, list)):
        return Rejected(
            request_id, InvalidRequest("params", "the member params must be an object or an array")
        )
    return Request(message["method"], message.get("params"), request_id, wants_reply="id" in message)


def _classify_response(message: dict[str, JsonValue]) -> Response | Dropped:
    if not _is_version(message.get("jsonrpc")):
        return Dropped("version")
    if "params" in message:
        return Dropped("params")
    if "id" not in message or not _is_id(message["id"]):
        return Dropped("id")
    if "error" not in message:
        return Response(message["id"], message["result"], None)
    if "result" in message:
        return Dropped("both_members")
    match message["error"]:
        case {"code": int() as code, "message": str() as text, **rest} if not isinstance(code, bool):
            return Response(message["id"], None, ErrorObject(code, text, rest.get("data")))
        case _:
            return Dropped("error_object")


def _is_id(value: JsonValue) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARACTERS
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _is_version(value: JsonValue) -> bool:
    return isinstance(value, str) and value == VERSION
