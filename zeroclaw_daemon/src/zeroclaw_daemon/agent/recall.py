"""What an agent remembers from elsewhere, brought to mind for one turn. It is told to the model, and kept nowhere (RPC-138)."""

from __future__ import annotations

from typing import Protocol


class Recall(Protocol):
    """Brings memories to mind."""

    async def recall(self, prompt: str) -> str:
        """What the model is to know beside this prompt; empty where there is nothing.

        :raises ZeroclawError: the memory failed; the turn goes on without it.
        """
        ...


class NoRecall:
    """No memory."""

    async def recall(self, prompt: str) -> str:
        """Nothing."""
        return ""
