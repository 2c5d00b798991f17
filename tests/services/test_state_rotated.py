"""Durable state while a rotation of the key is under way: revisions go on, whatever is deleted meanwhile (PLG-156)."""

from __future__ import annotations

from pathlib import Path

import pytest
from state_parts import DEMO, OTHER, Home

from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import StateEntry

pytestmark = pytest.mark.req("PLG-156")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    KeyFile(found.key).read_or_create()
    return found


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_is_deleted_between_the_new_names_and_the_new_key_keeps_its_revisions(
    home: Home, rounds: int
) -> None:
    store, key_file, last = home.store(), KeyFile(home.key), 0
    for _ in range(rounds):
        last = store.put(DEMO, "a", b"1", None)
        key_file.begin_rotation()
        store.rekey()
        store.delete(DEMO, "a", last)
        again = store.put(DEMO, "a", b"2", None)
        assert again == last + 1
        assert home.store().get(DEMO, "a") == StateEntry(b"2", again)
        store.delete(DEMO, "a", again)
        assert store.rekey() == 0
        key_file.finish_rotation()
        last = store.put(DEMO, "a", b"3", None)
        assert last == again + 1
        assert store.put(OTHER, "a", b"", None) > 0
        store.delete(DEMO, "a", last)
        store.clear(OTHER)
    assert home.reports == []


def test_a_database_that_is_made_during_a_rotation_keeps_its_revisions(home: Home) -> None:
    key_file = KeyFile(home.key)
    key_file.begin_rotation()
    store = home.store()

    store.delete(DEMO, "a", store.put(DEMO, "a", b"1", None))
    assert store.put(DEMO, "a", b"2", None) == 2
    store.delete(DEMO, "a", 2)
    store.rekey()
    key_file.finish_rotation()
    assert store.put(DEMO, "a", b"3", None) == 3
    assert home.store().put(OTHER, "a", b"", None) == 1
    assert home.reports == []


def test_a_rotation_that_nobody_notices_gives_a_new_instance_its_first_revision(home: Home) -> None:
    store, key_file = home.store(), KeyFile(home.key)
    store.put(DEMO, "a", b"1", None)
    for _ in range(2):
        key_file.begin_rotation()
        store.rekey()
        key_file.finish_rotation()

    assert store.put(OTHER, "a", b"", None) == 1
    assert store.put(DEMO, "a", b"2", 1) == 2
