"""A place that nobody can hold: what stands in for a listener whose library is not installed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError


class GatewayNotInstalled(ZeroclawError):
    """A library that the gateway is made of is not installed. ``details`` holds its ``module``."""

    code = "gateway_not_installed"
    kind = Kind.UNAVAILABLE

    def __init__(self, module: str) -> None:
        super().__init__(
            f"the gateway needs {module}, which is not installed",
            remedy=Remedy(
                RemedyAction.INSTALL_EXTRA, {"distribution": "zeroclaw-daemon", "extra": "gateway"}
            ),
            details={"module": module},
        )


class AbsentListener:
    """Takes no connection, and says why."""

    def __init__(self, endpoint: str, error: ZeroclawError) -> None:
        self._endpoint = endpoint
        self._error = error

    @property
    def endpoint(self) -> str:
        """Where it would be."""
        return self._endpoint

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Fail.

        :raises ZeroclawError: always, and always the same.
        """
        return self._opened()

    async def accept(self) -> Transport:
        """Nobody comes.

        :raises RuntimeError: always: it cannot have been opened.
        """
        raise RuntimeError("nobody listens here")

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        raise self._error
        yield
