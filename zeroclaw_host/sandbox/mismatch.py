"""What is wrong with a component that does not fit the contract, as a value and as an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeroclaw_host.errors import ComponentMismatch, Remedy, RemedyAction

MAX_REPORTED: Final = 20
"""Differences listed in one error. A foreign component differs everywhere, and the first ones say so."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing in which a component differs from the contract."""

    interface: str
    function: str
    difference: str

    def __str__(self) -> str:
        place = f"{self.interface}, function {self.function}" if self.function else self.interface
        return f"{place}: {self.difference}"


def refuse(mismatches: list[Mismatch]) -> None:
    """Raise if there are any.

    :raises ComponentMismatch: names the first; ``details["differences"]`` holds up to :data:`MAX_REPORTED`.
    """
    if not mismatches:
        return
    first = mismatches[0]
    more = f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else ""
    raise ComponentMismatch(
        f"the component does not fit this host's contract: {first}{more}",
        remedy=Remedy(RemedyAction.REBUILD_PLUGIN),
        details={
            "interface": first.interface,
            "function": first.function,
            "difference": first.difference,
            "differences": tuple(str(mismatch) for mismatch in mismatches[:MAX_REPORTED]),
        },
    )
