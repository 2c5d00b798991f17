"""A daemon that says what a test says, over memory: the far end of a client."""

from __future__ import annotations

import json
from typing import Any, Final

import anyio

from zeroclaw_daemon.rpc.transport.base import Transport

PATIENCE: Final = 60
"""Seconds after which a client that says nothing has failed a test."""

Frame = dict[str, Any]

INTRODUCED: Final[Frame] = {
    "protocolVersion": 1,
    "serverVersion": "0",
    "serverPid": 1,
    "tuiId": "tui_00000000",
    "capabilities": [],
    "authMethods": [],
    "principalId": "shared-operator",
}
"""What it says of itself."""


class ScriptedDaemon:
    """Reads what the client sends, frame by frame, and sends frames."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._unread = b""

    async def receive(self) -> Frame:
        """The client's next frame; fails at the end of the stream."""
        while b"\n" not in self._unread:
            with anyio.fail_after(PATIENCE):
                data = await self._transport.receive(65_536)
            assert data, "the client hung up"
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return json.loads(line)

    async def asked(self, method: str) -> Frame:
        """The client's next frame, which must be a request of this method."""
        frame = await self.receive()
        assert (frame["jsonrpc"], frame["method"]) == ("2.0", method), frame
        return frame

    async def send(self, *frames: Frame) -> None:
        """Send frames, one a line, in one go."""
        rest = memoryview(
            b"".join(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames)
        )
        with anyio.fail_after(PATIENCE):
            while rest:
                rest = rest[await self._transport.send(rest) :]

    async def introduce(self) -> Frame:
        """Answer ``initialize``; what the client said of itself."""
        request = await self.asked("initialize")
        await self.answer(request, INTRODUCED)
        return request["params"]

    async def answer(self, request: Frame, result: Any) -> None:
        """Answer a request."""
        await self.send({"id": request["id"], "result": result})

    async def refuse(self, request: Frame, code: int, message: str, **data: Any) -> None:
        """Answer a request with an error."""
        await self.send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})

    async def update(self, session_id: str, kind: str, **members: Any) -> None:
        """Tell of something that happened in a session."""
        await self.send(update(session_id, kind, **members))

    async def settle(self) -> None:
        """Have everything that was sent before be read: the client answers every question, in order."""
        await self.send({"method": "no/such/method", "params": {}, "id": "settle"})
        answer = await self.receive()
        assert (answer["id"], answer["error"]["code"]) == ("settle", -32601), answer

    def hang_up(self) -> None:
        """End the connection, as a daemon does that was killed."""
        self._transport.close()


def update(session_id: str, kind: str, **members: Any) -> Frame:
    """The notification of an update."""
    return {"method": "session/update", "params": {"sessionId": session_id, "type": kind, **members}}
