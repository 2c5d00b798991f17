"""One call of the daemon, typed: what the families of calls have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind, ZeroclawError

R = TypeVar("R", bound=BaseModel)


class UnexpectedAnswer(ZeroclawError):
    """The daemon's answer has not the shape that this release knows. ``details`` holds ``method`` and ``members``."""

    code = "unexpected_answer"
    kind = Kind.UNAVAILABLE


class Calls(Protocol):
    """What a family of calls is made with."""

    async def call(self, method: str, params: Mapping[str, JsonValue] | None = None) -> JsonValue:
        """Call a method; its result as JSON."""
        ...

    async def ask(self, method: str, params: Mapping[str, JsonValue], result: type[R]) -> R:
        """Call a method; its result. Parameters that are None are left out.

        :raises RemoteError: the daemon answered with an error.
        :raises ConnectionLost: the daemon is gone.
        :raises UnexpectedAnswer: its answer cannot be read.
        """
        given = {name: value for name, value in params.items() if value is not None}
        return read(method, await self.call(method, given), result)


def read(method: str, answer: JsonValue, result: type[R]) -> R:
    """An answer in its type; members that are not known are passed over.

    :raises UnexpectedAnswer: it does not fit. Names members, never values.
    """
    try:
        return result.model_validate(answer)
    except ValidationError as error:
        # Not chained: the library's message quotes the answer.
        faults = error.errors(include_input=False, include_url=False, include_context=False)
    members = [".".join(map(str, fault["loc"])) for fault in faults]
    raise UnexpectedAnswer(
        f"the daemon's answer to {method} cannot be read; it may be of another release",
        details={"method": method, "members": members},
    )
