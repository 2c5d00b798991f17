"""The plugin as plain Python: ``python -m pytest`` in its directory."""

import app
import pytest
from app import ATTEMPTS, Counter

from zeroclaw_sdk.guest import StateEntry, StateError
from zeroclaw_sdk.testing import call


def count(kept, **arguments):
    answer = call(Counter, arguments, state=kept)
    assert answer.success, answer.error
    return int(answer.output)


def test_each_thing_is_counted_on_from_what_was_kept():
    kept = {}

    assert [count(kept) for _ in range(3)] == [1, 2, 3]
    assert count(kept, thing="cups", add=5) == 5
    assert count(kept, add=0) == 3
    assert {name: entry.value for name, entry in kept.items()} == {"calls": b"3", "cups": b"5"}


def test_a_count_of_an_earlier_instance_goes_on():
    assert count({"cups": StateEntry(b"41", 7)}, thing="cups") == 42


def busy(monkeypatch, times):
    """Somebody else writes before each of the first writes."""
    put, left = app.state.put, [times]

    def put_second(key, value, expected_revision):
        if left[0]:
            left[0] -= 1
            entry = app.state.get(key)
            put(key, b"%d" % (int(entry.value) + 10 if entry else 10), entry and entry.revision)
        return put(key, value, expected_revision)

    monkeypatch.setattr(app.state, "put", put_second)


def test_whoever_comes_second_counts_again(monkeypatch):
    busy(monkeypatch, 2)

    assert count({}) == 21


def test_it_gives_up_when_others_are_always_quicker(monkeypatch):
    busy(monkeypatch, ATTEMPTS)
    answer = call(Counter, {})

    assert not answer.success
    assert answer.error == "too many others count calls at the same moment"


def test_a_host_without_room_is_told_in_words(monkeypatch):
    def full(*_):
        raise StateError("put", "quota-exceeded")

    monkeypatch.setattr(app.state, "put", full)

    assert "too many things" in call(Counter, {}).error


@pytest.mark.parametrize("arguments", [{"thing": "a/b"}, {"thing": ""}, {"add": -1}, {"add": 1001}])
def test_what_cannot_be_counted_is_refused(arguments):
    assert not call(Counter, arguments).success
