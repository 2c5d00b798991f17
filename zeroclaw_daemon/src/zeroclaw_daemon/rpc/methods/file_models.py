"""What ``file/*`` takes and answers (RPC-163 … RPC-183, RPC-257). This family is spelled in snake_case."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, model_validator

from zeroclaw_daemon.attachments.index import Attachment
from zeroclaw_daemon.rpc.models import Id, Name, PathText, SnakeParams, SnakeResult

MAX_FILES: Final = 64
"""Files that one call of ``file/attach``, or one prompt, may name."""

Unsigned = Annotated[int, Field(ge=0, le=2**64 - 1)]


class BeginParams(SnakeParams):
    """A file that is going to be sent in chunks: for which session, how long it is, and what may be said of it beforehand."""

    session_id: Annotated[Id, Field(description="The live session that the file is for.")]
    size_bytes: Annotated[
        Unsigned, Field(description="How long it is; at most `max_bytes`, and 0 is a length.")
    ]
    filename: Annotated[
        PathText | None, Field(description="What it is called; at most 255 bytes in UTF-8.")
    ] = None
    sha256: Annotated[
        Name | None, Field(description="64 hexadecimal digits that its bytes must have at the end.")
    ] = None


class BeginResult(SnakeResult):
    """Room for the file is reserved."""

    upload_id: Annotated[str, Field(description="What this connection calls the upload.")]
    chunk_bytes: Annotated[int, Field(description="The most that one chunk may hold, decoded.")]
    max_bytes: Annotated[int, Field(description="The most that one file may have.")]


class ChunkParams(SnakeParams):
    """The next piece of a file."""

    upload_id: Id
    offset: Annotated[
        Unsigned,
        Field(description="How many bytes come before it; for a piece that was taken already, any number."),
    ]
    data_b64: Annotated[str, Field(repr=False, description="The bytes in standard base64, padded.")]


class ChunkResult(SnakeResult):
    """The piece is taken, now or before."""

    received_bytes: Annotated[int, Field(description="How many bytes have come; the next `offset`.")]


class CommitParams(SnakeParams):
    """A file all of whose bytes have come."""

    upload_id: Id


class FileEntry(SnakeResult):
    """A file that a session knows. ``session/prompt`` takes it in ``attachments``."""

    ref_id: Annotated[str, Field(description="`sha256:` and the digest of its bytes.")]
    marker: Annotated[str, Field(description="How a prompt names it to the model.")]
    workspace_path: Annotated[
        str,
        Field(
            description="Where it lies: a path on the daemon's machine, in the workspace of the session's agent."
        ),
    ]
    size_bytes: int
    deduplicated: Annotated[bool, Field(description="Whether the session knew it before.")]

    @classmethod
    def of(cls, attachment: Attachment, *, deduplicated: bool) -> FileEntry:
        """A stored file as clients read it."""
        return cls(
            ref_id=attachment.ref_id,
            marker=attachment.marker,
            workspace_path=attachment.path,
            size_bytes=attachment.size,
            deduplicated=deduplicated,
        )


class AttachedFile(SnakeParams):
    """One file of a call: its bytes, or where they are on this machine. Where both are given, the bytes count."""

    data_b64: Annotated[
        str | None, Field(repr=False, description="The bytes in standard base64, padded.")
    ] = None
    path: Annotated[
        PathText | None,
        Field(description="For local clients: an absolute path of a regular file, without a link in it."),
    ] = None
    filename: Annotated[
        PathText | None, Field(description="What it is called; at most 255 bytes in UTF-8.")
    ] = None
    mime_type: Annotated[Name | None, Field(description="Not looked at: the bytes say what a file is.")] = (
        None
    )

    @model_validator(mode="after")
    def _has_content(self) -> AttachedFile:
        if self.data_b64 is None and self.path is None:
            raise ValueError("a file needs data_b64 or path")
        return self


class AttachParams(SnakeParams):
    """Files that are sent whole."""

    session_id: Id
    files: Annotated[list[AttachedFile], Field(min_length=1, max_length=MAX_FILES)]


class AttachResult(SnakeResult):
    """The files, in the order of the request."""

    files: list[FileEntry]
