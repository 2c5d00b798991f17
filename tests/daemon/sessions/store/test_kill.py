"""A daemon that is killed at any write: what was committed is there, nothing else is, and the session goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import session_store_child
from killed_stories import Heard, left_by
from session_model import BEGAN, MARKER, Model, entry_tuple, shown_by, store_at
from session_store_child import NAMES, STORY, legacy_model

from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.points import Phase, WritePoint
from zeroclaw_daemon.sessions.store.records import SessionKilled


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for every write and phase, as the process left it that was killed there."""
    return left_by(session_store_child.__file__, tmp_path_factory.mktemp("killed"))


def told(operations: int) -> Model:
    """The model after so many operations of the story."""
    model = legacy_model()
    for _, operation in STORY[:operations]:
        operation(model)
    return model


def found(killed: Path, number: int, phase: Phase, tmp_path: Path) -> AcpStore:
    """A store at a copy of what the process left."""
    shutil.copytree(killed / f"{number}-{phase.value}", tmp_path / "copy")
    return store_at(tmp_path / "copy")


def test_the_story_has_every_write() -> None:
    assert {point for point, _ in STORY} == set(WritePoint)


def test_the_story_is_what_a_store_announces(tmp_path: Path) -> None:
    heard = Heard()
    session_store_child.tell(tmp_path, heard)
    assert heard.writes == [(point, phase) for point, _ in STORY for phase in Phase]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("number", range(len(STORY)), ids=lambda n: f"{n}-{STORY[n][0].value}")
def test_a_kill_loses_nothing_that_was_told_and_shows_nothing_twice(
    killed: Path, tmp_path: Path, number: int, phase: Phase
) -> None:
    model = told(number + (phase is Phase.COMMITTED))
    store = found(killed, number, phase, tmp_path)
    assert shown_by(store, NAMES) == model.shown()

    for name in NAMES:
        kept = model.sessions.get(name)
        if kept is None or kept.killed:
            with pytest.raises(SessionNotFound if kept is None else SessionKilled):
                store.resume(name)
            continue
        interrupted = kept.turn is not None
        markers = kept.entries.count(MARKER)
        model.resume(name)
        for again in (False, True):
            restored = store.resume(name)
            assert restored.recovered is (interrupted and not again)
            assert list(restored.context) == kept.given()
        assert [entry_tuple(entry) for entry in store.entries(name)].count(MARKER) == markers + interrupted
        for it in (store, model):
            it.begin(name, "next", "go on", BEGAN)
            it.finish(name, "next", [UserMessage("go on")])
    assert shown_by(store, NAMES) == model.shown()
    store.close()


def test_the_model_goes_on_from_the_snapshot_and_what_came_after_it(killed: Path, tmp_path: Path) -> None:
    number = next(n for n, (point, _) in enumerate(STORY) if point is WritePoint.TURN_FAILED)
    store = found(killed, number, Phase.BEGUN, tmp_path)
    context = store.resume("s").context
    assert context[0] == UserMessage("second, in short")
    assert [type(message).__name__ for message in context] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
    assert "output of b" in repr(context)
    for forgotten in ("answer", "output of a", "look"):
        assert forgotten not in repr(context)
    store.close()
