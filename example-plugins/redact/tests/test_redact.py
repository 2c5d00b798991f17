"""The plugin as plain Python: ``python -m pytest`` in its directory."""

import json

import pytest
from app import Redact

from zeroclaw_sdk.testing import call


def masked(text, **config):
    answer = call(Redact, {"text": text}, config=config)
    assert answer.success, answer.error
    return answer.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ada@example.org now", "write to [redacted] now"),
        ("two: a@b.co, c.d+e@f-g.example.com", "two: [redacted], [redacted]"),
        ("key sk-abcdefgh12345678", "key [redacted]"),
        ("key sk-proj-abc_DEF-123456", "key [redacted]"),
        ("token ghp_0123456789abcdefABCDEF", "token [redacted]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."),
        ("bot xoxb-1234-5678-abcdef", "bot [redacted]"),
        ("jürgen@bücher.example", "[redacted]"),
        ("a" * 100 + "@example.org", "[redacted]"),
        ("KEY_sk-abcdefgh1234", "KEY_[redacted]"),
        ("sk- is a prefix, AKIA too", "sk- is a prefix, AKIA too"),
        ("no address: @example or a@b", "no address: @example or a@b"),
        ("", ""),
    ],
)
def test_what_is_masked_and_what_stays(text, expected):
    assert masked(text) == expected


def test_the_replacement_is_configured():
    assert masked("ada@example.org", replacement="***") == "***"


def test_addresses_stay_when_they_may():
    assert masked("ada@example.org sk-abcdefgh1234", redact_emails=False) == "ada@example.org [redacted]"


def test_configured_words_are_literal_text():
    assert masked("a.c abc (x)", patterns=["a.c", "(x)"]) == "[redacted] abc [redacted]"


def test_overlapping_matches_become_one():
    assert masked("abcde", patterns=["abc", "cde"]) == "[redacted]"
    assert masked("aaaa", patterns=["aa"]) == "[redacted]"


def test_a_word_inside_an_address_leaves_nothing_of_it():
    assert masked("x ada@example.org y", patterns=["example"]) == "x [redacted] y"


def test_a_long_hostile_text_takes_no_longer_than_its_length():
    assert masked("a" * 200_000 + "@") == "a" * 200_000 + "@"


def test_the_log_says_how_many_and_never_what():
    answer = call(Redact, {"text": "ada@example.org sk-abcdefgh1234"})
    [record] = answer.logs
    assert json.loads(record.attrs) == {"matches": 2, "characters": 31}
    assert "ada" not in record.message + record.attrs


def test_a_text_that_is_none_is_answered_not_raised():
    answer = call(Redact, {"text": 5})
    assert not answer.success
    assert answer.error == "text: expected a string, got an integer"
