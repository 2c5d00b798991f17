"""What a person sees, types and is asked in ``zeroclaw chat``, with one daemon for all of it."""

from __future__ import annotations

import pytest
from pseudo_terminal import PseudoTerminal

from zeroclaw_daemon.cli.local_path import local_path
from zeroclaw_host.errors import UsageError

CTRL_C, CTRL_D = "\x03", "\x04"
READY = "\n> "


@pytest.fixture(scope="module")
def home(served):
    """The home of the daemon of this module."""
    return served


def says(at: PseudoTerminal, line: str) -> None:
    """Type a line where one is waited for, and see it stand there."""
    at.enter(line)
    at.expect(f"{line}\n")


def test_a_conversation_with_an_approval_a_question_and_a_poll(terminal, home) -> None:
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


def test_ctrl_c_stops_the_turn_and_the_question_and_leaves_where_nothing_runs(terminal, zeroclaw) -> None:
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
    at.type("half a li")
    at.expect("half a li")
    at.interrupt()
    at.expect("Ctrl-C once more leaves\n> ")
    at.interrupt()
    assert at.ends() == 130
    assert "to go on with this conversation: " in at.text
    assert "chat --resume 'mine'" in at.text
    assert "Traceback" not in at.text
    assert "mine" not in zeroclaw("status", "--json").json["sessionIds"]


def test_what_fails_is_told_and_a_file_goes_with_what_is_said_next(terminal, home) -> None:
    (home.path / "notes.txt").write_text("remember the milk")
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
    says(at, "here again")  # the failed turn took the session out of memory
    at.expect("here again\n> ")
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
    assert "\x1b[2m" not in at.raw
    at.type(CTRL_D)
    assert at.ends() == 0


def test_away_from_a_terminal_lines_are_said_in_turn_and_nobody_is_asked(home, zeroclaw_process) -> None:
    lines = [
        "hello", '//tool bash {"command": "touch piped"}', '//tool ask_user {"question": "Well?"}', "bye",
    ]  # fmt: skip
    said = "".join(f"{line}\n" for line in lines)
    outcome = zeroclaw_process("chat", "--session", "piped", said=said.encode())
    assert (outcome.status, outcome.err) == (0, "")
    shown = outcome.out.splitlines()
    assert shown[0] == "hello"
    assert "bash needs consent, and nobody is here to give it: it is not run" in shown
    assert any("the client cannot be asked" in line for line in shown)
    assert shown[-1] == "bye"
    assert "\x1b" not in outcome.out
    assert list(home.path.rglob("piped")) == []


@pytest.mark.parametrize(
    ("said", "status", "out", "err"),
    [
        (b"//fail boom\n/dance\nhello\n", 7, "hello\n", ["boom", "there is no command /dance; /help lists them"]),
        (b"/attach missing\n//fail boom\nhello\n", 3, "hello\n", ["missing cannot be read: No such file", "boom"]),
        (b"/attach a\x00b\nhello\n", 2, "hello\n", ["a path has no null characters"]),
        (b"x" * 8 * 1024 * 1024 + b"\nhello\n", 8, "hello\n", ["a line may have 8388608 bytes"]),
        (b"hello\n\xff\nnever\n", 2, "hello\n", ["standard input is not UTF-8"]),
    ],
    ids=["refused", "unreadable", "no path", "too long", "no text"],
)  # fmt: skip
def test_away_from_a_terminal_the_first_failure_is_the_status_and_the_rest_is_said(
    zeroclaw, zeroclaw_process, said: bytes, status: int, out: str, err: list[str]
) -> None:
    outcome = zeroclaw_process("chat", said=said)
    assert (outcome.status, outcome.out) == (status, out)
    told = outcome.err.splitlines()
    assert [
        line.removeprefix("error: ").startswith(words) for line, words in zip(told, err, strict=True)
    ] == [True for _ in err], told
    assert zeroclaw("status", "--json").json["sessionIds"] == []


def test_a_path_that_no_shell_has_read_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert [str(local_path(text)) for text in ("~", "~/a", "~bob/a", "a~", "/~/a")] == [
        "/home/ada", "/home/ada/a", "~bob/a", "a~", "/~/a",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="null"):
        local_path("a\0b")
