"""What a file is to a model: an image, or a document with a name. Decided by its bytes, never by what a client says it is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from zeroclaw_host.visible import visible

DEFAULT_FILENAME: Final = "upload"
"""What a file is called that came without a name."""

MAX_EXTENSION: Final = 16
"""Letters and digits of an extension; what is longer is no extension."""

_EXTENSION: Final = re.compile(rf"\.([A-Za-z0-9]{{1,{MAX_EXTENSION}}})\Z")
_BRACKETS: Final = str.maketrans("[]", "()")
_MAGIC: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_RIFF, _WEBP, _WEBP_AT = b"RIFF", b"WEBP", 8


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as it came. ``filename`` is the client's word for it, ``digest`` the SHA-256 of its bytes in lower-case hex."""

    content: bytes | bytearray = field(repr=False)
    filename: str
    digest: str

    @classmethod
    def of(cls, content: bytes | bytearray, filename: str | None) -> SentFile:
        """The file with these bytes. Reads all of them, so a daemon calls it in a worker thread."""
        return cls(content, filename or DEFAULT_FILENAME, hashlib.sha256(content).hexdigest())

    @property
    def ref_id(self) -> str:
        """What the file is known by: the same for the same bytes (RPC-183)."""
        return f"sha256:{self.digest}"

    @property
    def stored_name(self) -> str:
        """The name that it is stored under: its digest and, in lower case, the extension it came with (RPC-184)."""
        return self.digest + extension(self.filename)

    def marker(self, path: str) -> str:
        """How a prompt names the file once it is stored at this path."""
        if is_image(self.content):
            return f"[IMAGE:{path}]"
        return f"[Document: {visible(self.filename).translate(_BRACKETS)}] {path}"


def extension(filename: str) -> str:
    """The extension of a name with its dot, in lower case; empty where it has none of plain letters and digits."""
    found = _EXTENSION.search(PurePosixPath(filename).name)
    return f".{found[1].lower()}" if found is not None else ""


def is_image(content: bytes | bytearray) -> bool:
    """Whether the bytes begin as those of an image that models take: PNG, JPEG, GIF or WebP."""
    head = bytes(content[: _WEBP_AT + len(_WEBP)])
    return head.startswith(_MAGIC) or (head.startswith(_RIFF) and head[_WEBP_AT:] == _WEBP)
