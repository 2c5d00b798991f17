"""What a value becomes that somebody gives to a property: a text from a command line, or a value from JSON.

There is one table, for commands, overriding variables and RPC alike (RPC-071). A text is read as the property's kind wants
it; another JSON value has to be of that kind, or a scalar where a text is wanted. ``null`` counts as the empty text. None of
the messages holds any of the value, which may be secret.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError

from zeroclaw_daemon import strict_json
from zeroclaw_daemon.config.problems import words_of
from zeroclaw_daemon.config.section import frozen
from zeroclaw_daemon.config.shape import Value, ValueKind
from zeroclaw_host.errors import Kind, ZeroclawError

MASK: Final = "***MASKED***"
"""Stands for a secret wherever a value is shown."""
MASKS: Final = frozenset({"", "****", MASK})
"""Texts that never replace a secret: nothing, and what stands for one."""
_INTEGERS: Final = range(-(2**63), 2**63)
"""What TOML's integers hold."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MOST_CHARACTERS: Final = 64
"""No number needs more, and Python takes long for very long ones."""


class PropertyError(ZeroclawError):
    """A property cannot be read or set as asked. ``details`` holds ``property``."""

    code = "property_invalid"
    kind = Kind.INVALID


class PropertyValueInvalid(PropertyError):
    """The value does not fit the property."""

    code = "property_value_invalid"


def coerce(value: Value, given: object, *, path: str) -> object:
    """What to write for a JSON value or a text; None means: unset.

    :raises PropertyValueInvalid: the value is of another kind, or its text does not read as this kind.
    """
    try:
        return coerce_text(value, given) if isinstance(given, str) else _coerce_json(value, given)
    except PropertyError as error:
        raise PropertyValueInvalid(f"{path}: {error.message}", details={"property": path}) from None


def coerce_text(value: Value, text: str) -> object:
    """What a text means for a property of this type.

    :raises PropertyValueInvalid: nothing; the message names neither the property nor a secret.
    """
    _check_text(text)
    match value.kind:
        case ValueKind.SECRET:
            return _secret(text)
        case ValueKind.LIST:
            return _list_of(value, text)
        case ValueKind.OBJECT | ValueKind.ROWS:
            return _coerce_json(value, _json(text, value.kind))
        case _ if not text and value.optional:
            return None
        case ValueKind.BOOL:
            if text not in ("true", "false"):
                raise PropertyValueInvalid("must be true or false")
            return text == "true"
        case ValueKind.INTEGER:
            if _INTEGER.fullmatch(text.strip()) is None:
                raise PropertyValueInvalid("must be a whole number, of at most 19 digits")
            return _within(int(text))
        case ValueKind.FLOAT:
            return _number(text)
        case ValueKind.ENUM:
            if text not in value.choices:
                raise PropertyValueInvalid(f"must be one of {', '.join(value.choices)}")
            return text
        case ValueKind.TEXT | ValueKind.REFERENCE:
            return text


def _coerce_json(value: Value, given: object) -> object:
    match value.kind, given:
        case ValueKind.OBJECT, dict():
            return _checked_whole(value, cast("object", given))
        case ValueKind.ROWS, list():
            return _checked_whole(value, cast("object", given))
        case ((ValueKind.OBJECT | ValueKind.ROWS), _):
            raise PropertyValueInvalid(f"a value of kind {value.kind} is wanted")
        case _, None:
            return coerce_text(value, "")
        case ValueKind.BOOL, bool():
            return given
        case ValueKind.INTEGER, int() if not isinstance(given, bool):
            return _within(given)
        case ValueKind.INTEGER, float() if given.is_integer():
            return _within(int(given))
        case ValueKind.FLOAT, (int() | float()) if not isinstance(given, bool):
            return _finite(given)
        case (
            (ValueKind.TEXT | ValueKind.ENUM | ValueKind.SECRET | ValueKind.REFERENCE),
            (bool() | int() | float()),
        ):
            return coerce_text(value, json.dumps(given))
        case ValueKind.LIST, list():
            return _checked_list(value, cast("list[object]", given))
        case _:
            raise PropertyValueInvalid(f"a value of kind {value.kind} is wanted")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PropertyValueInvalid("must be text that UTF-8 can hold") from None


def _secret(text: str) -> str:
    """The secret itself: what stands for one, or for where one is, would be kept in the secret's place."""
    if text in MASKS:
        raise PropertyValueInvalid("a mask or an empty text would overwrite the secret")
    from zeroclaw_host.services.install_key import REFERENCE, is_sealed

    if is_sealed(text) or text.startswith(REFERENCE):
        raise PropertyValueInvalid(
            "must be the secret itself, and neither sealed already nor a reference to it"
        )
    return text


def _within(number: int) -> int:
    if number not in _INTEGERS:
        raise PropertyValueInvalid(f"must be from {_INTEGERS.start} to {_INTEGERS.stop - 1}")
    return number


def _number(text: str) -> float:
    stripped = text.strip()
    if len(stripped) > _MOST_CHARACTERS or _NUMBER.fullmatch(stripped) is None:
        raise PropertyValueInvalid("must be a number")
    return _finite(float(stripped))


def _finite(number: float) -> float:
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise PropertyValueInvalid("must be a number, and not an infinite one")
    return found


def _json(text: str, kind: ValueKind) -> object:
    try:
        found: object = strict_json.parse(text)
    except strict_json.NotJson:
        raise PropertyValueInvalid(f"does not read as JSON, and a value of kind {kind} is wanted") from None
    return found


def _list_of(value: Value, text: str) -> list[str]:
    """Elements of a JSON array or of a comma list. What begins as JSON does is meant as JSON."""
    if not text.lstrip().startswith(("[", "{", '"')):
        return _checked_list(value, [part.strip() for part in text.split(",")])
    try:
        given: object = strict_json.parse(text)
    except strict_json.NotJson:
        given = None
    if not isinstance(given, list):
        raise PropertyValueInvalid("does not read as a JSON array of texts")
    return _checked_list(value, cast("list[object]", given))


def _checked_list(value: Value, given: list[object]) -> list[str]:
    out: list[str] = []
    for index, element in enumerate(given):
        if not isinstance(element, str):
            raise PropertyValueInvalid(f"element {index} is no text")
        _check_text(element)
        if value.choices and element.strip() and element not in value.choices:
            raise PropertyValueInvalid(f"element {index} must be one of {', '.join(value.choices)}")
        if element.strip():
            out.append(element)
    return out


def _checked_whole(value: Value, given: object) -> object:
    """A table, or rows, that the schema accepts in this place; members that are null are left out."""
    wanted = _without_nulls(given)
    try:
        TypeAdapter[object](value.annotation).validate_python(frozen(wanted))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        way = tuple(part for part in fault["loc"] if part != "[key]")
        words = words_of(fault, way)
        raise PropertyValueInvalid(f"{'.'.join(map(str, way))}: {words}" if way else words) from None
    return wanted


def _without_nulls(value: object) -> object:
    match value:
        case dict():
            members = cast("dict[str, object]", value).items()
            for key, _ in members:
                _check_text(key)
            return {key: _without_nulls(inner) for key, inner in members if inner is not None}
        case list():
            return [_without_nulls(inner) for inner in cast("list[object]", value)]
        case str():
            _check_text(value)
            return value
        case _:
            return value
