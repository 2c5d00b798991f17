"""Single properties by dotted path: finding, reading, listing and setting them.

The grammar is ``section.field``, ``map.<alias>.field`` and ``plugins.entries.<key>.field``. A map's missing key is made by
the first property set under it, a missing row never is (PLG-217).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import BaseModel, SecretStr

from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, children, step
from zeroclaw_host.errors import Kind, ZeroclawError

MASK: Final = "***MASKED***"
"""Stands for a secret wherever a value is shown."""
UNSET: Final = "<unset>"
"""Stands for the absence of a value wherever one is shown."""
_MASKS: Final = frozenset({"", "****", MASK})
_SUGGESTIONS: Final = 3


class PropertyError(ZeroclawError):
    """A property cannot be read or set as asked. ``details`` holds ``property``."""

    code = "property_invalid"
    kind = Kind.INVALID


class UnknownProperty(PropertyError):
    """There is no such property. ``details`` holds ``suggestions``, the closest that there are (D-07)."""

    code = "unknown_property"
    kind = Kind.NOT_FOUND


class PropertyValueInvalid(PropertyError):
    """The value does not fit the property."""

    code = "property_value_invalid"


@dataclass(frozen=True, slots=True)
class Property:
    """One property and what it is now. ``value`` of a secret is :data:`MASK` or None, never the secret."""

    path: str
    type: Value
    value: object
    populated: bool

    @property
    def shown(self) -> str:
        """The value as one line of text."""
        if self.value is None:
            return UNSET
        return str(self.value) if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def get_property(config: Config, path: str) -> Property:
    """The property at this path.

    :raises UnknownProperty: there is none.
    """
    for each in list_properties(config):
        if each.path == path:
            return each
    raise _unknown(path, config)


def list_properties(config: Config, prefix: str = "") -> Iterator[Property]:
    """Every property there is now, in the schema's order; with a prefix, it and what is below it."""
    for each in _walk(ROOT, config, (), populated=True):
        if not prefix or each.path == prefix or each.path.startswith(prefix.rstrip(".") + "."):
            yield each


def find_value(segments: Sequence[str]) -> Value:
    """The type of the property at this path, whether or not anything is there now.

    :raises UnknownProperty: the schema has no such property.
    :raises PropertyValueInvalid: a name on the way breaks the grammar of names there.
    """
    path = ".".join(segments)
    node: Node | None = ROOT
    for segment in segments:
        if isinstance(node, MapOf):
            try:
                node.check_key(segment)
            except ValueError as error:
                raise PropertyValueInvalid(
                    f"{path}: {segment!r}: {error}", details={"property": path}
                ) from None
        node = None if node is None else step(node, segment)
    if not isinstance(node, Value):
        raise _unknown(path)
    return node


def coerce(value: Value, given: object, *, path: str) -> object:
    """What to write for a JSON value or a text; None means: unset.

    :raises PropertyValueInvalid: the value is of another kind, or its text does not read as this kind.
    """
    try:
        return coerce_text(value, given) if isinstance(given, str) else _coerce_json(value, given)
    except PropertyError as error:
        raise PropertyValueInvalid(f"{path}: {error.message}", details={"property": path}) from None


def coerce_text(value: Value, text: str) -> object:
    """What a text means for a property of this type.

    :raises PropertyValueInvalid: nothing; the message names neither the property nor a secret.
    """
    match value.kind:
        case ValueKind.SECRET:
            if text in _MASKS:
                raise PropertyValueInvalid("a mask or an empty text would overwrite the secret")
            return text
        case ValueKind.LIST:
            return _list_of(value, text)
        case _ if not text and value.optional:
            return None
        case ValueKind.BOOL:
            if text not in ("true", "false"):
                raise PropertyValueInvalid("must be true or false")
            return text == "true"
        case ValueKind.INTEGER:
            return _integer(text)
        case ValueKind.ENUM:
            if text not in value.choices:
                raise PropertyValueInvalid(f"must be one of {', '.join(value.choices)}")
            return text
        case ValueKind.TEXT:
            return text


def _coerce_json(value: Value, given: object) -> object:
    match value.kind, given:
        case _, None:
            return coerce_text(value, "")
        case ValueKind.BOOL, bool():
            return given
        case ValueKind.INTEGER, int() if not isinstance(given, bool):
            return given
        case ValueKind.INTEGER, float() if given.is_integer():
            return int(given)
        case ((ValueKind.TEXT | ValueKind.ENUM | ValueKind.SECRET), (bool() | int() | float())):
            return coerce_text(value, json.dumps(given))
        case ValueKind.LIST, list():
            return _checked_list(value, cast("list[object]", given))
        case _:
            raise PropertyValueInvalid(f"a value of kind {value.kind} is wanted")


def _integer(text: str) -> int:
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise PropertyValueInvalid("must be a whole number")
    return int(text)


def _list_of(value: Value, text: str) -> list[str]:
    if text.lstrip().startswith("["):
        try:
            given: object = json.loads(text)
        except ValueError:
            raise PropertyValueInvalid("does not read as a JSON array of texts") from None
        return _checked_list(value, cast("list[object]", given)) if isinstance(given, list) else []
    return _checked_list(value, [part.strip() for part in text.split(",")])


def _checked_list(value: Value, given: list[object]) -> list[str]:
    out: list[str] = []
    for index, element in enumerate(given):
        if not isinstance(element, str):
            raise PropertyValueInvalid(f"element {index} is no text")
        if value.choices and element and element not in value.choices:
            raise PropertyValueInvalid(f"element {index} must be one of {', '.join(value.choices)}")
        if element.strip():
            out.append(element)
    return out


def _walk(node: Node, current: object, path: tuple[str, ...], *, populated: bool) -> Iterator[Property]:
    match node:
        case Value():
            yield Property(".".join(path), node, _shown(current), populated and current is not None)
        case TableOf():
            model = cast("BaseModel", current)
            for key in children(node):
                inner = step(node, key)
                if inner is not None:
                    is_set = populated and key in model.model_fields_set
                    yield from _walk(inner, getattr(model, key), (*path, key), populated=is_set)
        case MapOf():
            for key, element in cast("Mapping[str, object]", current).items():
                inner = step(node, key)
                if inner is not None:
                    yield from _walk(inner, element, (*path, key), populated=populated)
        case RowsOf(model):
            for row in cast("tuple[BaseModel, ...]", current):
                name = str(getattr(row, "name", ""))
                yield from _walk(TableOf(model), row, (*path, name), populated=populated)


def _shown(value: object) -> object:
    return MASK if isinstance(value, SecretStr) else value


def _unknown(path: str, config: Config | None = None) -> UnknownProperty:
    known = [each.path for each in list_properties(config or Config())]
    inside = [each for each in known if each.startswith(f"{path}.")]
    if inside:
        return UnknownProperty(
            f"Unknown property {path}: it is a section; in it there is {', '.join(inside[:_SUGGESTIONS])}"
            f"{' and more' if len(inside) > _SUGGESTIONS else ''}",
            details={"property": path, "suggestions": tuple(inside[:_SUGGESTIONS])},
        )
    close = difflib.get_close_matches(path, known, n=_SUGGESTIONS)
    hint = f"; the closest are {', '.join(close)}" if close else ""
    return UnknownProperty(
        f"Unknown property {path}{hint}", details={"property": path, "suggestions": tuple(close)}
    )
