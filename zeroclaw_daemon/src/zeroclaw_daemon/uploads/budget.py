"""What staged uploads may hold in memory, all connections together. Pure arithmetic (RPC-189 … RPC-193)."""

from __future__ import annotations


class Charge:
    """A part of the budget that is taken. Given back once, however often :meth:`give_back` is called."""

    def __init__(self, budget: Budget, amount: int) -> None:
        self._budget = budget
        self._amount = amount

    @property
    def amount(self) -> int:
        """Bytes that are taken; none once they were given back."""
        return self._amount

    def give_back(self) -> None:
        """Let others have it."""
        self._budget.used -= self._amount
        self._amount = 0


class Budget:
    """So many bytes and no more.

    :param limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, amount: int) -> Charge | None:
        """Take this many bytes; None where there are not as many left, and then nothing is taken."""
        if self.used + amount > self.limit:
            return None
        self.used += amount
        return Charge(self, amount)


def cost(size: int, *kept: str | None) -> int:
    """What an upload holds, in bytes: its declared size, and the texts that are kept beside it, so that an empty one is not
    free (RPC-191, RPC-192).
    """
    return size + sum(byte_length(text) for text in kept if text is not None)


def byte_length(text: str) -> int:
    """Bytes of a text in UTF-8. JSON can escape half a character, which counts as three."""
    return len(text.encode("utf-8", "surrogatepass"))
