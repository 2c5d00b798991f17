"""JSON as RFC 8259 has it, not as a parser happens to take it.

Python's own parser reads ``NaN`` and ``Infinity``, turns ``1e400`` into infinity, and nests as deep as its stack allows.
None of that may enter the daemon, and none of it may leave (RPC-232, RPC-233).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

JsonValue: TypeAlias = Any
"""What JSON can hold: ``None``, ``bool``, ``int``, ``float``, ``str``, and ``list`` and ``dict`` of these."""

MAX_DEPTH: Final = 256
"""Containers inside each other. Far beyond any real message, and far from the stack's end on every Python."""

MAX_INTEGER_DIGITS: Final = 4_000
"""Digits of one integer. Below the bound from which Python refuses to print an integer again."""


MAX_VALUES: Final = 100_000
"""Values in one text, an empty container counted twice. Two bytes of text can be a value that takes a hundred of memory; no
real message comes near.
"""

_VALUE_BYTES: Final = 128
"""About what a value takes in memory beside its text."""


class Encoded(bytes):
    """One JSON text on one line, in UTF-8, which is not encoded again."""

    __slots__ = ()


class NotJson(ValueError):
    """The text is not JSON, or it is JSON that cannot be held. Never carries any part of the text."""


class TooManyValues(NotJson):
    """The text holds more values than it may. ``limit`` is how many those are."""

    def __init__(self, limit: int) -> None:
        super().__init__("the text holds too many values")
        self.limit = limit


def parse(text: bytes | str, *, max_values: int | None = MAX_VALUES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The value of one JSON text. Of members with the same name the last one counts.

    :param max_values: how many values it may hold; None for a text of our own, which may hold any number.
    :param max_depth: how many containers it may hold inside each other, at most :data:`MAX_DEPTH`.
    :raises NotJson: bad UTF-8, a byte order mark, bad syntax, too deep, or a number out of range.
    :raises TooManyValues: it holds more than that. That is found before they are made.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        if max_values is not None and _holds_more(decoded, max_values):
            raise TooManyValues(max_values)
        value = _DECODER.decode(decoded)
    except NotJson:
        raise
    except (ValueError, RecursionError):
        raise NotJson("the text is not acceptable JSON") from None
    # Counting is a fast upper bound of the depth; only a text that could be too deep is walked.
    if decoded.count("[") + decoded.count("{") > max_depth and _deeper_than(value, max_depth):
        raise NotJson("the text nests too deep")
    return value


def weight(text: bytes) -> int:
    """About how many bytes of memory the value of this text takes; never far less."""
    return len(text) + _VALUE_BYTES * (text.count(b",") + text.count(b"[") + text.count(b"{"))


def encode(value: JsonValue) -> bytes:
    """Compact UTF-8 without raw line ends, so that one value is one line.

    A lone surrogate, which UTF-8 cannot hold, is escaped, as JSON can do.

    :raises ValueError: a number is not finite, or a value is no JSON.
    :raises TypeError: a value is of a type that JSON does not have.
    """
    # Python's own way of escaping half a pair is JSON's; there is no such half outside of strings.
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")


def _holds_more(text: str, limit: int) -> bool:
    """Whether the text, if it is JSON, holds more values than this. In a time that its length bounds, whatever it holds."""
    # Every value but the first follows a mark; counting those in strings too is a fast upper bound.
    if len(text) < limit or _marks(text) < limit:
        return False
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    # A string is a value or the name of one; more of them than that need not be taken apart.
    quotes = unescaped.count('"')
    return quotes > 4 * limit or _marks("".join(unescaped.split('"')[::2])) >= limit


def _marks(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def _constant(_name: str) -> NoReturn:
    raise NotJson("the text holds a number that JSON does not have")


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise NotJson("the text holds an integer of too many digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJson("the text holds a number out of range")
    return number


def _deeper_than(value: JsonValue, limit: int) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(limit):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return any(isinstance(node, (dict, list)) for node in level)


def _children(node: JsonValue) -> Sequence[JsonValue]:
    if isinstance(node, Mapping):
        return list(node.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return node if isinstance(node, list) else ()  # pyright: ignore[reportUnknownVariableType]


_DECODER: Final = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, parse_float=_float)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
