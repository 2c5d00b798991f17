"""``zeroclaw chat`` in a terminal: what a person sees, types and is asked."""

from __future__ import annotations

import json
import signal
import subprocess
from io import StringIO

import anyio
import anyio.to_thread
import pytest
from daemon_process import PROGRAM
from pseudo_terminal import PseudoTerminal
from raw_client import RawClient
from scripted_daemon import INTRODUCED, ScriptedDaemon
from websockets.asyncio.server import ServerConnection, serve

from zeroclaw_daemon.cli.turn_view import Style
from zeroclaw_daemon.rpc.transport.unix import UnixListener

CTRL_C, CTRL_D = "\x03", "\x04"
READY = "\n> "
MARKER = "[stream interrupted]"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def says(at: PseudoTerminal, line: str) -> None:
    """Type a line where one is waited for, and see it stand there."""
    at.enter(line)
    at.expect(f"{line}\n")


@pytest.mark.anyio
async def test_a_second_ctrl_c_leaves_a_daemon_that_does_not_stop(home, terminal) -> None:
    listener = UnixListener(home.socket, data_dir=home.data)
    async with listener.opened():
        at = terminal("chat", "--agent", "ada")
        daemon = ScriptedDaemon(await listener.accept())
        assert (await daemon.introduce())["clientCapabilities"] == {"elicitation": {"form": {}}}
        opening = await daemon.asked("session/new")
        assert opening["params"] == {"agentAlias": "ada", "chatMode": "acp", "keepSiblings": True}
        opened = {"sessionId": "s", "agentAlias": "ada", "messageCount": 0, "workspaceDir": "/"}
        await daemon.answer(opening, opened)
        at.expect(READY)
        at.enter("hello")
        await daemon.asked("session/prompt")
        at.type(CTRL_C)
        await daemon.asked("session/cancel")  # and that is not answered either
        at.expect("stopping; Ctrl-C once more leaves")
        at.type(CTRL_C)
        assert at.ends() == 130
        assert "Traceback" not in at.text
        with pytest.raises(AssertionError, match="the client hung up"):
            await daemon.receive()
        daemon.hang_up()


@pytest.mark.anyio
async def test_while_a_person_thinks_a_gateway_hears_that_the_client_is_there(terminal) -> None:
    opened = {"sessionId": "s", "agentAlias": "ada", "messageCount": 0, "workspaceDir": "/"}
    results = {
        "initialize": INTRODUCED,
        "session/new": opened,
        "session/close": {"sessionId": "s", "closed": True},
    }
    asked: list[str] = []
    heard = anyio.Event()

    async def gateway(socket: ServerConnection) -> None:
        async for message in socket:
            call = json.loads(message)
            asked.append(call["method"])
            answer = {"jsonrpc": "2.0", "id": call["id"], "result": results[call["method"]]}
            await socket.send(json.dumps(answer))
            if call["method"] == "session/new":
                await anyio.to_thread.run_sync(at.expect, READY)
                for _ in range(2):
                    await (await socket.ping())
                heard.set()

    async with serve(gateway, "127.0.0.1", 0, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]
        at = terminal("chat", "--agent", "ada", ZEROCLAW_GATEWAY=f"ws://127.0.0.1:{port}")
        with anyio.fail_after(60):
            await heard.wait()
        at.type(CTRL_C)
        await anyio.to_thread.run_sync(at.expect, "Ctrl-C once more leaves")
        await anyio.to_thread.run_sync(at.expect, READY)
        at.enter("/session")
        await anyio.to_thread.run_sync(at.expect, "s\n> ")
        at.type(CTRL_D)
        assert await anyio.to_thread.run_sync(at.ends) == 0
    assert asked == ["initialize", "session/new", "session/close"]


@pytest.mark.anyio
async def test_a_daemon_that_ends_in_a_turn_is_told_of_the_turn(home, terminal) -> None:
    listener = UnixListener(home.socket, data_dir=home.data)
    async with listener.opened():
        at = terminal("prompt", "hello", "--agent", "ada")
        daemon = ScriptedDaemon(await listener.accept())
        await daemon.introduce()
        opened = {"sessionId": "s", "agentAlias": "ada", "messageCount": 0, "workspaceDir": "/"}
        await daemon.answer(await daemon.asked("session/new"), opened)
        await daemon.asked("session/prompt")
        daemon.hang_up()
        at.expect("the connection ended before session/prompt was answered")
        assert at.ends() == 7
        assert "session/close" not in at.text


@pytest.mark.anyio
async def test_a_status_of_another_release_is_shown_as_far_as_it_is_known(home, terminal) -> None:
    listener = UnixListener(home.socket, data_dir=home.data)
    status = {
        "serverVersion": "9", "protocolVersion": 1, "serverPid": 7, "localIpcEndpoint": "/there", "uptimeSeconds": 61,
        "connections": 1, "gateway": {"state": "off"}, "activeSessions": 0, "sessionIds": [],
        "plugins": [{"package": "wat-echo", "state": "running"}, {}],
    }  # fmt: skip
    async with listener.opened():
        for answer, words, ended in ((status, "plugin    wat-echo running", 0), ({}, "error: ", 7)):
            at = terminal("status")
            daemon = ScriptedDaemon(await listener.accept())
            await daemon.introduce()
            await daemon.answer(await daemon.asked("status"), answer)
            at.expect(words)
            daemon.hang_up()
            assert at.ends() == ended
            assert "Traceback" not in at.text


@pytest.mark.req("RPC-251")
def test_a_turn_that_a_kill_cut_off_is_shown_once_on_resume_and_the_talk_goes_on(
    start_daemon, terminal, home
) -> None:
    home.configure('schema_version = 1\n[agents.assistant]\napproval = "auto"\n')
    daemon = start_daemon()
    at = terminal("chat")
    at.expect(READY)
    says(at, "before the fall")
    at.expect("before the fall\n> ")
    at.enter('//twice /tool bash {"command": "echo $((40 + 2))"} ;; /slow 600000 unfinished business')
    at.expect("← bash ")
    at.expect("\nunfinished ")
    daemon.process.send_signal(signal.SIGKILL)
    at.expect("error: the daemon is gone: ")
    assert at.ends() == 7
    assert "Traceback" not in at.text

    start_daemon()
    again = terminal("chat", "--resume")
    past = again.expect(MARKER) + again.expect(READY)
    assert "> before the fall\nbefore the fall\n" in past
    turn = past[past.index("> /twice") :]
    assert turn.count("← bash") == 1
    assert turn.count("unfinished \n") == 1
    assert turn.count(MARKER) == 1
    assert turn.index("→ bash") < turn.index("← bash") < turn.index("unfinished \n") < turn.index(MARKER)
    says(again, "and on we go")
    again.expect("and on we go\n> ")
    again.type(CTRL_D)
    assert again.ends() == 0


class Screen(StringIO):
    """A terminal, as far as a program asks."""

    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(monkeypatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert Style.of(Screen()).dim
    assert Style.of(StringIO()) == Style()
    monkeypatch.setenv("TERM", "dumb")
    assert Style.of(Screen()) == Style()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Style.of(Screen()) == Style()


def test_there_must_be_something_to_resume(start_daemon, zeroclaw) -> None:
    start_daemon()
    for arguments, said in (
        (("--resume",), "there is no conversation to go on with"),
        (("--resume", "--agent", "ada"), "there is no conversation with ada to go on with"),
        (("--resume", "lost"), "no conversation lost can be gone on with"),
    ):
        outcome = zeroclaw("chat", *arguments)
        assert (outcome.status, outcome.out) == (5, "")
        assert said in outcome.err
    assert json.loads(zeroclaw("status", "--json").out)["sessionIds"] == []


def test_what_is_gone_on_with_was_spoken_in(start_daemon, zeroclaw, zeroclaw_process, home) -> None:
    start_daemon()
    begun = '{"agentAlias": "assistant", "chatMode": "acp", "sessionId": "%s"}'
    zeroclaw("rpc", "session/new", begun % "empty")
    assert zeroclaw("prompt", "--resume", "hello").status == 5
    assert zeroclaw("prompt", "--session", "spoken", "hello").status == 0
    zeroclaw("rpc", "session/new", begun % "emptier")
    assert zeroclaw("prompt", "--resume", "again").status == 0
    counts = {row["sessionId"]: row["messageCount"] for row in zeroclaw("sessions", "list", "--json").json}
    assert counts == {"spoken": 4, "empty": 0, "emptier": 0}
    with RawClient(home.socket) as client:
        client.initialize()
        client.call("session/new", json.loads(begun % "first"))
        client.send("session/prompt", {"sessionId": "first", "prompt": "/slow 600000 one two"}, 1)
        assert client.receive()["params"]["text"] == "one "
        assert zeroclaw_process("chat", "--resume").status == 0  # which ends the conversation that it took up
        assert client.receive()["params"]["outcome"] == "cancelled"


@pytest.mark.parametrize("arguments", [("one",), ("--session", "a", "b"), ("--resume", "--session", "a")])
def test_words_that_contradict_each_other_are_wrong_usage(zeroclaw, arguments: tuple[str, ...]) -> None:
    outcome = zeroclaw("chat", *arguments)
    assert outcome.status == 2
    assert outcome.err.startswith("error: ")


def test_following_shows_updates_and_the_result_until_the_daemon_ends(home, start_daemon, zeroclaw) -> None:
    daemon = start_daemon()
    zeroclaw("rpc", "session/new", '{"agentAlias": "assistant", "sessionId": "s"}')
    following = subprocess.Popen(
        [PROGRAM, "rpc", "--follow", "session/prompt", '{"sessionId": "s", "prompt": "hello"}'],
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    lines = [json.loads(following.stdout.readline()) for _ in range(3)]
    assert [each.get("method", "result") for each in lines] == ["session/update", "session/update", "result"]
    assert lines[2]["result"]["content"] == "hello"
    assert following.poll() is None
    daemon.stop()
    _, err = following.communicate(timeout=60)
    assert following.returncode == 7
    assert "the daemon is gone" in err
