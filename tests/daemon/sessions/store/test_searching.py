"""Whatever somebody looks for is words, and what was said is found by each of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from chat_store_child import chat_store_at
from hypothesis import given, settings
from hypothesis import strategies as st
from session_model import BEGAN

from zeroclaw_daemon.agent.events import MessageChunk
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.chat_schema import CHAT
from zeroclaw_daemon.sessions.store.layout import run
from zeroclaw_daemon.sessions.store.records import NewSession
from zeroclaw_daemon.sessions.store.searching import (
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    match_of,
    searchable,
)
from zeroclaw_host.errors import UsageError

OPERATORS = [
    '"',
    "'",
    "*",
    "(",
    ")",
    "^",
    "+",
    "-",
    ":",
    ",",
    "{",
    "}",
    "AND",
    "OR",
    "NOT",
    "NEAR",
    "\x00",
    "\ud800",
]
queries = st.one_of(
    st.text(max_size=MAX_QUERY_CHARACTERS),
    st.lists(st.one_of(st.sampled_from(OPERATORS), st.text(max_size=5)), max_size=30).map(" ".join),
    st.lists(st.sampled_from(OPERATORS), max_size=60).map("".join),
)


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    """The index as the store has it, in memory."""
    with closing(sqlite3.connect(":memory:")) as raw:
        run(raw, CHAT.whole)
        yield raw


@settings(max_examples=400, deadline=None)
@given(query=queries)
def test_no_query_is_an_error_of_the_index(index: sqlite3.Connection, query: str) -> None:
    try:
        match = match_of(query)
    except UsageError:
        assert len(query.split()) > MAX_QUERY_WORDS
        return
    if match is not None:
        index.execute("SELECT count(*) FROM sessions_fts WHERE sessions_fts MATCH ?", (match,)).fetchone()
    assert (match is None) is (query.split() == [])


letters = st.one_of(
    # Scripts that the index has known since it was made; each release of it knows those of one version of Unicode.
    st.characters(categories=["Lu", "Ll", "Lo", "Nd"], max_codepoint=0x17F, exclude_characters="\u0130"),
    st.sampled_from("αΩςДяאعक東京のカ한글"),
)


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.text(letters, min_size=1, max_size=12), min_size=1, max_size=6), data=st.data())
def test_a_text_is_found_by_its_words_and_by_the_beginning_of_one(
    index: sqlite3.Connection, words: list[str], data: st.DataObject
) -> None:
    index.execute("DELETE FROM sessions_fts")
    index.execute("INSERT INTO sessions_fts (rowid, content) VALUES (1, ?)", (searchable(" ".join(words)),))
    some = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
    for query in (" ".join(some), some[0], " ".join(words), " ".join(words).lower()):
        found = index.execute("SELECT rowid FROM sessions_fts WHERE sessions_fts MATCH ?", (match_of(query),))
        assert found.fetchall() == [(1,)], query


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        ("a" * MAX_QUERY_CHARACTERS, "a" * (MAX_QUERY_CHARACTERS + 1)),
        ("a " * MAX_QUERY_WORDS, "a " * (MAX_QUERY_WORDS + 1)),
    ],
    ids=["characters", "words"],
)
def test_a_query_is_as_long_as_it_may_be(fits: str, too_much: str) -> None:
    assert match_of(fits) is not None
    with pytest.raises(UsageError) as caught:
        match_of(too_much)
    assert caught.value.details == {"member": "query"}


def test_a_query_that_is_too_long_reads_nothing(tmp_path: Path) -> None:
    with closing(chat_store_at(tmp_path)) as store, pytest.raises(UsageError):
        store.listed(query="a" * (MAX_QUERY_CHARACTERS + 1))
    assert not (tmp_path / "sessions").exists()


def test_a_long_text_is_found_by_its_last_word(tmp_path: Path) -> None:
    with closing(chat_store_at(tmp_path)) as store:
        made(store)
        store.begin("s", "t", "word " * 200_000 + "last", BEGAN)
        store.finish("s", "t", [(MessageChunk("answer"), BEGAN)], [])
        assert [session.id for session in store.listed(query="last")] == ["s"]


def made(store: ChatStore) -> None:
    store.create(NewSession("s", "agent", "/work"))
