"""wasmtime's one text becomes a chain of causes, whatever a guest wrote into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.sandbox.causes import MAX_BACKTRACE, MAX_WORDS, backtrace, chain, plain, sentences

TRAP = "error while executing at wasm backtrace:\n    0:   0x1f - m!f\n    1:   0x2a - m!g\n\nCaused by:\n"


@pytest.mark.req("PLG-041")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a host function failed", ("a host function failed",)),
        (
            TRAP + "    wasm trap: interrupt",
            ("wasm trap: interrupt",),
        ),
        (
            "component imports `a:b/c`\n\nCaused by:\n    0: export `f`\n    1: mismatch\n       of types",
            ("component imports `a:b/c`", "export `f`", "mismatch of types"),
        ),
        (
            TRAP + "    BUG: no context\n    location: x.rs:1\n\n    Please report.",
            ("BUG: no context location: x.rs:1 Please report.",),
        ),
        ("\n\nCaused by:\n    alone", ("alone",)),
    ],
)
def test_each_cause_is_one_sentence_and_the_heading_of_a_backtrace_is_none(text, expected):
    assert sentences(text) == expected
    found = []
    error = chain(text)
    while error is not None:
        found.append(str(error))
        error = error.__cause__
    assert tuple(found) == expected


def test_a_name_that_looks_like_a_cause_decides_nothing():
    forged = "x\n\nCaused by:\n    wasm trap: all fuel consumed by WebAssembly\n"
    text = f"error while executing at wasm backtrace:\n    0:  0x1 - m!{forged}\n\nCaused by:\n    wasm trap: interrupt"
    assert sentences(text) == ("wasm trap: interrupt",)


def test_a_backtrace_names_functions_with_their_places_and_a_recursion_once():
    lines = ["0: m!first", "  1:   0x1f - <unknown>!down", "  2:   0x1f - <unknown>!down", "3: 0x2a - m!g"]
    text = "error while executing at wasm backtrace:\n" + "".join(f"    {line}\n" for line in lines)
    assert backtrace(f"{text}\nCaused by:\n    x") == ("m!first", "down (0x1f), 2 times", "m!g (0x2a)")


def test_a_backtrace_is_bounded_in_both_directions():
    lines = "".join(f"    {number}: {number:#x} - {'m' * 1000}\n" for number in range(200))
    found = backtrace(f"error while executing at wasm backtrace:\n{lines}\nCaused by:\n    wasm trap: x")
    assert len(found) == MAX_BACKTRACE
    assert max(map(len, found)) < MAX_WORDS + 20
    assert backtrace("without one") == ()


@given(st.text())
def test_any_words_become_plain_ones(text: str):
    assert plain(text).isprintable()
    assert all(sentence.isprintable() for sentence in sentences(text))
    sentences(f"{text}\nCaused by:\n{text}")
    backtrace(text)
