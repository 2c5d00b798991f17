"""What every table of the configuration file is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file. Values are strict, unknown keys are errors, and nothing changes it once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class Reference:
    """Marks a text that names a key of a map elsewhere in the file."""

    path: str
    """The dotted path of that map."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Marks a value that only this program writes; it is no property that can be set."""


class RuleBroken(ValueError):
    """Values that are each well-formed do not go together.

    :param path: where the fault is, from the table that says so.
    """

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


def frozen(value: object) -> object:
    """Lists as tuples, for the schema is immutable and strict."""
    match value:
        case dict():
            return {key: frozen(inner) for key, inner in cast("dict[str, object]", value).items()}
        case list():
            return tuple(frozen(inner) for inner in cast("list[object]", value))
        case _:
            return value
