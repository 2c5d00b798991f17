"""``zeroclaw plugin state`` and ``zeroclaw secrets``: sizes and never values, over real packages and real files."""

from __future__ import annotations

import json
import os
import pty
import shutil
from pathlib import Path

import pytest

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import StateEntry
from zeroclaw_host.services.state_store import DurableState

ECHO = InstanceIdentity.default_tool("wat-echo")
GONE = InstanceIdentity("gone", Capability.CHANNEL, "ops")


@pytest.fixture
def store(home) -> DurableState:
    """The state of the home, as the daemon has it."""
    return DurableState(home.data / "plugin-state.db", home.key_file)


@pytest.fixture
def filled(store: DurableState) -> DurableState:
    store.put(ECHO, "logical-key", b"planted-value", None)
    store.put(ECHO, "b", b"12", None)
    store.put(GONE, "c", b"", None)
    return store


def quiet(*outcomes) -> None:
    """That none of them shows a key or a value of an entry."""
    for outcome in outcomes:
        for text in ("logical-key", "planted-value"):
            assert text not in outcome.out + outcome.err


def test_an_installation_without_state_says_so_and_makes_nothing(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n")
    outcome = zeroclaw("plugin", "state")
    assert (outcome.status, outcome.out) == (0, "no plugin keeps anything\n")
    assert zeroclaw("plugin", "state", "list", "demo").out == "no instance of demo keeps anything\n"
    assert zeroclaw("plugin", "state", "--json").json == {"instances": [], "unreadable_entries": 0}
    assert not home.key_file.exists
    assert not home.data.exists()


def test_sizes_are_listed_with_what_is_installed(home, zeroclaw, package, compile_cache, filled) -> None:
    zeroclaw("plugin", "install", str(package()))
    outcome = zeroclaw("plugin", "state")
    assert [line.split("\t") for line in outcome.out.splitlines()] == [
        ["gone", "channel", "ops", "1", "0", "1", "not installed", GONE.key],
        ["wat-echo", "tool", "wat-echo", "2", "15", "2", "", ECHO.key],
    ]
    as_json = zeroclaw("plugin", "state", "list", "wat-echo", "--json")
    assert as_json.json == {
        "instances": [
            {
                "key": ECHO.key, "package": "wat-echo", "capability": "tool", "binding": "wat-echo", "installed": True,
                "entries": 2, "value_bytes": 15, "last_revision": 2,
            }
        ],
        "unreadable_entries": 0,
    }  # fmt: skip
    quiet(outcome, as_json)


def test_clearing_deletes_one_instances_entries(zeroclaw, filled) -> None:
    outcome = zeroclaw("plugin", "state", "clear", ECHO.key, "--yes")
    assert (outcome.status, outcome.out) == (0, "deleted 2 entries\n")
    assert filled.get(ECHO, "b") is None
    assert filled.get(GONE, "c") == StateEntry(b"", 1)
    again = zeroclaw("plugin", "state", "clear", ECHO.key, "--yes", "--json")
    assert again.status == 5
    assert again.json == {"key": ECHO.key, "deleted_entries": 0}
    assert json.loads(again.err)["error"]["code"] == "state_not_found"


def test_clearing_asks_and_takes_no_for_an_answer(zeroclaw, filled, monkeypatch) -> None:
    for answer, left in (("n\n", 2), ("y\n", 0)):
        reader, writer = pty.openpty()
        os.write(writer, answer.encode())
        with os.fdopen(reader, "r") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            outcome = zeroclaw("plugin", "state", "clear", ECHO.key)
        os.close(writer)
        assert "Delete 2 entries of wat-echo (tool, binding wat-echo) for good?" in outcome.err
        assert sum(used.entries for used in filled.usage().instances if used.instance == ECHO) == left
        assert (outcome.status == 0) is (left == 0)
        quiet(outcome)


def test_where_nobody_can_be_asked_clearing_has_to_be_told(zeroclaw, filled) -> None:
    outcome = zeroclaw("plugin", "state", "clear", ECHO.key)
    assert outcome.status == 2
    assert "--yes" in outcome.err
    assert sum(used.entries for used in filled.usage().instances if used.instance == ECHO) == 2


@pytest.mark.parametrize("key", ["wat-echo", "zpi1_", "zpi1_AAAA"])
def test_a_text_that_is_no_key_is_refused(zeroclaw, filled, key: str) -> None:
    outcome = zeroclaw("plugin", "state", "clear", key, "--yes")
    assert outcome.status == 3
    assert "error: " in outcome.err


@pytest.mark.req("PLG-159")
def test_state_that_cannot_be_read_is_said(home, zeroclaw, filled) -> None:
    home.key_file.path.unlink()
    outcome = zeroclaw("plugin", "state")
    assert outcome.status == 7
    assert outcome.err.count("does not exist, and what is sealed with it") == 1
    assert zeroclaw("plugin", "state", "clear", ECHO.key, "--yes").status == 7
    KeyFile(home.key_file.path).read_or_create()
    outcome = zeroclaw("plugin", "state")
    assert outcome.status == 0
    assert "3 entries cannot be read" in outcome.err
    refused = zeroclaw("plugin", "state", "clear", ECHO.key, "--yes")
    assert refused.status == 7
    quiet(outcome, refused)


@pytest.mark.req("PLG-160", "PLG-161")
def test_state_stays_over_an_update_a_removal_and_another_package_of_the_name(
    home, zeroclaw, package, compile_cache, filled
) -> None:
    kept = {key: filled.get(ECHO, key) for key in ("logical-key", "b")}
    zeroclaw("plugin", "install", str(package()))

    shutil.rmtree(home.path / "sources")
    updated = zeroclaw("plugin", "update", "wat-echo", "--from", str(package(version="2.0.0")))
    assert updated.status == 0, updated.err
    assert {key: filled.get(ECHO, key) for key in kept} == kept

    removed = zeroclaw("plugin", "remove", "wat-echo")
    assert removed.status == 0
    assert f"what it stored stays: 2 entries of {ECHO.key}; to delete them:\n" in removed.out
    assert f"plugin state clear '{ECHO.key}'\n" in removed.out
    assert "Any package installed as wat-echo has all of this" in removed.out
    assert {key: filled.get(ECHO, key) for key in kept} == kept
    (listed,) = zeroclaw("plugin", "state", "list", "wat-echo", "--json").json["instances"]
    assert listed["installed"] is False

    shutil.rmtree(home.path / "sources")
    zeroclaw("plugin", "install", str(package(version="9.0.0", description="Another one altogether.")))
    assert {key: filled.get(ECHO, key) for key in kept} == kept
    assert zeroclaw("plugin", "remove", "wat-echo", "--json").json["kept_state"] == {ECHO.key: 2}
    quiet(removed)


def test_a_removal_goes_on_when_nobody_can_say_what_is_kept(
    home, zeroclaw, package, compile_cache, filled
) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.key_file.path.unlink()
    outcome = zeroclaw("plugin", "remove", "wat-echo")
    assert outcome.status == 0
    assert "warning: the file of the key" in outcome.err


# --- secrets ------------------------------------------------------------------------------------------------------------

CONFIG = f'schema_version = 1\n[[plugins.entries]]\nname = "{ECHO.key}"\n[plugins.entries.config]\ntoken = "planted-value"\n'


def test_a_rotation_is_one_command(home, zeroclaw, filled) -> None:
    home.configure(CONFIG)
    assert f"written out plugins.entries.{ECHO.key}.config.token" in zeroclaw("secrets", "status").out
    old = home.key_file.read()
    outcome = zeroclaw("secrets", "rotate")
    assert outcome.out == "the key is new; sealed with it: 1 secrets and 3 entries of plugins' state\n"
    assert not home.key_file.read().same_as(old)
    assert filled.get(ECHO, "b") == StateEntry(b"12", 2)
    assert "planted-value" not in home.config_file.read_text()
    status = zeroclaw("secrets", "status", "--json")
    assert status.json == {
        "key_file": str(home.key_file.path), "key": "usable", "rotation_interrupted": False,
        "secrets": {"sealed": 1, "legacy": 0, "plain": [], "unreadable": []},
    }  # fmt: skip
    quiet(outcome, status)


def test_an_interrupted_rotation_is_told_and_finished(home, zeroclaw, filled) -> None:
    home.key_file.begin_rotation()
    said = zeroclaw("secrets", "status").out
    assert "interrupted" in said
    assert f"zeroclaw --config-dir '{home.config_file.parent}' secrets rotate\n" in said
    assert zeroclaw("secrets", "rotate", "--json").json == {
        "rotated": True, "resumed": True, "secrets": 0, "state_entries": 3,
    }  # fmt: skip
    assert "interrupted" not in zeroclaw("secrets", "status").out


def test_what_is_printed_to_paste_leads_to_no_other_data_directory(
    home, zeroclaw, package, compile_cache, filled
) -> None:
    """The variable names the data directory for these commands, and an option of theirs would undo that."""
    moved = {"ZEROCLAW_DATA_DIR": str(home.path / "moved")}
    DurableState(home.path / "moved" / "plugin-state.db", home.key_file).put(ECHO, "a", b"", None)
    home.key_file.begin_rotation()
    said = zeroclaw("secrets", "status", env=moved).out
    assert "`zeroclaw secrets rotate`, with the same ZEROCLAW_DATA_DIR\n" in said
    assert zeroclaw("plugin", "install", str(package()), env=moved).status == 0
    removed = zeroclaw("plugin", "remove", "wat-echo", env=moved).out
    assert f"`zeroclaw plugin state clear {ECHO.key}`, with the same ZEROCLAW_DATA_DIR\n" in removed
    assert "--config-dir" not in said + removed


def test_a_daemon_says_at_its_start_that_a_rotation_was_interrupted(home, start_daemon, filled) -> None:
    home.key_file.begin_rotation()
    daemon = start_daemon()
    status, said = daemon.stop()
    assert status == 0
    command = f"zeroclaw --config-dir '{home.config_file.parent}' secrets rotate"
    assert command in said
    (told,) = [found for found in home.log() if "was interrupted" in found["message"]]
    assert told["severity_text"] == "WARN"
    assert command in json.dumps(told)
    assert filled.get(ECHO, "b") == StateEntry(b"12", 2)


def test_without_a_key_there_is_nothing_to_rotate(home, zeroclaw) -> None:
    assert zeroclaw("secrets", "rotate").out == "there is no key yet, and nothing is sealed\n"
    assert zeroclaw("secrets", "rotate", "--json").json["rotated"] is False
    assert zeroclaw("secrets", "status", "--json").json["key"] == "missing"
    assert not home.key_file.exists


@pytest.mark.req("PLG-159")
def test_a_lost_key_is_an_error_and_none_is_made(home, zeroclaw, filled) -> None:
    Path(home.key_file.path).unlink()
    outcome = zeroclaw("secrets", "rotate")
    assert outcome.status == 7
    home.configure(CONFIG.replace("planted-value", "enc2:00"))
    assert zeroclaw("secrets", "status").status == 7
    assert not home.key_file.exists


def test_a_key_that_others_can_read_comes_with_the_command_that_mends_it(home, zeroclaw, filled) -> None:
    home.key_file.path.chmod(0o644)
    outcome = zeroclaw("secrets", "rotate")
    assert outcome.status == 7
    assert (
        f"chmod 600 '{home.key_file.path}'" in outcome.err or f"chmod 600 {home.key_file.path}" in outcome.err
    )
