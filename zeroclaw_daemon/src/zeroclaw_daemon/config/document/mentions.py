"""Where a TOML text names its keys.

No TOML library of Python keeps positions. This walks over a text that is known to be TOML and notes each header, each
assignment and each element of an array, with the path it is about and the place of every key it names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

Path = tuple[str | int, ...]
"""Keys, and indexes into arrays."""


@dataclass(frozen=True, slots=True)
class Name:
    """One key as it is written: what it says, and the offsets of its first character and the one after its last."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """One header, assignment or element: the path it is about, where it begins, and the keys it names.

    The names are of the last keys of the path, indexes left out; what stands before them was named by a header or an
    assignment around this one.
    """

    path: Path
    start: int
    names: tuple[Name, ...] = ()
    header: bool = False


def mentions(text: str) -> tuple[Mention, ...]:
    """Every mention, in the text's order. Of a text that is no TOML, those before the fault."""
    walk = _Walk(text)
    with suppress(_Stop, RecursionError):
        walk.document()
    return tuple(walk.found)


def written_key(key: str) -> str:
    """The key as TOML writes it: bare where that is possible."""
    if _BARE.fullmatch(key):
        return key
    escaped = "".join(
        f"\\u{ord(char):04x}"
        if ord(char) < 0x20 or ord(char) == 0x7F
        else {'"': '\\"', "\\": "\\\\"}.get(char, char)
        for char in key
    )
    return f'"{escaped}"'


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"[ \t]*")
_GAP: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_SCALAR: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})'''
    r"""|'{3}.*?'{3}(?:'{0,2})"""
    r'''|"(?:[^"\\\n]|\\.)*"'''
    r"""|'[^'\n]*'"""
    r"""|[^\s,\]}\[{#"'][^,\]}\#\r\n]*""",
    re.DOTALL,
)


class _Stop(Exception):
    """The text is not what TOML allows here."""


@dataclass
class _Walk:
    text: str
    at: int = 0
    found: list[Mention] = field(default_factory=list[Mention])
    rows: dict[Path, int] = field(default_factory=dict[Path, int])
    """How many tables each array of tables has so far."""

    def document(self) -> None:
        table: Path = ()
        while True:
            self._skip(_GAP)
            if self.at == len(self.text):
                return
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._assignment(table)

    def _header(self) -> Path:
        start = self.at
        rows = self.text.startswith("[[", self.at)
        self.at += 2 if rows else 1
        names = self._names()
        self._take("]]" if rows else "]")
        path: Path = ()
        for name in names[:-1]:
            path = (*path, name.key)
            if path in self.rows:
                path = (*path, self.rows[path] - 1)
        path = (*path, names[-1].key)
        if rows:
            index = self.rows.get(path, 0)
            self.rows[path] = index + 1
            path = (*path, index)
        self.found.append(Mention(path, start, names, header=True))
        return path

    def _assignment(self, table: Path) -> None:
        start = self.at
        names = self._names()
        self._take("=")
        path = (*table, *(name.key for name in names))
        self.found.append(Mention(path, start, names))
        self._skip(_BLANK)
        self._value(path)

    def _value(self, path: Path) -> None:
        match self.text[self.at : self.at + 1]:
            case "[":
                for index in self._inside("]"):
                    self.found.append(Mention((*path, index), self.at))
                    self._value((*path, index))
            case "{":
                for _ in self._inside("}"):
                    self._assignment(path)
            case _:
                self._match(_SCALAR)

    def _inside(self, end: str) -> Iterator[int]:
        """Stop at each part between here and the end, which whoever iterates walks over."""
        self.at += 1
        index = 0
        while True:
            self._skip(_GAP)
            if self.text.startswith(end, self.at):
                self.at += 1
                return
            if self.at == len(self.text):
                raise _Stop
            yield index
            index += 1
            self._skip(_GAP)
            if self.text.startswith(",", self.at):
                self.at += 1
            elif not self.text.startswith(end, self.at):
                raise _Stop

    def _names(self) -> tuple[Name, ...]:
        names: list[Name] = []
        while True:
            self._skip(_BLANK)
            start = self.at
            written = self._match(_KEY)
            names.append(Name(_said(written), start, self.at))
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return tuple(names)
            self.at += 1

    def _take(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise _Stop
        self.at += len(token)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Stop
        self.at = found.end()
        return found[0]


def _said(written: str) -> str:
    if written[0] not in "\"'":
        return written
    try:
        return cast("dict[str, str]", tomllib.loads(f"k = {written}"))["k"]
    except tomllib.TOMLDecodeError:
        raise _Stop from None


def passes_through(mention: Mention, path: Sequence[str | int]) -> bool:
    """Whether the mention is about this path or something below it."""
    return mention.path[: len(path)] == tuple(path)
