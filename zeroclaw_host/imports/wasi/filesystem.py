"""``wasi:filesystem``: a guest begins with no directory, and there is no other way to reach one (PLG-015)."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.imports.wasi.refusal import refusing
from zeroclaw_host.imports.wasi.streams import IoError
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, interface


class Descriptor:
    """An open file or directory. There is never one."""


class DirectoryEntryStream:
    """A listing. There is never one."""


def _get_directories(frame: CallFrame) -> list[tuple[Descriptor, str]]:
    return []


def _filesystem_error_code(frame: CallFrame, error: IoError) -> None:
    return None  # no stream of this host comes from a file system


PREOPENS: Final = interface("wasi:filesystem/preopens", HostFunction("get-directories", _get_directories))

TYPES: Final = refusing(
    "wasi:filesystem/types",
    error="not-permitted",
    resources={"descriptor": Descriptor, "directory-entry-stream": DirectoryEntryStream},
    answers={"filesystem-error-code": _filesystem_error_code},
)
