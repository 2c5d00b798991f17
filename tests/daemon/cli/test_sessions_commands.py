"""``zeroclaw sessions``, ``zeroclaw rpc`` and what ``zeroclaw prompt`` does with conversations."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from daemon_process import PROGRAM
from pseudo_terminal import PseudoTerminal

from zeroclaw_daemon.rpc.methods.table import TABLE


@pytest.fixture(scope="module")
def home(served):
    """The home of the daemon of this module, whose tests each have conversations of their own."""
    return served


def rows(outcome: Any, *wanted: str) -> list[list[str]]:
    """The rows of these conversations, in their order."""
    found = [line.split("\t") for line in outcome.out.splitlines()]
    return [row for row in found if row[0] in wanted]


def test_conversations_are_listed_shown_ended_and_deleted(zeroclaw) -> None:
    both = ("first", "second")
    zeroclaw("prompt", "--session", "first", "buy milk")
    zeroclaw("prompt", "--session", "second", '/tool plan {"entries": []}')
    zeroclaw("rpc", "session/close", '{"sessionId": "first"}')
    assert [(row[0], row[1], row[2], row[5]) for row in rows(zeroclaw("sessions", "list"), *both)] == [
        ("second", "assistant", "acp", "live"),
        ("first", "assistant", "acp", ""),
    ]
    listed = zeroclaw("sessions", "list", "--json").json
    assert [(each["sessionId"], each["mode"], each["live"]) for each in listed if each["sessionId"] in both] == [
        ("second", "acp", True), ("first", "acp", False),
    ]  # fmt: skip

    assert zeroclaw("sessions", "show", "first").out == "> buy milk\nbuy milk\n"
    shown = zeroclaw("sessions", "show", "second").out.splitlines()
    assert [line.split(" ")[0] for line in shown[:3]] == [">", "→", "←"]
    one = zeroclaw("sessions", "show", "first", "--limit", "1")
    assert one.out == "(not shown: 1 earlier)\nbuy milk\n"
    assert zeroclaw("sessions", "show", "first", "--json").json["total"] == 2

    assert zeroclaw("sessions", "kill", "first").out == "killed first\n"
    assert [row[0] for row in rows(zeroclaw("sessions", "list"), *both)] == ["second"]
    assert zeroclaw("sessions", "show", "first").out == "> buy milk\nbuy milk\n"
    killed = zeroclaw("chat", "--resume", "first")
    assert killed.status == 5
    assert "no conversation first can be gone on with" in killed.err
    nobody = zeroclaw("chat", "--resume", "--agent", "ada")
    assert (nobody.status, nobody.out) == (5, "")
    assert "there is no conversation with ada to go on with" in nobody.err
    assert zeroclaw("sessions", "delete", "first", "second").out == "deleted first\ndeleted second\n"
    assert rows(zeroclaw("sessions", "list"), *both) == []
    outcome = zeroclaw("sessions", "delete", "first")
    assert (outcome.status, outcome.out) == (5, "")
    assert "first: there is no such session" in outcome.err


def test_on_a_terminal_an_id_stays_whole(home, zeroclaw) -> None:
    zeroclaw("prompt", "once upon a time")
    newest = zeroclaw("sessions", "list", "--json").json[0]["sessionId"]
    assert len(newest) == 36
    env = {**home.environment(), "COLUMNS": "74"}
    with PseudoTerminal([PROGRAM, "sessions", "list"], env=env, cwd=home.path) as at:
        assert at.ends() == 0
        assert newest in at.text.split()


def test_chats_are_found_by_their_words(zeroclaw) -> None:
    for name, text in (("a", "the milk is sour"), ("b", "the wine is sweet")):
        zeroclaw("rpc", "session/new", json.dumps({"agentAlias": "assistant", "sessionId": name}))
        zeroclaw("rpc", "session/prompt", json.dumps({"sessionId": name, "prompt": text}))
    assert [row[0] for row in rows(zeroclaw("sessions", "list", "--query", "sour"), "a", "b")] == ["a"]
    assert {(row[0], row[2]) for row in rows(zeroclaw("sessions", "list"), "a", "b")} == {
        ("a", "chat"),
        ("b", "chat"),
    }


def test_a_prompt_goes_on_with_the_latest_conversation(zeroclaw) -> None:
    live = zeroclaw("status", "--json").json["sessionIds"]
    zeroclaw("prompt", "once upon a time")
    assert zeroclaw("status", "--json").json["sessionIds"] == live
    assert zeroclaw("prompt", "--resume", "and then?").out == "and then?\n"
    kept = zeroclaw("sessions", "list", "--json").json[0]
    assert kept["messageCount"] == 4
    assert zeroclaw("prompt", "--resume", "--session", "x", "what").status == 2


def test_a_prompt_takes_files_with_it(home, zeroclaw) -> None:
    live = zeroclaw("status", "--json").json["sessionIds"]
    for name in ("one.txt", "two.txt"):
        (home.path / name).write_text(name)
    outcome = zeroclaw("prompt", "--attach", "one.txt", "--attach", str(home.path / "two.txt"), "read")
    first, second, third = outcome.out.splitlines()
    assert first == "read"
    assert second.startswith("[Document: one.txt] ")
    assert third.startswith("[Document: two.txt] ")
    stored = home.path.rglob("uploads/*.txt")
    assert {path.read_text() for path in stored} == {"one.txt", "two.txt"}
    outcome = zeroclaw("prompt", "--attach", "none.txt", "read")
    assert outcome.status == 3
    assert "none.txt cannot be read" in outcome.err
    assert zeroclaw("status", "--json").json["sessionIds"] == live


def test_a_prompt_refuses_aloud_where_nobody_can_consent_and_asks_where_somebody_can(home, zeroclaw) -> None:
    prompt = '/tool bash {"command": "echo $((40 + 2))"}'
    refused = zeroclaw("prompt", prompt)
    assert "bash needs consent, and nobody is here to give it: it is not run\n" in refused.err
    assert "42" not in refused.out + refused.err
    as_json = zeroclaw("prompt", "--json", prompt)
    events = [json.loads(line) for line in as_json.out.splitlines()]
    assert [each["type"] for each in events[:3]] == ["tool_call", "approval_request", "tool_result"]
    assert "nobody is here" in as_json.err
    with PseudoTerminal([PROGRAM, "prompt", prompt], env=home.environment(), cwd=home.path) as at:
        at.expect("? bash wants to run with ")
        at.expect("[e]dit: ")
        at.enter("y")
        at.expect("← bash ")
        at.expect("42")
        assert at.ends() == 0


def test_what_a_turn_fails_with_begins_a_line(zeroclaw) -> None:
    outcome = zeroclaw("prompt", "/twice half ;; /fail the rest")
    assert outcome.status != 0
    assert outcome.out == "half\n"
    assert "the rest" in outcome.err


def test_ctrl_c_ends_a_prompt_with_its_turn_and_its_session(home, zeroclaw) -> None:
    live = zeroclaw("status", "--json").json["sessionIds"]
    command = [PROGRAM, "prompt", "/slow 600000 one two"]
    with PseudoTerminal(command, env=home.environment(), cwd=home.path) as at:
        at.expect("one ")
        at.type("\x03")
        assert at.ends() == 130
        assert "Traceback" not in at.text
    assert zeroclaw("status", "--json").json["sessionIds"] == live
    kept = zeroclaw("sessions", "list", "--json").json[0]
    assert "one" in zeroclaw("sessions", "show", kept["sessionId"]).out


def test_any_method_can_be_called_and_a_refusal_says_code_and_reason(zeroclaw, zeroclaw_process) -> None:
    assert zeroclaw("rpc", "status").json["localIpcEndpoint"]
    opened = zeroclaw_process(
        "rpc", "session/new", "-", said=b'{"agentAlias": "assistant", "sessionId": "s"}'
    )
    assert opened.json["sessionId"] == "s"
    said = zeroclaw("rpc", "session/prompt", '{"sessionId": "s", "prompt": "/chunks 2 a\\u001bb"}')
    assert said.json["content"] == "a\x1bb"
    updates = [json.loads(line) for line in said.err.splitlines()]
    assert [each["params"]["type"] for each in updates] == [
        "agent_message_chunk", "agent_message_chunk", "turn_complete",
    ]  # fmt: skip
    assert "\x1b" not in said.out + said.err

    for method, params, status, told in (
        ("no/such", "{}", 5, "(-32601 unknown_method)"),
        ("session/state", '{"sessionId": "x"}', 5, "(-32000 session_not_found)"),
        ("session/state", "{}", 3, "session_id: Field required (-32602 invalid_params)"),
    ):
        outcome = zeroclaw("rpc", method, params)
        assert (outcome.status, outcome.out) == (status, "")
        assert told in outcome.err
    error = json.loads(zeroclaw("rpc", "--json", "session/state", '{"sessionId": "x"}').err)["error"]
    assert (error["details"]["code"], error["details"]["reason"]) == (-32000, "session_not_found")

    outcome = zeroclaw("rpc", "status", env={"ZEROCLAW_AUTH_TOKEN": "zct_wrong"})
    assert outcome.status == 4
    assert "zct_wrong" not in outcome.out + outcome.err


@pytest.mark.parametrize("params", ["{", "[1]", "1", '{"a": NaN}'])
def test_parameters_are_one_object(zeroclaw, params: str) -> None:
    outcome = zeroclaw("rpc", "status", params)
    assert outcome.status == 2
    assert "the parameters are no JSON" in outcome.err


def test_names_of_methods_are_completed(home) -> None:
    line = "zeroclaw rpc session/k"
    asked = {"COMP_WORDS": line, "COMP_CWORD": "2", "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [PROGRAM],
        env={**home.environment(), **asked, "_ZEROCLAW_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["session/kill"]


def test_the_protocol_describes_itself_without_a_daemon(zeroclaw) -> None:
    document = zeroclaw("rpc", "--describe").json
    assert document["openrpc"]
    assert {method["name"] for method in document["methods"]} == set(TABLE)
    one = zeroclaw("rpc", "--describe", "session/kill").json
    assert one == next(method for method in document["methods"] if method["name"] == "session/kill")
    outcome = zeroclaw("rpc", "--describe", "session/kil")
    assert (outcome.status, outcome.out) == (5, "")
    assert "there is session/kill" in outcome.err
    assert zeroclaw("rpc").status == 2


@pytest.mark.parametrize(
    "arguments", [("prompt", "-"), ("rpc", "status", "-"), ("chat",)], ids=lambda arguments: arguments[0]
)
def test_what_is_piped_in_must_be_text(zeroclaw_process, arguments: tuple[str, ...]) -> None:
    outcome = zeroclaw_process(*arguments, said=b"\xff\n")
    assert outcome.status == 2
    assert "standard input is not UTF-8" in outcome.err


def test_a_prompt_that_fits_no_line_is_told_so(zeroclaw_process) -> None:
    outcome = zeroclaw_process("prompt", "-", said=b"x" * (9 * 1024 * 1024))
    assert outcome.status == 8  # a limit: it is not even sent
    assert "a line may have 8388608 bytes" in outcome.err
