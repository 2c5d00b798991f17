"""``zeroclaw-plugin run`` for channels and memories, as an author types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def relay(built_plugin: Callable[[str], Path]) -> Path:
    return built_plugin("relay")


@pytest.fixture
def notes(built_plugin: Callable[[str], Path]) -> Path:
    return built_plugin("notes")


def test_calls_of_one_run_meet_the_same_instance(command: Run, notes: Path):
    store = '{"store_entry": {"key": "a", "content": "tea", "category": "drinks", "session-id": "s"}}'
    calls = f'[{store}, {{"count": {{}}, "reindex": {{}}}}, {{"recall": {{"query": "te", "limit": 3}}}}]'
    done = command("zeroclaw-plugin", "run", calls, cwd=notes)
    assert done.status == 0, done.err
    stored, count, reindexed, recalled = map(json.loads, done.out.splitlines())
    assert (stored, count, reindexed) == (None, 1, 0)
    assert recalled[0]["category"] == {"name": "drinks", "custom": True}
    assert "Notes.store_with_agent: stored" in done.err
    assert "reindex: 0.0 ms, answered by the host, because the plugin does not define it" in done.err


def test_the_first_failure_ends_the_run_with_its_status(command: Run, notes: Path):
    calls = '[{"count": {}}, {"recall": {"query": "raise", "limit": 1}}, {"count": {}}]'
    done = command("zeroclaw-plugin", "run", calls, cwd=notes)
    assert (done.status, done.out) == (9, "0\n")
    assert done.err.count("LookupError: no index") == 1
    report = command("zeroclaw-plugin", "run", calls, "--json", cwd=notes).json
    assert [each["function"] for each in report["calls"]] == ["count", "recall"]
    assert report["calls"][1]["error"]["code"] == "guest_failure"


@pytest.mark.parametrize(
    ("bound", "status"), [(("--fuel", "100000000"), 8), (("--timeout-ms", "200", "--fuel", str(2**62)), 8)]
)
def test_a_bound_holds_for_each_call(command: Run, notes: Path, bound: tuple[str, ...], status: int):
    done = command("zeroclaw-plugin", "run", '{"recall": {"query": "spin", "limit": 1}}', *bound, cwd=notes)
    assert done.status == status, done.err


def test_without_calls_a_plugin_starts_and_says_what_it_can(command: Run, notes: Path):
    done = command("zeroclaw-plugin", "run", cwd=notes)
    assert done.out == "started: notes\ncan also: export-entries, purge-namespace, store-procedural\n"


def test_a_channel_takes_configuration_messages_and_files(command: Run, relay: Path, tmp_path: Path):
    (tmp_path / "picture").write_bytes(b"123")
    send = {
        "content": "attached",
        "recipient": "a",
        "attachments": [{"file_name": "p", "data": {"file": "x"}}],
    }
    send["attachments"][0]["data"]["file"] = str(tmp_path / "picture")
    calls = [
        {"poll_message": {}},
        {"send": {"message": send}},
        {"poll_message": {}},
        {"send": {"message": {"content": "config", "recipient": "a"}}},
        {"poll-message": {}},
        {"send": {"message": {"content": "remember it", "recipient": "a"}}},
        {"parse_webhook": {"request": {"method": "GET"}}},
    ]
    words = ["--inbound", '{"content": "hi"}', "--config", "token=t", "--config", "prefix=- "]
    done = command("zeroclaw-plugin", "run", json.dumps(calls), *words, cwd=relay)
    assert done.status == 0, done.err
    answers = list(map(json.loads, done.out.splitlines()))
    assert [each and each.get("content") for each in answers[:6:2]] == [
        "hi",
        "3 a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3",
        "- t",
    ]
    assert answers[-1] == {"fault": 401, "reason": "who are you?"}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["run", '{"frobnicate": {}}'],
            2,
            "a channel has no function frobnicate; there are send, poll_message",
        ),
        (["run", '{"send": {}}'], 2, "send: message is missing"),
        (["run", "--inbound", "{}"], 2, "content is missing"),
        (["run", "--as", "memory"], 2, "relay is no memory"),
        (["run", "--config", "prefix=refuse"], 9, "not with this prefix"),
        (["run", "--config", "color=blue"], 3, "color"),
    ],
)
def test_every_mistake_is_one_error_with_its_status(
    command: Run, relay: Path, words: list[str], status: int, said: str
):
    done = command("zeroclaw-plugin", *words, cwd=relay)
    assert done.status == status, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["channel", "memory"])
def test_a_new_plugin_does_what_its_readme_says(command: Run, tmp_path: Path, kind: str):
    assert command("zeroclaw-plugin", "new", kind, "hello").status == 0
    hello = tmp_path / "hello"
    assert command("zeroclaw-plugin", "build", cwd=hello).status == 0
    checked = command("zeroclaw-plugin", "check", cwd=hello)
    assert checked.status == 0, checked.out
    readme = (hello / "README.md").read_text()
    script = readme.partition("```sh\n")[2].partition("```")[0]
    runs = script[script.index("zeroclaw-plugin run") : script.index("python -m pytest")]
    (tmp_path / "runs.sh").write_text(f"set -e\n{runs}")
    done = command("/bin/sh", tmp_path / "runs.sh", cwd=hello)
    assert done.status == 0, done.err
    expected = {"channel": '"content": "hi"', "memory": '"key": "tea"'}
    assert expected[kind] in done.out
