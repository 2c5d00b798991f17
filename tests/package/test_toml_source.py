"""Finding the parts of a TOML document in its text."""

from __future__ import annotations

import time
import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeroclaw_host.errors import ManifestError
from zeroclaw_host.package.toml_source import MAX_BYTES, MAX_DEPTH, Position, TomlSource, printable

DOCUMENT = '''\
# first
name = "a" # after

list = [ 1, # one
  [ 2, 3 ],
  { deep = 4, "quoted.key" = 5 },
]
text = """ a " "" \\""" b"""
raw = \'\'\'it's '' #no comment\'\'\'
when = 1979-05-27 07:32:00   # a space inside
a . "b.c" . 'd' = 6
[table."x y"]
key = 1
  [table.sub]
  key = 2
[[many]]
key = 1
[[many]]
key = 2
[many.inner]
key = 3
'''


@pytest.mark.parametrize(
    ("location", "position"),
    [
        (("name",), (2, 1)),
        (("list",), (4, 1)),
        (("list", 0), (4, 10)),
        (("list", 1, 1), (5, 8)),
        (("list", 2, "deep"), (6, 5)),
        (("list", 2, "quoted.key"), (6, 15)),
        (("text",), (8, 1)),
        (("raw",), (9, 1)),
        (("when",), (10, 1)),
        (("a", "b.c", "d"), (11, 13)),
        (("table", "x y", "key"), (13, 1)),
        (("table", "sub", "key"), (15, 3)),
        (("many", 0, "key"), (17, 1)),
        (("many", 1, "key"), (19, 1)),
        (("many", 1, "inner", "key"), (21, 1)),
        (("table", "sub", "absent"), (14, 3)),
        (("absent",), (1, 1)),
    ],
)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_every_value_has_a_line_and_a_column(
    location: tuple[str | int, ...], position: tuple[int, int], line_break: str
) -> None:
    source = TomlSource.parse(DOCUMENT.replace("\n", line_break).encode(), path="x.toml")
    assert source.position(location) == Position(*position)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a = 1\nb = \n", "x.toml:2:5: is not TOML"),
        (b"a = 1\nb = [", "x.toml:2:6: is not TOML"),
        (b"a = 1\na = 2\n", "x.toml:2:6: is not TOML"),
        (b"a = 1\nb = '\xc3\xa4\xff'", "x.toml:2:7: is not UTF-8"),
        (b"\xef\xbb\xbfa = 1", "x.toml:1:1: is not TOML"),
    ],
)
def test_what_is_no_toml_is_an_error_with_its_place(data: bytes, place: str) -> None:
    with pytest.raises(ManifestError) as caught:
        TomlSource.parse(data, path="x.toml")
    assert str(caught.value).startswith(place)
    assert caught.value.details["line"] == int(place.split(":")[1])
    assert caught.value.details["column"] == int(place.split(":")[2])


@pytest.mark.parametrize(
    "data",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{a=" * 5000 + "1" + "}" * 5000,
        ".".join(["a"] * 30_000) + " = 1",
        ".".join(['"a"'] * 30_000) + " = 1",
        " . ".join(["'a'"] * 30_000) + " = 1",
        "a = {" + ".".join(["a"] * 30_000) + " = 1}",
        "a = " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    ],
)
def test_endless_nesting_is_refused_at_once(data: str) -> None:
    with pytest.raises(ManifestError, match="too deeply"):
        TomlSource.parse(data.encode(), path="x.toml")


@pytest.mark.parametrize(
    "data",
    [
        'a = "' + '\\"' * 60_000 + '"',
        "a = '" + '\\"' * 60_000 + "'",
        "a = '" + ' "' * 60_000 + "'",
        'a = "' + " '" * 60_000 + '"',
        "# " + '"a".' * 50 + ' "a"' * 30_000,
        "#" + "a " * 60_000,
    ],
)
def test_no_text_takes_a_time_that_grows_with_the_square_of_its_length(data: str) -> None:
    begun = time.process_time()
    TomlSource.parse(data.encode(), path="x.toml")
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "number",
    [
        "9" * 5_000,
        "-" + "9" * 5_000,
        "0x" + "f" * 5_000,
        "0b" + "1" * 20_000,
        "1" * 4_301,
        "0." + "3" * 5_000,
    ],
)
@pytest.mark.parametrize("place", ["a = {}", "a = [ 1, {} ]", "a = {{ b = {} }}"])
def test_a_number_longer_than_any_is_refused(number: str, place: str) -> None:
    with pytest.raises(ManifestError, match="number that is too long"):
        TomlSource.parse(place.format(number).encode(), path="x.toml")


def test_the_size_of_a_document_is_bounded() -> None:
    data = b"#" * MAX_BYTES
    assert TomlSource.parse(data, path="x.toml").values == {}
    with pytest.raises(ManifestError, match="larger than"):
        TomlSource.parse(data + b"#", path="x.toml")


@given(st.binary() | st.text().map(str.encode))
@example(b"a\r=1")
@example(b'"\\uD800" = 1')
def test_no_bytes_raise_anything_but_a_manifest_error(data: bytes) -> None:
    try:
        source = TomlSource.parse(data, path="x.toml")
    except ManifestError:
        return
    assert source.values == tomllib.loads(data.decode()) or "nan" in repr(source.values)


# Documents with a known structure: every statement is put together from its parts, so the parts can be compared.

words = st.text("abcxyz019_-", min_size=1, max_size=6)
inner = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\"'\\"), max_size=6)
blanks = st.text(" \t", max_size=2)
comments = inner.map(lambda text: f"#{text}")
line_breaks = st.sampled_from(["\n", "\r\n"])
keys = st.one_of(words, inner.map(lambda text: f'"{text}\\""'), inner.map(lambda text: f"'{text}'"))
dotted_keys = st.lists(keys, min_size=1, max_size=3).map(" . ".join)
scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.sampled_from(
        ["true", "inf", "-nan", "1e5", "0xff", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00", "1_0"]
    ),
    inner.map(lambda text: f'"{text}\\"\\\\"'),
    inner.map(lambda text: f"'{text}\"'"),
    inner.map(lambda text: f'"""{text}\n""\\"""x{text}z""""'),
    inner.map(lambda text: f"'''{text}\r\n'' {text}'''''"),
)
trivia = st.lists(
    st.one_of(blanks, st.builds(lambda c, b: c + b, comments, line_breaks), line_breaks), max_size=3
)
values = st.recursive(
    scalars,
    lambda items: st.one_of(
        st.builds(
            lambda parts, space: (
                "[" + space + ",".join(f"{space}{part}{space}" for part in parts) + space + "]"
            ),
            st.lists(items, max_size=3),
            trivia.map("".join),
        ),
        st.builds(
            lambda parts: "{" + ", ".join(f"k{n} = {part}" for n, part in enumerate(parts)) + "}",
            st.lists(items, max_size=3),
        ),
    ),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> list[tuple[str, str, str, str]]:
    """Statements as (trivia, key, value, rest of the line)."""
    count = draw(st.integers(0, 5))
    return [
        (
            "".join(part if part.endswith("\n") else "" for part in draw(trivia)) + draw(blanks),
            f"k{number}.{draw(dotted_keys)}" if draw(st.booleans()) else f"k{number}",
            draw(values),
            draw(blanks) + draw(st.one_of(st.just(""), comments)) + draw(line_breaks),
        )
        for number in range(count)
    ]


@given(documents(), trivia)
def test_statements_are_found_wherever_they_stand(
    parts: list[tuple[str, str, str, str]], end: list[Any]
) -> None:
    tail = "".join(part for part in end if part.endswith("\n"))
    text = "".join(f"{before}{key} = {value}{after}" for before, key, value, after in parts) + tail
    text += "[table]\nkey = 1\n"
    source = TomlSource.parse(text.encode(), path="x.toml")
    assert len(source.root) == len(parts)
    at = 0
    for statement, (before, key, value, after) in zip(source.root, parts, strict=True):
        assert statement.start == at
        assert text[statement.start : statement.key] == before
        assert text[statement.key :].startswith(key)
        assert text[statement.value : statement.value_end] == value
        at += len(f"{before}{key} = {value}{after}")
        assert statement.end == at


@given(st.text())
def test_shown_text_holds_no_control_or_bidirectional_character(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= 10 * 80 + 1
