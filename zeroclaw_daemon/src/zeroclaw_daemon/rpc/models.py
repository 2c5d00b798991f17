"""Parameters and results as models: the one place that knows how members are spelled (RPC-236).

Input is taken in camelCase and in snake_case. Output has one spelling, that of its family.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from zeroclaw_daemon.rpc.envelope import Params as RawParams
from zeroclaw_daemon.rpc.errors import ConflictingSpelling, InvalidParams
from zeroclaw_daemon.strict_json import Encoded, JsonValue, encode, parse

_MAX_PROBLEMS: Final = 8
"""How many faults of one call are told at once."""

MAX_NAME: Final = 256
"""Characters of what names something: an id, an alias, a digest. Far beyond any real one."""

MAX_PATH: Final = 4096
"""Characters of a path. Linux takes no path of more bytes, and work on one grows faster than its length."""

MAX_TOKEN: Final = 16 * 1024
"""Characters of a credential. Those that carry signed claims have a few thousand."""

Id: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
Name: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_NAME)]


def _no_longer_than_a_path(text: str) -> str:
    if len(text) > MAX_PATH:
        raise PydanticCustomError(
            "string_too_long", "String should have at most {max_length} characters", {"max_length": MAX_PATH}
        )
    return text


# The library's own bound does not take half a surrogate pair, which is how a byte that is no UTF-8 stands in a path.
PathText: TypeAlias = Annotated[
    str, AfterValidator(_no_longer_than_a_path), Field(json_schema_extra={"maxLength": MAX_PATH})
]


class Params(BaseModel):
    """Parameters of one method. Unknown members are ignored; types are taken literally, so ``"1"`` is no number."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    camel: ClassVar[bool] = True
    """Whether the documents spell this family in camelCase; input is taken in both spellings all the same (D-01)."""

    @classmethod
    def members(cls) -> dict[str, bool]:
        """The members as the documents spell them, in order, and whether each is required."""
        written = {field.alias or name: field.is_required() for name, field in cls.model_fields.items()}
        return {to_camel(name) if cls.camel else name: required for name, required in written.items()}

    @classmethod
    def parse(cls, raw: RawParams | None) -> Self:
        """The parameters of a call.

        :raises InvalidParams: no object, or a member is missing or wrong. Names members, never values; where the fault
            lies in an element of a list, ``details`` holds its ``index`` (RPC-078).
        :raises ConflictingSpelling: a member came in both spellings with different values.
        """
        if not isinstance(raw, dict):
            raise InvalidParams("this method takes an object of named parameters")
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            # Not chained: the library's message quotes the input.
            faults = error.errors(include_input=False, include_url=False, include_context=False)[
                :_MAX_PROBLEMS
            ]
        problems = [{"member": _where(fault["loc"]), "problem": fault["msg"]} for fault in faults]
        details: dict[str, object] = {"problems": problems}
        if isinstance(index := next(iter(faults[0]["loc"][1:]), None), int):
            details["index"] = index
        members = ", ".join(problem["member"] for problem in problems)
        raise InvalidParams(f"parameters that do not fit: {members}", details=details)

    @model_validator(mode="before")
    @classmethod
    def _in_one_spelling(cls, raw: JsonValue) -> JsonValue:
        if not isinstance(raw, dict):
            return raw
        raw = cast("dict[str, JsonValue]", raw)
        taken = dict(raw)
        for field_name, field in cls.model_fields.items():
            name = field.alias or field_name
            camel = to_camel(name)
            if camel != name and camel in raw and name in raw and not _same(raw[camel], raw[name]):
                raise ConflictingSpelling(
                    f"{camel} and {name} are the same parameter and differ", details={"member": camel}
                )
            if camel != name and camel in raw:
                taken[name] = taken.pop(camel)
        return taken


class Result(BaseModel):
    """Result of one method, written in camelCase. Its members hold what JSON can hold."""

    # A number that JSON does not have is written so that it is noticed.
    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, ser_json_inf_nan="constants"
    )

    with_nulls: ClassVar[bool] = False
    """Whether members that are None are written, as null; otherwise they are left out."""

    def encoded(self) -> Encoded:
        """The result as it is written.

        :raises ValueError: a number is not finite.
        """
        leave_out = not self.with_nulls
        try:
            # The library writes several times as fast as it converts and Python's own encoder writes.
            text = self.model_dump_json(by_alias=True, exclude_none=leave_out).encode()
        except ValueError:  # half a surrogate pair, or more levels than it counts to
            text = b""
        if not text or b"NaN" in text or b"Infinity" in text:
            text = encode(self.model_dump(by_alias=True, exclude_none=leave_out))
        return Encoded(text)

    def to_json(self) -> dict[str, JsonValue]:
        """The value of what is written."""
        return parse(self.encoded(), max_values=None)


class SnakeParams(Params):
    """Parameters of a family that the documents spell in snake_case: ``config/*`` and ``file/*`` (D-01)."""

    camel: ClassVar[bool] = False


class SnakeResult(Result):
    """Result of such a family, written in snake_case."""

    model_config = ConfigDict(frozen=True, alias_generator=None, populate_by_name=True)


def _where(location: tuple[int | str, ...]) -> str:
    """A member, as its fault names it. Where the client chose its name, that has any length."""
    return ".".join(map(str, location))[:MAX_NAME]


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Equality that tells 1, 1.0 and true apart."""
    return type(left) is type(right) and bool(left == right)
