"""The files that one live session knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import Kind, ZeroclawError

MAX_KNOWN: Final = 4096
"""Files that one session remembers; of more, those that were not sent for the longest time are forgotten and stay on disk."""


class AttachmentNotFound(ZeroclawError):
    """A prompt names a file that was not sent to its session, or not since the session is live. ``details`` holds ``index``."""

    code = "attachment_not_found"
    kind = Kind.NOT_FOUND

    def __init__(self, index: int) -> None:
        super().__init__(
            "a file that the prompt names was not sent to this session since it is live; send it again",
            details={"index": index},
        )


@dataclass(frozen=True, slots=True)
class Attachment:
    """A stored file, as it was when its session saw it first. ``workspace`` is the directory above ``uploads``."""

    ref_id: str
    marker: str
    workspace: str
    path: str
    size: int

    @property
    def name(self) -> str:
        """Its name in ``uploads``."""
        return Path(self.path).name


class AttachmentIndex:
    """What a session was sent, by what the files are known by. Gone with the live session, unlike the files (RPC-213).

    :param limit: how many it remembers.
    """

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._limit = limit
        self._known: dict[str, Attachment] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, ref_id: str) -> Attachment | None:
        """The file that is known by this, or None."""
        return self._known.get(ref_id)

    def keep(self, attachment: Attachment) -> None:
        """Remember a file, the one that was sent last."""
        self._known.pop(attachment.ref_id, None)
        self._known[attachment.ref_id] = attachment
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]
