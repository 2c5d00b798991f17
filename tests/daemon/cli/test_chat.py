"""``zeroclaw chat`` in a terminal: what a person sees, types and is asked."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO

import pytest
from daemon_process import PROGRAM
from pseudo_terminal import PseudoTerminal
from scripted_daemon import ScriptedDaemon

from zeroclaw_daemon.cli.turn_view import Style
from zeroclaw_daemon.rpc.transport.unix import UnixListener

At = Callable[..., PseudoTerminal]
CTRL_C, CTRL_D = "\x03", "\x04"
READY = "\n> "
MARKER = "[stream interrupted]"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def terminal(home) -> Iterator[At]:
    """Runs a command on a terminal of its own."""
    with ExitStack() as stack:

        def run(*arguments: str, **env: str) -> PseudoTerminal:
            return stack.enter_context(
                PseudoTerminal([PROGRAM, *arguments], env=home.environment(env), cwd=home.path)
            )

        yield run


def says(at: PseudoTerminal, line: str) -> None:
    """Type a line where one is waited for, and see it stand there."""
    at.enter(line)
    at.expect(f"{line}\n")


def test_a_conversation_with_an_approval_a_question_and_a_poll(start_daemon, terminal, home) -> None:
    start_daemon()
    at = terminal("chat")
    at.expect("assistant listens, in conversation ")
    at.expect(READY)
    says(at, "hello there")
    at.expect("hello there\n> ")
    assert "\x1b[2m" in at.raw

    says(at, '//tool bash {"command": "echo $((40 + 2)); touch ran"}')
    at.expect('? bash wants to run with {"command": "echo $((40 + 2)); touch ran"}\n')
    at.expect("[y]es, [a]lways in this conversation, [n]o, [e]dit: ")
    assert list(home.path.rglob("ran")) == []
    at.enter("perhaps")
    at.expect("[e]dit: ")
    at.enter("y")
    at.expect("← bash ")
    at.expect("42")
    at.expect(READY)
    assert len(list(home.path.rglob("ran"))) == 1

    says(at, '//tool bash {"command": "echo $((40 + 3))"}')
    at.expect("[e]dit: ")
    at.enter("edit")
    at.expect("What is to be done instead? ")
    at.enter("count to ten")
    assert "43" not in at.expect("wants this instead: count to ten")
    at.expect(READY)

    says(at, '//tool ask_user {"question": "Which colour?"}')
    at.expect("? Which colour?\n")
    at.enter("green \x1b[2J")
    at.expect("← ask_user green \\x1b[2J\n")
    at.expect(READY)

    says(at, '//tool poll {"question": "Drinks?", "options": ["tea", "milk", "rum"], "multiple": true}')
    at.expect("? Drinks?\n  1) tea\n  2) milk\n  3) rum\n")
    at.expect("the numbers of those you choose, with commas between: ")
    at.enter("4")
    at.expect("with commas between: ")
    at.enter("3, 1")
    at.expect("← poll rum\ntea\n")
    at.expect(READY)

    says(at, '//tool bash {"command": "echo $((40 + 4))"}')
    at.expect("[e]dit: ")
    at.enter("always")
    at.expect("44\n")
    at.expect(READY)
    says(at, '//tool bash {"command": "echo $((40 + 5))"}')
    assert "?" not in at.expect("← bash ")
    at.expect(READY)
    says(at, "/quit")
    assert at.ends() == 0


def test_ctrl_c_stops_the_turn_and_the_question_and_leaves_where_nothing_runs(
    start_daemon, terminal, zeroclaw
) -> None:
    start_daemon()
    at = terminal("chat", "--session", "mine")
    at.expect(READY)
    says(at, "//slow 600000 one two")
    at.expect("one ")
    at.type(CTRL_C)
    at.expect("stopping; Ctrl-C once more leaves\n")
    at.expect("the turn was cancelled\n> ")
    says(at, '//tool ask_user {"question": "Sure?"}')
    at.expect("your answer: ")
    at.type(CTRL_C)
    at.expect("the turn was cancelled\n> ")
    says(at, "still there")
    at.expect("still there\n> ")
    at.type("half a li" + CTRL_C)
    at.expect("Ctrl-C once more leaves\n> ")
    at.type(CTRL_C)
    assert at.ends() == 130
    assert "to go on with this conversation: " in at.text
    assert "chat --resume 'mine'" in at.text
    assert "Traceback" not in at.text
    assert zeroclaw("status", "--json").json["sessionIds"] == []


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


def test_what_fails_is_told_and_the_conversation_goes_on(start_daemon, terminal) -> None:
    start_daemon()
    at = terminal("chat", NO_COLOR="1")
    at.expect(READY)
    says(at, "//fail no luck")
    at.expect("error: ")
    at.expect("no luck")
    at.expect(READY)
    says(at, "/dance")
    at.expect("there is no command /dance; /help lists them")
    at.expect(READY)
    says(at, "/help")
    at.expect("/attach PATH")
    at.expect(READY)
    assert "\x1b[2m" not in at.raw
    assert "\x1b[1m" not in at.raw


def test_a_file_goes_with_what_is_said_next(start_daemon, terminal, home) -> None:
    start_daemon()
    (home.path / "notes.txt").write_text("remember the milk")
    at = terminal("chat")
    at.expect(READY)
    says(at, "/attach missing.txt")
    at.expect("missing.txt cannot be read: No such file or directory")
    at.expect(READY)
    says(at, "/attach notes.txt")
    at.expect("notes.txt goes with what you say next, as [Document: notes.txt] ")
    at.expect(READY)
    says(at, "read this")
    at.expect("read this\n[Document: notes.txt] ")
    at.expect(READY)
    says(at, "and this")
    assert "Document" not in at.expect(READY)


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


def test_away_from_a_terminal_lines_are_said_in_turn_and_nobody_is_asked(
    start_daemon, home, zeroclaw_process
) -> None:
    start_daemon()
    lines = ["hello", '//tool bash {"command": "touch ran"}', '//tool ask_user {"question": "Well?"}', "bye"]
    done = subprocess.run(
        [PROGRAM, "chat", "--session", "piped"],
        input="".join(f"{line}\n" for line in lines),
        env=home.environment(),
        cwd=home.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.splitlines()
    assert shown[0] == "hello"
    assert "bash needs consent, and nobody is here to give it: it is not run" in shown
    assert any("the client cannot be asked" in line for line in shown)
    assert shown[-1] == "bye"
    assert "\x1b" not in done.stdout
    assert list(home.path.rglob("ran")) == []


def test_there_must_be_something_to_resume(start_daemon, zeroclaw) -> None:
    start_daemon()
    for arguments, said in (
        (("--resume",), "there is no conversation to go on with"),
        (("--resume", "--agent", "ada"), "there is no conversation with ada to go on with"),
        (("--resume", "lost"), "no conversation lost is stored"),
    ):
        outcome = zeroclaw("chat", *arguments)
        assert (outcome.status, outcome.out) == (5, "")
        assert said in outcome.err
    assert json.loads(zeroclaw("status", "--json").out)["sessionIds"] == []


@pytest.mark.parametrize("arguments", [("one",), ("--session", "a", "b"), ("--resume", "--session", "a")])
def test_words_that_contradict_each_other_are_wrong_usage(zeroclaw, arguments: tuple[str, ...]) -> None:
    outcome = zeroclaw("chat", *arguments)
    assert outcome.status == 2
    assert outcome.err.startswith("error: ")
