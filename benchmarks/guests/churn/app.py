"""A tool that computes for as long as it is told to."""

from itertools import count

from zeroclaw_sdk.guest import Tool


class Churn(Tool):
    """Computes, calling nothing of the host."""

    name = "churn"

    def run(self, steps: int) -> int:
        """Add up some squares.

        :param steps: how many; none at all means that there is no end.
        """
        total = 0
        for number in range(steps) if steps else count():
            total += number * number
        return total
