"""Pages of a transcript, in both stores: joined they are the whole, whichever way they are named."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from chat_store_child import chat_store_at
from hypothesis import given, settings
from hypothesis import strategies as st
from session_model import BEGAN, store_at

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.sessions.store import entries as entries_module
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.entries import MAX_PAGE, MAX_PAGE_BYTES, Entry, Place
from zeroclaw_daemon.sessions.store.records import NewSession

Store: TypeAlias = AcpStore | ChatStore
STORES: dict[str, Callable[[Path], Store]] = {"acp": store_at, "chat": chat_store_at}
every_store = pytest.mark.parametrize("mode", list(STORES))

events = st.one_of(
    st.sampled_from(["", "a", "b"]).map(MessageChunk),
    st.just(ToolCalled("c", "tool", {})),
    st.just(ToolReturned("c", "tool", "output", True)),
)
turns = st.lists(st.tuples(st.lists(events, max_size=6), st.booleans()), max_size=5)


@contextmanager
def opened(mode: str) -> Generator[Store]:
    with tempfile.TemporaryDirectory() as root, closing(STORES[mode](Path(root))) as store:
        store.create(NewSession("s", "agent", "/work"))
        yield store


def take_turn(store: Store, happened: Sequence[Any], *, cancelled: bool = False, prompt: str = "p") -> None:
    store.begin("s", "t", prompt, BEGAN)
    if isinstance(store, AcpStore):
        for event in happened:
            store.append("s", "t", event)
        store.finish("s", "t", [], cancelled=cancelled)
    else:
        store.finish("s", "t", [(event, BEGAN) for event in happened], [], cancelled=cancelled)


@every_store
@settings(max_examples=40, deadline=None)
@given(told=turns, limit=st.integers(1, 5))
def test_pages_joined_are_the_whole(mode: str, told: list[tuple[list[Any], bool]], limit: int) -> None:
    with opened(mode) as store:
        for happened, cancelled in told:
            take_turn(store, happened, cancelled=cancelled)
        whole = store.entries("s")
        session = store.find("s")
        assert session is not None
        assert session.message_count == len(whole)

        by_place: list[Entry] = []
        before: Place | None = None
        while True:
            page = store.page("s", limit=limit, before=before)
            assert len(page.entries) == min(limit, len(whole) - len(by_place))
            by_place = [*page.entries, *by_place]
            if page.older is None:
                break
            before = page.older
        assert by_place == whole

        by_number: list[Entry] = []
        start: int | None = None
        while start != 0:
            window = store.window("s", limit=limit, before=start)
            assert window.total == len(whole)
            assert list(window.entries) == whole[window.start : window.start + len(window.entries)]
            by_number = [*window.entries, *by_number]
            start = window.start
        assert by_number == whole


@every_store
def test_a_window_is_where_it_was_asked_for(mode: str) -> None:
    with opened(mode) as store:
        for number in range(3):
            take_turn(store, [MessageChunk("a")], prompt=str(number))
        whole = store.entries("s")
        for before in range(8):
            window = store.window("s", limit=2, before=before)
            end = min(before, 6)
            assert (list(window.entries), window.start) == (whole[max(0, end - 2) : end], max(0, end - 2))
        with pytest.raises(ValueError, match="from 0"):
            store.window("s", before=-1)
        for limit in (0, MAX_PAGE + 1):
            for read in (store.page, store.window):
                with pytest.raises(ValueError, match="from 1 to 1000"):
                    read("s", limit=limit)
        assert len(store.page("s", limit=MAX_PAGE).entries) == len(store.window("s", limit=1000).entries) == 6


@every_store
def test_a_place_that_no_page_named_is_a_place_all_the_same(mode: str) -> None:
    with opened(mode) as store:
        take_turn(store, [MessageChunk("a")])
        assert store.page("s", before=Place(0, 0)).entries == ()
        assert len(store.page("s", before=Place(2**63 - 1, 10**9)).entries) == 2


@every_store
def test_a_page_has_no_more_bytes_than_it_may_and_one_entry_at_least(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PAGE_BYTES == 4 * 1024 * 1024
    size = len('["0123456789",null,null]')
    with opened(mode) as store:
        for _ in range(3):
            take_turn(store, [], prompt="0123456789")
        for bytes_, fit in ((1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
            monkeypatch.setattr(entries_module, "MAX_PAGE_BYTES", bytes_)
            page = store.page("s")
            assert len(page.entries) == fit
            assert (page.older is None) is (fit == 3)
            window = store.window("s")
            assert (len(window.entries), window.start, window.total) == (fit, 3 - fit, 3)
