"""The protocol as one OpenRPC document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zeroclaw_daemon.rpc.description.examples import Example, example_of
from zeroclaw_daemon.rpc.description.failures import Failure, failures_of
from zeroclaw_daemon.rpc.description.schemas import Schema, params_schema, result_schema
from zeroclaw_daemon.rpc.description.words import first_sentence, plain, servers
from zeroclaw_daemon.rpc.errors import code_of
from zeroclaw_daemon.rpc.methods.table import TABLE, Signature
from zeroclaw_daemon.strict_json import JsonValue

OPENRPC: Final = "1.3.2"
"""The version of the description's own format."""

_ABOUT: Final = (
    "JSON-RPC 2.0, one message a line, on a Unix stream socket. The first call is `initialize`. Parameters may be written in"
    " camelCase or snake_case; both at once with different values is an error, and members that are not known are ignored."
    " While `session/prompt` runs, the daemon sends notifications `session/update`; it may send the request `elicitation/create`."
    " Clients key on the code of an error and on its `data.reason`; beside the errors listed, any method may answer `internal`."
)


def openrpc(version: str) -> dict[str, JsonValue]:
    """Every method of the table: parameters, result, errors and an example.

    :param version: the daemon's.
    """
    return {
        "openrpc": OPENRPC,
        "info": {"title": "zeroclaw daemon", "version": version, "description": _ABOUT},
        "methods": [_method(row) for row in TABLE.values()],
    }


def _method(row: Signature) -> dict[str, JsonValue]:
    words = plain(servers()[row.name])
    params = params_schema(row.params)
    required = params.get("required", [])
    method: dict[str, JsonValue] = {
        "name": row.name,
        "summary": first_sentence(words),
        "description": words if row.params is None else f"{words}\n\n{params['description']}",
        "paramStructure": "by-name",
        "params": [
            {"name": name, "required": name in required, **_described(schema), "schema": schema}
            for name, schema in params["properties"].items()
        ],
        "result": {"name": "result", **_described(result := result_schema(row.result)), "schema": result},
        "errors": list(_errors(failures_of(row))),
        "examples": [_pairing(row, example_of(row))],
    }
    if row.grant is not None:
        method["x-grant"] = str(row.grant)
    if row.local:
        method["x-local"] = True
    return method


def _described(schema: Schema) -> dict[str, JsonValue]:
    description = schema.get("description")
    return {} if description is None else {"description": description}


def _errors(failures: Iterable[Failure]) -> Iterable[dict[str, JsonValue]]:
    """One for each code, as the format wants it, with every word that comes with the code."""
    by_code: dict[int, list[Failure]] = {}
    for failure in failures:
        by_code.setdefault(code_of(failure), []).append(failure)
    for code, found in by_code.items():
        reasons = {failure.code: first_sentence(plain(failure)) for failure in found}
        yield {"code": code, "message": " or ".join(reasons), "data": {"reason": reasons}}


def _pairing(row: Signature, example: Example) -> dict[str, JsonValue]:
    return {
        "name": row.name,
        "params": [{"name": name, "value": value} for name, value in example.params.items()],
        "result": {"name": "result", "value": example.result},
    }
