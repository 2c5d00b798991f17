"""What every table of the configuration file is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, ConfigDict


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


@dataclass(frozen=True, slots=True)
class Located:
    """Marks a text that names a file or directory."""


def _file_path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path has no null characters")
    if text.startswith("~") and not text.startswith("~/") and text != "~":
        raise ValueError("only ~/ stands for a home directory; that of another user is written out")
    return text


FilePath = Annotated[str, Located(), AfterValidator(_file_path)]
"""A path that the operating system takes, whatever is there."""


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
