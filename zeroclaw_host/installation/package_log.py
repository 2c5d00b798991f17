"""What was done to the plugins directory, by whom and by which rule: a file of records that hold each other in place.

One JSON object a line. Each record carries its number and the SHA-256 of the line before it, so that a record that was
changed, dropped, moved or cut is found. A small file beside the log holds the number and the digest of the newest record,
so that records cut off at the end are missed as well. This protects from accidents and from quiet edits, not from somebody
who may write to both files and computes all of it anew.

A record is written ahead of what it tells: an install that was stopped may be in the log without being on the disk, never
the other way round. One that was undone is followed by a record that says so.
"""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, cast

from zeroclaw_host.installation.filesystem import storage_error
from zeroclaw_host.private_files import FILE_MODE, make_private, write_all

GENESIS: Final = "0" * 64
"""What the first record names as the digest of the line before it."""

_TAIL_BYTES: Final = 16 * 1024
"""More than a record takes, mostly."""
_DETAIL_CHARACTERS: Final = 1000
"""An error can be long, and a record is one of many."""


class Action(StrEnum):
    """What a record tells."""

    INSTALL = "install"
    UPDATE = "update"
    REMOVE = "remove"
    RESTORE = "restore"
    """A package that an interrupted command had moved aside was put back."""
    APPROVE = "approve"
    """Authority that an update adds was accepted; ``detail`` lists it."""
    REFUSE = "refuse"
    """Nothing was done; ``rule`` is the code word of the error, ``detail`` its message."""
    UNDO = "undo"
    """What the record of this package before it tells was undone, because of ``rule``."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the log, without what the log itself adds (number, time, who, and the chain)."""

    action: Action
    package: str | None
    version: str | None = None
    previous_version: str | None = None
    manifest_sha256: str | None = None
    component_sha256: str | None = None
    publisher_key: str | None = None
    signature: str | None = None
    rule: str | None = None
    """The signature mode that let a package pass, or the code word of the error that did not."""
    source: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What reading the whole log found."""

    records: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    torn_bytes: int
    """Bytes of a record at the end whose writing was interrupted. The next record takes their place."""

    @property
    def intact(self) -> bool:
        """Whether every record is there, unchanged and in its place."""
        return not self.problems


def current_user() -> str:
    """Who is at work: the login name and the number of the process's user."""
    number = os.getuid()
    try:
        return f"{getpass.getuser()} ({number})"
    except (OSError, KeyError):
        return f"({number})"


class Journal(Protocol):
    """Where records go."""

    def append(self, record: Record) -> None:
        """Keep a record.

        :raises StorageError: it is not kept; what it tells must not happen.
        """
        ...


class Unlogged:
    """A journal for programs that keep none."""

    def append(self, record: Record) -> None:
        """Nothing is kept."""


class PackageLog:
    """The log in one file. Safe to use from several processes at once.

    :param path: the log; made, with its directory, when the first record is written.
    :param who: whom records name.
    :param now: the time.
    :param at: told each step ahead of it; what it raises is raised in place of the step. For tests of what stays when
        writing stops anywhere.
    """

    def __init__(
        self,
        path: Path,
        *,
        who: Callable[[], str] = current_user,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        at: Callable[[str], object] = lambda step: step,
    ) -> None:
        self.path = path
        self._head = path.with_name(f"{path.name}.head")
        self._who = who
        self._now = now
        self._at = at

    def append(self, record: Record) -> None:
        """Write a record and wait until it is on the disk.

        :raises StorageError: it was not written.
        """
        try:
            with self._locked() as file:
                number, digest = self._end(file)
                self._write(file, number + 1, self._line(record, number + 1, digest))
        except OSError as error:
            raise storage_error(
                error, str(self.path.parent), f"write to the package log {self.path.name}"
            ) from error

    def verify(self) -> Verification:
        """Read everything and check the chain.

        :raises StorageError: the log cannot be read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise storage_error(error, str(self.path), "read the package log") from error
        whole, _, torn = data.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        return _verified(lines, len(torn), self._read_head())

    @contextmanager
    def _locked(self) -> Generator[int, None, None]:
        make_private(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self.path, flags, FILE_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _end(self, file: int) -> tuple[int, str]:
        """Number and digest of the newest record; the file is left positioned, and cut, behind it."""
        size = os.fstat(file).st_size
        last, torn = _tail(file, size)
        if torn:
            # A record whose writing was interrupted was never told to anybody.
            self._at("drop half a record")
            os.ftruncate(file, size - torn)
        os.lseek(file, 0, os.SEEK_END)
        noted = self._read_head()
        # Records that were cut off at the end leave a gap in the numbers, so that the next one does not hide it.
        at_least = noted[0] if isinstance(noted, tuple) else 0
        if last is None:
            return at_least, GENESIS
        number, digest = _number(last), _digest(last)
        if noted is None:
            # The command that wrote the first record was stopped before it noted it.
            self._write_head(number, digest)
        return max(number, at_least), digest

    def _write(self, file: int, number: int, line: bytes) -> None:
        """The record and the note of it, on the disk; or nothing."""
        start = os.lseek(file, 0, os.SEEK_CUR)
        try:
            self._at("write a record")
            write_all(file, line + b"\n")
            self._at("flush the log")
            os.fsync(file)
            self._write_head(number, _digest(line))
        except OSError:
            os.ftruncate(file, start)
            raise

    def _line(self, record: Record, number: int, previous: str) -> bytes:
        fields: dict[str, object] = {"n": number, "time": self._now().isoformat(timespec="milliseconds")}
        fields["who"] = self._who()
        fields |= {name: value for name, value in asdict(record).items() if value is not None}
        if record.detail is not None:
            fields["detail"] = record.detail[:_DETAIL_CHARACTERS]
        fields["prev"] = previous
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode()

    def _write_head(self, number: int, digest: str) -> None:
        temporary = self._head.with_name(f"{self._head.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._at("write the note")
        file = os.open(temporary, flags, FILE_MODE)
        try:
            write_all(file, f"{number} {digest}\n".encode())
            self._at("flush the note")
            os.fsync(file)
        finally:
            os.close(file)
        self._at("publish the note")
        temporary.replace(self._head)

    def _read_head(self) -> tuple[int, str] | str | None:
        try:
            number, digest = self._head.read_text(encoding="ascii").split()
            return int(number), digest
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return f"{self._head} cannot be read"


def _verified(lines: list[bytes], torn: int, head: tuple[int, str] | str | None) -> Verification:
    problems: list[str] = []
    records: list[dict[str, Any]] = []
    previous, number = GENESIS, 0
    for at, line in enumerate(lines, 1):
        record = _parsed(line)
        records.append(record)
        if not record:
            problems.append(f"line {at} is no record")
        elif record.get("prev") != previous:
            problems.append(f"line {at} does not follow the line before it")
        if record and record.get("n") != number + 1:
            problems.append(f"line {at} is record {record.get('n')} and should be record {number + 1}")
        previous, number = _digest(line), _number(line) if record else number + 1
    return Verification(tuple(records), (*problems, *_head_problems(lines, head)), torn)


def _head_problems(lines: list[bytes], head: tuple[int, str] | str | None) -> list[str]:
    if isinstance(head, str):
        return [head]
    if head is None:
        # A command that was killed between writing the very first record and noting it leaves one that is not noted.
        return ["the newest record is not noted beside the log"] if len(lines) > 1 else []
    number, digest = head
    newest = _number(lines[-1]) if lines else 0
    if number > newest:
        return [
            f"records are missing at the end: {number} were written, and the last one here is record {newest}"
        ]
    if all(_digest(line) != digest for line in lines):
        return [f"record {number} is not the one that was noted beside the log"]
    return []


def _tail(file: int, size: int) -> tuple[bytes | None, int]:
    """The last whole line, and how many bytes of another one follow it."""
    length = _TAIL_BYTES
    while True:
        data = os.pread(file, length, max(0, size - length))
        whole, _, torn = data.rpartition(b"\n")
        _, newline, last = whole.rpartition(b"\n")
        if newline or length >= size:
            return (last if whole else None), len(torn)
        length *= 2


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        value = json.loads(line)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return {}


def _number(line: bytes) -> int:
    number = _parsed(line).get("n")
    return number if isinstance(number, int) else 0


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
