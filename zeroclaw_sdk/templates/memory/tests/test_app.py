"""Tests of the plugin as plain Python; no sandbox is needed for them."""

import pytest
from app import {{class_name}}

from zeroclaw_sdk.guest import CORE, DAILY, CallError
from zeroclaw_sdk.testing import memory


def test_the_best_match_comes_first():
    with memory({{class_name}}) as (it, _):
        it.store_entry("tea", "green tea in the morning", CORE, None)
        it.store_entry("rain", "rain in the evening", DAILY, None)
        found = it.recall("the morning tea", 5, None, None, None)
        assert [entry.key for entry in found] == ["tea", "rain"]
        assert it.recall("the morning tea", 1, None, None, None) == found[:1]


def test_what_is_forgotten_is_gone():
    with memory({{class_name}}) as (it, _):
        it.store_entry("tea", "green", CORE, None)
        assert (it.forget("tea"), it.forget("tea"), it.get("tea"), it.count()) == (True, False, None, 0)


def test_an_entry_without_a_key_is_refused():
    with memory({{class_name}}) as (it, _), pytest.raises(CallError, match="needs a key"):
        it.store_entry("", "nothing", CORE, None)
