"""The suite itself: what a row may say, and what it takes for one to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import bytes_of, matches, rows_of
from raw_client import read_frame


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(1, 1), ({"a": 1, "b": 2}, {"a": 1}), ([1, {"a": 1}], [1, {}]), ("x", "<any>"), (None, "<any>"), ("x", "<text>"),
     (5, "<integer>"), ({}, {"a": "<absent>"}), ("a yes b", "<has yes>"), (None, None)],
)  # fmt: skip
def test_what_matches(found: Any, wanted: Any) -> None:
    assert matches(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(1, True), (1, 1.0), ("1", 1), (None, {}), ({"a": 1}, {"a": 1, "b": "<any>"}), ([1], [1, 2]), (5, "<text>"),
     (True, "<integer>"), ({"a": None}, {"a": "<absent>"}), ("no", "<has yes>"), (5, "<has 5>"), (None, {"a": "<absent>"})],
)  # fmt: skip
def test_what_does_not_match(found: Any, wanted: Any) -> None:
    assert not matches(found, wanted)


def test_bytes_are_written_in_parts() -> None:
    parts = ['{"a":"{token}"', {"hex": "ff00"}, {"repeat": "[", "times": 3}, {"pad": "x", "line": 24}]
    data = bytes_of(parts, {"token": "t"})
    assert data == b'{"a":"t"\xff\x00[[[' + b"x" * 10
    assert len(data) + 1 == 24


ROW = 'name = "n"\nrequirements = ["RPC-015"]\ngiven = "fresh"\nsteps = []\n'


def test_a_row_is_run_for_each_value_and_each_beginning(tmp_path: Path) -> None:
    file = tmp_path / "page.toml"
    row = ROW.replace('"fresh"', '["fresh", "asking"]').replace(
        "steps = []", 'each = ["1", [{ hex = "ff" }]]'
    )
    file.write_text(f'[[rows]]\n{row}steps = [{{ send = "a{{each}}b" }}]\n')
    rows = rows_of(file)
    assert [row.id for row in rows] == [
        "page-n-0-fresh",
        "page-n-1-fresh",
        "page-n-0-asking",
        "page-n-1-asking",
    ]
    assert [row.steps[0]["send"] for row in rows[:2]] == ["a1b", ["a", {"hex": "ff"}, "b"]]


@pytest.mark.parametrize(
    "change",
    [
        ("name", "nmae"),
        ('"fresh"', '"frehs"'),
        ('["RPC-015"]', "[]"),
        ("steps = []", 'steps = []\nafter = "gone"'),
    ],
)
def test_a_row_that_says_what_no_row_can_say_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    file = tmp_path / "page.toml"
    file.write_text("[[rows]]\n" + ROW.replace(*change))
    with pytest.raises((AssertionError, KeyError)):
        rows_of(file)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,"result":1}',
        b'{"jsonrpc":"1.0","id":1,"result":1}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":1}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m","data":{"reason":"r"}}}',
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"reason":"No Word"}}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m","data":{"reason":"word"}}}',
        b'{"jsonrpc":"2.0","method":"m","result":1}',
        b'[{"jsonrpc":"2.0","id":1,"result":1}]',
    ],
)
def test_a_frame_that_no_daemon_may_send_fails_whatever_the_row_expects(line: bytes) -> None:
    with pytest.raises(AssertionError):
        read_frame(line)
