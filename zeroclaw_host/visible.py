"""Texts of others, made safe to show on a person's terminal: pure, and the same for every command."""

from __future__ import annotations

import json
import re
from typing import Final

_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSEEN: Final = (
    "\u00ad\u115f\u1160\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e007f"
)
"""What takes no room and is no part of a letter. Joiners stay: scripts and pictures are made with them."""
_UNSAFE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{_UNSEEN}\ud800-\udfff]")
_UNSAFE_IN_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]")
_UNSAFE_IN_JSON: Final = re.compile(f"{_UNSAFE_IN_LINES.pattern}|[{_UNSEEN}]")
_LAST_OF_FOUR_DIGITS: Final = 0xFFFF


def visible(text: str) -> str:
    """One line, with control characters, direction marks, broken characters and those that nobody sees written as escapes.

    A publisher's text must neither drive the terminal, nor show in another order than it is, nor hold more than it shows.
    """
    return _UNSAFE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """As :func:`visible`, but line breaks and tabs stay, and what takes no room in a longer text."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """A value as JSON that reads the same to a program, with what a terminal would obey written as JSON's own escapes."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=str)
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def is_plain(text: str) -> bool:
    """Whether nothing in the text needs an escape."""
    return _UNSAFE.search(text) is None


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number > _LAST_OF_FOUR_DIGITS:
        return f"\\U{number:08x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _json_escape(match: re.Match[str]) -> str:
    """JSON writes what has more than four digits as two halves."""
    number = ord(match[0])
    if number <= _LAST_OF_FOUR_DIGITS:
        return f"\\u{number:04x}"
    return json.dumps(match[0])[1:-1]
