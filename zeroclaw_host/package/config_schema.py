"""The one contract of an instance's configuration: a closed JSON Schema object (PLG-140 to PLG-143, PLG-148, PLG-149).

The operator stores every value as text. A schema turns the texts into typed values, validates the whole, and says which
of its properties are secrets. What an error says is the name of a property and a place in the schema, never a value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import jsonschema_rs

from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.package.schema_rules import (
    PATTERN_OPTIONS,
    SECRET,
    PropertyType,
    check_schema,
    nesting,
    property_type,
    schema_error,
)
from zeroclaw_host.package.toml_source import printable

MAX_VALUE_DEPTH: Final = 64
"""Arrays and objects in one configured value."""
MAX_PROBLEMS: Final = 16
"""How many problems one error names."""
MAX_SHOWN_RULE: Final = 80
"""Characters of a rule that an error repeats."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""What a signed or an unsigned 64-bit integer holds."""


@dataclass(frozen=True, slots=True)
class ConfigProperty:
    """One top-level property of a schema."""

    name: str
    type: PropertyType
    secret: bool
    required: bool
    description: str | None
    default: str | None = None
    """The schema's ``default`` as the text an operator would store. It is only said: nothing puts it in."""
    choices: tuple[str, ...] = ()
    """The texts of the schema's ``enum``, where it has one."""


class ConfigSchema:
    """A compiled ``config_schema``. ``properties`` holds the top-level properties by name, in the manifest's order."""

    def __init__(
        self,
        validator: jsonschema_rs.Draft202012Validator,
        properties: Mapping[str, ConfigProperty],
        raw: Mapping[str, Any],
    ) -> None:
        self._validator = validator
        self._raw = raw
        self.properties = properties

    @classmethod
    def compile(cls, raw: Mapping[str, Any], *, allow_secrets: bool = True) -> ConfigSchema:
        """Check and compile a schema.

        :param allow_secrets: whether ``x-secret`` may be used; only tools and channels can read secrets (PLG-142).
        :raises ConfigSchemaError: the schema breaks a rule; ``details`` hold ``schema_path``.
        """
        check_schema(raw, allow_secrets=allow_secrets)
        try:
            validator = jsonschema_rs.Draft202012Validator(
                dict(raw), pattern_options=PATTERN_OPTIONS, offline=True, validate_formats=False
            )
        except jsonschema_rs.ValidationError as error:
            raise schema_error(tuple(error.instance_path), "is not valid JSON Schema") from None
        except (ValueError, jsonschema_rs.ReferencingError):
            raise schema_error((), "cannot be compiled") from None
        return cls(validator, _properties(raw), raw)

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that must be configured."""
        return frozenset(name for name, found in self.properties.items() if found.required)

    @property
    def secret_names(self) -> frozenset[str]:
        """The names of the properties that only ``secrets.get`` serves (PLG-143)."""
        return frozenset(name for name, found in self.properties.items() if found.secret)

    def materialise(self, values: Mapping[str, str]) -> dict[str, object]:
        """Turn stored texts into the typed object and validate it. What is not configured is absent.

        :raises ConfigInvalid: a property is unknown, its text does not encode its type, or the object breaks the schema.
        """
        unknown = sorted(values.keys() - self.properties.keys())
        if unknown:
            _refuse([(name, "is not in the schema") for name in unknown])
        typed: dict[str, object] = {}
        problems: list[tuple[str, str]] = []
        for name, text in values.items():
            kind = self.properties[name].type
            try:
                typed[name] = _decode(kind, text)
            except (ValueError, RecursionError):
                problems.append((name, f"is not the text of one {kind.value}"))
        if problems:
            _refuse(problems)
        self.validate(typed)
        return typed

    def check(self, name: str, text: str) -> None:
        """Check the stored text of one property, whatever else is configured.

        :raises ConfigInvalid: the property is unknown, or the text is none that the schema accepts for it.
        """
        if name not in self.properties:
            _refuse([(name, "is not in the schema")])
        kind = self.properties[name].type
        try:
            value = _decode(kind, text)
        except (ValueError, RecursionError):
            _refuse([(name, f"is not the text of one {kind.value}")])
        problems: list[tuple[str, str]] = []
        try:
            for error in self._validator.iter_errors({name: value}):
                if error.instance_path and len(problems) < MAX_PROBLEMS:
                    problems.append((name, self._broken(error.schema_path)))
        except ValueError:
            problems.append((name, "cannot be validated"))
        if problems:
            _refuse(problems)

    def _broken(self, schema_path: list[str | int]) -> str:
        """Which rule is broken, and what it asks for where that is short. A schema is the author's, and public."""
        node: Any = self._raw
        for part in schema_path:
            if isinstance(node, dict) and part in node:
                node = cast("dict[object, object]", node)[part]
            elif isinstance(node, list) and isinstance(part, int) and part < len(cast("list[object]", node)):
                node = cast("list[object]", node)[part]
            else:
                node = None
                break
        place = "/".join(printable(str(part)) for part in schema_path)
        wanted = "" if node is None else json.dumps(node, ensure_ascii=False)
        shown = f", which is {printable(wanted)}" if 0 < len(wanted) <= MAX_SHOWN_RULE else ""
        return f"does not satisfy the schema at {place}{shown}"

    def validate(self, configuration: Mapping[str, object]) -> None:
        """Check a typed object, secrets included.

        :raises ConfigInvalid: it breaks the schema.
        """
        problems: list[tuple[str, str]] = [
            (name, "is required") for name in sorted(self.required - configuration.keys())
        ]
        try:
            for error in self._validator.iter_errors(dict(configuration)):
                if error.instance_path or not problems:
                    problems.append((_first(error.instance_path), self._broken(error.schema_path)))
                if len(problems) >= MAX_PROBLEMS:
                    break
        except ValueError:
            problems.append(("", "cannot be validated"))
        if problems:
            _refuse(problems)


def _properties(raw: Mapping[str, Any]) -> dict[str, ConfigProperty]:
    required = cast("list[str]", raw.get("required", []))
    found: dict[str, ConfigProperty] = {}
    for name, schema in cast("dict[str, dict[str, object]]", raw["properties"]).items():
        description = schema.get("description")
        found[name] = ConfigProperty(
            name=name,
            type=property_type(raw, name),
            secret=schema.get(SECRET) is True,
            required=name in required,
            description=description if isinstance(description, str) else None,
            default=_as_text(schema["default"]) if "default" in schema else None,
            choices=tuple(map(_as_text, cast("list[object]", schema.get("enum", [])))),
        )
    return found


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _decode(kind: PropertyType, text: str) -> object:
    """The value a stored text encodes; :class:`ValueError` if it encodes none of that type (PLG-148)."""
    text.encode()
    if kind is PropertyType.STRING:
        return text
    value: object = json.loads(text, parse_float=_finite, parse_constant=_no_constant)
    if not _is(kind, value):
        raise ValueError(kind)
    if nesting(value) > MAX_VALUE_DEPTH:
        raise ValueError(kind)
    # A lone half of a surrogate pair can be escaped in JSON, and is no text.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _is(kind: PropertyType, value: object) -> bool:
    match kind:
        case PropertyType.BOOLEAN:
            return isinstance(value, bool)
        case PropertyType.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS
        case PropertyType.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case PropertyType.ARRAY:
            return isinstance(value, list)
        case PropertyType.OBJECT:
            return isinstance(value, dict)
        case PropertyType.STRING:
            return isinstance(value, str)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("out of range")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError("not JSON")


def _first(path: list[str | int]) -> str:
    """The top-level property an instance path leads through. Deeper parts may be the operator's own keys."""
    return str(path[0]) if path else ""


def _refuse(problems: list[tuple[str, str]]) -> NoReturn:
    sentences = [f"property {printable(name)} {words}" if name else f"it {words}" for name, words in problems]
    raise ConfigInvalid(
        f"the configuration does not fit its schema: {'; '.join(sentences)}",
        details={"properties": tuple(name for name, _ in problems if name)},
    )
