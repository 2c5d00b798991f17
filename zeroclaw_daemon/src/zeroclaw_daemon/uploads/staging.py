"""Uploads that are not complete: held in memory, each for the connection that began it.

They are in memory and not in files, so that a chunk never fails for want of a disk, and nothing outlives the daemon. What
they may hold is reserved as a whole when they begin, within one budget for all connections (RPC-189, RPC-190); while its
bytes arrive, a buffer may have an eighth more room than it needs. Knows no connection, no file and no session: the caller
says whose an upload is. Not safe to use from several threads.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import anyio

from zeroclaw_daemon.uploads.budget import Budget, Charge, byte_length, cost
from zeroclaw_daemon.uploads.errors import (
    ChunkDiffers,
    ChunkEmpty,
    ChunkLeavesGap,
    ChunkPastEnd,
    ChunkTooLarge,
    DigestInvalid,
    FilenameTooLong,
    FileTooLarge,
    UploadBudgetSpent,
    UploadIncomplete,
    UploadLimit,
    UploadUnknown,
)

_ID_BYTES: Final = 16
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Target = TypeVar("Target")


@dataclass(frozen=True, slots=True)
class StagingLimits:
    """The bounds of uploads. Sizes are in bytes, times in seconds."""

    chunk_bytes: int = 1024 * 1024
    """Of one chunk, decoded (RPC-176)."""
    file_bytes: int = 10 * 1024 * 1024
    """Of one file (RPC-165, D-03)."""
    filename_bytes: int = 255
    """Of a file's name in UTF-8 (RPC-166)."""
    per_connection: int = 4
    """Uploads that one connection stages at once (RPC-188)."""
    total_bytes: int = 256 * 1024 * 1024
    """Of all uploads together, with what is kept beside them (RPC-189, RPC-191)."""
    idle_seconds: float = 300.0
    """After which an upload is abandoned (RPC-194)."""


@dataclass(slots=True, eq=False)
class Upload(Generic[Target]):
    """One upload. ``target`` is whatever the caller bound it to, ``digest`` the declared one in lower case."""

    id: str
    target: Target
    size: int
    filename: str
    digest: str | None
    charge: Charge
    touched: float
    received: bytearray = field(default_factory=bytearray, repr=False)


class Staging(Generic[Target]):
    """The uploads of all connections.

    :param now: seconds that only move forward.
    """

    def __init__(self, now: Callable[[], float], limits: StagingLimits | None = None) -> None:
        self.limits = limits or StagingLimits()
        self._now = now
        self._budget = Budget(self.limits.total_bytes)
        self._staged: dict[object, dict[str, Upload[Target]]] = {}
        self._begun: anyio.Event | None = None
        """Set by the next upload that begins, where somebody waits for one."""

    @property
    def used_bytes(self) -> int:
        """What is reserved now."""
        return self._budget.used

    def begin(
        self,
        holder: object,
        target: Target,
        *,
        kept: Sequence[str | None] = (),
        size: int,
        filename: str,
        digest: str | None = None,
    ) -> Upload[Target]:
        """Reserve room for an upload.

        :param holder: the connection; nobody else can name the upload (RPC-186).
        :param target: what it is bound to.
        :param kept: the texts that the target holds; they count like bytes (RPC-191).
        :param digest: 64 hexadecimal digits of either case; space around them is ignored.
        :raises FileTooLarge, FilenameTooLong, DigestInvalid, UploadLimit, UploadBudgetSpent: in this order; nothing is staged.
        """
        self.reclaim()
        self.check_size(size)
        self.check_filename(filename)
        declared = _short(digest)
        staged = self._staged.get(holder, {})
        if len(staged) >= self.limits.per_connection:
            raise UploadLimit(self.limits.per_connection)
        charge = self._budget.take(cost(size, *kept, filename, declared))
        if charge is None:
            raise UploadBudgetSpent(self._budget.limit)
        upload = Upload(secrets.token_hex(_ID_BYTES), target, size, filename, declared, charge, self._now())
        self._staged.setdefault(holder, {})[upload.id] = upload
        if self._begun is not None:
            self._begun.set()
        return upload

    def append(self, holder: object, upload_id: str, offset: int, data: bytes) -> int:
        """Take a chunk that begins at this offset; the bytes received so far. One that was taken already changes nothing.

        :raises UploadUnknown: the holder stages no such upload, or no longer.
        :raises ChunkRefused: the chunk is empty or too large, leaves a gap, goes past the end, or is not the same as what came
            before in its place; the upload stays as it is, and its idle time runs on.
        """
        upload = self._found(holder, upload_id)
        received = len(upload.received)
        end = offset + len(data)
        if not data:
            raise ChunkEmpty("a chunk must hold something", received)
        if len(data) > self.limits.chunk_bytes:
            raise ChunkTooLarge(f"a chunk may have {self.limits.chunk_bytes} bytes", received)
        if offset > received:
            raise ChunkLeavesGap("bytes before this chunk are missing", received)
        if end > upload.size:
            raise ChunkPastEnd(f"{upload.size} bytes were declared", received)
        if offset == received:
            upload.received += data
        elif memoryview(upload.received)[offset:end] != memoryview(data):
            raise ChunkDiffers("other bytes were received here", received)
        upload.touched = self._now()
        return len(upload.received)

    def take(self, holder: object, upload_id: str) -> Upload[Target]:
        """Take a complete upload out, to be stored or discarded. What it reserved stays so until its charge is given back.

        :raises UploadUnknown: the holder stages no such upload, or no longer.
        :raises UploadIncomplete: it is not complete; it stays.
        """
        upload = self._found(holder, upload_id)
        if len(upload.received) < upload.size:
            upload.touched = self._now()
            raise UploadIncomplete(len(upload.received), upload.size)
        self._remove(holder, upload)
        return upload

    def discard(self, holder: object, upload_id: str) -> None:
        """An upload is over, complete or not. One that is unknown is none."""
        upload = self._staged.get(holder, {}).get(upload_id)
        if upload is not None:
            self._remove(holder, upload)
            upload.charge.give_back()

    def drop(self, holder: object) -> None:
        """The connection is over: its uploads are discarded (RPC-187)."""
        for upload in self._staged.pop(holder, {}).values():
            upload.charge.give_back()

    def reclaim(self) -> None:
        """Discard what was idle for too long, whosever it is: it could not be continued anyway (RPC-196, RPC-259)."""
        for holder, uploads in tuple(self._staged.items()):
            for upload in tuple(uploads.values()):
                if self._is_idle(upload):
                    self._remove(holder, upload)
                    upload.charge.give_back()

    async def until_idle(self) -> float:
        """Wait until there is an upload; the seconds after which one is idle for too long, if nobody goes on with it."""
        while not self._staged:
            self._begun = anyio.Event()
            await self._begun.wait()
        touched = min(upload.touched for uploads in self._staged.values() for upload in uploads.values())
        return max(0.0, touched + self.limits.idle_seconds - self._now())

    def check_size(self, size: int) -> None:
        """Let a file have this many bytes.

        :raises FileTooLarge: it may not.
        """
        if size > self.limits.file_bytes:
            raise FileTooLarge(self.limits.file_bytes)

    def check_filename(self, filename: str) -> None:
        """Let a file have this name.

        :raises FilenameTooLong: it may not.
        """
        if byte_length(filename) > self.limits.filename_bytes:
            raise FilenameTooLong(self.limits.filename_bytes)

    def _found(self, holder: object, upload_id: str) -> Upload[Target]:
        upload = self._staged.get(holder, {}).get(upload_id)
        if upload is None:
            raise UploadUnknown
        if self._is_idle(upload):
            self._remove(holder, upload)
            upload.charge.give_back()
            raise UploadUnknown
        return upload

    def _is_idle(self, upload: Upload[Target]) -> bool:
        return self._now() - upload.touched >= self.limits.idle_seconds

    def _remove(self, holder: object, upload: Upload[Target]) -> None:
        uploads = self._staged[holder]
        del uploads[upload.id]
        if not uploads:
            del self._staged[holder]


def _short(digest: str | None) -> str | None:
    """A declared digest in the form that it is compared in."""
    if digest is None:
        return None
    found = digest.strip().lower()
    if not _DIGEST.fullmatch(found):
        raise DigestInvalid
    return found
