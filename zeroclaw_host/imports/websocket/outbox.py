"""Bytes that are to be sent: the guest's messages, and what the protocol answers by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


class Outbox:
    """In the order in which they were added; nothing is reordered or dropped."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[memoryview, bool]] = deque()
        self.messages = 0
        """The guest's messages of which the system does not have all bytes yet."""
        self.replies = 0
        """Bytes of answers to the peer that the system does not have yet."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add_message(self, frames: Sequence[bytes]) -> None:
        """Add one message of the guest's."""
        self._waiting.append((memoryview(b"".join(frames)), True))
        self.messages += 1

    def add_replies(self, frames: Sequence[bytes]) -> None:
        """Add answers of the protocol's, and close frames: together, as a peer may ask for thousands at once."""
        data = b"".join(frames)  # an empty one is how the library says that it has no more
        if data:
            self._waiting.append((memoryview(data), False))
            self.replies += len(data)

    def flush(self, send: Callable[[memoryview], int]) -> None:
        """Send what the system takes now.

        :param send: sends the beginning of some bytes, and says how many it sent. What it raises goes through.
        """
        while self._waiting:
            data, is_message = self._waiting[0]
            count = send(data)
            if not count:
                return
            if not is_message:
                self.replies -= count
            if count < len(data):
                self._waiting[0] = (data[count:], is_message)
                continue
            self._waiting.popleft()
            self.messages -= is_message

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self.messages = self.replies = 0
