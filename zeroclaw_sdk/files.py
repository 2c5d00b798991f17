"""Writing files whole or not at all, and telling file system failures in one way."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zeroclaw_host.errors import StorageError


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file in one step, its permissions kept; the old one stays when that fails.

    :raises StorageError: it cannot be written.
    """
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise storage_error(path, "written", error) from error


def make_directory(path: Path) -> None:
    """Make a directory and those above it; one that exists is fine.

    :raises StorageError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(path, "made", error) from error


def read_file(path: Path, *, limit: int | None = None) -> bytes:
    """The bytes of a file, no more than ``limit`` of them.

    :raises StorageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(-1 if limit is None else limit)
    except OSError as error:
        raise storage_error(path, "read", error) from error


def storage_error(path: Path, what: str, error: OSError) -> StorageError:
    """The host's error for one of the operating system: ``path cannot be what: reason``."""
    return StorageError(
        f"{path} cannot be {what}: {error.strerror}", details={"path": str(path), "errno": error.errno}
    )
