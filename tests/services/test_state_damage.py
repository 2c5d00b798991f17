"""Damage that only shows in what is left behind: files without their database, bytes that are no text (PLG-159)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import state_parts
from state_parts import DEMO, OTHER, Home

from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import StateEntry, StateFault
from zeroclaw_host.services.state_database import StateUnavailable
from zeroclaw_host.services.state_rows import owner_of

pytestmark = pytest.mark.req("PLG-159")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    store = found.store()
    store.put(DEMO, "a", b"older", None)
    store.put(OTHER, "a", b"other's", None)
    store.put(DEMO, "a", b"newer", 1)
    store.close()
    return found


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_belongs_to_a_database_that_is_gone_is_no_part_of_the_next(home: Home, suffix: str) -> None:
    """A daemon was killed, and somebody took away the database alone: its log would be read into a new one."""
    with home.inside() as raw:
        raw.execute("PRAGMA user_version = 1")  # something for the log
        left = {name: content for name, content in home.files().items() if name.endswith(suffix)}
    home.database.unlink()
    beside = home.database.with_name(home.database.name + suffix)
    beside.write_bytes(left.get(beside.name, b"something"))
    beside.chmod(0o600)
    before = home.files()

    store = home.store()
    for work in (
        lambda: store.get(DEMO, "a"),
        lambda: store.put(DEMO, "a", b"new", None),
        lambda: store.put(DEMO, "a", b"new", 2),
        lambda: store.delete(DEMO, "a", 2),
    ):
        with pytest.raises(StateFault) as fault:
            work()
        assert fault.value.word == "unavailable"
    for ask in (store.usage, lambda: store.clear(DEMO), store.rekey):
        with pytest.raises(StateUnavailable) as refused:
            ask()
        assert refused.value.remedy is not None
        assert refused.value.remedy.action is RemedyAction.CLEAR_BY_HAND
        assert refused.value.remedy.arguments == {"path": str(beside)}
    assert home.reasons == ["damaged"]
    assert home.files() == before, "nothing was made"
    beside.unlink()
    assert store.put(DEMO, "a", b"new", None) == 1
    assert store.get(DEMO, "a") == StateEntry(b"new", 1)
    assert store.get(OTHER, "a") is None


@pytest.mark.parametrize("damage", [b"\xff", b"\xed\xa0\x80", b"\0", "é".encode()])
@pytest.mark.parametrize("at", [5, 20, -1])
def test_a_text_that_is_none_is_a_damaged_row_and_is_not_quoted(home: Home, damage: bytes, at: int) -> None:
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        (sealed,) = raw.execute(
            "SELECT ciphertext FROM plugin_state WHERE owner = ?", (owner_of(install, DEMO),)
        ).fetchone()
        text = sealed.encode()
        at %= len(text)
        raw.execute(
            "UPDATE plugin_state SET ciphertext = CAST(? AS TEXT) WHERE owner = ?",
            (text[:at] + damage + text[at + 1 :], owner_of(install, DEMO)),
        )
    store = home.store()

    with pytest.raises(StateFault) as fault:
        store.get(DEMO, "a")
    assert fault.value.word == "unavailable"
    assert store.usage().unreadable == 1
    (report,) = home.reports
    told = report.message + repr(report.details) + repr(report.causes())
    assert report.details["reason"] == "key_replaced"
    assert "enc2:" not in told
    assert sealed[40:60] not in told
    assert store.get(OTHER, "a") == StateEntry(b"other's", 1)
    assert store.clear(DEMO) == 1
    assert store.put(DEMO, "a", b"again", None) == 3


def test_a_process_does_not_use_the_connections_of_the_one_it_was_forked_from(home: Home) -> None:
    """The database's locks are not inherited, and it would not know: whoever forks makes a store of his own in the child."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from state_parts import *\n"
        "from zeroclaw_host.services.state import StateFault\n"
        "home = Home(Path(sys.argv[1])); store = home.store()\n"
        "assert store.get(DEMO, 'a').value == b'newer'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for work in (lambda: store.get(DEMO, 'a'), lambda: store.put(DEMO, 'b', b'', None)):\n"
        "        try: work()\n"
        "        except StateFault as fault: print(fault.word, home.reasons, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(store.put(DEMO, 'b', b'', None), store.get(DEMO, 'a').value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(home.key.parent)],
        env={**os.environ, "PYTHONPATH": str(Path(state_parts.__file__).parent)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "unavailable ['failed']\nunavailable ['failed']\n3 b'newer'\n", done.stderr


def test_a_plugin_that_reads_and_cannot_write_does_not_fill_the_log(home: Home) -> None:
    """Each word is told once until writing works again, however often reading works in between."""
    store = home.store(busy_seconds=0)
    with home.inside() as raw:
        for outage in range(1, 3):
            raw.execute("BEGIN IMMEDIATE")
            for _ in range(5):
                assert store.get(OTHER, "a") == StateEntry(b"other's", 1)
                with pytest.raises(StateFault):
                    store.put(DEMO, "b", b"", None)
            raw.execute("ROLLBACK")
            assert home.reasons == ["busy"] * outage
            store.delete(DEMO, "b", store.put(DEMO, "b", b"", None))
    key = home.key.read_bytes()
    for outage in range(1, 3):
        home.key.unlink()
        for _ in range(3):
            with pytest.raises(StateFault):
                store.get(DEMO, "a")
        home.key.write_bytes(key)
        home.key.chmod(0o600)
        assert store.get(OTHER, "a") == StateEntry(b"other's", 1)
        assert home.reasons[2:] == ["missing"] * outage


@pytest.mark.parametrize("column", ["owner", "locator"])
@pytest.mark.parametrize("damage", ["CAST(x'ff00ff' AS TEXT)", "'text'", "7", "1.5", "x''"])
def test_a_name_of_any_kind_is_a_damaged_row_that_can_be_cleared(
    home: Home, column: str, damage: str
) -> None:
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        raw.execute(
            f"UPDATE plugin_state SET {column} = {damage} WHERE owner = ?", (owner_of(install, DEMO),)
        )
    store = home.store()

    assert store.usage().unreadable == 1
    with pytest.raises(StateFault):
        store.get(DEMO, "a")
    assert store.clear(OTHER) == 1, "which is not taken along, nor does it hinder"
    store.put(OTHER, "a", b"other's", None)
    assert store.clear(DEMO) == 1
    assert store.usage().unreadable == 0
    assert store.get(OTHER, "a") == StateEntry(b"other's", 2)
    assert store.get(DEMO, "a") is None
