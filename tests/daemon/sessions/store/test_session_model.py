"""Random histories of sessions against plain lists: whatever is asked in whatever order, the store shows what the lists hold."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from session_model import BEGAN, Kept, Model, shown_by, store_at
from session_values import arguments, contexts, events, texts

from zeroclaw_daemon.agent.messages import Message
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.records import (
    Approval,
    CallOutcome,
    NewSession,
    SessionExists,
    SessionKilled,
    Settled,
    TurnSuperseded,
)

NAMES = ("one", "two")
TURNS = ("t1", "t2")

names = st.sampled_from(NAMES)
turns = st.sampled_from(TURNS)
settlements = st.none() | st.builds(
    Settled,
    st.sampled_from((CallOutcome.SUCCEEDED, CallOutcome.FAILED, CallOutcome.NOT_RUN)),
    st.sampled_from(Approval),
    st.integers(0, 10**6),
)


class Histories(RuleBasedStateMachine):
    """A store, a model of it, and the numbers that the store gave to the events of each session's turn."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.store: AcpStore = store_at(Path(self.scratch.name))
        self.model = Model()
        self.numbers: dict[str, list[int]] = {}

    def teardown(self) -> None:
        self.store.close()
        self.scratch.cleanup()

    def kept(self, name: str) -> Kept | None:
        return self.model.sessions.get(name)

    def asked(self, what: str, name: str, *values: Any, refusal: type[Exception] | None, **named: Any) -> Any:
        """Ask both the same, or only the store what it has to refuse."""
        if refusal is not None:
            with pytest.raises(refusal):
                getattr(self.store, what)(name, *values, **named)
            return None
        getattr(self.model, what)(name, *values, **named)
        return getattr(self.store, what)(name, *values, **named)

    def absent(self, name: str) -> type[Exception] | None:
        return None if self.kept(name) else SessionNotFound

    def not_turning(self, name: str, turn: str) -> type[Exception] | None:
        kept = self.kept(name)
        return None if kept and kept.turn == turn and not kept.killed else TurnSuperseded

    @rule(name=names, owner=st.sampled_from((None, "u")), surface=st.sampled_from((None, "zerocode_code")))
    def create(self, name: str, owner: str | None, surface: str | None) -> None:
        session = NewSession(name, "agent", "/work", surface, owner)
        if self.kept(name):
            with pytest.raises(SessionExists):
                self.store.create(session)
        else:
            self.store.create(session)
            self.model.create(session)

    @rule(name=names)
    def resume(self, name: str) -> None:
        kept = self.kept(name)
        before = kept is not None and kept.turn is not None
        refusal = SessionKilled if kept and kept.killed else self.absent(name)
        restored = self.asked("resume", name, refusal=refusal)
        if restored is not None:
            assert kept is not None
            assert list(restored.context) == kept.given()
            assert restored.recovered is before
            assert restored.session == self.store.find(name)

    @rule(name=names)
    def recover(self, name: str) -> None:
        self.asked("recover", name, refusal=self.absent(name))

    @rule(name=names)
    def kill(self, name: str) -> None:
        self.asked("kill", name, refusal=self.absent(name))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.asked("delete", name, refusal=self.absent(name))

    @rule(name=names, turn=turns, prompt=texts)
    def begin(self, name: str, turn: str, prompt: str) -> None:
        kept = self.kept(name)
        refusal = self.absent(name)
        if kept and kept.killed:
            refusal = SessionKilled
        elif kept and kept.turn is not None:
            refusal = TurnSuperseded
        number = self.asked("begin", name, turn, prompt, BEGAN.astimezone(UTC), refusal=refusal)
        if number is not None:
            self.numbers[name] = [number]

    @rule(name=names, turn=turns, happened=st.lists(st.tuples(events, settlements), min_size=1, max_size=6))
    def append(self, name: str, turn: str, happened: Sequence[tuple[Any, Settled | None]]) -> None:
        for event, settled in happened:
            refusal = self.not_turning(name, turn)
            number = self.asked("append", name, turn, event, settled, refusal=refusal)
            if number is not None:
                assert number > self.numbers[name][-1]
                self.numbers[name].append(number)

    @rule(
        name=names,
        turn=turns,
        parts=st.lists(st.lists(events, max_size=4), min_size=1, max_size=3),
        context=contexts,
        end=st.sampled_from(("finish", "fail", "leave", "leave")),
    )
    def take_a_turn(
        self, name: str, turn: str, parts: list[list[Any]], context: list[Message], end: str
    ) -> None:
        """A turn as a daemon has it, reduced between its parts; its end may be lost."""
        kept = self.kept(name)
        if kept is None:
            self.create(name, None, None)
        elif kept.killed:
            return
        self.resume(name)
        self.begin(name, turn, "prompt")
        for count, part in enumerate(parts):
            if count:
                self.store.reduce(name, turn, context, self.numbers[name][-1])
                self.model.reduce(name, turn, context, len(self.numbers[name]))
            self.append(name, turn, [(event, None) for event in part])
        if end == "finish":
            self.finish(name, turn, context, False)
        elif end == "fail":
            self.fail(name, turn)
        else:
            self.resume(name)

    @precondition(lambda self: any(self.not_turning(n, t) is None for n in NAMES for t in TURNS))
    @rule(data=st.data(), context=contexts)
    def reduce(self, data: st.DataObject, context: list[Message]) -> None:
        name, turn = data.draw(
            st.sampled_from([(n, t) for n in NAMES for t in TURNS if self.not_turning(n, t) is None])
        )
        covered = data.draw(st.integers(1, len(self.numbers[name])))
        number = self.numbers[name][covered - 1]
        if covered < self.model.sessions[name].covered:
            with pytest.raises(ValueError, match="does not have"):
                self.store.reduce(name, turn, context, number)
        else:
            self.store.reduce(name, turn, context, number)
            self.model.reduce(name, turn, context, covered)

    @rule(name=names, turn=turns, context=contexts, cancelled=st.booleans())
    def finish(self, name: str, turn: str, context: list[Message], cancelled: bool) -> None:
        refusal = self.not_turning(name, turn)
        self.asked("finish", name, turn, context, cancelled=cancelled, refusal=refusal)

    @rule(name=names, turn=turns)
    def fail(self, name: str, turn: str) -> None:
        self.asked("fail", name, turn, refusal=self.not_turning(name, turn))

    @rule(name=names, plan=arguments)
    def save_plan(self, name: str, plan: Any) -> None:
        self.asked("save_plan", name, plan, refusal=self.absent(name))

    @rule(name=names, tokens=st.none() | st.integers(0, 10**6))
    def count_tokens(self, name: str, tokens: int | None) -> None:
        self.asked("count_tokens", name, tokens, refusal=self.absent(name))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = store_at(Path(self.scratch.name))

    @rule(name=names, limit=st.integers(1, 5))
    def pages(self, name: str, limit: int) -> None:
        if self.kept(name):
            page = self.store.page(name, limit=limit)
            joined = list(page.entries)
            while page.older is not None:
                assert len(page.entries) == limit
                page = self.store.page(name, limit=limit, before=page.older)
                joined = [*page.entries, *joined]
            assert joined == self.store.entries(name)

    @invariant()
    def shows_the_same(self) -> None:
        assert shown_by(self.store, NAMES) == self.model.shown()
        unkilled = {name for name, kept in self.model.sessions.items() if not kept.killed}
        assert {session.id for session in self.store.listed()} == unkilled


@pytest.mark.req("RPC-145")
def test_a_store_shows_what_plain_lists_hold() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=30, stateful_step_count=20, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
