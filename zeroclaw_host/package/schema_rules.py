"""What a ``config_schema`` may be, beyond being JSON Schema (PLG-140 to PLG-142).

The rules keep a schema closed, small, local and cheap: nothing is fetched, no pattern can take exponential time, and
checking a value cannot go round in circles. They are functions of the raw schema and compile nothing but patterns.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs

from zeroclaw_host.errors import ConfigSchemaError
from zeroclaw_host.package.toml_source import Location, printable

MAX_SCHEMA_BYTES: Final = 64 * 1024
"""As compact JSON."""
MAX_SCHEMA_DEPTH: Final = 32
"""Objects and arrays around the innermost value; the root is at depth 0."""
MAX_PROPERTIES: Final = 256
MAX_REF_HOPS: Final = 33
MAX_STEPS: Final = 1024
"""Subschemas that one value may have to satisfy through references and combinations alone. Without a bound, references
that fork double the work at each level, and a schema of a few hundred bytes keeps a host busy for years."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PATTERN_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=256 * 1024, dfa_size_limit=1024 * 1024)
"""A linear-time engine without look-around and back-references, and a bound on a compiled pattern."""

SECRET: Final = "x-secret"
_PORTABLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_INT64: Final = range(-(2**63), 2**63)
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED_SCHEMAS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Keywords whose value maps names to schemas: a key in such a map is a name and no keyword."""
_ROOT_FORBIDDEN: Final = ("patternProperties", "propertyNames", "unevaluatedProperties")


class PropertyType(StrEnum):
    """The types a top-level property may have."""

    STRING = "string"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    ARRAY = "array"
    OBJECT = "object"


def schema_error(location: Location, message: str) -> ConfigSchemaError:
    """An error about one place in a schema; ``details`` hold it as ``schema_path``."""
    place = "/".join(printable(str(part)) for part in location)
    return ConfigSchemaError(
        f"config_schema{'/' if place else ''}{place} {message}", details={"schema_path": location}
    )


def check_schema(raw: Mapping[str, Any], *, allow_secrets: bool) -> None:
    """Check every rule.

    :param allow_secrets: whether ``x-secret`` may be used at all.
    :raises ConfigSchemaError: the first rule that is broken.
    """
    _check_values(raw)
    compact = json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()
    if len(compact) > MAX_SCHEMA_BYTES:
        raise schema_error((), f"is larger than {MAX_SCHEMA_BYTES} bytes of JSON")
    _check_root(raw)
    for name in raw["properties"]:
        property_type(raw, name)
    for location, schema in _schemas(raw):
        _check_secret(raw, location, schema, allow_secrets=allow_secrets)
        _check_patterns(location, schema)
    _Effort(raw).check()


def property_type(raw: Mapping[str, Any], name: str) -> PropertyType:
    """The type of a top-level property: its own ``type``, or the one its ``$ref`` leads to.

    :raises ConfigSchemaError: it has no single type that a property may have.
    """
    location: Location = ("properties", name)
    node: object = raw["properties"][name]
    for _ in range(MAX_REF_HOPS + 1):
        if not isinstance(node, dict):
            break
        schema = cast("dict[str, object]", node)
        if "type" in schema:
            try:
                return PropertyType(cast("str", schema["type"]))
            except ValueError:
                break
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        node = _resolve(raw, reference)
    raise schema_error(location, f"must have one type of {', '.join(kind.value for kind in PropertyType)}")


def nesting(value: object) -> int:
    """How many arrays and objects lie around the innermost value."""
    return max(len(location) for location, _ in _nodes(value))


def _nodes(value: object) -> Iterator[tuple[Location, object]]:
    """Every value in a tree with its place, without recursion."""
    waiting: list[tuple[Location, object]] = [((), value)]
    while waiting:
        location, node = waiting.pop()
        yield location, node
        if isinstance(node, dict):
            table = cast("dict[str, object]", node)
            waiting.extend(((*location, key), child) for key, child in table.items())
        elif isinstance(node, list):
            array = cast("list[object]", node)
            waiting.extend(((*location, index), child) for index, child in enumerate(array))


def _check_values(raw: Mapping[str, Any]) -> None:
    for location, node in _nodes(raw):
        match node:
            case dict() | list():
                if len(location) > MAX_SCHEMA_DEPTH:
                    raise schema_error(location, f"is nested deeper than {MAX_SCHEMA_DEPTH} levels")
                if isinstance(node, dict):
                    _check_identity(location, cast("dict[str, object]", node))
            case bool() | str():
                pass
            case int():
                if node not in _INT64:
                    raise schema_error(location, "is no 64-bit integer")
            case float():
                if not math.isfinite(node):
                    raise schema_error(location, "is a number that JSON does not have")
            case _:
                raise schema_error(location, "is a date or time, which JSON does not have")


def _check_identity(location: Location, table: Mapping[str, object]) -> None:
    if "$id" in table:
        raise schema_error((*location, "$id"), "is not allowed: a schema has no address")
    for keyword in _REFERENCES:
        reference = table.get(keyword)
        if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
            raise schema_error(
                (*location, keyword), "must be # or begin with #/: references stay inside the schema"
            )


def _check_root(raw: Mapping[str, Any]) -> None:
    if raw.get("type") != "object":
        raise schema_error(("type",), 'must be "object"')
    if raw.get("additionalProperties") is not False:
        raise schema_error(("additionalProperties",), "must be false: the object is closed")
    for keyword in _ROOT_FORBIDDEN:
        if keyword in raw:
            raise schema_error((keyword,), "is not allowed at the root")
    if raw.get("$schema", DIALECT) != DIALECT:
        raise schema_error(("$schema",), f"must be {DIALECT}")
    properties = raw.get("properties")
    if not isinstance(properties, dict):
        raise schema_error(("properties",), "must be a table")
    if len(cast("dict[str, object]", properties)) > MAX_PROPERTIES:
        raise schema_error(("properties",), f"has more than {MAX_PROPERTIES} properties")


def _schemas(raw: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, object]]]:
    """Every table that could be read as a schema: all but the maps from names to schemas."""
    waiting: list[tuple[Location, object, bool]] = [((), raw, False)]
    while waiting:
        location, node, is_map = waiting.pop()
        if isinstance(node, dict):
            table = cast("dict[str, object]", node)
            if not is_map:
                yield location, table
            waiting.extend(
                ((*location, key), child, not is_map and key in _NAMED_SCHEMAS)
                for key, child in table.items()
            )
        elif isinstance(node, list):
            array = cast("list[object]", node)
            waiting.extend(((*location, index), child, False) for index, child in enumerate(array))


def _check_secret(
    raw: Mapping[str, Any], location: Location, schema: Mapping[str, object], *, allow_secrets: bool
) -> None:
    if SECRET not in schema:
        return
    place = (*location, SECRET)
    if len(location) != 2 or location[0] != "properties":
        raise schema_error(place, "may mark a top-level property only")
    if schema[SECRET] is not True:
        raise schema_error(place, "must be true where it is there")
    name = str(location[1])
    if not is_portable(name):
        raise schema_error(
            location, "is a secret, so its name must be 1 to 128 of letters, digits, '.', '_' and '-'"
        )
    if property_type(raw, name) is not PropertyType.STRING:
        raise schema_error(place, "may mark a string only")
    if not allow_secrets:
        raise schema_error(
            place, "needs a package that is a tool or a channel; nothing else can read secrets"
        )


def is_portable(name: str) -> bool:
    """Whether every part of the system can name a property like this: a secret's name, and a path's last segments."""
    return _PORTABLE_NAME.fullmatch(name) is not None


def _check_patterns(location: Location, schema: Mapping[str, object]) -> None:
    """Compile every pattern by itself: the validator skips those in definitions that nothing refers to.

    Each is compiled behind an empty group as well. The validator matches beginnings, choices of words and repeated
    classes without a program, and so never holds them to the bound; with a group there is always a program. By itself a
    pattern is compiled for its syntax: ``()*`` is a pattern, and ``*`` is none.
    """
    patterns = [(("pattern",), schema.get("pattern"))]
    named = schema.get("patternProperties")
    if isinstance(named, dict):
        patterns += [(("patternProperties", key), key) for key in cast("dict[str, object]", named)]
    for where, pattern in patterns:
        if not isinstance(pattern, str):
            continue
        try:
            for text in (pattern, f"(){pattern}"):
                jsonschema_rs.Draft202012Validator(
                    {"pattern": text}, pattern_options=PATTERN_OPTIONS, offline=True
                )
        except ValueError:
            message = "is no pattern of the linear-time dialect, or needs a program larger than 256 KiB"
            raise schema_error((*location, *where), message) from None


class _Effort:
    """Counts the subschemas that one value may have to satisfy without looking at its parts."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self._steps: dict[int, int] = {}
        self._entered: set[int] = set()

    def check(self) -> None:
        for location, schema in _schemas(self._raw):
            if self._count(schema, location) > MAX_STEPS:
                raise schema_error(location, f"combines more than {MAX_STEPS} schemas for one value")

    def _count(self, schema: object, location: Location) -> int:
        if not isinstance(schema, dict):
            return 1
        identity = id(cast("object", schema))
        if identity in self._steps:
            return self._steps[identity]
        if identity in self._entered:
            raise schema_error(location, "leads back to itself without looking at a part of the value")
        if len(self._entered) > MAX_STEPS // 8:
            raise schema_error(location, "leads on to too many schemas one after the other")
        self._entered.add(identity)
        parts = _in_place(self._raw, cast("dict[str, object]", schema))
        steps = 1 + sum(self._count(part, location) for part in parts)
        self._entered.discard(identity)
        self._steps[identity] = steps
        return steps


def _in_place(raw: Mapping[str, Any], schema: Mapping[str, object]) -> Iterator[object]:
    """The subschemas that look at the same value as the schema itself."""
    for keyword in _REFERENCES:
        reference = schema.get(keyword)
        if isinstance(reference, str):
            yield _resolve(raw, reference)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            yield from cast("list[object]", branches)
    for keyword in ("not", "if", "then", "else"):
        if keyword in schema:
            yield schema[keyword]
    for keyword in ("dependentSchemas", "dependencies"):
        branches = schema.get(keyword)
        if isinstance(branches, dict):
            yield from cast("dict[str, object]", branches).values()


def _resolve(raw: Mapping[str, Any], reference: str) -> object:
    """What a local reference points at, or None."""
    node: object = raw
    if not reference.startswith("#/"):
        return node
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = cast("dict[str, object]", node).get(key)
        elif isinstance(node, list) and key.isascii() and key.isdigit():
            array = cast("list[object]", node)
            node = array[int(key)] if int(key) < len(array) else None
        else:
            return None
    return node
