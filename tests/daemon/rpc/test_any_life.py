"""Clients that do anything at any moment: the operator and two limited users, on several connections, for some days.

What is done is drawn by a seed. A day ends with the daemon; the next one begins with what is on disk.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from sending import b64

from zeroclaw_daemon.sessions.durable import DurableSessions

from .conftest import check_answer

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Serving = Callable[..., AbstractAsyncContextManager[Any]]
ANN, BEN = 4_000_000_001, 4_000_000_002
USERS: tuple[int | None, ...] = (None, None, ANN, ANN, BEN)
"""Who is at the other end of each connection; None is the operator."""
DAYS, MOVES = 3, 200
CONFIG = f"""\
schema_version = 1
[agents.assistant]
approval = "auto"
[agents.asky]
approval = "ask"
[permission_profiles.limited]
allowed_agents = ["*"]
allowed_tools = ["*"]
[permission_profiles.limited.grants]
sessions = ["create", "read", "update", "delete", "execute"]
tools = ["execute"]
files = ["create"]
system = ["read"]
[users.ann]
uid = {ANN}
permission_profiles = ["limited"]
[users.ben]
uid = {BEN}
permission_profiles = ["limited"]
"""
RIGHTS: dict[str, list[list[str]]] = {
    "allowed_agents": [["*"], ["assistant"], []],
    "allowed_tools": [["*"], ["plan"], []],
    "grants.sessions": [["create", "read", "update", "delete", "execute"], ["read"], ["read", "execute"]],
    "grants.files": [["create"], []],
}
"""What a user may, and with how little of it they are left now and then."""
NEVER_BEGAN = frozenset({"session_busy", "session_not_found", "session_killed", "session_limit", "forbidden"})


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


@dataclass
class Said:
    """A prompt, and what came of it as far as whoever said it was told."""

    session: str
    text: str
    ended: dict[str, Any] | None = None


@dataclass
class Talk:
    """A session as it should be: everything that was said in it. ``over``: killed or deleted, or that was asked for."""

    mode: str
    agent: str
    owner: int | None
    over: bool = False


@dataclass
class Client:
    """A connection, and everything it was told."""

    wire: Any
    user: int | None
    sent: dict[str, tuple[str, Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)
    said: dict[int, Said] = field(default_factory=dict)
    gone: bool = False

    async def send(self, method: str, params: dict[str, Any]) -> str:
        name = f"r{len(self.sent)}"
        self.sent[name] = (method, params)
        await self.wire.send({"jsonrpc": "2.0", "method": method, "params": params, "id": name})
        return name

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where the connection ended before it."""
        name = await self.send(method, params)
        while name not in self.answers and not self.gone:
            await anyio.lowlevel.checkpoint()
        return self.answers.get(name)

    async def hear(self) -> None:
        """Take what comes, until the end."""
        while (frame := await self.wire.receive_or_end()) is not None:
            if "method" not in frame:
                self.take_answer(frame)
            elif "id" in frame or frame["params"]["type"] == "approval_request":
                self.asked.append(frame)
            else:
                self.take_update(frame["params"])
        self.gone = True

    def take_answer(self, frame: dict[str, Any]) -> None:
        name = frame["id"]
        if name is None:
            return  # of a line that is no request
        assert name in self.sent, frame
        assert name not in self.answers, frame
        self.answers[name] = frame
        method, params = self.sent[name]
        check_answer(method, frame)
        assert frame.get("error", {}).get("data", {}).get("reason") != "internal", (method, params, frame)
        if method == "session/prompt" and "result" in frame:
            told = self.said[params["clientTurnGeneration"]].ended
            assert told is not None, "an answer before the end of its turn"
            assert told["content"] == frame["result"]["content"]

    def take_update(self, update: dict[str, Any]) -> None:
        session = update["sessionId"]
        if update["type"] == "agent_message_chunk":
            self.text[session] = self.text.get(session, "") + update["text"]
        elif update["type"] == "turn_complete":
            said = self.said[update["clientTurnGeneration"]]
            assert said.session == session
            assert said.ended is None, "a turn that is over twice"
            said.ended = update
            if update["outcome"] == "failed" and update["reason"] in NEVER_BEGAN:
                return
            heard = self.text.get(session, "")
            if update["outcome"] == "cancelled" and not update["content"]:
                return  # it may never have begun, while another one goes on
            self.text[session] = ""
            if update["outcome"] == "completed":
                assert heard == update["content"]
            elif update["outcome"] == "cancelled":
                assert update["content"].startswith(heard), "the last piece may be told by the end alone"


class Day:
    """One daemon, from its start to its end."""

    def __init__(self, life: Life, daemon: Any, tasks: anyio.abc.TaskGroup) -> None:
        self.life, self.daemon, self.tasks = life, daemon, tasks
        self.draw = life.draw
        self.clients: dict[int, Client] = {}
        self.uploads: list[tuple[Client, str, bytes]] = []

    @asynccontextmanager
    async def connected(self, user: int | None) -> AsyncGenerator[Client]:
        async with self.daemon.connect_raw(user) as wire:
            client = Client(wire, user)
            self.tasks.start_soon(client.hear)
            yield client

    async def client(self, number: int | None = None) -> Client:
        """One of the connections, made anew where it has ended."""
        number = self.draw.randrange(len(USERS)) if number is None else number
        known = self.clients.get(number)
        if known is None or known.gone:
            known = await self.life.stack.enter_async_context(self.connected(USERS[number]))
            self.clients[number] = known
            await known.call("initialize", {"protocolVersion": 1})
        return known

    def session(self, client: Client) -> str | None:
        """A session that there should be; mostly one that the client may use."""
        names = [name for name, talk in self.life.talks.items() if not talk.over]
        own = [name for name in names if client.user in (None, self.life.talks[name].owner)]
        pool = own if own and self.draw.random() < 0.9 else names
        return self.draw.choice(pool) if pool else None

    async def move(self) -> None:
        moves = {
            self.open: 10, self.say: 30, self.ask: 16, self.end: 5, self.begin: 3, self.send: 5, self.commit: 4,
            self.attach: 3, self.answer: 12, self.leave: 4, self.change_rights: 2, self.break_file: 1, self.mumble: 2,
            self.wait: 10,
        }  # fmt: skip
        (move,) = self.draw.choices(list(moves), list(moves.values()))
        await move()
        for _ in range(self.draw.randrange(12)):
            await anyio.lowlevel.checkpoint()

    async def open(self) -> None:
        client = await self.client()
        params: dict[str, Any] = {"agentAlias": self.draw.choice(["assistant", "assistant", "asky"])}
        params |= {"chatMode": self.draw.choice(["acp", "chat"]), "keepSiblings": self.draw.random() < 0.8}
        name = self.session(client) if self.draw.random() < 0.4 else None
        if name is not None:
            talk = self.life.talks[name]
            params |= {"sessionId": name, "chatMode": talk.mode, "agentAlias": talk.agent}
        answer = await client.call("session/new", params)
        if answer is not None and "result" in answer:
            made = answer["result"]["sessionId"]
            self.life.talks.setdefault(made, Talk(params["chatMode"], params["agentAlias"], client.user))

    async def say(self) -> None:
        client = await self.client()
        if (name := self.session(client)) is None:
            return
        number = len(self.life.said)
        mark = f"<{number}>"
        words = " ".join(
            self.draw.choices(["so", "grün", "🦀", '"', "\\", "a\nb", "[x]"], k=self.draw.randrange(1, 30))
        )
        text = self.draw.choice([
            f"{mark} {words}", f"{mark} {words}", f"/slow 5 {mark} {words}", f"/chunks 40 {mark} {words}", f"/think {mark}",
            f"/fail {mark} {words}", f'/tool plan {{"entries":[{{"content":"{mark}","status":"pending"}}]}}',
            f'/tool ask_user {{"question":"{mark}"}}', f'/tool bash {{"command":"echo {mark}"}}', f"/tool nothing {mark}",
        ])  # fmt: skip
        said = client.said[number] = Said(name, text)
        self.life.said.append(said)
        await client.send(
            "session/prompt", {"sessionId": name, "prompt": text, "clientTurnGeneration": number}
        )

    async def ask(self) -> None:
        client = await self.client()
        method, params = self.draw.choice([
            ("session/cancel", {}), ("session/cancel", {}), ("session/close", {}), ("session/state", {}), ("session/list", {"query": "so"}),
            ("session/messages", {"limit": 3}), ("session/configure", {"overrides": {"temperature": 1}}), ("session/list-acp", {}), ("status", {}),
        ])  # fmt: skip
        if method.startswith("session/") and "list" not in method:
            if (name := self.session(client)) is None:
                return
            params = {"sessionId": name, **params}
        await client.send(method, params)

    async def end(self) -> None:
        client = await self.client()
        if (name := self.session(client)) is None:
            return
        answer = await client.call(self.draw.choice(["session/kill", "session/delete"]), {"sessionId": name})
        if answer is None or "result" in answer:
            self.life.talks[name].over = True

    async def begin(self) -> None:
        client = await self.client()
        if (name := self.session(client)) is None:
            return
        data = self.draw.randbytes(self.draw.choice([0, 1, 3000]))
        answer = await client.call("file/upload/begin", {"session_id": name, "size_bytes": len(data)})
        if answer is not None and "result" in answer:
            self.uploads.append((client, answer["result"]["upload_id"], data))

    async def send(self) -> None:
        if self.uploads:
            client, upload, data = self.draw.choice(self.uploads)
            at = self.draw.randrange(len(data) + 1)
            if not client.gone:
                await client.send(
                    "file/upload/chunk", {"upload_id": upload, "offset": at, "data_b64": b64(data[at:])}
                )
                await client.send(
                    "file/upload/chunk", {"upload_id": upload, "offset": 0, "data_b64": b64(data)}
                )

    async def commit(self) -> None:
        if self.uploads:
            client, upload, data = self.draw.choice(self.uploads)
            answer = None if client.gone else await client.call("file/upload/commit", {"upload_id": upload})
            if answer is not None and "result" in answer:
                assert content_of(answer["result"]["workspace_path"]) == data

    async def attach(self) -> None:
        client = await self.client()
        if (name := self.session(client)) is not None:
            files = [{"data_b64": b64(self.draw.randbytes(5))}, {"path": str(self.daemon.config.file)}]
            answer = await client.call("file/attach", {"session_id": name, "files": files})
            assert client.user is None or answer is None or "error" in answer

    async def answer(self) -> None:
        asked = [client for client in self.clients.values() if client.asked and not client.gone]
        if not asked:
            return
        client = self.draw.choice(asked)
        frame = client.asked.pop(self.draw.randrange(len(client.asked)))
        if "id" in frame:
            result = self.draw.choice(
                [{"action": "accept", "content": {"answer": "a"}}, {"action": "decline"}, None, 5]
            )
            await client.wire.send({"jsonrpc": "2.0", "result": result, "id": frame["id"]})
            return
        names = {name: frame["params"][name] for name in ("sessionId", "requestId")}
        by = client if self.draw.random() < 0.8 else await self.client()
        decision = self.draw.choice(["allow_once", "allow_always", "reject_once"])
        await by.send("session/approve", {**names, "decision": decision})

    async def leave(self) -> None:
        if self.clients:
            number = self.draw.choice(list(self.clients))
            client = self.clients.pop(number)
            if self.draw.random() < 0.5:
                client.wire.close()
                return
            client.wire.transport.end()
            await self.daemon.until(lambda: client.gone)
            assert client.sent.keys() == client.answers.keys(), "who sends no more still has its answers"

    async def change_rights(self) -> None:
        name, choices = self.draw.choice(list(RIGHTS.items()))
        client = await self.client(0)
        await client.send(
            "config/set", {"prop": f"permission_profiles.limited.{name}", "value": self.draw.choice(choices)}
        )

    async def break_file(self) -> None:
        """Somebody edits the file by hand, and puts it right again."""
        self.daemon.config.file.write_text(
            self.draw.choice(["[[[", CONFIG[:300], "agents = 5\n", CONFIG, CONFIG])
        )

    async def mumble(self) -> None:
        client = await self.client()
        await client.wire.send(
            self.draw.choice(
                [
                    b"{",
                    b"[]",
                    b'{"jsonrpc":"2.0","id":true,"method":"status"}',
                    b'{"jsonrpc":"2.0","result":1,"id":"zc-out-0"}',
                ]
            )
        )

    async def wait(self) -> None:
        self.daemon.clock.advance(self.draw.choice([0.005, 0.005, 0.1, 7]))

    async def close(self) -> None:
        """Let everything end, and look at what is left of it."""
        self.daemon.config.file.write_text(CONFIG)
        operator = await self.life.stack.enter_async_context(self.connected(None))
        await operator.call("initialize", {"protocolVersion": 1})
        clients = [client for client in self.clients.values() if not client.gone]
        with anyio.fail_after(60):
            while any(client.sent.keys() - client.answers.keys() for client in clients if not client.gone):
                self.daemon.clock.advance(1)
                await operator.call("status", {})
        for client in clients:
            client.wire.close()
        with anyio.fail_after(60):
            while (status := await operator.call("status", {})) and status["result"]["connections"] > 1:
                pass
        assert self.daemon.server.staging.used_bytes == 0
        await self.life.compare(operator)
        if self.life.last:
            for name in self.life.talks:
                await operator.call("session/delete", {"sessionId": name})
            status = await operator.call("status", {})
            assert status is not None
            assert (status["result"]["activeSessions"], status["result"]["sessionIds"]) == (0, [])
        operator.wire.close()


class Life:
    """What outlives a day."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.talks: dict[str, Talk] = {}
        self.said: list[Said] = []
        self.last = False
        self.stack = AsyncExitStack()

    async def compare(self, operator: Client) -> None:
        """Each transcript has what was told, once and in order."""
        for name, talk in self.talks.items():
            if talk.over:
                continue
            answer = await operator.call(
                "session/messages", {"sessionId": name, "chatMode": talk.mode, "limit": 1000}
            )
            assert answer is not None
            assert "result" in answer, answer
            turns: list[list[dict[str, Any]]] = []
            for entry in answer["result"]["messages"]:
                if entry["role"] == "user":
                    turns.append([])
                turns[-1].append(entry)
            kept = {turn[0]["content"]: turn for turn in turns}
            assert len(kept) == len(turns), "each prompt is there once"
            for said in self.said:
                if said.session == name and said.ended is not None and said.ended["outcome"] == "completed":
                    assert said.text in kept
            mine = {said.text: said for said in self.said if said.session == name}
            for text, turn in kept.items():
                ended = mine[text].ended
                if ended is not None and ended["outcome"] != "failed":
                    told = "".join(entry["content"] for entry in turn if entry["role"] == "assistant")
                    assert told == ended["content"]
                    marked = turn[-1]["content"] == "[stream interrupted]"
                    assert marked == (ended["outcome"] == "cancelled")


@pytest.mark.req("RPC-130", "RPC-187", "RPC-237", "RPC-254", "PAINS-22")
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_done_each_request_is_answered_once_and_nothing_is_lost_or_left(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    life = Life(seed)
    caplog.set_level(logging.ERROR)
    for day in range(DAYS):
        life.last = day == DAYS - 1
        (tmp_path / "config").mkdir(mode=0o700, exist_ok=True)
        with closing(DurableSessions.at(tmp_path / "sessions")) as durable:
            async with (
                serving(config=CONFIG, durable=durable) as daemon,
                anyio.create_task_group() as tasks,
                AsyncExitStack() as life.stack,
            ):
                today = Day(life, daemon, tasks)
                for _ in range(MOVES):
                    await today.move()
                await today.close()
    errors = [json.dumps(getattr(record, "zeroclaw", {}).get("action")) for record in caplog.records]
    assert set(errors) <= {'"config_invalid"'}, caplog.text
