"""A configuration that is held still for a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.saving import ConfigBusy
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.services.sealing import KeyFile

PATIENCE = 60


def connections(number: int) -> Callable[[Draft], object]:
    return lambda draft: draft.set("rpc.max_local_connections", number)


class House:
    """A real file, read and written as a daemon does."""

    def __init__(self, directory: Path, lock_wait: float) -> None:
        self.file = directory / "config.toml"
        self.edit(5)
        self.source = ConfigSource(self.file, {})
        self.store = ConfigStore(self.source, KeyFile(directory / ".secret_key"), lock_wait=lock_wait)

    def edit(self, number: int) -> None:
        self.file.write_text(f"schema_version = 1\n[rpc]\nmax_local_connections = {number}\n")

    @property
    def now(self) -> int:
        return self.source.current().config.rpc.max_local_connections


@pytest.mark.req("RPC-211")
def test_what_is_edited_while_it_is_held_counts_afterwards(tmp_path: Path) -> None:
    house = House(tmp_path, 0)
    with house.source.held():
        house.edit(6)
        assert house.now == 5
        with house.source.held():
            assert house.now == 5
        assert house.now == 5
    assert house.now == 6


def test_who_wants_the_newest_waits_for_who_holds_another(tmp_path: Path) -> None:
    house = House(tmp_path, 0)
    with house.source.held():
        house.edit(6)
        with pytest.raises(ConfigBusy):
            house.source.newest(0)
    assert house.source.newest(0).config.rpc.max_local_connections == 6


@pytest.mark.req("RPC-211")
def test_a_hold_begins_with_a_look_at_the_file(tmp_path: Path) -> None:
    house = House(tmp_path, 0)
    house.edit(6)
    with house.source.held():
        assert house.now == 6


@pytest.mark.req("RPC-211")
def test_what_is_saved_while_it_is_held_waits_or_changes_nothing(tmp_path: Path) -> None:
    house = House(tmp_path, 0)
    before = house.file.read_bytes()
    with house.source.held():
        with pytest.raises(ConfigBusy, match="stored"):
            house.store.commit(connections(7))
        assert (house.file.read_bytes(), house.now) == (before, 5)
    house.store.commit(connections(7))
    assert house.now == 7


@pytest.mark.req("RPC-211")
def test_a_save_that_waits_is_made_when_the_last_hold_ends(tmp_path: Path) -> None:
    house = House(tmp_path, PATIENCE)
    seen: list[int] = []
    waits = threading.Event()
    between = house.source.between_holds

    def watched(wait: float) -> AbstractContextManager[None]:
        waits.set()
        return between(wait)

    house.source.between_holds = watched  # type: ignore[method-assign]
    saving = threading.Thread(target=house.store.commit, args=(connections(7),))

    with house.source.held():
        with house.source.held():
            saving.start()
            assert waits.wait(PATIENCE)
        seen.append(house.now)
    saving.join(PATIENCE)
    assert (seen, house.now) == ([5], 7)


@pytest.mark.req("RPC-211")
def test_who_wants_to_hold_what_is_being_replaced_holds_the_new_one(tmp_path: Path) -> None:
    house = House(tmp_path, PATIENCE)
    seen: list[int] = []
    began = threading.Event()

    def hold() -> None:
        began.set()
        with house.source.held():
            seen.append(house.now)

    holding = threading.Thread(target=hold)
    with house.source.between_holds(0):
        with pytest.raises(ConfigBusy, match="saved"), house.source.held(0):
            pass
        holding.start()
        assert began.wait(PATIENCE)
        house.edit(8)
        assert seen == []
    holding.join(PATIENCE)
    assert seen == [8]


@pytest.mark.req("RPC-211")
def test_a_block_that_fails_holds_nothing_any_more(tmp_path: Path) -> None:
    house = House(tmp_path, 0)
    with pytest.raises(LookupError), house.source.held():
        raise LookupError
    with pytest.raises(LookupError), house.source.between_holds(0):
        raise LookupError
    with house.source.held(), pytest.raises(ConfigBusy), house.source.between_holds(0):
        pass
    house.store.commit(connections(9))
    with house.source.held():
        assert house.now == 9
