"""Warm stores on a clock that stands, before a sandbox of two threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plugin_parts import Clock, Config, scope_of
from warm_guests import Sink, warm_component

from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.worlds.surface import surface_of
from zeroclaw_host.worlds.warm import WarmStore


@pytest.fixture(scope="session")
def component() -> bytes:
    """The forged memory."""
    return warm_component()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """Two guest threads: whoever holds one for nothing is found out."""
    cache = Path(__file__).parents[3] / ".cache" / "compiled"
    with Sandbox(cache, threads=2) as found:
        yield found


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def new_store(sandbox, component, sink, clock) -> Iterator[Callable[..., WarmStore]]:
    """Makes stores, started; closed when the test is over."""
    made: list[WarmStore] = []

    def make(
        *,
        limits: Limits | None = None,
        healing: bool = True,
        start=lambda ask: None,
        clock=clock,
        started: bool = True,
    ) -> WarmStore:
        scope = scope_of(Capability.MEMORY)
        store = WarmStore(
            sandbox,
            sandbox.load(component, surface_of(Capability.MEMORY, scope.grants)),
            scope,
            InstanceServices(config=Config(), log=sink),
            limits or Limits(),
            interface="zeroclaw:plugin/memory",
            start=start,
            self_healing=healing,
            clock=clock,
        )
        made.append(store)
        if started:
            store.start_sync()
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(new_store) -> WarmStore:
    return new_store()


@pytest.fixture
def queued(monkeypatch) -> threading.Semaphore:
    """Released once for each caller that got a place in some queue; its frame exists by then."""
    from zeroclaw_host.worlds import warm

    found = threading.Semaphore(0)
    join = warm.Turns.queued

    def counted(self, wake):
        place = join(self, wake)
        enter = place.__enter__

        class Counted:
            def __enter__(self):
                turn = enter()
                found.release()
                return turn

            def __exit__(self, *why):
                return place.__exit__(*why)

        return Counted()

    monkeypatch.setattr(warm.Turns, "queued", counted)
    return found
