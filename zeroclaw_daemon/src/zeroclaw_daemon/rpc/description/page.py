"""The methods as a page for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

from zeroclaw_daemon.authority.principal import AuthenticationFailed, Forbidden
from zeroclaw_daemon.rpc.description.document import openrpc
from zeroclaw_daemon.rpc.description.schemas import Schema
from zeroclaw_daemon.rpc.errors import ConflictingSpelling, InitializeRequired, InvalidParams
from zeroclaw_daemon.strict_json import JsonValue

_BOUNDS: Final = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "elements"),
    ("minimum", "maximum", ""),
)


COMMON: Final = frozenset(
    failure.code
    for failure in (InitializeRequired, AuthenticationFailed, Forbidden, InvalidParams, ConflictingSpelling)
)
"""What every call may be answered with, which is said once for all of them."""


def methods_page() -> str:
    """One section a method: what it does, its parameters, its result, its own errors, and a call."""
    return "\n".join(line for method in openrpc("")["methods"] for line in _section(method))


def _section(method: dict[str, JsonValue]) -> Iterator[str]:
    yield f"## `{method['name']}`\n"
    yield f"{method['description']}\n"
    if "x-grant" in method:
        yield f"It needs the grant `{method['x-grant']}`.\n"
    if "x-local" in method:
        yield "It is served to clients of this machine alone.\n"
    if method["params"]:
        yield "| parameter | type | meaning |\n|---|---|---|"
        for param in method["params"]:
            name = f"**`{param['name']}`**" if param["required"] else f"`{param['name']}`"
            yield _row(name, _typed(param["schema"]), param.get("description", ""))
        yield ""
    result = method["result"]["schema"]
    yield f"Result: {result['description']}\n"
    if result.get("properties"):
        yield "| member | type | meaning |\n|---|---|---|"
        for name, schema in cast("dict[str, Schema]", result["properties"]).items():
            yield _row(f"`{name}`", _typed(schema, answered=True), schema.get("description", ""))
        yield ""
    own = [
        _row(str(error["code"]), f"`{word}`", meaning)
        for error in method["errors"]
        for word, meaning in error["data"]["reason"].items()
        if word not in COMMON
    ]
    if own:
        yield "| code | `data.reason` | meaning |\n|---|---|---|"
        yield from own
        yield ""
    [example] = method["examples"]
    call = {"jsonrpc": "2.0", "method": method["name"], "params": _named(example["params"]), "id": 1}
    answer = {"jsonrpc": "2.0", "result": example["result"]["value"], "id": 1}
    yield f"```json\n{json.dumps(call)}\n{json.dumps(answer)}\n```\n"


def _named(params: list[dict[str, JsonValue]]) -> dict[str, JsonValue]:
    return {param["name"]: param["value"] for param in params}


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _typed(schema: Schema, *, answered: bool = False) -> str:
    """A type in words. Of a result, null is not said: such a member is left out."""
    choices = cast("list[Schema]", schema.get("anyOf", []))
    if choices:
        kept = [choice for choice in choices if not (answered and choice.get("type") == "null")]
        return " or ".join(dict.fromkeys(_typed(choice, answered=answered) for choice in kept))
    words = cast("list[str]", schema.get("enum", []))
    if words:
        return "one of " + ", ".join(f"`{word}`" for word in words)
    match schema.get("type"):
        case "array":
            return f"list{_bounds(schema)} of {_typed(schema.get('items', {}), answered=answered)}"
        case "object":
            names = cast("dict[str, Schema]", schema.get("properties", {}))
            return f"object of {', '.join(f'`{name}`' for name in names)}" if names else "object"
        case str() as name:
            default = schema.get("default")
            said = "" if default is None or answered else f", else {json.dumps(default)}"
            return f"{name}{_bounds(schema)}{said}"
        case _:
            return "any JSON"


def _bounds(schema: Schema) -> str:
    for low, high, noun in _BOUNDS:
        least, most = schema.get(low), schema.get(high, schema.get(f"exclusive{high.capitalize()}"))
        unit = f" {noun}" if noun else ""
        if least is not None and most is not None:
            return f" from {least} to {most}{unit}"
        if most is not None:
            return f" of at most {most}{unit}"
        if least:
            return f" of at least {least}{unit}"
    return ""
