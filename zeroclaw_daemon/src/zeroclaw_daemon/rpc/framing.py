"""Lines out of bytes: newline-delimited frames, however the bytes were cut (RPC-015…018).

The buffer is our own, so that no default of a stream library decides how long a line may be (PAINS 20).
"""

from __future__ import annotations

from typing import Final

from zeroclaw_daemon.rpc.errors import FrameTooLarge

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
"""The longest line a peer may send, its line end included (RPC-021, RPC-023)."""

READ_BYTES: Final = 64 * 1024
"""How much is asked of a transport at once."""

_BLANKS: Final = b" \t\r\n"
"""What RFC 8259 allows around a value."""


class LineBuffer:
    """Takes bytes as they come and gives back whole lines, trimmed; blank lines are nothing.

    :param limit: the longest line in bytes, its line end included.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Take bytes that arrived."""
        self._bytes += data

    @property
    def unfinished(self) -> bool:
        """Whether a line was begun that has not ended. Call it when :meth:`next_line` has nothing more."""
        return bool(self._bytes)

    def next_line(self) -> bytes | None:
        """The next line that is not blank, or None until more bytes come.

        :raises FrameTooLarge: the line being read is too long, whether it ended or not. The buffer is of no further use.
        """
        while True:
            end = self._bytes.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._bytes)
                self._check(self._searched)
                return None
            self._check(end + 1)
            line = bytes(self._bytes[:end]).strip(_BLANKS)
            del self._bytes[: end + 1]
            self._searched = 0
            if line:
                return line

    def last_line(self) -> bytes | None:
        """What was left without a line end when the bytes ended, or None (RPC-231)."""
        line = bytes(self._bytes).strip(_BLANKS)
        self._bytes.clear()
        self._searched = 0
        return line or None

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise FrameTooLarge(self._limit)
