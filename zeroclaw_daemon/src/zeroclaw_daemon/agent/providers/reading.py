"""What the readers of the protocols have in common. A reader is given the data of one event after the other, and does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from zeroclaw_daemon.agent.messages import ToolCall
from zeroclaw_daemon.agent.providers.base import Ending, Finished, ModelEvent, ModelRequest, Usage
from zeroclaw_daemon.agent.providers.failures import BrokenOff, Failure, words_of
from zeroclaw_daemon.strict_json import JsonValue, NotJson, encode, parse

_PASSING: Final = frozenset(
    {"overloaded_error", "api_error", "rate_limit_error", "server_error", "timeout_error"}
)
"""Types of errors that say nothing about the question."""
_MAX_LOCATION: Final = 5
"""Names in the place of a fault: no event nests deeper."""
_MOST_TOKENS: Final = 2**53 - 1
"""The largest whole number that every reader of JSON holds exactly; the stores hold it, too."""


class Part(BaseModel):
    """A part of an event. What is not known is passed over: servers send more than the protocol says."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _figure(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None


Tokens: TypeAlias = Annotated[int | None, BeforeValidator(_figure)]
"""A number of tokens. What is none says nothing: no answer is lost for its figures."""


class Reader(Protocol):
    """Makes one answer of a stream's events."""

    @property
    def complete(self) -> bool:
        """Whether the answer is whole; what may still come are figures."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the server said that nothing comes any more."""
        ...

    def read(self, data: str) -> Iterable[ModelEvent]:
        """What the next event says.

        :raises Failure: it is an error, or no event of the protocol.
        """
        ...

    def finish(self) -> Iterable[ModelEvent]:
        """What can be said at the end of the stream.

        :raises Failure: the answer is not whole.
        """
        ...


class Dialect(Protocol):
    """A protocol of questions and streamed answers over HTTP."""

    @property
    def default_uri(self) -> str:
        """The base address of those who made it."""
        ...

    def path(self, base: str) -> str:
        """The path of the question, given that of the base address, which has no slash at its end."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """How one says who asks."""
        ...

    def body(self, request: ModelRequest) -> JsonValue:
        """The question."""
        ...

    def reader(self) -> Reader:
        """For one answer."""
        ...


P = TypeVar("P", bound=Part)


def event_of(data: str, shape: type[P]) -> P:
    """The data of an event.

    :raises Failure: it is not JSON, or of another shape. The text never holds a value.
    """
    try:
        return shape.model_validate(parse(data))
    except NotJson:
        raise Failure("sent an event that is not JSON") from None
    except ValidationError as error:
        place = ".".join(
            map(str, error.errors(include_input=False, include_url=False)[0]["loc"][:_MAX_LOCATION])
        )
        raise Failure(f"sent an event of an unknown shape{place and f' (at {place})'}") from None


def failure_of(error: JsonValue) -> Failure:
    """The error object of a stream as a failure."""
    kind: object = None
    code: object = None
    if isinstance(error, dict):
        members = cast("dict[str, object]", error)
        kind, code = members.get("type"), members.get("code")
    words = words_of(error) or (kind if isinstance(kind, str) else "")
    passing = kind in _PASSING if isinstance(kind, str) else False
    if isinstance(code, int) and not isinstance(code, bool):
        passing = passing or may_ask_again(code)
    return Failure(f"failed: {words}" if words else "failed and does not say why", again=passing)


def may_ask_again(status: int) -> bool:
    """Whether an HTTP status says nothing about the question: too many of them, or a fault of the server."""
    return status == 429 or 500 <= status <= 599


def conclude(calls: Sequence[ToolCall], ending: Ending | None, usage: Usage | None) -> Iterator[ModelEvent]:
    """The end of an answer: its calls, then that it is over.

    :param ending: None where the server did not say that its answer is whole.
    :raises Failure: it is not whole in a way that cannot be made do with, or a call names no tool.
    """
    if ending is None:
        raise BrokenOff("broke off before its answer was whole")
    if calls and ending is Ending.CUT:
        raise Failure("had no room to finish its tool calls")
    if not all(call.name for call in calls):
        raise Failure("sent a tool call that names no tool")
    yield from calls
    yield Finished(ending, usage)


def arguments_object(text: str) -> dict[str, object]:
    """The arguments of an earlier call as an object, which is what servers insist on; others are put into one."""
    try:
        value = parse(text)
    except NotJson:
        value = None
    return cast("dict[str, object]", value) if isinstance(value, dict) else {"invalid_arguments": text}


def parameters_schema(schema: object) -> dict[str, object]:
    """A tool's schema as servers want it: it says that it is of an object."""
    return {"type": "object", **cast("dict[str, object]", schema)}


def compact(value: JsonValue) -> str:
    """A value as JSON text."""
    return encode(value).decode("utf-8")
