"""The last index that a registry served, kept for when it cannot be reached.

A file a person can read: the registry's own JSON, indented, with ``registry_url`` saying whose it is. Only searching looks
at it. What is installed or updated is always asked of the registry itself.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from zeroclaw_host.errors import RegistryError
from zeroclaw_host.package.reader import open_regular_file
from zeroclaw_host.private_files import make_private
from zeroclaw_host.registry.index import MAX_INDEX_BYTES, Index, parse_index
from zeroclaw_host.registry.location import Location

_INDENTED: Final = 4
"""How much larger than the registry's own bytes its indented form may be."""


@dataclass(frozen=True, slots=True)
class CachedIndex:
    """An index, and when it was served."""

    index: Index
    fetched: datetime


@dataclass(frozen=True, slots=True)
class IndexCache:
    """One file. What cannot be kept or read is as good as never kept: nothing depends on it."""

    path: Path

    def store(self, data: bytes, location: Location) -> None:
        """Keep an index that was read without an error."""
        content = cast("dict[str, object]", json.loads(data.removeprefix(b"\xef\xbb\xbf")))
        content["registry_url"] = location.without_credentials
        text = json.dumps(content, indent=2, ensure_ascii=False)
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        with suppress(OSError, UnicodeEncodeError):
            try:
                make_private(self.path.parent)
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(self.path)
            finally:
                temporary.unlink(missing_ok=True)

    def load(self, location: Location) -> CachedIndex | None:
        """What this registry served last, or None."""
        try:
            with open_regular_file(self.path) as file:
                data = file.read(_INDENTED * MAX_INDEX_BYTES + 1)
                fetched = os.fstat(file.fileno()).st_mtime
            content = json.loads(data)
            if not isinstance(content, dict) or len(data) > _INDENTED * MAX_INDEX_BYTES:
                return None
            if cast("dict[str, object]", content).get("registry_url") != location.without_credentials:
                return None
            return CachedIndex(parse_index(data, location), datetime.fromtimestamp(fetched, UTC))
        except (OSError, ValueError, RecursionError, RegistryError):
            return None
