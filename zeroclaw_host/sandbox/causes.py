"""wasmtime's errors, which reach Python as one text, as a chain of causes (PLG-041).

What the text quotes of a guest (names of its functions, above all) is written by that guest: it is cut to a length and
stripped of control characters, and nothing before the last list of causes decides anything.
"""

from __future__ import annotations

import re
from typing import Final

MAX_WORDS: Final = 500
"""Characters kept of one cause, and of one line of a backtrace."""

MAX_BACKTRACE: Final = 64
"""Functions of a backtrace that are kept."""

_CAUSES: Final = "\nCaused by:\n"
_NUMBER: Final = re.compile(r"^\s*\d+: ")


class EngineError(Exception):
    """One of the sentences in which wasmtime says what went wrong; the next one is its ``__cause__``."""


def plain(text: str) -> str:
    """Words of a guest as one short line without control characters."""
    short = text if len(text) <= MAX_WORDS else text[: MAX_WORDS - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in short)


def sentences(text: str) -> tuple[str, ...]:
    """The causes in wasmtime's words, the outermost first. The lines of a backtrace are not among them."""
    head, mark, causes = text.rstrip().rpartition(_CAUSES)
    if not mark:
        head, causes = causes, ""
    first = head.strip().partition("\n")[0].removesuffix(":")
    found = [first] if first else []
    numbered = _NUMBER.match(causes) is not None
    for line in filter(None, map(str.strip, causes.splitlines())):
        if _NUMBER.match(line) if numbered else len(found) == bool(first):
            found.append(_NUMBER.sub("", line) if numbered else line)
        else:
            found[-1] += f" {line}"
    return tuple(map(plain, found))


def chain(text: str) -> EngineError | None:
    """The same as exceptions, each the cause of the one before."""
    cause: EngineError | None = None
    for sentence in reversed(sentences(text)):
        error = EngineError(sentence)
        error.__cause__ = cause
        cause = error
    return cause


def backtrace(text: str) -> tuple[str, ...]:
    """The guest's functions, innermost first."""
    head, mark, _ = text.rpartition(_CAUSES)
    lines = (line.strip() for line in head.splitlines() if re.match(r"^\s+\d+: ", line)) if mark else ()
    return tuple(map(plain, lines))[:MAX_BACKTRACE]
