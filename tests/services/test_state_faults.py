"""Durable state that cannot be trusted or used: always ``unavailable``, nothing shown, nothing made anew (PLG-159)."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from state_parts import CHANNEL, DEMO, OTHER, Home

from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import MAX_VALUE_BYTES, StateEntry, StateFault
from zeroclaw_host.services.state_database import StateFile, StateUnavailable
from zeroclaw_host.services.state_rows import MAX_REVISION, locator_of, owner_of
from zeroclaw_host.services.state_store import DurableState

BOUND = 60
"""Seconds after which a process that hangs is given up."""

pytestmark = pytest.mark.req("PLG-159")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Three instances with two entries each, and nobody who has the database open."""
    found = Home(tmp_path)
    store = found.store()
    for instance in (DEMO, OTHER, CHANNEL):
        store.put(instance, "a", b"plaintext-" + instance.encoded, None)
        store.put(instance, "b", b"plaintext-b", None)
    store.close()
    return found


def refused(home: Home, *, shows: str = "plaintext") -> object:
    """That every operation of DEMO is unavailable and changes nothing, and the reason that was reported, once."""
    home.reports.clear()
    store = home.store(busy_seconds=0.05)
    before = home.files().get("plugin-state.db")
    operations: list[Callable[[], object]] = [
        lambda: store.get(DEMO, "a"),
        lambda: store.put(DEMO, "a", b"new", 1),
        lambda: store.put(DEMO, "new", b"new", None),
        lambda: store.delete(DEMO, "a", 1),
    ]
    for operation in operations:
        with pytest.raises(StateFault) as fault:
            operation()
        assert fault.value.word == "unavailable"
    store.close()
    assert home.files().get("plugin-state.db") == before
    assert home.reports
    for error in home.reports:
        told = repr(error) + str(error.details) + str(error.causes()) + error.message
        assert shows not in told
        assert "enc2:" not in told
        assert DEMO.key not in told
    assert len({error.message for error in home.reports}) == len(home.reports)
    return home.reports[-1].details["reason"]


# --- the key ------------------------------------------------------------------------------------------------------------


def test_a_replaced_key_reads_nothing_and_is_not_replaced_again(home: Home) -> None:
    home.key.unlink()
    KeyFile(home.key).read_or_create()
    content = home.key.read_bytes()

    assert refused(home) == "key_replaced"
    assert home.key.read_bytes() == content


def test_a_key_replaced_while_the_store_is_open_is_noticed(home: Home) -> None:
    store = home.store()
    store.get(DEMO, "a")
    store.get(OTHER, "absent")
    home.key.write_text(os.urandom(32).hex())

    for work in (
        lambda: store.get(DEMO, "a"),
        lambda: store.get(OTHER, "absent"),
        lambda: store.put(OTHER, "c", b"", None),
    ):
        with pytest.raises(StateFault) as fault:
            work()
        assert fault.value.word == "unavailable"
    assert home.reasons == ["key_replaced"]


def test_a_replaced_key_is_noticed_by_an_instance_that_has_nothing(home: Home) -> None:
    home.key.write_text(os.urandom(32).hex())
    stranger = OTHER.default_tool("stranger")
    store = home.store()

    for work in (lambda: store.get(stranger, "a"), lambda: store.put(stranger, "a", b"", None)):
        with pytest.raises(StateFault):
            work()
    assert home.reasons == ["key_replaced"]


@pytest.mark.parametrize("damage", ["missing", "damaged", "open_to_others", "link"])
def test_a_key_that_cannot_be_had_is_not_made_anew(home: Home, damage: str, tmp_path: Path) -> None:
    match damage:
        case "missing":
            home.key.unlink()
        case "damaged":
            home.key.write_text("rubbish")
        case "open_to_others":
            home.key.chmod(0o644)
        case _:
            home.key.rename(tmp_path / "moved")
            home.key.symlink_to(tmp_path / "moved")

    assert refused(home) == damage
    assert home.key.exists() is not (damage == "missing")


def test_with_the_right_key_back_everything_is_there_again(home: Home) -> None:
    content = home.key.read_bytes()
    home.key.unlink()
    store = home.store()
    with pytest.raises(StateFault):
        store.get(DEMO, "a")
    home.key.write_bytes(content)
    home.key.chmod(0o600)

    assert store.get(DEMO, "b") == StateEntry(b"plaintext-b", 2)
    home.key.unlink()
    with pytest.raises(StateFault):
        store.get(DEMO, "a")
    assert home.reasons == ["missing", "missing"], "each outage is told once"


# --- the rows -----------------------------------------------------------------------------------------------------------


def flip(value: bytes | str, index: int) -> bytes | str:
    """The value with one character that is another."""
    if isinstance(value, bytes):
        return value[:index] + bytes([value[index] ^ 1]) + value[index + 1 :]
    other = "0" if value[index] != "0" else "1"
    return value[:index] + other + value[index + 1 :]


@pytest.mark.parametrize("column", ["owner", "locator", "ciphertext"])
@pytest.mark.parametrize("where", [0, 16, -1])
def test_a_flipped_byte_in_any_column_of_a_row(home: Home, column: str, where: int) -> None:
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        owner, locator, ciphertext = raw.execute(
            "SELECT * FROM plugin_state WHERE owner = ?", (owner_of(install, DEMO),)
        ).fetchone()
        row = {"owner": owner, "locator": locator, "ciphertext": ciphertext}
        at = where if where < 0 else where + (5 if column == "ciphertext" else 0)
        at %= len(row[column])
        raw.execute(
            f"UPDATE plugin_state SET {column} = ? WHERE locator = ?", (flip(row[column], at), locator)
        )

    if column == "owner":  # it is then nobody's, and whoever asks for it by its name is told so
        store = home.store()
        words: list[object] = []
        for key in ("a", "b"):
            try:
                words.append(store.get(DEMO, key))
            except StateFault as fault:
                words.append(fault.word)
        assert "unavailable" in words
        assert home.reasons == ["key_replaced"]
    else:
        assert refused(home) == "key_replaced"
    assert home.store().get(OTHER, "b") == StateEntry(b"plaintext-b", 2)


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ("owner", (1, "text", None, b"")),
        ("locator", (1, "text", b"")),
        ("ciphertext", ("enc2:", "ENC2:00", "enc2:00", b"enc2:00")),
    ],
)
def test_columns_of_another_kind(home: Home, change: str, values: tuple[object, ...]) -> None:
    install = KeyFile(home.key).read()
    for value in values:
        with home.inside() as raw:
            raw.execute("PRAGMA ignore_check_constraints = ON")
            kept = raw.execute("SELECT * FROM plugin_state").fetchall()
            raw.execute("BEGIN")
            try:
                raw.execute(
                    f"UPDATE plugin_state SET {change} = ? WHERE owner = ? AND locator = (SELECT max(locator) FROM plugin_state WHERE owner = ?)",
                    (value, owner_of(install, DEMO), owner_of(install, DEMO)),
                )
                raw.execute("COMMIT")
            except sqlite3.IntegrityError:
                raw.execute("ROLLBACK")
                continue
        store, found = home.store(), 0
        for key in ("a", "b"):
            try:
                entry = store.get(DEMO, key)
                assert entry is None or entry.value.startswith(b"plaintext")
            except StateFault as fault:
                assert fault.word == "unavailable"  # noqa: PT017
                found += 1
        assert found
        store.close()
        with home.inside() as raw:
            raw.execute("DELETE FROM plugin_state")
            raw.executemany("INSERT INTO plugin_state VALUES (?, ?, ?)", kept)


def test_rows_swapped_between_instances_and_between_keys(home: Home) -> None:
    """Every column of every row in the place of every other row's: nobody ever gets what is another's."""
    with home.inside() as raw:
        rows = raw.execute("SELECT * FROM plugin_state").fetchall()
    expected = {
        (instance, key): home.store().get(instance, key)
        for instance in (DEMO, OTHER, CHANNEL)
        for key in "ab"
    }
    for columns in ({2}, {0}, {0, 2}):
        for one in range(len(rows)):
            for two in range(one):
                swapped = [list(row) for row in rows]
                for column in columns:
                    swapped[one][column], swapped[two][column] = rows[two][column], rows[one][column]
                if [tuple(row) for row in swapped] == rows:
                    continue  # two rows of one owner exchanged their owner
                with home.inside() as raw:
                    raw.execute("BEGIN")
                    raw.execute("DELETE FROM plugin_state")
                    raw.executemany("INSERT INTO plugin_state VALUES (?, ?, ?)", swapped)
                    raw.execute("COMMIT")
                store, refusals = home.store(), 0
                for (instance, key), entry in expected.items():
                    try:
                        assert store.get(instance, key) == entry
                    except StateFault as fault:
                        assert fault.word == "unavailable"  # noqa: PT017
                        refusals += 1
                assert refusals >= 2
                store.close()


def test_an_older_row_of_the_same_place_is_not_told_from_the_newer_but_cannot_lower_revisions(
    home: Home,
) -> None:
    store = home.store()
    with home.inside() as raw:
        before = raw.execute("SELECT * FROM plugin_state").fetchall()
    newer = store.put(DEMO, "a", b"newer", 1)
    with home.inside() as raw:
        raw.execute("DELETE FROM plugin_state")
        raw.executemany("INSERT INTO plugin_state VALUES (?, ?, ?)", before)

    assert store.put(DEMO, "a", b"again", 1) == newer + 1


@pytest.mark.parametrize("revision", [1, None])
def test_a_lowered_or_lost_count_of_revisions(home: Home, revision: int | None) -> None:
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        if revision is None:
            raw.execute("DELETE FROM plugin_state_revisions WHERE owner = ?", (owner_of(install, DEMO),))
        else:
            raw.execute(
                "UPDATE plugin_state_revisions SET last_revision = ? WHERE owner = ?",
                (revision, owner_of(install, DEMO)),
            )

    assert refused(home) == "key_replaced"


def test_a_count_of_revisions_that_is_no_number(home: Home) -> None:
    with home.inside() as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("UPDATE plugin_state_revisions SET last_revision = 'plaintext'")

    assert refused(home) == "key_replaced"


def test_revisions_that_are_used_up(home: Home) -> None:
    with home.inside() as raw:
        raw.execute("UPDATE plugin_state_revisions SET last_revision = ?", (MAX_REVISION - 1,))
    store = home.store()

    assert store.put(DEMO, "a", b"last", 1) == MAX_REVISION
    with pytest.raises(StateFault) as fault:
        store.put(DEMO, "a", b"", MAX_REVISION)
    assert fault.value.word == "unavailable"
    assert home.reasons == ["revisions_used_up"]
    assert store.get(DEMO, "a") == StateEntry(b"last", MAX_REVISION)


def test_a_damaged_row_is_counted_and_goes_when_its_instance_is_cleared(home: Home) -> None:
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        raw.execute(
            "UPDATE plugin_state SET ciphertext = 'enc2:00' WHERE owner = ? "
            "AND locator = (SELECT max(locator) FROM plugin_state WHERE owner = ?)",
            (owner_of(install, DEMO), owner_of(install, DEMO)),
        )
    store = home.store()

    assert store.usage().unreadable == 1
    assert store.clear(DEMO) == 2
    assert store.usage().unreadable == 0
    assert store.put(DEMO, "a", b"", None) == 3
    assert store.get(OTHER, "b") == StateEntry(b"plaintext-b", 2)


def test_with_another_key_nothing_is_cleared(home: Home) -> None:
    home.key.write_text(os.urandom(32).hex())
    store = home.store()

    assert store.usage().unreadable == 6
    with pytest.raises(StateUnavailable):
        store.clear(DEMO)
    with home.inside() as raw:
        assert raw.execute("SELECT count(*) FROM plugin_state").fetchone() == (6,)


# --- the file -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-157")
@pytest.mark.parametrize("mask", [0, 0o022, 0o277])
def test_every_file_is_private_from_the_moment_it_is_there(tmp_path: Path, mask: int) -> None:
    """Watched by the audit hook of the process that makes them: each file is opened 0600, whatever the umask."""
    home = Home(tmp_path)
    home.database.parent.mkdir()
    old = os.umask(mask)
    try:
        store = home.store()
        store.put(DEMO, "a", b"1", None)
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (home.key, *home.database.parent.iterdir())
        }
    finally:
        os.umask(old)

    assert modes == dict.fromkeys(
        [".secret_key", "plugin-state.db", "plugin-state.db-wal", "plugin-state.db-shm"], 0o600
    )
    store.close()
    assert [path.name for path in home.database.parent.iterdir()] == ["plugin-state.db"]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("what", ["link", "dangling", "directory", "pipe", "open"])
def test_what_is_no_private_file_is_refused(home: Home, tmp_path: Path, suffix: str, what: str) -> None:
    path = home.database.with_name(home.database.name + suffix)
    elsewhere = tmp_path / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    elif what == "link":
        elsewhere.write_bytes(b"")
    match what:
        case "link":
            path.symlink_to(elsewhere)
        case "dangling":
            elsewhere.unlink(missing_ok=True)
            path.symlink_to(elsewhere)
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path, 0o600)
        case _:
            if suffix:
                path.touch()
            else:
                elsewhere.rename(path)
            path.chmod(0o640)
    content = elsewhere.read_bytes() if elsewhere.exists() else None

    store = home.store(busy_seconds=0.05)
    for work in (lambda: store.get(DEMO, "a"), lambda: store.put(DEMO, "n", b"", None)):
        with pytest.raises(StateFault) as fault:
            work()
        assert fault.value.word == "unavailable"
    reason = {"link": "link", "dangling": "link", "open": "open_to_others"}.get(what, "not_a_file")
    assert home.reasons == [reason]
    action = home.reports[0].remedy and home.reports[0].remedy.action
    assert action is (RemedyAction.RESTRICT_FILE if what == "open" else RemedyAction.CLEAR_BY_HAND)
    assert home.reports[0].details["path"] == str(path)
    assert (elsewhere.read_bytes() if elsewhere.exists() else None) == content


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"not a database" * 400, bytes(8192)])
def test_a_file_that_is_no_database_is_kept(home: Home, content: bytes) -> None:
    home.database.write_bytes(content)

    assert refused(home) == "foreign"
    assert home.database.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        "PRAGMA user_version = 2",
        "PRAGMA user_version = 0",
        "DROP TABLE plugin_state_revisions",
        "DROP INDEX plugin_state_owner",
        "ALTER TABLE plugin_state ADD COLUMN more TEXT",
        "ALTER TABLE plugin_state RENAME COLUMN owner TO owned",
        "CREATE TABLE more (x)",
        "CREATE TRIGGER more AFTER INSERT ON plugin_state BEGIN DELETE FROM plugin_state; END",
        "CREATE VIEW more AS SELECT * FROM plugin_state",
    ],
)
def test_a_database_that_another_program_made_or_changed(home: Home, change: str) -> None:
    with home.inside() as raw:
        raw.execute(change)

    assert refused(home) == "foreign"


def test_a_truncated_database(home: Home) -> None:
    whole = home.database.read_bytes()
    for length in range(512, len(whole), 4096 + 1):
        home.database.write_bytes(whole[:length])
        assert refused(home) in {"damaged", "foreign", "failed", "key_replaced"}


def test_whatever_byte_of_the_file_changes_no_value_is_wrong(home: Home) -> None:
    """Values come back whole or not at all; what was there is not taken for absent unless the whole table looks empty."""
    whole = home.database.read_bytes()
    expected = home.store().get(DEMO, "a")
    pick = random.Random(7)
    for _ in range(150):
        at, bit = pick.randrange(len(whole)), 1 << pick.randrange(8)
        for path in list(home.database.parent.iterdir()):
            path.unlink()
        home.database.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        home.database.chmod(0o600)
        store = home.store(busy_seconds=0.05)
        try:
            assert store.get(DEMO, "a") == expected, at
        except StateFault as fault:
            assert fault.word == "unavailable"  # noqa: PT017
        store.close()


def test_an_entry_whose_name_changed_in_the_file_is_not_taken_for_absent(home: Home) -> None:
    """The name stands in the table and in its index; a change of either alone is no change that the database itself makes."""
    whole = home.database.read_bytes()
    install = KeyFile(home.key).read()
    locator = locator_of(install, owner_of(install, DEMO), "a")
    places = [match.start() for match in re.finditer(re.escape(locator), whole)]
    assert len(places) == 2
    for at in places:
        home.database.write_bytes(whole[:at] + flip(locator, 31) + whole[at + 32 :])  # type: ignore[operator]
        assert refused(home) == "damaged"


def test_a_database_that_another_program_holds_is_busy_for_as_long_as_one_waits(home: Home) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    file = StateFile(home.database, now=lambda: now[0], sleep=sleep)
    store = DurableState(home.database, KeyFile(home.key), report=home.reports.append, file=file)
    with home.inside() as raw:
        raw.execute("BEGIN IMMEDIATE")
        assert store.get(DEMO, "b") == StateEntry(b"plaintext-b", 2), "readers need no turn"
        with pytest.raises(StateFault) as fault:
            store.put(DEMO, "b", b"", 2)
        assert fault.value.word == "unavailable"
        assert home.reasons == ["busy"]
        assert 5.0 <= now[0] < 5.1
        raw.execute("ROLLBACK")
    assert store.put(DEMO, "b", b"", 2) == 3


def test_waiting_ends_with_the_callers_time(home: Home) -> None:
    """A call's deadline is the caller's own error, and it is not outlasted."""

    class Late(Exception):
        pass

    now = [0.0]
    file = StateFile(
        home.database, now=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    store = DurableState(home.database, KeyFile(home.key), file=file)

    def remaining() -> float:
        if now[0] >= 0.5:
            raise Late
        return 0.5 - now[0]

    with home.inside() as raw:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(Late):
            store.put(DEMO, "b", b"", 2, remaining=remaining)
        assert 0.5 <= now[0] < 0.6
        raw.execute("ROLLBACK")
    assert store.put(DEMO, "b", b"", 2) == 3, "the store is good for others"


def test_a_turn_that_comes_in_time_is_taken(home: Home) -> None:
    with home.inside() as raw:
        raw.execute("BEGIN IMMEDIATE")
        file = StateFile(home.database, sleep=lambda seconds: raw.in_transaction and raw.execute("ROLLBACK"))
        store = DurableState(home.database, KeyFile(home.key), file=file)

        assert store.put(DEMO, "b", b"", 2) == 3


def child(home: Home, code: str, *, owner: bool = False) -> subprocess.CompletedProcess[str]:
    """Another process with the same home; as a user without privileges where this one has them and ``owner`` is set."""
    program = (
        "import os, sys, resource\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
        "from state_parts import *\n"
        "from zeroclaw_host.services.state import StateFault\n"
        "home = Home(Path(sys.argv[1]))\n"
        "store = home.store(busy_seconds=0.05)\n"
        "def word(work):\n"
        "    try: work()\n"
        "    except StateFault as fault: return fault.word\n"
        + ("os.geteuid() == 0 and os.setuid(65534)\n" if owner else "")
        + code
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(home.key.parent)],
        capture_output=True, text=True, timeout=BOUND, check=False,
    )  # fmt: skip


def given_away(home: Home, directory: str) -> Home:
    """The same installation where everybody may go, owned by the user that :func:`child` becomes."""
    away = Home(Path(directory))
    away.database.parent.mkdir()
    for source, target in ((home.key, away.key), (home.database, away.database)):
        shutil.copy(source, target)
        target.chmod(0o600)
    if os.geteuid() == 0:
        for path in (away.key, away.database, away.database.parent, away.key.parent):
            os.chown(path, 65534, 65534)
    return away


@pytest.mark.parametrize("mode", [0o500, 0])
def test_a_disk_that_cannot_be_written_or_read(home: Home, mode: int) -> None:
    """A directory and a database that their owner may only read, and a directory that nobody may enter."""
    with tempfile.TemporaryDirectory() as directory:
        away = given_away(home, directory)
        read_only(away, mode)


def read_only(home: Home, mode: int) -> None:
    home.database.chmod(0o400)
    home.database.parent.chmod(mode)
    before = home.database.read_bytes()
    try:
        done = child(
            home,
            "works = [lambda: store.put(DEMO, 'a', b'', 1), lambda: store.delete(DEMO, 'a', 1), lambda: store.put(DEMO, 'n', b'', None)]\n"
            "if home.database.parent.stat().st_mode & 0o777 == 0: works.append(lambda: store.get(DEMO, 'a'))\n"
            "print(set(map(word, works)), set(home.reasons))",
            owner=True,
        )
    finally:
        home.database.parent.chmod(0o700)

    assert done.stdout == "{'unavailable'} {'failed'}\n", done.stderr
    assert home.database.read_bytes() == before
    assert sorted(home.files()) == [".secret_key", "plugin-state.db"]


def test_a_disk_that_is_full(home: Home) -> None:
    """The system refuses to let any file grow: no part of a value is kept, and what was there is."""
    done = child(
        home,
        "import signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store.get(DEMO, 'a')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960))\n"
        f"print(word(lambda: store.put(DEMO, 'a', b'x' * {MAX_VALUE_BYTES}, 1)), home.reasons)\n"
        "print(store.get(DEMO, 'b').value)",
    )

    assert done.stdout == "unavailable ['failed']\nb'plaintext-b'\n", done.stderr
    assert home.store().get(DEMO, "a") == StateEntry(b"plaintext-" + DEMO.encoded, 1)
    assert home.store().put(DEMO, "a", b"", 1) == 3


def test_a_first_value_on_a_full_disk_leaves_no_database(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = child(
        home,
        "import signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "print(word(lambda: store.put(DEMO, 'a', b'1', None)), home.reasons)",
    )

    assert done.stdout == "unavailable ['failed']\n", done.stderr
    assert list(home.database.parent.iterdir()) == []
    assert home.store().put(DEMO, "a", b"1", None) == 1


@pytest.mark.parametrize("moment", range(12))
def test_a_process_killed_while_it_makes_the_database(tmp_path: Path, moment: int) -> None:
    """Killed at each call to the system's functions for files: there is a whole database or none, and the next one finishes."""
    home = Home(tmp_path)
    done = child(
        home,
        "import signal\n"
        "seen = [0]\n"
        "def hook(event, arguments):\n"
        "    if event in ('open', 'os.link', 'os.remove', 'sqlite3.connect', 'os.mkdir') and str(home.database.parent) in str(arguments[0]):\n"
        "        seen[0] += 1\n"
        f"        if seen[0] == {moment} + 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(hook)\n"
        "store.put(DEMO, 'a', b'1', None)\n",
    )

    if done.returncode == 0:  # it has fewer steps than this
        assert home.store().get(DEMO, "a") == StateEntry(b"1", 1)
        return
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = home.store()
    found = store.get(DEMO, "a")
    assert found in (None, StateEntry(b"1", 1))
    assert store.put(DEMO, "b", b"2", None) == (1 if found is None else 2)
    store.close()
    left = [path.name for path in home.database.parent.iterdir() if "partial" in path.name]
    assert left == [] or home.database.stat().st_nlink > 1 or moment > 5


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_process_killed_while_it_puts(home: Home, steps: int) -> None:
    """Old value or new value, and revisions that go on, wherever in its statements the process is killed."""
    done = child(
        home,
        "import signal, sqlite3\n"
        "from zeroclaw_host.services import state_database\n"
        "seen = [0]\n"
        "def trace(statement):\n"
        "    if not statement.startswith(('INSERT', 'COMMIT', 'BEGIN', 'SELECT')): return\n"
        "    seen[0] += 1\n"
        f"    if seen[0] == {steps * 2} + 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "connect = sqlite3.connect\n"
        "def traced(*arguments, **more):\n"
        "    raw = connect(*arguments, **more)\n"
        "    raw.set_trace_callback(trace)\n"
        "    return raw\n"
        "store.get(DEMO, 'a'); store.close()\n"
        "sqlite3.connect = traced\n"
        "store.put(DEMO, 'a', b'new', 1)\n",
    )

    assert done.returncode == -signal.SIGKILL, done.stderr
    store = home.store()
    assert store.get(DEMO, "a") == StateEntry(b"plaintext-" + DEMO.encoded, 1)
    assert store.put(DEMO, "a", b"again", 1) == 3


def test_several_processes_that_put_the_first_value_at_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
        "from state_parts import *\n"
        "home = Home(Path(sys.argv[1])); store = home.store()\n"
        "print('ready', flush=True); input()\n"
        "print([store.put(DEMO, sys.argv[2] + str(n), b'', None) for n in range(5)])"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    given: list[int] = []
    for racer in racers:
        out, _ = racer.communicate(timeout=BOUND)
        assert racer.returncode == 0
        given += json.loads(out)

    assert sorted(given) == list(range(1, 21))
    (usage,) = home.store().usage().instances
    assert (usage.entries, usage.last_revision) == (20, 20)
