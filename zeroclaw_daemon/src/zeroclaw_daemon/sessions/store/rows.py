"""Putting values into rows and taking them out again."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

from zeroclaw_daemon.sessions.store.records import RowBroken
from zeroclaw_host.errors import UsageError

Column: TypeAlias = str | int | None
Word = TypeVar("Word", bound=StrEnum)


def insert(raw: sqlite3.Connection, table: str, **values: Column) -> int:
    """Put a row in; its number."""
    marks = ", ".join(
        "CAST(? AS TEXT)" if isinstance(value, bytes) else "?" for value in map(bound, values.values())
    )
    statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
    number = raw.execute(statement, [bound(value) for value in values.values()]).lastrowid
    assert number is not None
    return number


def sound(name: str) -> str:
    """The name.

    :raises UsageError: it holds half of a character, and would be another one when it is read again.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError("the name holds half of a character") from None
    return name


def bound(value: Column) -> Column | bytes:
    """The value as a statement takes it, which has to make text of it again. Text with lone surrogates, which JSON can bring in and
    the database's own way of taking text refuses, is bytes.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode(errors="surrogatepass")
    return value


def text(value: object) -> str:
    """:raises RowBroken: it is none."""
    if not isinstance(value, str):
        raise RowBroken
    return value


def text_or_none(value: object) -> str | None:
    """:raises RowBroken: it is neither."""
    return None if value is None else text(value)


def number(value: object) -> int:
    """:raises RowBroken: it is none."""
    if not isinstance(value, int):
        raise RowBroken
    return value


def word(words: type[Word], value: object) -> Word:
    """:raises RowBroken: it is none of these words."""
    try:
        return words(text(value))
    except ValueError as error:
        raise RowBroken from error


def stamp(moment: datetime) -> str:
    """A moment as a column holds it (RFC 3339, UTC)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(value: object) -> datetime:
    """:raises RowBroken: it is none."""
    try:
        return datetime.fromisoformat(text(value)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise RowBroken from error
