"""Our client, at the other end of a daemon that a test plays."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import anyio
import pytest
from scripted_daemon import ScriptedDaemon

from zeroclaw_daemon.client import DaemonClient, open_client
from zeroclaw_daemon.rpc.transport.memory import memory_pair


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Meet(Protocol):
    """Introduces a client to a daemon that a test plays."""

    def __call__(
        self, **options: Any
    ) -> AbstractAsyncContextManager[tuple[DaemonClient, ScriptedDaemon]]: ...


@pytest.fixture
def meet() -> Meet:
    """A client that is introduced, and its daemon. Options are those of ``open_client``."""

    @asynccontextmanager
    async def met(**options: Any) -> AsyncGenerator[tuple[DaemonClient, ScriptedDaemon]]:
        near, far = memory_pair()
        daemon = ScriptedDaemon(far)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.introduce)
            async with open_client(near, **options) as client:
                yield client, daemon

    return met
