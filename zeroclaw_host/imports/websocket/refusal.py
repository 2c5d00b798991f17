"""What a function of the interface answers when it does not do what was asked."""

from __future__ import annotations


class Refused(Exception):
    """``word`` is the ``websocket-error`` for the guest, and all there is to say to it."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(word)
