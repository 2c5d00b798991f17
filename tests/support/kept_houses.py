"""A daemon in this process whose sessions outlive it, in stores that can be made to fail."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store_faults import Faults

from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.sessions.live import LiveSessions


@dataclass
class House:
    """A daemon with stores that can be made to fail, a client, and how the daemon is started again."""

    daemon: Any
    wire: Any
    faults: Faults
    durable: DurableSessions
    provider: ScriptedProvider
    root: Path

    @property
    def live(self) -> LiveSessions:
        live: LiveSessions = self.daemon.server.sessions
        return live

    async def turn(self, session: str, prompt: str = "hi") -> Any:
        return await self.wire.call("session/prompt", {"sessionId": session, "prompt": prompt})

    async def texts(self, session: str) -> list[tuple[str, str]]:
        """What a client sees of an ``acp`` session."""
        entries = await self.durable.acp.read(lambda store: store.entries(session))
        return [(entry.role, entry.content) for entry in entries]

    async def begin(self, session: str, pause: Pause, request_id: str = "turn") -> None:
        """Start a turn and wait for it to come to the pause."""
        params = {"sessionId": session, "prompt": "long"}
        await self.wire.send(
            {"jsonrpc": "2.0", "method": "session/prompt", "params": params, "id": request_id}
        )
        await pause.reached.wait()

    async def both(self, method: str, session: str) -> list[Any]:
        """Call a method that ends the running turn: what the turn and the call are answered."""
        call = {"jsonrpc": "2.0", "method": method, "params": {"sessionId": session}, "id": "call"}
        await self.wire.send(call)
        return await self.answers("turn", "call")

    async def answers(self, *ids: str) -> list[Any]:
        """The answers with these ids, one each, whichever comes first."""
        found: dict[Any, Any] = {}
        while len(found) < len(ids):
            frame = await self.wire.receive()
            if "id" in frame:
                assert frame["id"] not in found
                found[frame["id"]] = frame
            else:
                self.wire.updates.append(frame)
        return [found[each] for each in ids]

    def dump(self, store: str = "acp-sessions.db") -> list[str]:
        """Everything in a database; nothing where there is none."""
        path = self.root / "sessions" / store
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as raw:
            return list(raw.iterdump())

    def columns(self, session: str, *names: str) -> tuple[Any, ...]:
        """Columns of an ``acp`` session's row, as another program reads them."""
        with closing(sqlite3.connect(self.root / "sessions" / "acp-sessions.db")) as raw:
            found: tuple[Any, ...] = raw.execute(
                f"SELECT {', '.join(names)} FROM acp_sessions WHERE session_uuid = ?", (session,)
            ).fetchone()
            return found

    def select(self, query: str) -> list[Any]:
        """Rows of the database of ``acp`` sessions, as another program reads them."""
        with closing(sqlite3.connect(self.root / "sessions" / "acp-sessions.db")) as raw:
            return raw.execute(query).fetchall()

    def change(self, statement: str, *values: Any) -> None:
        """Change the database of ``acp`` sessions behind the daemon's back."""
        with closing(sqlite3.connect(self.root / "sessions" / "acp-sessions.db")) as raw, raw:
            raw.execute(statement, values)

    def asked(self, number: int = -1) -> list[Message]:
        """The messages of a request to the model."""
        return list(self.provider.requests[number].messages)

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """What the client was told of this kind."""
        return [u["params"] for u in self.wire.updates if u["params"]["type"] == kind]
