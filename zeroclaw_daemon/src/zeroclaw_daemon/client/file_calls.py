"""``file/*``: files for a session, sent whole or in chunks."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread
from pydantic import BaseModel

from zeroclaw_daemon.client.calls import Calls, UnexpectedAnswer
from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.rpc.errors import PeerSilent, RemoteError
from zeroclaw_daemon.rpc.methods import file_models as models
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind, ZeroclawError

REPLY_SECONDS: Final = 30.0
"""How long a piece of a file waits for its reply before it is sent again."""
TRIES: Final = 3
"""How often a piece is sent at most, and the whole."""
MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""The most that a file may have (D-03)."""

R = TypeVar("R", bound=BaseModel)


class FileUnusable(ZeroclawError):
    """A file of this machine cannot be sent. ``details`` holds ``path``."""

    code = "file_unusable"
    kind = Kind.INVALID


class FileCalls(Calls):
    """Files."""

    _clock: Clock

    async def attach(self, session_id: str, files: list[models.AttachedFile]) -> models.AttachResult:
        """Send files whole, in one frame, or name them by their paths (RPC-257, RPC-258)."""
        entries = [file.model_dump(exclude_none=True) for file in files]
        return await self.ask(
            "file/attach", {"session_id": session_id, "files": entries}, models.AttachResult
        )

    async def upload_begin(
        self, session_id: str, size_bytes: int, *, filename: str | None = None, sha256: str | None = None
    ) -> models.BeginResult:
        """Reserve room for a file that is sent in chunks (RPC-163)."""
        params = {"session_id": session_id, "size_bytes": size_bytes, "filename": filename, "sha256": sha256}
        return await self.ask("file/upload/begin", params, models.BeginResult)

    async def upload_chunk(self, upload_id: str, offset: int, data: bytes) -> models.ChunkResult:
        """Send the next piece; the same one again changes nothing."""
        params = _chunk(upload_id, offset, data)
        return await self.ask("file/upload/chunk", params, models.ChunkResult)

    async def upload_commit(self, upload_id: str) -> models.FileEntry:
        """Store a file all of whose bytes have come."""
        return await self.ask("file/upload/commit", {"upload_id": upload_id}, models.FileEntry)

    async def upload(
        self,
        session_id: str,
        data: bytes,
        *,
        filename: str | None = None,
        reply_seconds: float = REPLY_SECONDS,
    ) -> models.FileEntry:
        """Send a file in chunks; how the session knows it. Put the entry into a prompt's ``attachments``.

        A piece whose reply does not come is sent again, which the daemon takes for the same piece. Where the reply to the
        last step is lost, the whole is sent again, and the session knows the file by then. A daemon that takes pieces of local
        clients alone is sent the whole in one frame.

        :param reply_seconds: how long each reply is waited for.
        :raises PeerSilent: the daemon did not reply, though it was tried several times.
        :raises RemoteError: it refused.
        :raises ConnectionLost: it is gone, and what was sent with it.
        :raises FrameTooLarge: it takes no pieces, and the whole does not fit in a line.
        """
        try:
            return await self._upload_in_pieces(session_id, data, filename, reply_seconds)
        except RemoteError as error:
            if not _is_for_local_clients(error):
                raise
        whole = models.AttachedFile(data_b64=base64.b64encode(data).decode(), filename=filename)
        return (await self.attach(session_id, [whole])).files[0]

    async def _upload_in_pieces(
        self, session_id: str, data: bytes, filename: str | None, reply_seconds: float
    ) -> models.FileEntry:
        begin: dict[str, JsonValue] = {
            "session_id": session_id,
            "size_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        if filename is not None:
            begin["filename"] = filename
        for _ in range(TRIES - 1):
            with suppress(PeerSilent):
                return await self._upload(begin, data, reply_seconds)
        return await self._upload(begin, data, reply_seconds)

    async def upload_file(
        self, session_id: str, path: Path, *, filename: str | None = None, limit: int = MAX_FILE_BYTES
    ) -> models.FileEntry:
        """Send a file of this machine in chunks. See :meth:`upload`.

        :param filename: what it is to be called; left out, as it is called here.
        :param limit: the most bytes that are read.
        :raises FileUnusable: it is no regular file, too large, or cannot be read.
        """
        data = await anyio.to_thread.run_sync(_read, path, limit)
        return await self.upload(session_id, data, filename=filename or path.name)

    async def _upload(
        self, begin: dict[str, JsonValue], data: bytes, reply_seconds: float
    ) -> models.FileEntry:
        """Send a file once; only what may be repeated is."""
        begun = await self._replied("file/upload/begin", begin, models.BeginResult, reply_seconds, tries=1)
        received = 0
        while received < len(data):
            piece = data[received : received + begun.chunk_bytes]
            params = _chunk(begun.upload_id, received, piece)
            taken = await self._replied("file/upload/chunk", params, models.ChunkResult, reply_seconds)
            if not received < taken.received_bytes <= len(data):
                raise UnexpectedAnswer(
                    "the daemon's count of what it received makes no sense",
                    details={"method": "file/upload/chunk", "members": ["received_bytes"]},
                )
            received = taken.received_bytes
        params = {"upload_id": begun.upload_id}
        return await self._replied("file/upload/commit", params, models.FileEntry, reply_seconds, tries=1)

    async def _replied(
        self,
        method: str,
        params: Mapping[str, JsonValue],
        result: type[R],
        seconds: float,
        *,
        tries: int = TRIES,
    ) -> R:
        """A call that is made again where no reply comes."""
        for _ in range(tries):
            with self._clock.move_on_after(seconds):
                return await self.ask(method, params, result)
        raise PeerSilent(
            f"the daemon did not reply to {method}, tried {tries} times", details={"method": method}
        )


def _is_for_local_clients(error: RemoteError) -> bool:
    match error.error.data:
        case {"reason": "forbidden", "rule": "local_only"}:
            return True
        case _:
            return False


def _chunk(upload_id: str, offset: int, data: bytes) -> dict[str, JsonValue]:
    return {"upload_id": upload_id, "offset": offset, "data_b64": base64.b64encode(data).decode()}


def _read(path: Path, limit: int) -> bytes:
    try:
        with ExitStack() as opened:
            # A pipe without a writer must not hold this up.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileUnusable(f"{path} is no regular file", details={"path": str(path)})
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name is none"
        raise FileUnusable(f"{path} cannot be read: {why}", details={"path": str(path)}) from error
    if len(data) > limit:
        raise FileUnusable(
            f"{path} has more than {limit} bytes, the most that a file may have",
            details={"path": str(path), "max_bytes": limit},
        )
    return data
