"""Models as JSON Schema (Draft 2020-12), in the spelling of the wire and without references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from zeroclaw_daemon.rpc.description.words import as_plain, plain
from zeroclaw_daemon.rpc.models import Params, Result
from zeroclaw_daemon.strict_json import JsonValue

Schema = dict[str, JsonValue]

NOTHING: Final[Schema] = {"type": "object", "properties": {}}
"""The parameters of a method that has none."""

_OF_SCHEMAS: Final = ("properties", "$defs")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE: Final = ("items", "additionalProperties", "not")


def params_schema(model: type[Params] | None) -> Schema:
    """What a method takes. Further members are ignored."""
    if model is None:
        return NOTHING
    return _whole(model, "validation", to_camel if model.camel else str)


def result_schema(model: type[Result]) -> Schema:
    """What a method answers. A member that says nothing is left out."""
    return _whole(model, "serialization", str)


def _whole(
    model: type[BaseModel], mode: Literal["validation", "serialization"], spelled: Callable[[str], str]
) -> Schema:
    schema = model.model_json_schema(by_alias=True, mode=mode)
    definitions = cast("Mapping[str, Schema]", schema.pop("$defs", {}))
    whole = _resolved(schema, definitions, spelled)
    whole["description"] = plain(model)
    return whole


def _resolved(schema: Schema, definitions: Mapping[str, Schema], spelled: Callable[[str], str]) -> Schema:
    """The schema with what it refers to in the place of references, its members spelled, and without the library's titles."""
    named = schema.get("$ref")
    if isinstance(named, str):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolved({**definitions[named.rsplit("/", 1)[-1]], **beside}, definitions, spelled)
    found: Schema = {}
    for key, value in schema.items():
        if key in _OF_SCHEMAS:
            found[key] = {
                spelled(name): _resolved(each, definitions, spelled)
                for name, each in cast("Mapping[str, Schema]", value).items()
            }
        elif key in _LISTS:
            found[key] = [_resolved(each, definitions, spelled) for each in cast("list[Schema]", value)]
        elif key in _ONE and isinstance(value, dict):
            found[key] = _resolved(cast("Schema", value), definitions, spelled)
        elif key == "required":
            found[key] = [spelled(name) for name in cast("list[str]", value)]
        elif key == "description":
            found[key] = as_plain(str(value))
        elif key != "title":
            found[key] = value
    return found
