"""``file/*``: files for a session, whole or in chunks."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from zeroclaw_daemon.attachments.content import DEFAULT_FILENAME, SentFile
from zeroclaw_daemon.attachments.local_file import check_path, read_local
from zeroclaw_daemon.authority.principal import AuthenticationFailed, Forbidden
from zeroclaw_daemon.rpc.access import SessionAccess, principal_of
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.methods.file_models import (
    AttachedFile,
    AttachParams,
    AttachResult,
    BeginParams,
    BeginResult,
    ChunkParams,
    ChunkResult,
    CommitParams,
    FileEntry,
)
from zeroclaw_daemon.sessions.live import LiveSessions
from zeroclaw_daemon.uploads.binding import Binding
from zeroclaw_daemon.uploads.errors import AttachTooLarge, Base64Invalid, UploadDigestMismatch
from zeroclaw_daemon.uploads.placing import FilePlacer, Placed
from zeroclaw_daemon.uploads.staging import Staging
from zeroclaw_host.errors import ZeroclawError

MAX_ATTACH_BYTES: Final = 20 * 1024 * 1024
"""Bytes that the files of one call may have together."""

MAX_THREADS: Final = 4
"""Threads that decode and hash at once."""

MAX_READ: Final = 4
"""Files named by their paths whose bytes are held at once; a line that names one is short, so that nothing else bounds them."""

_GROUP: Final = 4
_MAX_PADDING: Final = 2

T = TypeVar("T")


class FileMethods:
    """The methods ``file/*``.

    :param staging: where uploads wait until they are complete.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        access: SessionAccess,
        placer: FilePlacer,
        staging: Staging[Binding],
    ) -> None:
        self._sessions = sessions
        self._access = access
        self._placer = placer
        self._staging = staging
        self._threads = anyio.CapacityLimiter(MAX_THREADS)
        # Of their own: a file system that does not answer holds up those alone who name paths.
        self._read = anyio.CapacityLimiter(MAX_READ)
        self._readers = anyio.CapacityLimiter(MAX_READ)

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves them."""
        return {
            "file/attach": self.attach,
            "file/upload/begin": self.begin,
            "file/upload/chunk": self.chunk,
            "file/upload/commit": self.commit,
        }

    async def begin(self, caller: Caller, params: BeginParams) -> BeginResult:
        """Reserve room for a file that comes in chunks, for this connection and this very session (RPC-163)."""
        binding = self._bound(caller, params.session_id)
        upload = self._staging.begin(
            caller,
            binding,
            kept=(params.session_id, binding.owner, binding.agent_alias),
            size=params.size_bytes,
            filename=params.filename or DEFAULT_FILENAME,
            digest=params.sha256,
        )
        return BeginResult(
            upload_id=upload.id,
            chunk_bytes=self._staging.limits.chunk_bytes,
            max_bytes=self._staging.limits.file_bytes,
        )

    async def chunk(self, caller: Caller, params: ChunkParams) -> ChunkResult:
        """Take the next piece, or one that was taken already and whose answer was lost (RPC-170, RPC-173)."""
        data = await self._thread(partial(decoded, params.data_b64))
        received = self._staging.append(caller, params.upload_id, params.offset, data)
        return ChunkResult(received_bytes=received)

    async def commit(self, caller: Caller, params: CommitParams) -> FileEntry:
        """Store a file all of whose bytes have come. Whatever it ends with, the upload is over, unless bytes are missing.

        Who may not send files is told that, and nothing of the upload; but where the upload can be placed, its session is
        judged before its sender (RPC-185, RPC-206).
        """
        principal = principal_of(caller)
        try:
            upload = self._staging.take(caller, params.upload_id)
        except ZeroclawError:
            try:
                self._placer.require_sender(principal)
            except (AuthenticationFailed, Forbidden):
                self._staging.discard(caller, params.upload_id)
                raise
            raise
        try:
            file = await self._thread(partial(SentFile.of, upload.received, upload.filename))
            if upload.digest is not None and upload.digest != file.digest:
                raise UploadDigestMismatch
            return _entry(await self._placer.place(principal, upload.target, file))
        finally:
            upload.charge.give_back()

    async def attach(self, caller: Caller, params: AttachParams) -> AttachResult:
        """Store files, one after the other (RPC-257). What is wrong with the request itself is found before any is stored; where
        one cannot be stored, those before it are, and ``data.index`` says which it is.
        """
        binding = self._bound(caller, params.session_id)
        contents = await self._thread(partial(self._contents, caller, params.files))
        # What came in the line is bounded by it, and what is named by paths by the rest.
        room = MAX_ATTACH_BYTES - sum(len(content) for content in contents if content is not None)
        entries: list[FileEntry] = []
        for index, (file, content) in enumerate(zip(params.files, contents, strict=True)):
            with _about(index):
                placed, size = await self._attach(caller, binding, file, content, room)
                room -= size
                entries.append(_entry(placed))
        return AttachResult(files=entries)

    def _bound(self, caller: Caller, session_id: str) -> Binding:
        """The live session of this id, if the caller may send files to it (RPC-200, RPC-201)."""
        self._access.require_turn(caller, session_id)
        return Binding.of(self._sessions.get(session_id))

    def _contents(self, caller: Caller, files: list[AttachedFile]) -> list[bytes | None]:
        """The bytes that came with each file, None where a path came. Nothing else is looked at yet."""
        contents: list[bytes | None] = []
        for index, file in enumerate(files):
            with _about(index):
                content = None if file.data_b64 is None else decoded(file.data_b64)
                self._staging.check_size(len(content or b""))
                self._staging.check_filename(file.filename or "")
                if content is None:
                    check_path(file.path or "")
                    if not caller.link.peer.local:
                        raise Forbidden("only a local client may name a path", details={"rule": "local_only"})
                contents.append(content)
        return contents

    async def _attach(
        self, caller: Caller, binding: Binding, file: AttachedFile, content: bytes | None, room: int
    ) -> tuple[Placed, int]:
        """Place one file; and how many bytes of it count against the room that is left."""
        principal = principal_of(caller)
        if content is not None:
            sent = await self._thread(partial(SentFile.of, content, file.filename))
            return await self._placer.place(principal, binding, sent), 0
        path = file.path or ""

        def read() -> SentFile:
            self._placer.require_readable(principal, binding, path)
            found = read_local(path, self._staging.limits.file_bytes)
            if len(found) > room:
                raise AttachTooLarge(MAX_ATTACH_BYTES)
            return SentFile.of(found, file.filename or PurePosixPath(path).name)

        async with self._read:
            sent = await anyio.to_thread.run_sync(read, limiter=self._readers)
            return await self._placer.place(principal, binding, sent, path=path), len(sent.content)

    async def _thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._threads)


def decoded(text: str) -> bytes:
    """The bytes of a text in standard base64.

    :raises Base64Invalid: it has other characters, white space among them, or too few or too many for its padding.
    """
    # The library lets some padding pass that is none.
    if len(text) % _GROUP or len(text) - len(text.rstrip("=")) > _MAX_PADDING:
        raise Base64Invalid
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Base64Invalid from None


def _entry(placed: Placed) -> FileEntry:
    return FileEntry.of(placed.attachment, deduplicated=placed.deduplicated)


@contextmanager
def _about(index: int) -> Generator[None]:
    """Have an error say which file it is about."""
    try:
        yield
    except ZeroclawError as error:
        error.details = {**error.details, "index": index}
        raise
