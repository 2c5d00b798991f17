"""A client that sends files, byte by byte as the protocol has it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

CHUNK = 1024 * 1024
FILE = 10 * 1024 * 1024

ADA_IS_ADMIN = """\
schema_version = 1
[users.ada]
uid = 4000000000
permission_profiles = ["all"]
[permission_profiles.all]
admin = true
"""
"""A configuration in which Ada may do everything, and only a token can prove her."""


def b64(data: bytes) -> str:
    """The bytes as the protocol carries them."""
    return base64.b64encode(data).decode("ascii")


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def begin(wire: Any, session: str, size: int, **more: Any) -> str:
    """Begin an upload; its id."""
    return (await wire.call("file/upload/begin", {"session_id": session, "size_bytes": size, **more}))[
        "upload_id"
    ]


async def chunk(wire: Any, upload: str, offset: int, data: bytes) -> int:
    """Send a chunk; the bytes received."""
    params = {"upload_id": upload, "offset": offset, "data_b64": b64(data)}
    return (await wire.call("file/upload/chunk", params))["received_bytes"]


async def refused_chunk(wire: Any, upload: str, offset: Any, data: bytes | str) -> Any:
    """Send a chunk that must be refused; the error."""
    text = data if isinstance(data, str) else b64(data)
    return await wire.fail("file/upload/chunk", {"upload_id": upload, "offset": offset, "data_b64": text})


async def staged(wire: Any, session: str, data: bytes, **more: Any) -> str:
    """Send all of a file without committing it; its id."""
    upload = await begin(wire, session, len(data), **more)
    for offset in range(0, len(data), CHUNK):
        await chunk(wire, upload, offset, data[offset : offset + CHUNK])
    return upload


async def uploaded(wire: Any, session: str, data: bytes, **more: Any) -> Any:
    """Send a file in chunks; its entry."""
    return await wire.call("file/upload/commit", {"upload_id": await staged(wire, session, data, **more)})


async def attached(wire: Any, session: str, data: bytes, **more: Any) -> Any:
    """Send a file whole; its entry."""
    params = {"session_id": session, "files": [{"data_b64": b64(data), **more}]}
    return (await wire.call("file/attach", params))["files"][0]


def at(entry: Any) -> Path:
    """Where the daemon says that a file lies."""
    return Path(entry["workspace_path"])


def stored(workspace: Path) -> list[str]:
    """The names in ``uploads``, unfinished ones too."""
    folder = workspace / "uploads"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []
