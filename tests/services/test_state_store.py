"""Durable state: revisions, refusals in their order, limits, and what is never made or shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from state_parts import CHANNEL, DEMO, OTHER, Home

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import (
    MAX_ENTRIES,
    MAX_TOTAL_BYTES,
    MAX_VALUE_BYTES,
    StateEntry,
    StateFault,
)
from zeroclaw_host.services.state_rows import Record, locator_of, owner_of, row_of


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def word(work: Callable[[], object]) -> str:
    with pytest.raises(StateFault) as refused:
        work()
    return refused.value.word


def fill(home: Home, entries: int, size: int, instance: InstanceIdentity = DEMO) -> None:
    """Entries written as a store writes them, in one transaction of their own, because a thousand would take seconds."""
    store = home.store()
    revision = store.put(instance, "first", b"", None)
    store.delete(instance, "first", revision)
    install = KeyFile(home.key).read()
    with home.inside() as raw:
        raw.execute("BEGIN")
        for number in range(entries):
            row = row_of(install, Record(instance, f"k{number}", revision + 1 + number, b"x" * size))
            raw.execute("INSERT INTO plugin_state VALUES (?, ?, ?)", (row.owner, row.locator, row.ciphertext))
        owner = owner_of(install, instance)
        raw.execute(
            "UPDATE plugin_state_revisions SET last_revision = ? WHERE owner = ?", (revision + entries, owner)
        )
        raw.execute("COMMIT")
    store.close()


@pytest.mark.req("PLG-156")
def test_revisions_count_up_over_all_keys_and_are_never_given_twice(home: Home) -> None:
    store = home.store()
    assert store.put(DEMO, "a", b"1", None) == 1
    assert store.put(DEMO, "b", b"2", None) == 2
    assert store.put(DEMO, "a", b"3", 1) == 3
    store.delete(DEMO, "b", 2)
    assert store.put(DEMO, "b", b"4", None) == 4
    store.delete(DEMO, "a", 3)
    store.delete(DEMO, "b", 4)
    store.close()

    again = home.store()
    assert again.get(DEMO, "a") is None
    assert again.put(DEMO, "a", b"5", None) == 5
    assert again.get(DEMO, "a") == StateEntry(b"5", 5)
    assert again.put(OTHER, "a", b"", None) == 1
    assert home.reports == []


@pytest.mark.req("PLG-156")
@pytest.mark.parametrize("expected", [0, 2, 2**64 - 1])
def test_another_revision_than_the_present_one_is_a_conflict(home: Home, expected: int) -> None:
    store = home.store()
    store.put(DEMO, "a", b"kept", None)

    assert word(lambda: store.put(DEMO, "a", b"", None)) == "conflict"
    assert word(lambda: store.put(DEMO, "a", b"", expected)) == "conflict"
    assert word(lambda: store.delete(DEMO, "a", expected)) == "conflict"
    assert word(lambda: store.put(DEMO, "absent", b"", expected)) == "conflict"
    assert word(lambda: store.delete(DEMO, "absent", expected)) == "not-found"
    assert store.get(DEMO, "a") == StateEntry(b"kept", 1)
    assert store.put(DEMO, "a", b"", 1) == 2


@pytest.mark.req("PLG-154")
def test_an_instance_has_nothing_of_another(home: Home) -> None:
    store = home.store()
    strangers = [
        OTHER,
        CHANNEL,
        InstanceIdentity("demo", Capability.CHANNEL, "ops"),
        InstanceIdentity("demo", Capability.TOOL, "other"),
    ]
    store.put(DEMO, "a", b"mine", None)

    for stranger in strangers:
        assert store.get(stranger, "a") is None
        assert word(lambda stranger=stranger: store.delete(stranger, "a", 1)) == "not-found"
        assert word(lambda stranger=stranger: store.put(stranger, "a", b"", 1)) == "conflict"
        assert store.put(stranger, "a", stranger.encoded, None) == 1
    assert store.get(DEMO, "a") == StateEntry(b"mine", 1)
    for stranger in strangers:
        assert store.get(stranger, "a") == StateEntry(stranger.encoded, 1)


@pytest.mark.req("PLG-155")
@pytest.mark.parametrize("key", ["a", "x" * 128, "A-Z_a.z-09", "...", "-"])
def test_keys_of_128_portable_characters_are_taken(home: Home, key: str) -> None:
    store = home.store()

    assert store.put(DEMO, key, bytes(range(256)), None) == 1
    assert store.get(DEMO, key) == StateEntry(bytes(range(256)), 1)


@pytest.mark.req("PLG-155")
@pytest.mark.parametrize("key", ["", "x" * 129, "a/b", "a b", "é", "a\n", "a\0", "a:b"])
def test_other_keys_are_refused_before_everything_else(home: Home, key: str) -> None:
    store = home.store()

    assert word(lambda: store.get(DEMO, key)) == "invalid-key"
    assert word(lambda: store.put(DEMO, key, b"x" * (MAX_VALUE_BYTES + 1), 7)) == "invalid-key"
    assert word(lambda: store.delete(DEMO, key, 1)) == "invalid-key"
    assert home.files() == {}


@pytest.mark.req("PLG-158")
def test_the_limits_are_those_that_are_published() -> None:
    assert (MAX_VALUE_BYTES, MAX_ENTRIES, MAX_TOTAL_BYTES) == (65_536, 1_024, 8_388_608)


@pytest.mark.req("PLG-158")
def test_a_value_has_64_kib_and_not_one_byte_more(home: Home) -> None:
    store = home.store()
    value = b"v" * MAX_VALUE_BYTES

    assert word(lambda: store.put(DEMO, "a", value + b"v", None)) == "quota-exceeded"
    assert home.files() == {}
    store.put(DEMO, "a", value, None)
    assert word(lambda: store.put(DEMO, "a", value + b"v", 1)) == "quota-exceeded"
    assert store.get(DEMO, "a") == StateEntry(value, 1)
    assert home.store().get(DEMO, "a") == StateEntry(value, 1)


@pytest.mark.req("PLG-158")
def test_an_instance_has_1024_entries_and_not_one_more(home: Home) -> None:
    fill(home, MAX_ENTRIES - 1, 1)
    store = home.store()

    last = store.put(DEMO, "last", b"", None)
    assert word(lambda: store.put(DEMO, "more", b"", None)) == "quota-exceeded"
    assert store.get(DEMO, "more") is None
    assert store.put(DEMO, "last", b"replaced", last) == last + 1
    assert store.put(OTHER, "a", b"another instance has its own", None) == 1
    store.delete(DEMO, "k0", store.get(DEMO, "k0").revision)  # type: ignore[union-attr]
    assert store.put(DEMO, "more", b"", None) == last + 2
    (usage,) = [used for used in store.usage().instances if used.instance == DEMO]
    assert usage.entries == MAX_ENTRIES


@pytest.mark.req("PLG-158")
def test_an_instance_has_8_mib_of_values_and_not_one_byte_more(home: Home) -> None:
    count = MAX_TOTAL_BYTES // MAX_VALUE_BYTES
    fill(home, count - 1, MAX_VALUE_BYTES)
    store = home.store()

    revision = store.put(DEMO, "last", b"x" * (MAX_VALUE_BYTES - 1), None)
    assert word(lambda: store.put(DEMO, "more", b"xx", None)) == "quota-exceeded"
    assert store.put(DEMO, "more", b"x", None) == revision + 1
    assert word(lambda: store.put(DEMO, "empty", b"x", None)) == "quota-exceeded"
    assert word(lambda: store.put(DEMO, "last", b"x" * MAX_VALUE_BYTES, revision)) == "quota-exceeded"
    assert store.get(DEMO, "last") == StateEntry(b"x" * (MAX_VALUE_BYTES - 1), revision)
    assert store.put(DEMO, "last", b"", revision) == revision + 2
    assert store.put(DEMO, "empty", b"", None) == revision + 3
    (usage,) = store.usage().instances
    assert usage.value_bytes == MAX_TOTAL_BYTES - MAX_VALUE_BYTES + 1


@pytest.mark.req("PLG-158")
def test_refusals_come_in_their_order(home: Home) -> None:
    """Too large a value, then what cannot be trusted, then the revision, then the number of entries."""
    fill(home, MAX_ENTRIES, 1)
    store = home.store()
    large = b"x" * (MAX_VALUE_BYTES + 1)

    assert word(lambda: store.put(DEMO, "new", b"", 5)) == "conflict"
    assert word(lambda: store.put(DEMO, "new", b"", None)) == "quota-exceeded"
    home.key.unlink()
    KeyFile(home.key).read_or_create()
    assert word(lambda: store.put(DEMO, "new", b"", 5)) == "unavailable"
    assert word(lambda: store.delete(DEMO, "absent", 5)) == "unavailable"
    assert word(lambda: store.put(DEMO, "new", large, 5)) == "quota-exceeded"
    assert word(lambda: store.put(DEMO, "a/b", large, 5)) == "invalid-key"


@pytest.mark.req("PLG-159")
def test_reading_and_deleting_make_nothing(home: Home) -> None:
    store = home.store()

    assert store.get(DEMO, "a") is None
    assert word(lambda: store.delete(DEMO, "a", 1)) == "not-found"
    assert word(lambda: store.put(DEMO, "a", b"", 1)) == "conflict"
    assert store.usage().instances == ()
    assert store.clear(DEMO) == 0
    assert store.rekey() == 0
    assert home.files() == {}
    assert not home.database.parent.exists()


@pytest.mark.req("PLG-157")
def test_nothing_of_a_plugin_can_be_read_in_the_files(home: Home) -> None:
    instance = InstanceIdentity("secretive-package", Capability.CHANNEL, "private-alias")
    store = home.store()
    store.put(instance, "logical-key", b"stored-value" * 50, None)
    store.put(instance, "logical-key", b"newer-value" * 50, 1)

    for checkpointed in (False, True):
        if checkpointed:
            store.close()
        content = b"".join(found for name, found in home.files().items() if name != ".secret_key")
        assert b"enc2:" in content
        for text in (
            b"secretive",
            b"package",
            b"channel",
            b"private-alias",
            b"logical-key",
            b"stored-value",
            b"newer-value",
            b"c3RvcmVkLXZhbHVl",
            b"stored-value".hex().encode(),
            home.key.read_bytes(),
            instance.key.encode(),
        ):
            assert text not in content


@pytest.mark.req("PLG-157")
def test_the_database_is_laid_out_as_published(home: Home) -> None:
    store = home.store()
    store.put(DEMO, "a", b"\0value", None)
    store.put(DEMO, "a", b"\0value", 1)
    install = KeyFile(home.key).read()
    owner = install.digest("zeroclaw.plugin-state.owner.v1\0", b'["demo","tool","demo"]')
    locator = install.digest("zeroclaw.plugin-state.locator.v1\0", owner + b"\0a")

    with home.inside() as raw:
        ((found_owner, found_locator, ciphertext),) = raw.execute("SELECT * FROM plugin_state").fetchall()
        revisions = raw.execute("SELECT * FROM plugin_state_revisions").fetchall()
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        kinds = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()

    assert (
        (found_owner, found_locator)
        == (owner, locator)
        == (owner_of(install, DEMO), locator_of(install, owner, "a"))
    )
    assert revisions == [(owner, 2)]
    assert install.unseal(ciphertext) == (
        '{"format":1,"package":"demo","capability":"tool","binding":"demo","key":"a","revision":2,"value":"AHZhbHVl"}'
    )
    assert list(json.loads(install.unseal(ciphertext))) == [
        "format", "package", "capability", "binding", "key", "revision", "value",
    ]  # fmt: skip
    assert all("WITHOUT ROWID" in sql for _, sql in kinds)


def test_a_row_that_another_program_wrote_is_read(home: Home) -> None:
    """The same record, put together by hand."""
    store = home.store()
    store.delete(DEMO, "a", store.put(DEMO, "a", b"", None))
    install = KeyFile(home.key).read()
    instance = InstanceIdentity("dämo", Capability.TOOL, 'a"b\\c')
    owner = install.digest("zeroclaw.plugin-state.owner.v1\0", '["dämo","tool","a\\"b\\\\c"]'.encode())
    plain = '{"format":1,"package":"dämo","capability":"tool","binding":"a\\"b\\\\c","key":"k","revision":9,"value":"aGk="}'
    with home.inside() as raw:
        raw.execute(
            "INSERT INTO plugin_state VALUES (?, ?, ?)",
            (
                owner,
                install.digest("zeroclaw.plugin-state.locator.v1\0", owner + b"\0k"),
                install.seal(plain),
            ),
        )
        raw.execute("INSERT INTO plugin_state_revisions VALUES (?, 12)", (owner,))

    assert store.get(instance, "k") == StateEntry(b"hi", 9)
    assert store.put(instance, "k", b"", 9) == 13


@pytest.mark.req("PLG-160")
def test_state_outlives_its_store(home: Home) -> None:
    home.store().put(DEMO, "a", b"1", None)

    assert home.store().get(DEMO, "a") == StateEntry(b"1", 1)


def test_usage_tells_sizes_and_nothing_else(home: Home) -> None:
    store = home.store()
    store.put(DEMO, "logical-key", b"stored-value", None)
    store.put(DEMO, "b", b"12", None)
    store.put(CHANNEL, "c", b"", None)

    used = store.usage()
    assert [(u.instance, u.entries, u.value_bytes, u.last_revision) for u in used.instances] == [
        (CHANNEL, 1, 0, 1),
        (DEMO, 2, 14, 2),
    ]
    assert used.unreadable == 0
    assert "logical-key" not in repr(used)
    assert "stored-value" not in repr(used) + repr(store.get(DEMO, "logical-key"))


def test_clearing_one_instance_leaves_the_others_and_goes_on_counting(home: Home) -> None:
    store = home.store()
    for key in "abc":
        store.put(DEMO, key, b"", None)
    store.put(OTHER, "a", b"kept", None)

    assert store.clear(DEMO) == 3
    assert store.clear(DEMO) == 0
    assert store.get(DEMO, "a") is None
    assert store.get(OTHER, "a") == StateEntry(b"kept", 1)
    assert store.put(DEMO, "a", b"", None) == 4


def test_another_store_sees_every_change_at_once(home: Home) -> None:
    one, two = home.store(), home.store()
    revision = one.put(DEMO, "a", b"0", None)
    for number in range(1, 6):
        writer, reader = (one, two) if number % 2 else (two, one)
        assert reader.get(DEMO, "a") == StateEntry(str(number - 1).encode(), revision)
        revision = writer.put(DEMO, "a", str(number).encode(), revision)
        assert reader.get(DEMO, "a") == StateEntry(str(number).encode(), revision)
    one.delete(DEMO, "a", revision)
    assert two.get(DEMO, "a") is None
    assert word(lambda: two.put(DEMO, "a", b"", revision)) == "conflict"


def test_a_database_that_was_taken_away_and_made_anew_is_another(home: Home) -> None:
    store = home.store()
    store.put(DEMO, "a", b"1", None)
    for path in list(home.database.parent.iterdir()):
        path.unlink()

    assert store.get(DEMO, "a") is None
    assert store.put(DEMO, "a", b"2", None) == 1
    assert home.store().get(DEMO, "a") == StateEntry(b"2", 1)


def test_of_threads_that_count_at_once_none_is_lost(home: Home) -> None:
    """Compare-and-swap under contention: every increment happens exactly once."""
    store = home.store()
    store.put(DEMO, "n", b"0", None)
    rounds, threads = 10, 4
    given: list[int] = []
    failures: list[BaseException] = []

    def count() -> None:
        try:
            done = 0
            while done < rounds:
                entry = store.get(DEMO, "n")
                assert entry is not None
                try:
                    given.append(store.put(DEMO, "n", str(int(entry.value) + 1).encode(), entry.revision))
                except StateFault as fault:
                    assert fault.word == "conflict"  # noqa: PT017
                else:
                    done += 1
        except BaseException as error:
            failures.append(error)
            raise

    workers = [threading.Thread(target=count) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert failures == []
    assert store.get(DEMO, "n") == StateEntry(b"%d" % (rounds * threads), 1 + rounds * threads)
    assert sorted(given) == list(range(2, 2 + rounds * threads))
    assert all(later > earlier for earlier, later in pairwise(sorted(given)))
