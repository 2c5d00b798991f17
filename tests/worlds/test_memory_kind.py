"""What every memory can do, by means of what it must do."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import UsageError
from zeroclaw_host.worlds.kinds import (
    ExportFilter,
    Memory,
    MemoryCategory,
    MemoryEntry,
    MemoryUnsupported,
    ProceduralMessage,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def entry(key: str, **facts: Any) -> MemoryEntry:
    known = {"id": key, "content": key, "category": MemoryCategory.CORE, "namespace": "default"}
    return MemoryEntry(**known | {"key": key, "timestamp": DAY.isoformat()} | facts)


class Plain(Memory):
    """A memory that does what it must, and tells what it was asked."""

    name = "plain"

    def __init__(self, entries: Sequence[MemoryEntry] = (), *, most: int | None = None) -> None:
        self.entries = list(entries)
        self.asked: list[object] = []
        self.most = most

    async def store_entry(self, key, content, category, *, session_id=None, call_site=None):
        self.asked.append(("store_entry", key, content, category, session_id, call_site))

    async def recall(
        self, query, limit, *, session_id=None, since=None, until=None, call_site=None
    ) -> list[MemoryEntry]:
        self.asked.append((query, limit, session_id, since, until, call_site))
        return self.entries[: limit if self.most is None else self.most]

    async def get(self, key, *, call_site=None) -> MemoryEntry | None:
        return next((each for each in self.entries if each.key == key), None)

    async def list_entries(self, category=None, *, session_id=None, call_site=None) -> list[MemoryEntry]:
        return [
            each
            for each in self.entries
            if category in (None, each.category) and session_id in (None, each.session_id)
        ]

    async def store_with_agent(self, *_, **__):
        raise AssertionError("not for this")

    recall_for_agents = forget = forget_for_agent = count = health_check = store_with_agent


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing."""
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    return done.value.value


@pytest.mark.req("PLG-036")
@pytest.mark.parametrize(
    ("key", "agent", "found"),
    [("a", "me", True), ("a", "you", False), ("b", "me", False), ("c", "me", False)],
)
def test_an_agents_entry_is_the_entry_if_it_is_the_agents(key: str, agent: str, found: bool):
    memory = Plain([entry("a", agent_id="me"), entry("b")])
    answer = result(memory.get_for_agent(key, agent))
    assert answer == (entry("a", agent_id="me") if found else None)


@pytest.mark.req("PLG-036")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("purge_namespace", ("n",)),
        ("purge_session", ("s",)),
        ("purge_session_for_agent", ("s", "a")),
        ("purge_agent", ("a",)),
    ],
)
def test_nothing_is_purged_that_cannot_be(function: str, arguments: tuple[str, ...]):
    with pytest.raises(MemoryUnsupported, match=f"{function} is not supported by the memory plain") as raised:
        result(getattr(Plain(), function)(*arguments))
    assert raised.value.details == {"function": function}


@pytest.mark.req("PLG-036")
def test_the_small_defaults():
    memory = Plain()
    assert result(memory.reindex()) == 0
    assert result(memory.store_procedural([ProceduralMessage("user", "x")], session_id="s")) is None
    assert result(memory.ensure_agent_uuid("scout")) == "scout"
    assert memory.asked == []


@pytest.mark.req("PLG-036")
def test_an_entry_with_metadata_is_stored_without_it():
    memory = Plain()
    category = MemoryCategory("recipe", custom=True)
    assert (
        result(memory.store_with_metadata("k", "c", category, session_id="s", namespace="n", importance=0.5))
        is None
    )
    assert memory.asked == [("store_entry", "k", "c", category, "s", None)]


@pytest.mark.req("PLG-036")
def test_a_namespace_is_recalled_by_asking_until_there_is_enough():
    mine = [entry(f"m{n}", namespace="mine") for n in range(5)]
    others = [entry(f"o{n}") for n in range(9)]
    memory = Plain([*others, *mine])
    found = result(memory.recall_namespaced("mine", "q", 3, session_id="s", since="a", until="b"))
    assert found == mine[:3]
    assert memory.asked == [("q", limit, "s", "a", "b", None) for limit in (3, 6, 12)]


@pytest.mark.req("PLG-036")
@pytest.mark.parametrize(("limit", "most", "asked"), [(0, None, 1), (4, None, 3), (1, 3, 2), (7, None, 2)])
def test_asking_ends_when_nothing_more_comes(limit: int, most: int | None, asked: int):
    memory = Plain([entry(str(n)) for n in range(10)], most=most)
    assert result(memory.recall_namespaced("mine", "q", limit)) == []
    assert len(memory.asked) == asked


entries = st.lists(
    st.builds(
        entry,
        st.text(max_size=2),
        namespace=st.sampled_from(["a", "b"]),
        category=st.sampled_from([MemoryCategory.CORE, MemoryCategory("core", custom=True)]),
        session_id=st.sampled_from([None, "s"]),
        timestamp=st.integers(-2, 2).map(lambda days: (DAY + timedelta(days)).isoformat()),
    ),
    max_size=8,
)


@pytest.mark.req("PLG-036")
@given(entries, st.integers(0, 10))
def test_a_namespace_is_recalled_as_the_best_of_its_entries(found: list[MemoryEntry], limit: int):
    recalled = result(Plain(found).recall_namespaced("a", "", limit))
    assert recalled == [each for each in found if each.namespace == "a"][:limit]


@pytest.mark.req("PLG-036")
@given(
    entries,
    st.sampled_from([None, "a"]),
    st.sampled_from([None, MemoryCategory.CORE]),
    st.sampled_from([None, "s"]),
    st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01"]),
    st.sampled_from([None, "2025-12-31T23:00:00-01:00", "2026-01-02T00:00:00"]),
)
def test_an_export_is_a_list_with_a_filter(
    found: list[MemoryEntry],
    namespace: str | None,
    category: MemoryCategory | None,
    session: str | None,
    since: str | None,
    until: str | None,
):
    wanted = ExportFilter(
        namespace=namespace, category=category, session_id=session, since=since, until=until
    )
    exported = result(Plain(found).export_entries(wanted))
    last = None if until is None else DAY + timedelta(days="2026" in until)
    assert exported == [
        each
        for each in found
        if namespace in (None, each.namespace)
        and category in (None, each.category)
        and session in (None, each.session_id)
        and (since is None or datetime.fromisoformat(each.timestamp) >= DAY)
        and (last is None or datetime.fromisoformat(each.timestamp) <= last)
    ]


def test_an_entry_whose_time_cannot_be_read_is_not_lost():
    memory = Plain([entry("a", timestamp="yesterday"), entry("b", timestamp="")])
    assert len(result(memory.export_entries(ExportFilter(since="2026-01-01", until="2026-01-02")))) == 2


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_time_that_is_none_is_refused_by_its_name(bound: str):
    with pytest.raises(UsageError, match=f"^{bound} is no time"):
        result(Plain().export_entries(ExportFilter(**{bound: "yesterday"})))


def test_a_category_is_one_of_three_or_says_that_it_is_made_up():
    assert str(MemoryCategory("recipes", custom=True)) == "recipes"
    assert MemoryCategory("core", custom=True) != MemoryCategory.CORE == MemoryCategory("core")
    with pytest.raises(ValueError, match=re.escape("core, daily, conversation")):
        MemoryCategory("recipes")
