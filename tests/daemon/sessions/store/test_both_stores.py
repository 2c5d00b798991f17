"""What a session is in either store."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import pytest
from chat_store_child import chat_store_at
from session_model import store_at

from zeroclaw_daemon.sessions.store.base import AnyStore
from zeroclaw_daemon.sessions.store.records import NewSession

STORES: dict[str, Callable[[Path], AnyStore]] = {"acp": store_at, "chat": chat_store_at}


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[AnyStore]:
    with closing(STORES[request.param](tmp_path)) as made:
        made.create(NewSession("s", "agent", "/work"))
        yield made


def test_a_session_works_where_it_was_told_to_by_whoever_it_belongs_to(store: AnyStore) -> None:
    store.create(NewSession("mine", "agent", "/work", owner="me"))
    for name, scope, moved in (("s", None, True), ("mine", None, False), ("mine", "me", True)):
        for workspace in ("/else", "/\udcff"):  # the second one is no UTF-8
            session = store.resume(name, scope, workspace=workspace).session
            assert session.workspace == (workspace if moved else "/work")
        assert store.resume(name).session == store.find(name)
