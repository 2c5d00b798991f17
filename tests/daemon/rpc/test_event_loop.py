"""No call of a client does on the event loop what may take long: others are served by it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_daemon.rpc.methods.table import TABLE

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

CONFIG = "schema_version = 1\n[agents.ada]\n"

CALLS: dict[str, list[dict[str, Any]]] = {
    "config/get": [{}, {"prop": "agents.ada.model"}, {"prop": "agents.ada.modle"}],
    "config/list": [{}, {"prefix": "agents"}, {"prefix": "agenst"}],
    "config/map-keys": [{"path": "agents"}, {"path": "agenst"}],
    "config/validate": [{}],
    "config/set": [{"prop": "agents.ada.model", "value": "m"}, {"prop": "agents.ada.modle", "value": "m"}],
    "config/set-many": [{"sets": [{"prop": "agents.ada.model", "value": "n"}]}],
    "config/delete": [{"prop": "agents.ada.model"}, {"prop": "agents.ada.modle"}],
    "config/map-key-create": [{"path": "agents", "key": "ben"}],
    "config/map-key-rename": [{"path": "agents", "from": "ben", "to": "eve"}],
    "config/map-key-delete": [{"path": "agents", "key": "eve"}],
    "config/reload": [{}],
}


def test_every_method_of_the_configuration_is_looked_at() -> None:
    assert set(CALLS) == {name for name in TABLE if name.startswith("config/")}


def noting(threads: list[int], call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, which notes the thread it is called in."""

    def noted(*args: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return call(*args, **named)

    return noted


@pytest.mark.parametrize("method", [name for name in CALLS if name != "config/reload"])
async def test_the_configuration_is_read_and_searched_in_a_thread(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Ten thousand properties take a second to search for the closest ones."""
    text = CONFIG.replace("ada", "ben") + CONFIG.partition("\n")[2] if "rename" in method else CONFIG
    text = text.replace("ada", "eve") if method == "config/map-key-delete" else text
    async with serving(config=text) as daemon, daemon.connect() as wire:
        threads: list[int] = []
        store = daemon.config.store
        for name in ("current", "read", "commit"):
            monkeypatch.setattr(store, name, noting(threads, getattr(store, name)))
        for params in CALLS[method]:
            await wire.ask(method, params)
        assert len(threads) == len(CALLS[method])
        assert threading.get_ident() not in threads


async def test_the_directory_of_a_session_is_looked_at_in_a_thread(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may lie on a file system that does not answer."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    threads: list[int] = []
    behind = os.stat

    def stat(path: Any, *args: Any, **named: Any) -> os.stat_result:
        if str(path) == str(cwd):
            threads.append(threading.get_ident())
        return behind(path, *args, **named)

    async with serving() as daemon, daemon.connect() as wire:
        monkeypatch.setattr(os, "stat", stat)
        opened = await wire.call("session/new", {"agentAlias": "assistant", "cwd": str(cwd)})
        assert opened["workspaceDir"] == str(cwd)
    assert threads
    assert threading.get_ident() not in threads
