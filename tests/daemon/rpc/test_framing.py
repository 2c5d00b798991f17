"""Lines out of bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.errors import FrameTooLarge
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES, LineBuffer


def lines_of(chunks: list[bytes], limit: int = MAX_FRAME_BYTES) -> list[bytes]:
    """Every line, the unfinished one at the end included."""
    buffer = LineBuffer(limit)
    lines: list[bytes] = []
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.next_line()) is not None:
            lines.append(line)
    last = buffer.last_line()
    return lines if last is None else [*lines, last]


CONTENT = st.binary(max_size=120).map(lambda data: data.replace(b"q", b"\n").replace(b"w", b"\r\n"))


@pytest.mark.req("RPC-017", "PAINS-20")
@given(CONTENT, st.lists(st.integers(0, 120)))
def test_however_the_bytes_are_cut_the_lines_are_the_same(content: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    chunks = [content[start:end] for start, end in pairwise(edges)]
    assert lines_of(chunks) == lines_of([content])


@pytest.mark.req("RPC-015")
@given(
    st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip(b" \t\r") == line))
)
def test_lines_come_back_as_they_were_joined(lines: list[bytes]) -> None:
    assert lines_of([b"\n".join([*lines, b""])]) == lines


@pytest.mark.req("RPC-018")
def test_blank_lines_are_nothing_and_space_around_a_line_does_not_count() -> None:
    assert lines_of([b"\n\r\n \t\r\n  {}\r\n"]) == [b"{}"]


@pytest.mark.req("RPC-231")
def test_a_last_line_without_its_end_is_a_line() -> None:
    assert lines_of([b"a\nb"]) == [b"a", b"b"]
    assert lines_of([b"a\n  "]) == [b"a"]


@pytest.mark.req("PAINS-20")
def test_a_character_cut_in_two_arrives_whole() -> None:
    whole = "ü€😀".encode()
    assert lines_of([whole[:1], whole[1:4], whole[4:], b"\n"]) == [whole]


@pytest.mark.req("RPC-023", "PAINS-20")
def test_a_line_of_exactly_the_limit_is_served_with_its_end_counted() -> None:
    assert lines_of([b"x" * 9 + b"\n"], limit=10) == [b"x" * 9]
    assert lines_of([b"x" * 10], limit=10) == [b"x" * 10]


@pytest.mark.req("RPC-021", "PAINS-20")
@pytest.mark.parametrize(
    "chunks", [[b"x" * 10 + b"\n"], [b"x" * 10, b"\n"], [b"x" * 11], [b"ok\n", b"x" * 11]]
)
def test_one_byte_more_than_the_limit_is_too_much(chunks: list[bytes]) -> None:
    with pytest.raises(FrameTooLarge) as caught:
        lines_of(chunks, limit=10)
    assert caught.value.details == {"limit_bytes": 10}


@pytest.mark.req("RPC-021", "RPC-023")
def test_the_shipped_limit_is_eight_mebibytes() -> None:
    assert MAX_FRAME_BYTES == 8_388_608


def test_an_unfinished_line_is_noticed() -> None:
    buffer = LineBuffer()
    assert not buffer.unfinished
    buffer.feed(b"{")
    assert buffer.next_line() is None
    assert buffer.unfinished
    buffer.feed(b"}\n")
    assert buffer.next_line() == b"{}"
    assert not buffer.unfinished
