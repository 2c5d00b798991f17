"""wasmtime's errors, which reach Python as one text, as a chain of causes (PLG-041).

What the text quotes of a guest (names of its functions, above all) is written by that guest: it is cut to a length and
stripped of control characters, and nothing before the last list of causes decides anything.
"""

from __future__ import annotations

import re
from typing import Final

MAX_WORDS: Final = 500
"""Characters kept of one cause, and of one function's name in a backtrace."""

MAX_BACKTRACE: Final = 64
"""Lines of a backtrace that are kept."""

_CAUSES: Final = "\nCaused by:\n"
_BACKTRACE: Final = "error while executing at wasm backtrace"
"""The heading of a backtrace, which is no cause."""
_FRAME: Final = re.compile(r"^ +\d+: +((?P<at>0x[0-9a-f]+) - )?(?P<name>.*)$")
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
    numbered = _NUMBER.match(causes) is not None
    found: list[str] = []
    for line in filter(None, map(str.strip, causes.splitlines())):
        if not found or (numbered and _NUMBER.match(line)):
            found.append(_NUMBER.sub("", line) if numbered else line)
        else:
            found[-1] += f" {line}"
    return tuple(map(plain, [first, *found] if first not in ("", _BACKTRACE) else found))


def chain(text: str) -> EngineError | None:
    """The same as exceptions, each the cause of the one before."""
    cause: EngineError | None = None
    for sentence in reversed(sentences(text)):
        error = EngineError(sentence)
        error.__cause__ = cause
        cause = error
    return cause


def backtrace(text: str) -> tuple[str, ...]:
    """The guest's functions, innermost first, each with its place in the code; a recursion is one line."""
    head, mark, _ = text.rpartition(_CAUSES)
    found: list[str] = []
    times: list[int] = []
    for frame in filter(None, map(_FRAME.match, head.splitlines())) if mark else ():
        name = plain(frame["name"].removeprefix("<unknown>!"))
        line = f"{name} ({frame['at']})" if frame["at"] else name
        if found and found[-1] == line:
            times[-1] += 1
        elif len(found) < MAX_BACKTRACE:
            found.append(line)
            times.append(1)
        else:
            break
    return tuple(
        f"{line}, {many} times" if many > 1 else line for line, many in zip(found, times, strict=True)
    )
