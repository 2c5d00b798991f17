"""Playing a row of the conformance suite against a daemon.

A step is one of these; ``on = "name"`` has it happen on a further connection, which is initialized when it is first named,
and ``times`` as often as that.

``send``          a line: bytes, and a line end
``write``         bytes
``flood``         bytes, as many as the daemon takes; the others are still to be sent when the row goes on
``expect``        the next frame matches this JSON
``error``         the next frame is an error with this code, and with the id of the member ``id`` (null, when left out)
``result``        the next frame is a success with this id
``silent``        nothing is on its way: what is asked now is answered next
``asks``          the daemon's question ``zc-out-0`` (or another: the value) is brought about and left without an answer
``resolves``      the question was answered: the tool's result holds this text, and the turn ends
``finish``        no more will be sent
``close``         the connection is closed
``until``         the request of ``send``, asked again and again, is answered like this at last
``end``           the end of the stream, and no reset
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import Row, bytes_of, matches, text_of
from raw_client import Frame, RawClient

KINDS = {
    "send", "write", "flood", "expect", "error", "result", "silent", "asks", "resolves", "finish", "close", "until", "end",
}  # fmt: skip
FIRST = "first"
QUESTION = '/tool ask_user {"question": "Go on?"}'
PROMPT_ID = "the-prompt"


@dataclass
class Side:
    """One connection of a row."""

    client: RawClient
    sessions: list[str] = field(default_factory=list)
    pending: dict[str, str] = field(default_factory=dict)
    """Sessions by the id of the question that waits in them."""


class Play:
    """One row while it is played, beside a client that watches.

    Entered, everything of earlier clients is in the daemon's log. Left, its sessions are closed, and it was seen that no
    other was made.
    """

    def __init__(self, endpoint: Path, row: Row) -> None:
        self._endpoint = endpoint
        self._row = row
        self._sides: dict[str, Side] = {}
        self._watcher = RawClient(endpoint)
        self.token = secrets.token_hex(8)
        self._names = {"token": self.token, "session": f"conformance-{secrets.token_hex(6)}"}

    def __enter__(self) -> Play:
        try:
            self._watcher.initialize()
            status = self._watcher.call("status")
            self._before: tuple[list[str], int] = status["sessionIds"], status["connections"]
        except BaseException:
            self._watcher.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            if failure == (None, None, None):
                self._watcher.leave()
            else:
                self._go()
        finally:
            self._watcher.close()

    def end(self) -> None:
        """End what the row began: then the daemon has ended its connections, and what it logs of them is in the log."""
        self._go()
        sessions, connections = self._before
        while (status := self._watcher.call("status"))["connections"] > connections:
            pass  # a daemon that never ends them fails by the time limit of the test
        assert status["sessionIds"] == sessions

    def _go(self) -> None:
        for side in self._sides.values():
            side.client.close()
        for session in [session for side in self._sides.values() for session in side.sessions]:
            self._watcher.ask("session/close", {"sessionId": session})

    @property
    def frames(self) -> list[Frame]:
        """Every frame that came on any connection."""
        return [frame for side in self._sides.values() for frame in side.client.frames]

    def run(self) -> None:
        """Everything the row says."""
        side = self._sides[FIRST] = self._side(self._row.given != "fresh")
        if self._row.given == "asking":
            self._ask(side, "zc-out-0")
        for step in self._row.steps:
            self._step(step)
        for each in self._sides.values():
            for question in tuple(each.pending):
                self._still_asks(each, question)
        if self._row.after == "usable":
            if self._row.given == "fresh":
                side.client.ask("status")
            else:
                side.client.call("status")

    def _side(self, initialized: bool) -> Side:
        side = Side(RawClient(self._endpoint))
        if initialized:
            side.client.initialize()
        return side

    def _step(self, step: Mapping[str, Any]) -> None:
        kinds = [name for name in step if name in KINDS]
        assert kinds, f"no step: {step}"
        assert step.keys() <= {*kinds, "on", "id", "times"}, f"no step: {step}"
        name = step.get("on", FIRST)
        if name not in self._sides:
            self._sides[name] = self._side(initialized=True)
        side = self._sides[name]
        if "until" in step:
            self._until(side.client, step)
            return
        for kind in kinds:
            for _ in range(step.get("times", 1)):
                self._do(side, kind, step)

    def _do(self, side: Side, kind: str, step: Mapping[str, Any]) -> None:
        client, said = side.client, step[kind]
        match kind:
            case "send":
                client.write(self._bytes(said) + b"\n")
            case "write":
                client.write(self._bytes(said))
            case "flood":
                client.write_while_it_goes(self._bytes(said))
            case "expect":
                self._expect(client, json.loads(self._text(said)))
            case "error":
                request_id = json.loads(self._text(step.get("id", "null")))
                self._expect(client, {"id": request_id, "error": {"code": said}})
            case "result":
                self._expect(client, {"id": json.loads(self._text(said)), "result": "<any>"})
            case "silent":
                assert "error" in client.ask("no/such/method")
            case "asks":
                self._ask(side, said)
            case "resolves":
                self._resolved(side, *([said, "zc-out-0"] if isinstance(said, str) else said))
            case "finish":
                client.finish_sending()
            case "close":
                client.close()
                side.pending.clear()
            case "end":
                frame = client.receive_or_end()
                assert frame is None, frame
            case _:
                raise AssertionError(kind)

    def _bytes(self, said: Any) -> bytes:
        return bytes_of(said, self._names)

    def _text(self, said: Any) -> str:
        return text_of(said, self._names)

    @staticmethod
    def _expect(client: RawClient, wanted: Any) -> None:
        frame = client.receive_or_end()
        assert matches(frame, wanted), f"came: {json.dumps(frame)[:500]}\nwanted: {json.dumps(wanted)[:500]}"

    def _until(self, client: RawClient, step: Mapping[str, Any]) -> None:
        """Ask until the answer is right; a daemon that never gives it fails by the time limit of the test."""
        wanted = json.loads(self._text(step["until"]))
        while True:
            client.write(self._bytes(step["send"]) + b"\n")
            if matches(client.receive(), wanted):
                return

    # Questions of the daemon.

    def _ask(self, side: Side, question: str) -> None:
        """Have an agent ask the user, and do not answer."""
        session = f"conformance-{secrets.token_hex(6)}"
        new = {"agentAlias": "assistant", "sessionId": session, "keep_siblings": True}
        side.client.call("session/new", new)
        side.sessions.append(session)
        side.client.send("session/prompt", {"sessionId": session, "prompt": QUESTION}, PROMPT_ID + question)
        self._asked(side.client, session, question)
        side.pending[question] = session

    @staticmethod
    def _asked(client: RawClient, session: str, question: str) -> None:
        while (frame := client.receive())["method"] == "session/update":
            assert "id" not in frame
        assert matches(
            frame,
            {
                "method": "elicitation/create",
                "id": question,
                "params": {"message": "<text>", "sessionId": session},
            },
        ), frame

    def _still_asks(self, side: Side, question: str) -> None:
        """The question waits for its answer, and takes it."""
        content = {"answer": self.token}
        answer = {"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": content}}
        side.client.write(json.dumps(answer).encode() + b"\n")
        self._resolved(side, self.token, question)

    @staticmethod
    def _resolved(side: Side, text: str, question: str) -> None:
        session = side.pending.pop(question)
        results: list[str] = []
        while (frame := side.client.receive()).get("id") != PROMPT_ID + question:
            assert frame["method"] == "session/update", frame
            assert frame["params"]["sessionId"] == session, frame
            if frame["params"]["type"] == "tool_result":
                results.append(frame["params"]["rawOutput"])
        assert [result for result in results if text in result], f"the tool says {results}"
        assert frame["result"]["stopReason"] == "end_turn", frame
