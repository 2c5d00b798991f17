"""Every place where a text names a key is found, whatever the text; and what is no TOML is survived."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
import tomlkit
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.document.location import Place, Places
from zeroclaw_daemon.config.document.mentions import mentions, written_key
from zeroclaw_daemon.config.document.renaming import renamed

KEYS = st.text(max_size=5) | st.sampled_from(["a", "b", "a.b", 'q"x', "'", "\\", "\n", "é"])
SCALARS = st.one_of(
    st.integers(-5, 5),
    st.booleans(),
    st.text(max_size=8),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
)
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)


def paths(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*above, key)
        yield from paths(inner, (*above, key))


@pytest.mark.req("PAINS-25")
@given(tree=TREES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_key_of_any_tree_is_found_where_it_is_written(tree: dict[str, object]) -> None:
    text = as_toml(tree)
    found: set[tuple[str | int, ...]] = set()
    for mention in mentions(text):
        found |= {mention.path[:length] for length in range(1, len(mention.path) + 1)}
        for name in mention.names:
            assert tomllib.loads(f"x.{text[name.start : name.end]} = 1")["x"] == {name.key: 1}
            assert mention.start <= name.start
    assert found == set(paths(tomllib.loads(text)))


def as_toml(tree: dict[str, object]) -> str:
    """The tree as tomlkit writes it, where that is TOML: it is not for every key and text."""
    try:
        text = tomlkit.dumps(tree)
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError):
        assume(False)
        raise
    return text


@given(key=KEYS)
def test_a_key_is_written_so_that_it_says_itself(key: str) -> None:
    assert tomllib.loads(f"{written_key(key)} = 1") == {key: 1}


@example(text="0=[")
@given(text=st.text(max_size=60) | st.text(max_size=60, alphabet="ab.=[]{}\"'#\n, 1\\\r"))
@settings(max_examples=300)
def test_no_text_crashes_the_walk(text: str) -> None:
    assert all(0 <= mention.start < len(text) for mention in mentions(text))
    Places(text).of(("a", 0, "b"))


@pytest.mark.parametrize("depth", [100, 20_000])
def test_what_is_nested_too_deep_is_walked_as_far_as_it_goes(depth: int) -> None:
    text = "a = 1\nb = " + "[" * depth + "]" * depth
    assert Places(text).of(("a",)) == Place(1, 1)


ADA = [
    (
        "[agents.ada] # x\nmodel = 'm'\n[agents.ada.deep]\n",
        "[agents.eve] # x\nmodel = 'm'\n[agents.eve.deep]\n",
    ),
    ("agents.ada.model = 1\nagents . 'ada' . b = 2\n", "agents.eve.model = 1\nagents . eve . b = 2\n"),
    ("[agents]\nada.model = 1 # ada\n", "[agents]\neve.model = 1 # ada\n"),
    ("agents = { ada = { ada = 1 }, bob = {} }\n", "agents = { eve = { ada = 1 }, bob = {} }\n"),
    ('[agents."ada"]\n[other.ada]\n[agents.ad]\n', "[agents.eve]\n[other.ada]\n[agents.ad]\n"),
    ("[[agents.ada]]\n[[agents.ada]]\nx = 'ada'\n", "[[agents.eve]]\n[[agents.eve]]\nx = 'ada'\n"),
]


@pytest.mark.parametrize(("before", "after"), ADA)
def test_a_key_gets_its_new_name_wherever_the_text_names_it(before: str, after: str) -> None:
    assert renamed(before, ("agents", "ada"), "eve") == after
    assert renamed(after, ("agents", "eve"), "a b").count('"a b"') == after.count("eve")


def test_a_key_in_one_row_is_renamed_in_that_row() -> None:
    text = "[[r]]\nc.k = 1\n[[r]]\nc.k = 2\n[r.c.d]\nk = 3\n"
    assert renamed(text, ("r", 1, "c", "k"), "z") == text.replace("c.k = 2", "c.z = 2")
