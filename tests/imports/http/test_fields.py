"""``fields``: what a name and a value may be, what is refused and in which order, and how much is kept."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind
from zeroclaw_host.imports.http.fields import FUNCTIONS, LINE_OVERHEAD, MAX_FIELDS_BYTES, Fields
from zeroclaw_host.imports.http.rules import TooLarge
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.values import OK, Err, Ok

Make = Callable[..., Any]
INVALID, REFUSED, IMMUTABLE = (Err((word, None)) for word in ("invalid-syntax", "forbidden", "immutable"))


def call(function: str, *values: Any) -> Any:
    """A function of ``fields``; of the frame they look at the table alone."""
    [found] = [each for each in FUNCTIONS if each.name.endswith(function)]
    return found.implementation(SimpleNamespace(table=ResourceTable()), *values)


def test_names_are_one_in_any_case_and_values_keep_their_order() -> None:
    fields = call("from-list", [("X-A", b"1"), ("b", b"2"), ("x-a", b"3")]).value
    assert call(".get", fields, "x-A") == [b"1", b"3"]
    assert call(".entries", fields) == [("x-a", b"1"), ("b", b"2"), ("x-a", b"3")]
    assert call(".set", fields, "X-a", [b"4", b"5"]) == OK
    assert call(".entries", fields) == [("b", b"2"), ("x-a", b"4"), ("x-a", b"5")]
    assert call(".append", fields, "B", b"6") == OK
    assert call(".delete", fields, "X-A") == OK
    assert call(".entries", fields) == [("b", b"2"), ("b", b"6")]
    assert (call(".has", fields, "B"), call(".has", fields, "x-a"), call(".has", fields, "no name")) == (
        True,
        False,
        False,
    )


def test_a_clone_of_fields_that_cannot_be_changed_can_be() -> None:
    fields = Fields([("a", b"1")], immutable=True)
    for refused in (
        call(".set", fields, "a", [b"2"]),
        call(".append", fields, "a", b"2"),
        call(".delete", fields, "a"),
    ):
        assert refused == IMMUTABLE
    clone = call(".clone", fields)
    assert call(".append", clone, "a", b"2") == OK
    assert call(".entries", fields) == [("a", b"1")]
    assert call(".get", clone, "a") == [b"1", b"2"]


CONNECTION = (
    *("connection", "http2-settings", "keep-alive", "proxy-authenticate", "proxy-authorization"),
    *("proxy-connection", "transfer-encoding", "upgrade"),
)


@pytest.mark.parametrize("name", CONNECTION)
def test_what_is_about_the_connection_is_the_hosts(name: str) -> None:
    fields = Fields(immutable=True)  # refused before it matters whether the fields can be changed
    assert call("from-list", [(name.upper(), b"x")]) == REFUSED
    assert call(".set", fields, name, [b"x"]) == REFUSED
    assert call(".append", fields, name, b"x") == REFUSED
    assert call(".delete", fields, name) == REFUSED


@pytest.mark.parametrize("name", ["host", "te", "trailer", "content-length", "authorization", "cookie"])
def test_what_is_about_the_message_is_the_guests(name: str) -> None:
    assert isinstance(call("from-list", [(name, b"1")]), Ok)


@pytest.mark.parametrize("name", ["", " ", "a b", "a:", "ä", "a\n", "a\0", "(a)", "a/b", ":path"])
def test_a_name_that_is_no_token_is_invalid(name: str) -> None:
    fields = Fields()
    assert call("from-list", [(name, b"x")]) == INVALID
    assert call(".set", fields, name, []) == INVALID
    assert call(".append", fields, name, b"x") == INVALID
    assert call(".delete", fields, name) == INVALID
    assert (call(".get", fields, name), call(".has", fields, name)) == ([], False)


@given(st.binary(max_size=8))
def test_a_value_holds_what_can_be_sent_and_nothing_else(value: bytes) -> None:
    valid = all(byte == 9 or 32 <= byte <= 126 or byte >= 128 for byte in value)
    fields = Fields()
    assert call(".append", fields, "x", value) == (OK if valid else INVALID)
    assert call(".set", fields, "x", [b"1", value]) == (OK if valid else INVALID)
    assert call("from-list", [("x", value)]).__class__ is (Ok if valid else Err)


@given(st.lists(st.tuples(st.sampled_from(["a", "A", "b", "x-Y"]), st.binary(max_size=3)), max_size=12))
def test_fields_behave_like_a_list_of_pairs(changes: list[tuple[str, bytes]]) -> None:
    fields, model = Fields(), list[tuple[str, bytes]]()
    for name, value in changes:
        if call(".append", fields, name, value) == OK:
            model.append((name.lower(), value))
    assert call(".entries", fields) == model
    assert call(".get", fields, "a") == [value for name, value in model if name == "a"]
    assert fields.size == sum(len(name) + len(value) + LINE_OVERHEAD for name, value in model)


@pytest.mark.parametrize("how", ["from-list", ".append", ".set"])
def test_fields_are_as_large_as_they_may_be_and_no_larger(how: str) -> None:
    room = MAX_FIELDS_BYTES - LINE_OVERHEAD - 1

    def make(size: int) -> Fields:
        if how == "from-list":
            return call(how, [("x", b"y" * size)]).value
        fields = Fields([("x", b"z")] if how == ".set" else [])
        assert call(how, fields, "x", [b"y" * size] if how == ".set" else b"y" * size) == OK
        return fields

    assert make(room).size == MAX_FIELDS_BYTES
    with pytest.raises(TooLarge) as caught:
        make(room + 1)
    assert caught.value.kind is Kind.LIMIT
    assert caught.value.details["maximum"] == MAX_FIELDS_BYTES


@pytest.mark.parametrize("length", [0, 1000])
def test_copies_share_what_they_are_copies_of(length: int) -> None:
    fields = Fields([("x", b"y")] * length)
    assert call(".clone", fields)._lines is fields._lines
