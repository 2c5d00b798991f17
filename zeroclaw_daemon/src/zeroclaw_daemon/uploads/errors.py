"""What can go wrong with a file on its way to a session."""

from __future__ import annotations

from zeroclaw_host.errors import Kind, ZeroclawError


class FileTooLarge(ZeroclawError):
    """A file has more bytes than one may have (RPC-165). ``details`` holds ``max_bytes``."""

    code = "file_too_large"
    kind = Kind.INVALID

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"a file may have {max_bytes} bytes", details={"max_bytes": max_bytes})


class FilenameTooLong(ZeroclawError):
    """A file's name has more bytes than one may have (RPC-166). ``details`` holds ``max_bytes``."""

    code = "filename_too_long"
    kind = Kind.INVALID

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"the name of a file may have {max_bytes} bytes in UTF-8", details={"max_bytes": max_bytes}
        )


class DigestInvalid(ZeroclawError):
    """A declared ``sha256`` is none (RPC-167)."""

    code = "sha256_invalid"
    kind = Kind.INVALID

    def __init__(self) -> None:
        super().__init__("sha256 must be 64 hexadecimal digits")


class Base64Invalid(ZeroclawError):
    """``data_b64`` is no standard base64 with its padding (RPC-178)."""

    code = "base64_invalid"
    kind = Kind.INVALID

    def __init__(self) -> None:
        super().__init__("data_b64 must be base64 of the standard alphabet, padded, and nothing else")


class AttachTooLarge(ZeroclawError):
    """The files of one call have more bytes together than they may have. ``details`` holds ``max_bytes``."""

    code = "attach_too_large"
    kind = Kind.INVALID

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"the files of one call may have {max_bytes} bytes together", details={"max_bytes": max_bytes}
        )


class UploadLimit(ZeroclawError):
    """The connection stages as many uploads as one may (RPC-188). ``details`` holds ``limit``."""

    code = "upload_limit"
    kind = Kind.LIMIT

    def __init__(self, limit: int) -> None:
        super().__init__(f"a connection may stage {limit} uploads at once", details={"limit": limit})


class UploadBudgetSpent(ZeroclawError):
    """All connections together stage as much as they may (RPC-189). ``details`` holds ``limit_bytes``."""

    code = "upload_budget_spent"
    kind = Kind.LIMIT

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"all uploads together may hold {limit_bytes} bytes, and this one does not fit now; try again later",
            details={"limit_bytes": limit_bytes},
        )


class UploadUnknown(ZeroclawError):
    """The connection stages no upload of this id: there was none, it was idle for too long, or it is over (RPC-179)."""

    code = "upload_unknown"
    kind = Kind.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("this connection stages no such upload")


class ChunkRefused(ZeroclawError):
    """A chunk does not fit; the upload stays as it is. ``details`` holds ``next_offset``, the bytes received so far."""

    code = "chunk_refused"
    kind = Kind.INVALID

    def __init__(self, words: str, next_offset: int) -> None:
        super().__init__(
            f"{words}; the next byte to send is {next_offset}", details={"next_offset": next_offset}
        )


class ChunkEmpty(ChunkRefused):
    """A chunk holds nothing (RPC-177). ``details`` holds ``next_offset``."""

    code = "chunk_empty"


class ChunkTooLarge(ChunkRefused):
    """A chunk has more bytes than one may have (RPC-176). ``details`` holds ``next_offset``."""

    code = "chunk_too_large"


class ChunkLeavesGap(ChunkRefused):
    """A chunk begins after the bytes that were received (RPC-171). ``details`` holds ``next_offset``."""

    code = "chunk_leaves_gap"


class ChunkPastEnd(ChunkRefused):
    """A chunk ends after the declared size (RPC-175). ``details`` holds ``next_offset``."""

    code = "chunk_past_end"


class ChunkDiffers(ChunkRefused):
    """A chunk begins among the bytes that were received and is not the same as they are (RPC-172, RPC-174). ``details`` holds
    ``next_offset``.
    """

    code = "chunk_differs"


class UploadIncomplete(ZeroclawError):
    """An upload was to be committed before all of it came; it can be continued (RPC-180). ``details`` holds ``next_offset``."""

    code = "upload_incomplete"
    kind = Kind.INVALID

    def __init__(self, received: int, size: int) -> None:
        super().__init__(
            f"{received} of {size} bytes have come; send the rest, then commit",
            details={"next_offset": received},
        )


class UploadDigestMismatch(ZeroclawError):
    """The bytes of an upload are not those whose ``sha256`` was declared; it is discarded (RPC-181, RPC-182)."""

    code = "upload_digest_mismatch"
    kind = Kind.INVALID

    def __init__(self) -> None:
        super().__init__("the bytes that came are not those whose sha256 was declared; begin again")
