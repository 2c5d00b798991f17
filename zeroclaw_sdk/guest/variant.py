"""Values that are one of a few named cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Variant:
    """One case of several; some cases carry a text. Subclasses list theirs.

    :raises ValueError: there is no such case, or it has a text where none belongs, or none where one does.
    """

    case: str
    """The case, in the contract's word."""
    text: str | None = None
    """What the case carries."""

    CASES: ClassVar[Mapping[str, bool]] = {}
    """The contract's words, and whether a text comes with them."""

    def __post_init__(self) -> None:
        carries = self.CASES.get(self.case)
        if carries is None:
            raise ValueError(f"{type(self).__name__} is one of {', '.join(self.CASES)}")
        if carries is not isinstance(self.text, str):
            raise ValueError(
                f"{type(self).__name__} {self.case} carries {'a text' if carries else 'no text'}"
            )

    def __str__(self) -> str:
        return self.case if self.text is None else self.text
