"""The documents that the ``feed-watch`` example reads, and what it remembers of them, under everything that comes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import ModuleType
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "example-plugins" / "feed-watch"
ADDRESS = "https://blog.example/feed.xml"


def example_modules() -> tuple[ModuleType, ModuleType]:
    """The example's modules. They are no package, so that nothing else may find them by their short names."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        import feed  # pyright: ignore[reportMissingImports]
        import remembered  # pyright: ignore[reportMissingImports]

        return feed, remembered
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in ("feed", "remembered"):
            sys.modules.pop(name, None)


feed, remembered = example_modules()

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=40)


def read(document: bytes, size: int | None = None):
    reader = feed.FeedReader(ADDRESS)
    for start in range(0, len(document), size or len(document) or 1):
        reader.feed(document[start : start + (size or len(document))])
    return reader.close()


def atom(entries: list[tuple[str, str, str]]) -> bytes:
    inside = "".join(
        f"<entry><id>{escape(id)}</id><title>{escape(title)}</title><link href={quoteattr(link)}/></entry>"
        for id, title, link in entries
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom">{inside}</feed>'.encode()


def rss(entries: list[tuple[str, str, str]]) -> bytes:
    inside = "".join(
        f"<item><title>{escape(title)}</title><guid>{escape(id)}</guid><link>{escape(link)}</link></item>"
        for id, title, link in entries
    )
    return f'<rss version="2.0"><channel>{inside}</channel></rss>'.encode()


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=20), st.integers(1, 50), st.sampled_from([atom, rss]))
def test_what_is_handed_on_is_plain_and_bounded_however_it_arrives(entries, size, form):
    document = form(entries)
    found = read(document, size)

    assert found == read(document)
    assert len(found.entries) <= len(entries)
    for entry in found.entries.values():
        for text in (entry.title, entry.summary, entry.published, entry.link):
            assert all(each.isprintable() for each in text)
        assert len(entry.title) <= 300
        assert entry.link == "" or entry.link.startswith(("http://", "https://"))


@given(
    st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, max_size=20),
    st.sampled_from([atom, rss]),
)
def test_entries_are_as_many_as_there_are_ids_and_in_their_order(ids, form):
    found = read(form([(id, f"title {id}", "") for id in ids]))

    assert [entry.title for entry in found.entries.values()] == [f"title {id}" for id in ids]


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(1, 40))
def test_a_document_that_was_damaged_is_read_or_refused(noise, where, size):
    document = atom([("1", "a", "/a"), ("2", "b", "/b")])
    for damaged in (noise, document[:where] + noise + document[where:], document[:where]):
        with suppress(feed.FeedInvalid):
            read(damaged, size)


HEAD = b"<feed xmlns='http://www.w3.org/2005/Atom' xmlns:p='" + b"n" * feed.MAX_NAMESPACE + b"'>"
HOSTILE: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "entries": (HEAD, lambda number: b"<entry><id>%d</id></entry>" % number),
    "entries with long texts": (
        HEAD,
        lambda number: b"<entry><id>%d</id><summary>%s</summary></entry>" % (number, b"s" * 2000),
    ),
    "names": (HEAD, lambda number: b"<p:e%d/>" % number),
    "attributes": (HEAD + b"<entry ", lambda number: b"p:a%d='' " % number),
    "elements with attributes": (HEAD, lambda number: b"<p:e p:a%d=''/>" % number),
    "one title": (HEAD + b"<entry><title>", lambda number: b"title "),
    "one id": (HEAD + b"<entry><id>", lambda number: b"%d" % number),
    "one comment": (HEAD + b"<!--", lambda number: b"comment "),
    "one tag": (HEAD + b"<entry a='", lambda number: b"value "),
    "references": (HEAD + b"<entry><title>", lambda number: b"&#65;&lt;"),
}
"""What a document begins with, and what then comes over and over."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_document_of_the_largest_size_takes_bounded_memory(kind: str) -> None:
    head, piece = HOSTILE[kind]
    document = bytearray(head)
    for number in count():
        if len(document) > 2 * 1024 * 1024:
            break
        document += piece(number)
    reader = feed.FeedReader(ADDRESS)
    tracemalloc.start()
    try:
        for start in range(0, len(document), 65_536):
            reader.feed(bytes(document[start : start + 65_536]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 64 * 1024 * 1024


KEYS = st.lists(st.sampled_from([f"{number:016x}" for number in range(12)]), unique=True, max_size=8)


@given(st.lists(st.tuples(KEYS, st.integers(1, 4), st.booleans()), max_size=12))
def test_of_any_documents_every_entry_is_handed_on_once_and_none_is_lost(calls):
    """Each call: the document as it is then, how many entries fit the answer, and whether the server knows its versions."""
    kept, handed_on = remembered.Remembered(), []
    for document, fits, versions in calls:
        version = "|".join(document)
        if kept.validators and kept.validators == {"etag": version}:
            now = []  # a 304
        else:
            now = [key for key in document if key not in kept.seen][:fits]
            kept = kept.after(document, now, {"etag": version} if versions else {})
            kept = remembered.restored(remembered.stored(kept))
        handed_on += now
        missing = [key for key in document if key not in handed_on]
        assert not missing or len(now) == fits, "entries were left out, though they fit"
        assert not missing or not kept.validators, "the next call would be told that nothing has changed"
    assert len(handed_on) == len(set(handed_on))


def test_what_is_kept_of_a_feed_fits_a_value_and_forgets_the_oldest():
    keys = [f"{number:016x}" for number in range(remembered.MAX_SEEN + 1)]
    kept = remembered.Remembered()
    for start in range(0, len(keys), feed.MAX_ENTRIES):
        document = keys[start : start + feed.MAX_ENTRIES]
        kept = kept.after(
            document, document, {"etag": "x" * remembered.MAX_VALIDATOR, "last-modified": "x" * 512}
        )
    assert len(kept.seen) == remembered.MAX_SEEN
    assert keys[-1] in kept.seen
    assert len(remembered.stored(kept)) <= 64 * 1024


@pytest.mark.parametrize(
    ("validator", "usable"),
    [
        ('"a"', True),
        ('W/"a"', True),
        ("x" * 512, True),
        ("x" * 513, False),
        ("", False),
        (None, False),
        ("é", False),
        ("a\x00", False),
    ],
)
def test_only_a_validator_that_can_be_sent_back_is_kept(validator, usable):
    assert remembered.usable(validator) is usable
