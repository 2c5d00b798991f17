"""A TOML document together with where each of its parts stands in the text.

Parsing is the standard library's. It gives no positions, and neither does tomlkit; two things here need them: errors that
name line and column, and the signature, which covers the text itself minus two keys. So a valid document is walked once
more, only to find where its statements and values begin and end.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from zeroclaw_host.errors import ManifestError, PackageError, Remedy, RemedyAction

Location: TypeAlias = "tuple[str | int, ...]"
"""Keys and array indexes from the root to a value."""

ErrorT = TypeVar("ErrorT", bound=PackageError)

_BLANK: Final = re.compile(r"[ \t]*")
_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\r\n|\Z)")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASIC_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL_STRING: Final = re.compile(r"'[^']*'")
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]+")
_MULTILINE_STRINGS: Final = {
    # The last three quotes of a run close the string; up to two more before them belong to its content.
    '"""': re.compile(r'\\.|("{3,5})', re.DOTALL),
    "'''": re.compile(r"('{3,5})"),
}
MAX_BYTES: Final = 256 * 1024
"""Far above any real manifest: its largest part, the configuration schema, is bounded to 64 KiB of JSON."""
MAX_DEPTH: Final = 64
"""Tables and arrays around a value. A configuration schema, the deepest part of a manifest, has 32."""

MAX_NUMBER_LENGTH: Final = 1024
"""Characters of a number or a date. Longer integers cannot be converted to decimal digits, which errors and JSON need."""

# The parser's time grows with the square of a dotted key's parts, so endless ones are refused before it sees them. The
# search itself stays linear because a part can only begin where one begins in TOML: were every quote a beginning, each
# escaped quote of a long string would be read to the string's end.
_ENDLESS_KEY: Final = re.compile(
    r"(?:"
    r"""(?:(?<![A-Za-z0-9_-])[A-Za-z0-9_-]++|(?<![^\s.,{\[])(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'))"""
    r"[ \t]*+\.[ \t]*+"
    rf"){{{MAX_DEPTH}}}"
)
_ENDLESS_NUMBER: Final = "holds a number that is too long to be read"
_ERROR_POSITION: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: line and column, both from 1, columns in characters."""

    line: int
    column: int

    @classmethod
    def at(cls, text: str, offset: int) -> Position:
        """The place of a character offset."""
        return cls(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


@dataclass(frozen=True, slots=True)
class Statement:
    """One ``key = value`` outside any table header, as offsets into the text.

    ``start`` is where the blank lines and comments above it begin, ``end`` is past its line break.
    """

    keys: tuple[str, ...]
    start: int
    key: int
    value: int
    value_end: int
    end: int


@dataclass(frozen=True, slots=True)
class TomlSource:
    """A valid TOML document: its text, its values, and where they stand."""

    path: str
    text: str
    values: Mapping[str, object]
    root: tuple[Statement, ...]
    """The statements before the first table header, in order."""
    _offsets: Mapping[Location, int]

    @classmethod
    def parse(cls, data: bytes, *, path: str) -> TomlSource:
        """Read a document.

        :param path: how errors call the file.
        :raises ManifestError: the bytes are not UTF-8, not TOML, or beyond the bounds.
        """
        if len(data) > MAX_BYTES:
            raise located_error(ManifestError, path, Position(1, 1), f"is larger than {MAX_BYTES} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            readable = data[: error.start].decode()
            raise located_error(
                ManifestError, path, Position.at(readable, len(readable)), "is not UTF-8 text"
            ) from error
        try:
            if _ENDLESS_KEY.search(text):
                raise _Lost
            values = tomllib.loads(text)
            scanner = _Scanner(text)
            scanner.scan()
        except tomllib.TOMLDecodeError as error:
            found = _ERROR_POSITION.search(str(error))
            position = Position.at(text, len(text))
            if found is not None and found[1] is not None:
                position = Position(int(found[1]), int(found[2]))
            what = _ERROR_POSITION.sub("", str(error))
            raise located_error(ManifestError, path, position, f"is not TOML: {printable(what)}") from None
        except _EndlessNumber as error:
            raise located_error(
                ManifestError, path, Position.at(text, error.offset), _ENDLESS_NUMBER
            ) from None
        except ValueError:
            # Python's own refusal to convert it, which says nothing of its place.
            raise located_error(ManifestError, path, Position(1, 1), _ENDLESS_NUMBER) from None
        except (RecursionError, _Lost) as error:
            raise located_error(
                ManifestError, path, Position(1, 1), "nests its values too deeply to be read"
            ) from error
        return cls(path, text, values, tuple(scanner.statements), scanner.offsets)

    def position(self, location: Location) -> Position:
        """Where a value's key stands; for what is missing, where the nearest thing that holds it stands."""
        return Position.at(self.text, self.offset(location))

    def offset(self, location: Location) -> int:
        """The same place as an offset into the text, which costs less to find and sorts alike."""
        for length in range(len(location), 0, -1):
            offset = self._offsets.get(location[:length])
            if offset is not None:
                return offset
        return 0

    def error(self, location: Location, message: str) -> ManifestError:
        """An error about one value of this document."""
        return located_error(ManifestError, self.path, self.position(location), message)


def located_error(kind: type[ErrorT], path: str, position: Position, message: str) -> ErrorT:
    """An error of a file, with its place in the message, in ``details`` and in the remedy."""
    line, column = position.line, position.column
    return kind(
        f"{path}:{line}:{column}: {message}",
        remedy=Remedy(RemedyAction.EDIT_FILE, {"path": path, "line": str(line), "column": str(column)}),
        details={"path": path, "line": line, "column": column},
    )


def printable(text: str, limit: int = 80) -> str:
    """A publisher's text for a message: control and bidirectional characters escaped, shortened."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:limit])
    return shown if len(text) <= limit else shown + "…"


class _Lost(Exception):
    """The scanner met something too deep, or something that it does not know; valid TOML has no such thing."""


class _EndlessNumber(Exception):
    """A number or date at ``offset`` is longer than :data:`MAX_NUMBER_LENGTH`."""

    def __init__(self, offset: int) -> None:
        super().__init__(_ENDLESS_NUMBER)
        self.offset = offset


class _Scanner:
    """Walks valid TOML and notes where statements and values stand."""

    def __init__(self, text: str) -> None:
        self.offsets: dict[Location, int] = {}
        self.statements: list[Statement] = []
        self._text = text
        self._at = 0
        self._last_index: dict[Location, int] = {}

    def scan(self) -> None:
        table: Location | None = None
        while True:
            start = self._at
            self._take(_TRIVIA)
            if self._at == len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header()
                continue
            key = self._at
            keys = self._keys(table or ())
            self._expect("=")
            self._take(_BLANK)
            value = self._at
            self._value((*(table or ()), *keys))
            value_end = self._at
            self._take(_REST_OF_LINE)
            if table is None:
                self.statements.append(Statement(keys, start, key, value, value_end, self._at))

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _Lost
        self._at = found.end()
        return found[0]

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._at):
            raise _Lost
        self._at += len(mark)

    def _note(self, location: Location, offset: int) -> None:
        if len(location) > MAX_DEPTH:
            raise _Lost
        self.offsets.setdefault(location, offset)

    def _header(self) -> Location:
        start = self._at
        mark = "[[" if self._text.startswith("[[", start) else "["
        self._expect(mark)
        self._take(_BLANK)
        location: Location = ()
        names = self._keys(None)
        for number, name in enumerate(names, 1):
            location = (*location, name)
            if mark == "[[" and number == len(names):
                self._last_index[location] = self._last_index.get(location, -1) + 1
            self._note(location, start)
            if location in self._last_index:
                location = (*location, self._last_index[location])
                self._note(location, start)
        self._expect(mark.replace("[", "]"))
        self._take(_REST_OF_LINE)
        return location

    def _keys(self, parent: Location | None) -> tuple[str, ...]:
        """A dotted key; with a parent, the places of its parts are noted under it."""
        keys: list[str] = []
        while True:
            start = self._at
            keys.append(self._key())
            if parent is not None:
                self._note((*parent, *keys), start)
            self._take(_BLANK)
            if not self._text.startswith(".", self._at):
                return tuple(keys)
            self._at += 1
            self._take(_BLANK)

    def _key(self) -> str:
        match self._text[self._at]:
            case '"':
                token = self._take(_BASIC_STRING)
                return str(tomllib.loads(f"key = {token}")["key"])
            case "'":
                return self._take(_LITERAL_STRING)[1:-1]
            case _:
                return self._take(_BARE_KEY)

    def _value(self, location: Location) -> None:
        self._note(location, self._at)
        opening = self._text[self._at : self._at + 3]
        if opening in _MULTILINE_STRINGS:
            self._multiline(_MULTILINE_STRINGS[opening])
        elif opening.startswith('"'):
            self._take(_BASIC_STRING)
        elif opening.startswith("'"):
            self._take(_LITERAL_STRING)
        elif opening.startswith("["):
            self._array(location)
        elif opening.startswith("{"):
            self._inline_table(location)
        else:
            token = self._take(_SCALAR)
            length = len(token.rstrip(" \t"))
            self._at -= len(token) - length
            if length > MAX_NUMBER_LENGTH:
                raise _EndlessNumber(self._at - length)

    def _multiline(self, step: re.Pattern[str]) -> None:
        for found in step.finditer(self._text, self._at + 3):
            if found[1]:
                self._at = found.end()
                return
        raise _Lost

    def _array(self, location: Location) -> None:
        self._expect("[")
        index = 0
        while True:
            self._take(_TRIVIA)
            if self._text.startswith("]", self._at):
                self._at += 1
                return
            self._value((*location, index))
            index += 1
            self._take(_TRIVIA)
            if self._text.startswith(",", self._at):
                self._at += 1

    def _inline_table(self, location: Location) -> None:
        self._expect("{")
        while True:
            self._take(_TRIVIA)
            if self._text.startswith("}", self._at):
                self._at += 1
                return
            keys = self._keys(location)
            self._expect("=")
            self._take(_BLANK)
            self._value((*location, *keys))
            self._take(_TRIVIA)
            if self._text.startswith(",", self._at):
                self._at += 1
