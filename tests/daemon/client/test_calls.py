"""Each method of the daemon has one of the client, which sends what the daemon takes."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.client import Decision, UnexpectedAnswer, Verdict
from zeroclaw_daemon.client.config_calls import ConfigCalls
from zeroclaw_daemon.client.file_calls import FileCalls
from zeroclaw_daemon.client.session_calls import SessionCalls
from zeroclaw_daemon.rpc.methods.file_models import AttachedFile
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_daemon.sessions.live import ChatMode

pytestmark = pytest.mark.anyio

GIVEN: dict[str, Any] = {
    "agent_alias": "ada",
    "session_id": "s",
    "request_id": "r",
    "verdict": Verdict(Decision.REJECT_WITH_EDIT, "instead"),
    "overrides": {"model": "m", "temperature": None},
    "prop": "gateway.port",
    "value": None,
    "sets": [("gateway.port", 1)],
    "path": "agents",
    "key": "ada",
    "old": "ada",
    "new": "bob",
    "files": [AttachedFile(data_b64="")],
    "size_bytes": 0,
    "upload_id": "u",
    "offset": 0,
    "data": b"x",
    "chat_mode": ChatMode.ACP,
    "cwd": "/",
    "interaction_surface": "zerocode_code",
    "keep_siblings": True,
    "limit": 1,
    "before_index": 1,
    "cursor": "1.0",
    "query": "milk",
    "prefix": "gateway",
    "comment": "why",
    "filename": "f",
    "sha256": "0" * 64,
}
ELSEWHERE = {"initialize", "status", "session/prompt"}
"""Calls of the client itself, which other tests make."""


class Called(Exception):
    """A call was made."""


class Recorder(SessionCalls, ConfigCalls, FileCalls):
    """Makes no call."""

    async def call(self, method: str, params: Any = None) -> Any:
        raise Called(method, params)


async def test_every_method_of_the_table_can_be_called_and_takes_what_is_sent() -> None:
    seen: set[str] = set()
    for name, call in inspect.getmembers(Recorder(), inspect.iscoroutinefunction):
        if name.startswith("_") or name in ("ask", "call", "upload", "upload_file"):
            continue
        parameters = inspect.signature(call).parameters.values()
        for given in (parameters, [each for each in parameters if each.default is each.empty]):
            with pytest.raises(Called) as made:
                await call(**{each.name: GIVEN[each.name] for each in given})
            method, params = made.value.args
            if (model := TABLE[method].params) is not None:
                model.parse(params)
                assert params.keys() <= model.members().keys(), name
        seen.add(method)
    assert seen | ELSEWHERE == set(TABLE)


async def test_a_cursor_is_there_even_where_it_names_the_newest_page() -> None:
    with pytest.raises(Called) as made:
        await Recorder().messages_page("s")
    assert made.value.args[1] == {"sessionId": "s", "cursor": None}


async def test_an_answer_that_cannot_be_read_is_told_without_its_values(meet) -> None:
    async with meet() as (client, daemon):
        answers: list[Any] = []

        async def ask() -> None:
            with pytest.raises(UnexpectedAnswer) as caught:
                await client.session_state("s")
            answers.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            request = await daemon.asked("session/state")
            await daemon.answer(request, {"sessionId": "s", "state": {"secret": "hunter2"}})
        assert answers[0].details == {"method": "session/state", "members": ["state"]}
        assert "hunter2" not in repr(answers[0]) + str(answers[0].__cause__)
