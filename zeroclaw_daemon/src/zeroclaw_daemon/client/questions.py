"""What an agent asks a person, and the answers: the forms of ``elicitation/create`` (RPC-087, RPC-252)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias, cast

from zeroclaw_daemon.sessions.asking import Decision
from zeroclaw_daemon.strict_json import JsonValue

ANSWER: Final = "answer"
"""The member that a question without a form is answered in."""


class FieldKind(Enum):
    """What a field takes."""

    TEXT = "string"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the things to choose from: its value on the wire and its title for a person."""

    value: JsonValue
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing that is asked. ``choices`` is for the two kinds of choosing; of several, ``least`` to ``most`` are chosen."""

    name: str
    title: str
    kind: FieldKind
    required: bool = True
    choices: tuple[Choice, ...] = ()
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked in a session: a message, and the fields of its answer."""

    session_id: str | None
    message: str
    fields: tuple[FormField, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An answer: a value for each field, by its name."""

    content: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def to_json(self) -> dict[str, JsonValue]:
        """The result of ``elicitation/create``."""
        return {"action": "accept", "content": dict(self.content)}


@dataclass(frozen=True, slots=True)
class Declined:
    """The person does not want to answer."""

    def to_json(self) -> dict[str, JsonValue]:
        """The result of ``elicitation/create``."""
        return {"action": "decline"}


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The question went away without an answer."""

    def to_json(self) -> dict[str, JsonValue]:
        """The result of ``elicitation/create``."""
        return {"action": "cancel"}


Answer: TypeAlias = Accepted | Declined | Dismissed
Answerer: TypeAlias = Callable[[Question], Awaitable[Answer]]
"""Asks a person. It is cancelled when nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision; with ``REJECT_WITH_EDIT``, what the agent is told to do instead."""

    decision: Decision
    replacement: str | None = None


def read_question(params: JsonValue) -> Question:
    """A question from the parameters of ``elicitation/create``. What a form's field takes and is not known here is a text."""
    given = _mapping(params)
    session_id = given.get("sessionId")
    schema = _mapping(given.get("requestedSchema"))
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    wanted = cast("list[object]", required) if isinstance(required, list) else []
    fields = [_field(name, _mapping(rule), name in wanted) for name, rule in properties.items()]
    return Question(
        session_id if isinstance(session_id, str) else None,
        str(given.get("message") or ""),
        tuple(fields) or (FormField(ANSWER, "", FieldKind.TEXT),),
    )


def _field(name: str, rule: Mapping[str, Any], required: bool) -> FormField:
    title = str(rule.get("title") or rule.get("description") or "")
    if rule.get("type") == "array":
        choices = _choices(_mapping(rule.get("items")))
        least, most = rule.get("minItems"), rule.get("maxItems")
        return FormField(
            name,
            title,
            FieldKind.CHOICES,
            required,
            choices,
            least if isinstance(least, int) else 0,
            most if isinstance(most, int) else len(choices),
        )
    if choices := _choices(rule):
        return FormField(name, title, FieldKind.CHOICE, required, choices)
    kinds = {kind.value: kind for kind in (FieldKind.NUMBER, FieldKind.INTEGER, FieldKind.BOOLEAN)}
    return FormField(name, title, kinds.get(str(rule.get("type")), FieldKind.TEXT), required)


def _choices(rule: Mapping[str, Any]) -> tuple[Choice, ...]:
    for word in ("oneOf", "anyOf"):
        listed = rule.get(word)
        if isinstance(listed, list):
            options = [_mapping(each) for each in cast("list[object]", listed)]
            return tuple(
                Choice(option["const"], str(option.get("title") or option["const"]))
                for option in options
                if "const" in option
            )
    values = rule.get("enum")
    return (
        tuple(Choice(value, str(value)) for value in cast("list[object]", values))
        if isinstance(values, list)
        else ()
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
