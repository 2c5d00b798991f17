"""A database file for its owner alone: made whole, opened only if nobody else could have written it, and its faults as errors.

What is wrong with the file or the system ends as one error of the file's own kind, and nothing is made anew in its place.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError
from zeroclaw_host.private_files import create, make_private, sync_directory

SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""What the database keeps beside its file, by the end of its name."""

Identity = tuple[int, int]
"""Which file it is: device and inode."""


class PrivateDatabase:
    """The file at a path.

    :param noun: what it is to a person, as the beginning of a sentence.
    :param error: the kind of its errors. Their ``details`` hold ``path`` and ``reason``, a word: ``link``, ``not_a_file``,
        ``open_to_others``, ``foreign``, ``damaged``, ``busy``, ``failed``, or what its user calls :meth:`unavailable` with.
    :param expendable: whether nothing is lost that matters when somebody takes a foreign or damaged one away: then its
        error says so.
    """

    def __init__(self, path: Path, noun: str, error: type[StorageError], *, expendable: bool = False) -> None:
        self.path: Final = path
        self._expendable = expendable
        self._noun = noun
        self._error = error
        self._beside = [path.with_name(path.name + suffix) for suffix in SIDE_FILES]

    @property
    def exists(self) -> bool:
        """Whether anything is in the file's place.

        :raises StorageError: nobody can tell, or the file is gone and left something beside its place: the database
            would take that for the latest part of whatever is put there.
        """
        try:
            if _is_there(self.path):
                return True
            left = next(filter(_is_there, self._beside), None)
            if left is None:
                return False
            if _is_there(self.path):  # it was made between the two looks
                return True
        except OSError as error:
            raise self._of_system(error) from error
        by_hand = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(left)})
        raise self.unavailable("damaged", "is gone, and what belongs to it is not", left, by_hand)

    def create(self, make_empty: Callable[[Path], None]) -> None:
        """Make an empty database unless there is one. Others find no file, or the whole of it.

        :param make_empty: makes it under another name; see :func:`make_with`.
        :raises StorageError: it cannot be made.
        """
        temporary = self.path.with_name(f"{self.path.name}-{secrets.token_hex(8)}.partial")
        with self.failures():
            make_private(self.path.parent)
            try:
                make_empty(temporary)
                os.link(temporary, self.path)
            except (OSError, sqlite3.Error):
                # Somebody who was quicker sweeps files like this one away, at any moment; then his is the one.
                if not self.exists:
                    raise
            finally:
                _sweep(temporary)
            sync_directory(self.path.parent)
            for left in self.path.parent.glob(f"{self.path.name}-*.partial*"):
                with suppress(OSError):
                    left.unlink()

    def look(self) -> Identity:
        """The file that is there, and that it and what lies beside it are private files.

        :raises StorageError: one of them is not.
        :raises OSError: there is none, or nobody can tell.
        """
        for path in self._beside:
            with suppress(FileNotFoundError):
                self._look_at(path)
        return self._look_at(self.path)

    def _look_at(self, path: Path) -> Identity:
        found = os.lstat(path)
        by_hand = Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)})
        if stat.S_ISLNK(found.st_mode):
            raise self.unavailable("link", "is a link", path, by_hand)
        if not stat.S_ISREG(found.st_mode):
            raise self.unavailable("not_a_file", "is not a regular file", path, by_hand)
        if found.st_mode & 0o077:
            restrict = Remedy(RemedyAction.RESTRICT_FILE, {"path": str(path)})
            raise self.unavailable(
                "open_to_others", "can be read or written by others than its owner", path, restrict
            )
        return found.st_dev, found.st_ino

    @contextmanager
    def failures(self) -> Generator[None]:
        """Turn what the system and the database say into our errors; their own words name files and nothing stored.

        :raises StorageError: for every :class:`OSError` and :class:`sqlite3.Error` of the block.
        """
        try:
            yield
        except OSError as error:
            raise self._of_system(error) from error
        except sqlite3.Error as error:
            raise self._of_database(error) from error

    def _of_system(self, error: OSError) -> StorageError:
        full = error.errno in NO_SPACE
        remedy = Remedy(RemedyAction.FREE_SPACE, {"path": str(self.path)}) if full else None
        said = (error.strerror or type(error).__name__).lower()
        return self.unavailable("failed", f"cannot be used: {said}", remedy=remedy)

    def _of_database(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self.unavailable("busy", "has been in use by another program for too long")
        if primary == sqlite3.SQLITE_NOTADB:
            return self.foreign("is no database")
        if primary == sqlite3.SQLITE_CORRUPT:
            return self.damaged()
        remedy = None
        if primary == sqlite3.SQLITE_FULL:
            remedy = Remedy(RemedyAction.FREE_SPACE, {"path": str(self.path)})
        return self.unavailable("failed", f"cannot be used: {error}", remedy=remedy)

    def foreign(self, what: str) -> StorageError:
        """The error for a file of somebody else's."""
        return self.unavailable("foreign", what, remedy=self._to_take_away())

    def damaged(self) -> StorageError:
        """The error for a file that holds what was never written there."""
        return self.unavailable("damaged", "is damaged", remedy=self._to_take_away())

    def _to_take_away(self) -> Remedy | None:
        return Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(self.path)}) if self._expendable else None

    def unavailable(
        self, reason: str, what: str, path: Path | None = None, remedy: Remedy | None = None
    ) -> StorageError:
        """The error that says what is wrong with the file."""
        path = path or self.path
        return self._error(
            f"{self._noun} {what} ({path})",
            remedy=remedy,
            details={"path": str(path), "reason": reason},
        )


def make_with(path: Path, script: str) -> None:
    """A new database, whole on the disk, that its owner alone can open, after this script of statements.

    :raises OSError, sqlite3.Error: it could not be made.
    """
    descriptor = create(path)
    try:
        with closing(connect(path)) as raw:
            raw.executescript(script)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(path: Path, *, busy_seconds: float = 0) -> sqlite3.Connection:
    """A connection to a file that exists, for one thread at a time.

    :param busy_seconds: how long an operation waits for other programs.
    """
    raw = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    # Bytes that are no text are a damaged row like any other; the library's own error would quote them.
    raw.text_factory = _text
    return raw


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another program was in the way."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _sweep(temporary: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        with suppress(OSError):
            temporary.with_name(temporary.name + suffix).unlink()


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True
