"""``status``: what an operator asks first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.envelope import PROTOCOL_VERSION
from zeroclaw_daemon.rpc.models import Result
from zeroclaw_daemon.strict_json import JsonValue

Facts = Callable[[], Mapping[str, JsonValue]]
"""Further members of ``status``, by their names on the wire: whatever the rest of the daemon wants to tell."""


class VisibleSessions(Protocol):
    """Who knows which sessions a caller may know of."""

    def visible(self, caller: Caller) -> list[str]:
        """The ids of live sessions, oldest first."""
        ...


class StatusResult(Result):
    """The daemon in numbers; members beyond these come from the rest of the daemon."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="allow")

    server_version: str
    protocol_version: int
    server_pid: int
    local_ipc_endpoint: str
    uptime_seconds: float
    connections: int
    gateway: dict[str, JsonValue]
    active_sessions: int
    session_ids: list[str]


class Status:
    """The method ``status``."""

    def __init__(
        self,
        *,
        version: str,
        endpoint: str,
        connections: Callable[[], int],
        sessions: VisibleSessions,
        facts: Facts,
        gateway: Facts,
        uptime: Callable[[], float],
    ) -> None:
        self._version = version
        self._endpoint = endpoint
        self._connections = connections
        self._sessions = sessions
        self._facts = facts
        self._gateway = gateway
        self._uptime = uptime

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves it."""
        return {"status": self.status}

    async def status(self, caller: Caller, params: None) -> StatusResult:
        """Versions, process, the caller's sessions, and what else the daemon tells of itself (RPC-066)."""
        ids = self._sessions.visible(caller)
        known = {
            "serverVersion": self._version,
            "protocolVersion": PROTOCOL_VERSION,
            "serverPid": os.getpid(),
            "localIpcEndpoint": self._endpoint,
            "uptimeSeconds": round(self._uptime(), 3),
            "connections": self._connections(),
            "gateway": dict(self._gateway()),
            "activeSessions": len(ids),
            "sessionIds": ids,
        }
        return StatusResult.model_validate({**self._facts(), **known})
