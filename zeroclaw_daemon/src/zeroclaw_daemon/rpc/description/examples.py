"""A call of each method with its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from zeroclaw_daemon.rpc.description.schemas import Schema, params_schema, result_schema
from zeroclaw_daemon.rpc.methods.table import Signature
from zeroclaw_daemon.strict_json import JsonValue

_SESSION: Final = "0b9f6c1e-6f0e-4a53-9d0c-2f1f2f6f3c11"
_NOTHING: Final[Mapping[str, JsonValue]] = {}
_AT: Final = "2026-01-02T03:04:05.000000Z"
_UPLOAD: Final = "5d41402abc4b2a76b9719d911017c592"
_DIGEST: Final = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
_FAULT: Final = "/home/ada/.zeroclaw/config.toml:31:1: agents.ada.tols: unknown key; did you mean tools?"
_STORED: Final = f"/home/ada/.zeroclaw/agents/assistant/workspace/uploads/{_DIGEST}.txt"
_FILE: Final[Schema] = {
    "ref_id": f"sha256:{_DIGEST}",
    "marker": f"[Document: hello.txt] {_STORED}",
    "workspace_path": _STORED,
    "size_bytes": 5,
    "deduplicated": False,
}
_LISTED: Final[Schema] = {
    "sessionId": _SESSION,
    "sessionKey": f"rpc_{_SESSION}",
    "createdAt": _AT,
    "lastActivity": _AT,
    "messageCount": 2,
    "agentAlias": "assistant",
}


@dataclass(frozen=True, slots=True)
class Example:
    """Parameters, and the result they may have."""

    params: Mapping[str, JsonValue]
    result: JsonValue


_WRITTEN: Final[Mapping[str, Example]] = {
    "initialize": Example(
        {"protocolVersion": 1, "clientCapabilities": {"elicitation": {"form": {}}}},
        {
            "protocolVersion": 1, "serverVersion": "0.1.0", "serverPid": 4711, "tuiId": "tui_00c0ffee",
            "capabilities": ["initialize", "session/new", "session/prompt", "status"], "authMethods": ["native", "peercred"],
            "principalId": "shared-operator",
        },
    ),
    "status": Example(
        {},
        {
            "serverVersion": "0.1.0", "protocolVersion": 1, "serverPid": 4711,
            "localIpcEndpoint": "/home/ada/.zeroclaw/data/daemon.sock", "uptimeSeconds": 12.5, "connections": 1,
            "gateway": {"state": "off"}, "activeSessions": 1, "sessionIds": [_SESSION],
        },
    ),
    "session/new": Example(
        {"agentAlias": "assistant", "chatMode": "acp"},
        {"sessionId": _SESSION, "agentAlias": "assistant", "messageCount": 0, "workspaceDir": "/home/ada/.zeroclaw/agents/assistant/workspace"},
    ),
    "session/prompt": Example(
        {"sessionId": _SESSION, "prompt": "hello"},
        {"sessionId": _SESSION, "stopReason": "end_turn", "content": "hello"},
    ),
    "session/approve": Example(
        {"sessionId": _SESSION, "requestId": "9f1c", "decision": "allow_once"},
        {"sessionId": _SESSION, "requestId": "9f1c", "acknowledged": True},
    ),
    "session/state": Example({"sessionId": _SESSION}, {"sessionId": _SESSION, "state": "idle"}),
    "session/messages": Example(
        {"sessionId": _SESSION, "limit": 1, "cursor": None},
        {
            "sessionId": _SESSION,
            "messages": [{"role": "assistant", "content": "hello", "kind": "message", "createdAt": _AT}],
            "hasOlder": True,
            "nextCursor": "2.0",
        },
    ),
    "session/list": Example({"query": "hello"}, {"sessions": [_LISTED]}),
    "session/list-acp": Example({}, {"sessions": [{**_LISTED, "sessionKey": _SESSION}]}),
    "session/configure": Example(
        {"sessionId": _SESSION, "overrides": {"temperature": 0.5}},
        {"sessionId": _SESSION, "overrides": {"temperature": 0.5}},
    ),
    "config/get": Example({"prop": "rpc.max_local_connections"}, {"prop": "rpc.max_local_connections", "value": "512"}),
    "config/set": Example(
        {"prop": "agents.ada.model", "value": "echo-1", "comment": "the small one"}, {"prop": "agents.ada.model", "set": True}
    ),
    "config/set-many": Example(
        {
            "sets": [
                {"prop": "users.ada.uid", "value": 1001},
                {"prop": "users.ada.permission_profiles", "value": ["operator"]},
            ]
        },
        {"props": ["users.ada.uid", "users.ada.permission_profiles"], "set": True},
    ),
    "config/delete": Example({"prop": "agents.ada.model"}, {"prop": "agents.ada.model", "deleted": True}),
    "config/validate": Example({}, {"valid": False, "error": _FAULT, "problems": [_FAULT]}),
    "config/reload": Example(
        {}, {"reloading": True, "revision": "e3b0c44298fc1c149afbf4c8996fb924", "changes": [], "problems": []}
    ),
    "config/map-keys": Example({"path": "agents"}, {"path": "agents", "keys": ["ada"]}),
    "config/map-key-create": Example({"path": "agents", "key": "ada"}, {"path": "agents", "key": "ada", "created": True}),
    "config/map-key-delete": Example({"path": "agents", "key": "ada"}, {"path": "agents", "key": "ada", "deleted": True}),
    "config/map-key-rename": Example(
        {"path": "agents", "from": "ada", "to": "eve"}, {"path": "agents", "from": "ada", "to": "eve", "renamed": True}
    ),
    "file/attach": Example(
        {"session_id": _SESSION, "files": [{"data_b64": "aGVsbG8=", "filename": "hello.txt"}]}, {"files": [_FILE]}
    ),
    "file/upload/begin": Example(
        {"session_id": _SESSION, "size_bytes": 5, "filename": "hello.txt", "sha256": _DIGEST},
        {"upload_id": _UPLOAD, "chunk_bytes": 1_048_576, "max_bytes": 10_485_760},
    ),
    "file/upload/chunk": Example({"upload_id": _UPLOAD, "offset": 0, "data_b64": "aGVsbG8="}, {"received_bytes": 5}),
    "file/upload/commit": Example({"upload_id": _UPLOAD}, _FILE),
}  # fmt: skip


def example_of(row: Signature) -> Example:
    """A call of a method and its answer; where none is written, one that is made of what the schemas require."""
    written = _WRITTEN.get(row.name)
    if written is not None:
        return written
    params = cast("Mapping[str, JsonValue]", _instance(params_schema(row.params)))
    names = {name: value for name, value in params.items() if isinstance(value, str)}
    return Example(params, _instance(result_schema(row.result), names))


def _instance(schema: Schema, known: Mapping[str, JsonValue] = _NOTHING) -> JsonValue:
    """The simplest value of a schema: of an object, the required members; those that are known are as they are known."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "default" in schema and schema["default"] is not None:
        return schema["default"]
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        return _instance(choice, known)
    match schema.get("type"):
        case "object":
            return {
                name: known[name] if name in known else _named(name, schema["properties"][name])
                for name in schema.get("required", [])
            }
        case "array":
            return [_instance(schema.get("items", {}))] * schema.get("minItems", 0)
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "string":
            return "text"
        case _:
            return None


def _named(name: str, schema: Schema) -> JsonValue:
    return _SESSION if name in ("sessionId", "session_id") else _instance(schema)
