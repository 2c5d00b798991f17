"""The further way in, for clients of other machines: it may fail, and the local one serves all the same (RPC-227)."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio.abc

from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.intake import Intake
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind, ZeroclawError

logger = logging.getLogger(__name__)


class GatewayLost(ZeroclawError):
    """The gateway listened, and takes no connections any more. ``details`` holds the system's ``errno``."""

    code = "gateway_lost"
    kind = Kind.UNAVAILABLE


class Gateway:
    """What became of the further way in.

    :param intake: its connections; None where there is no such way.
    """

    def __init__(self, intake: Intake | None) -> None:
        self.intake = intake
        self._listens = False
        self._error: ZeroclawError | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Intake | None]:
        """The intake with its place held; None where there is none, or its place cannot be had, which is told."""
        async with AsyncExitStack() as place:
            if self.intake is not None:
                try:
                    await place.enter_async_context(self.intake.opened())
                    self._listens = True
                except ZeroclawError as error:
                    self._fail(error)
            try:
                yield self.intake if self._listens else None
            finally:
                self._listens = False

    async def accept(self, intake: Intake, tasks: anyio.abc.TaskGroup) -> None:
        """Take its connections until this is cancelled, or until the system gives none any more, which is told."""
        try:
            await intake.accept(tasks)
        except OSError as error:
            words = os.strerror(error.errno or 0)
            self._fail(
                GatewayLost(f"it takes no connections any more: {words}", details={"errno": error.errno})
            )

    def _fail(self, error: ZeroclawError) -> None:
        self._listens = False
        self._error = error
        record(
            logger, logging.ERROR, f"the gateway does not listen: {error.message}",
            action="gateway_failed", outcome="failure", details=dict(error.details), remedy=error.remedy,
        )  # fmt: skip

    def facts(self) -> dict[str, JsonValue]:
        """What ``status`` tells of it: ``state`` is ``off``, ``listening`` or ``failed``."""
        if self.intake is None:
            return {"state": "off"}
        facts: dict[str, JsonValue] = {"state": "listening" if self._listens else "failed"}
        facts["endpoint"] = self.intake.endpoint
        facts["connections"] = self.intake.open_connections
        if self._error is not None:
            facts["error"] = {"reason": self._error.code, "message": self._error.message}
        return facts
