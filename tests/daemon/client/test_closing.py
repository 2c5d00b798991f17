"""A command closes its conversation, whatever ends the command."""

from __future__ import annotations

import anyio
import pytest

from zeroclaw_daemon.cli.whom import close_conversation
from zeroclaw_daemon.client import RemoteError

pytestmark = pytest.mark.anyio


async def test_a_command_that_is_broken_off_still_closes_it_and_waits_for_that(meet) -> None:
    over = anyio.Event()
    async with meet() as (client, daemon), anyio.create_task_group() as tasks:

        async def break_off() -> None:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await close_conversation(client, "s")
            over.set()

        tasks.start_soon(break_off)
        request = await daemon.asked("session/close")
        await daemon.settle()
        assert not over.is_set()
        await daemon.answer(request, {"sessionId": "s", "closed": True})


async def test_one_that_has_ended_already_or_is_not_to_be_ended_is_closed_enough_and_a_failure_is_told(
    meet,
) -> None:
    async with meet() as (client, daemon), anyio.create_task_group() as tasks:
        for code, reason in ((-32000, "session_not_found"), (-32012, "forbidden")):
            tasks.start_soon(close_conversation, client, "s")
            await daemon.refuse(await daemon.asked("session/close"), code, "no", reason=reason)

        async def refused() -> None:
            with pytest.raises(RemoteError):
                await close_conversation(client, "s")

        tasks.start_soon(refused)
        await daemon.refuse(await daemon.asked("session/close"), -32002, "no", reason="session_busy")
