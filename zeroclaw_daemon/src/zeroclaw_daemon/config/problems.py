"""What can be wrong with a configuration file, each with its place in it (PAINS 25)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from zeroclaw_daemon.config.document.location import Place, Places
from zeroclaw_daemon.config.schema import MOVED, Config
from zeroclaw_daemon.config.section import RuleBroken
from zeroclaw_daemon.config.shape import table_at
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``property`` is the dotted path, empty for the file as a whole."""

    file: str
    property: str
    message: str
    place: Place | None = None

    def __str__(self) -> str:
        where = self.file if self.place is None else f"{self.file}:{self.place.line}:{self.place.column}"
        return f"{where}: {self.property + ': ' if self.property else ''}{self.message}"


class ConfigFileInvalid(ZeroclawError):
    """The configuration file breaks a rule. ``details`` holds ``path``, ``problems`` and, where known, ``line``, ``column``."""

    code = "config_invalid"
    kind = Kind.INVALID

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        details: dict[str, object] = {"path": first.file, "problems": [str(problem) for problem in problems]}
        arguments = {"path": first.file}
        if first.place is not None:
            details |= {"line": first.place.line, "column": first.place.column}
            arguments |= {"line": str(first.place.line), "column": str(first.place.column)}
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first}{more}", remedy=Remedy(RemedyAction.EDIT_FILE, arguments), details=details)
        self.problems = tuple(problems)


class ConfigSyntaxInvalid(ConfigFileInvalid):
    """The configuration file is no TOML. It is never overwritten in this state (RPC-249)."""

    code = "config_syntax_invalid"


class ConfigCandidateInvalid(ZeroclawError):
    """A change would have made the configuration invalid, so it was not made. ``details`` holds ``problems``."""

    code = "config_candidate_invalid"
    kind = Kind.INVALID

    def __init__(self, problems: Sequence[Problem]) -> None:
        texts = [
            f"{problem.property}: {problem.message}" if problem.property else problem.message
            for problem in problems
        ]
        halves = any(problem.message == _REQUIRED for problem in problems)
        super().__init__(
            "; ".join(texts),
            # What is required together is given together.
            remedy=Remedy(RemedyAction.RUN_HELP, {"command": "config patch"}) if halves else None,
            details={"problems": texts},
        )
        self.problems = tuple(problems)


def problems_of(
    error: ValidationError, *, file: str, text: str, overrides: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """What validation found, in words and with places. Values are never repeated: they may be secret.

    :param text: the file's text, for places.
    :param overrides: dotted paths that an environment variable sets; their faults have no place in the file.
    """
    overridden, places = frozenset(overrides), Places(text)
    found: list[Problem] = []
    for details in error.errors(include_url=False, include_input=True, include_context=True):
        path = _path(details)
        dotted = ".".join(str(part) for part in path)
        from_environment = dotted in overridden
        message = words_of(details, path) + (" (set by an environment variable)" if from_environment else "")
        place = None if from_environment else places.of(path)
        found.append(Problem(file, dotted, message, place))
    return tuple(sorted(found, key=lambda problem: (problem.place or Place(0, 0), problem.property)))


def _path(details: ErrorDetails) -> Path:
    # pydantic marks a fault in a mapping's key with a step of its own.
    path = tuple(part for part in details["loc"] if part != "[key]")
    broken: object = details.get("ctx", {}).get("error")
    return (*path, *broken.path) if isinstance(broken, RuleBroken) else path


_REQUIRED: Final = "this key is required"
_WANTED: Final = {
    "bool_type": "true or false is wanted here",
    "int_type": "a whole number is wanted here",
    "string_type": "a text is wanted here",
    "tuple_type": "a list is wanted here",
    "dict_type": "a table is wanted here",
    "mapping_type": "a table is wanted here",
    "model_type": "a table is wanted here",
    "model_attributes_type": "a table is wanted here",
    "missing": _REQUIRED,
}


def words_of(details: ErrorDetails, path: Path) -> str:
    """What is wrong, in the words of this program.

    :param path: where in the file; a fault in a value by itself has the way into that value.
    """
    context = details.get("ctx", {})
    kind = details["type"]
    if path == ("plugins", "entries") and kind == "tuple_type":
        return "rows are written as [[plugins.entries]], with two brackets, one header for each row"
    if kind in _WANTED:
        return _WANTED[kind]
    if path == ("schema_version",) and kind == "less_than_equal":
        return f"a layout of a later release; this one knows {context.get('le')}"
    match kind:
        case "extra_forbidden":
            if (now := MOVED.get(".".join(map(str, path)))) is not None:
                return f"unknown key; it is {now} now"
            return "unknown key" + _suggestion(str(path[-1]), table_at(Config, path[:-1]))
        case "greater_than_equal":
            return f"must be at least {context.get('ge')}"
        case "less_than_equal":
            return f"must be at most {context.get('le')}"
        case "too_short":
            return "must not be empty"
        case "string_too_short":
            return "must not be empty"
        case "literal_error":
            return f"must be one of {context.get('expected')}".replace(" or ", ", ")
        case "value_error":
            return str(context.get("error", details["msg"]))
        case _:
            return details["msg"]


def _suggestion(key: str, table: type[BaseModel] | None) -> str:
    known = list(cast("dict[str, object]", table.model_fields)) if table is not None else []
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
