"""Named pipes: the listener and the connections it takes, over whatever makes the system's pipe instances (D-23).

A named pipe is served by *instances*: each waits for one client and then is the connection to it. There is always one that
waits, so that no client finds the name gone. What Windows does is behind :class:`PipeFactory`; nothing here asks which
system it runs on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol

import anyio.lowlevel

from zeroclaw_daemon.rpc.transport.base import AcceptFailed, Peer, Transport
from zeroclaw_daemon.rpc.transport.claim import EndpointBusy
from zeroclaw_daemon.rpc.transport.local import LocalTransport

PIPE_PEER: Final = Peer("pipe:local")
"""Every client of a pipe: the system names neither process nor user (RPC-055)."""


class PipeInstance(Protocol):
    """One instance of a named pipe."""

    async def connected(self) -> None:
        """Wait until a client has connected.

        :raises OSError: the instance cannot be had by a client any more.
        """
        ...

    async def read(self, max_bytes: int) -> bytes:
        """Some bytes; none once the client has closed its side, for whatever reason."""
        ...

    async def write(self, data: memoryview) -> int:
        """Write a first part of the bytes; how many.

        :raises OSError: the client is gone.
        """
        ...

    async def gone(self) -> None:
        """Wait until the client has closed its side, without taking what it sent."""
        ...

    def close(self) -> None:
        """Release the instance; a client that is connected sees the end. Calling it again does nothing."""
        ...


class PipeFactory(Protocol):
    """Makes instances of named pipes.

    There is no parameter for a security descriptor, on purpose: without one the system gives the pipe its default, full
    control for the user who made it, for administrators and for SYSTEM, and Everyone and anonymous users may read (RPC-054).
    """

    def __call__(self, name: str, *, first: bool) -> PipeInstance:
        """An instance that waits for a client.

        :param first: it must be the first of this name on the machine (``FILE_FLAG_FIRST_PIPE_INSTANCE``), so that
            nobody else serves under the daemon's name.
        :raises PermissionError: ``first``, and there is one already.
        :raises OSError: the system makes none now.
        """
        ...


class _PipeStream:
    """The bytes of one instance, which it owns from now on."""

    def __init__(self, instance: PipeInstance) -> None:
        self._instance = instance

    async def read(self, max_bytes: int) -> bytes:
        await anyio.lowlevel.checkpoint()
        return await self._instance.read(max_bytes)

    async def write(self, data: memoryview) -> int:
        return await self._instance.write(data)

    def write_now(self, data: bytes) -> int:
        """None: a pipe is always waited for."""
        return 0

    def end(self) -> None:
        """A pipe has no half that could be closed: the client sees the end when the instance is closed."""

    async def gone(self) -> None:
        await self._instance.gone()

    def close(self) -> None:
        self._instance.close()


class PipeListener:
    """A named pipe that nobody else serves.

    :param name: the pipe's full name, as :class:`~zeroclaw_daemon.config.paths.Paths` computes it.
    """

    def __init__(self, name: str, factory: PipeFactory) -> None:
        self._name = name
        self._factory = factory
        self._waiting: PipeInstance | None = None

    @property
    def endpoint(self) -> str:
        """The pipe's name."""
        return self._name

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold the name.

        :raises EndpointBusy: somebody serves it already.
        """
        return self._opened()

    async def accept(self) -> Transport:
        """The next connection. The next instance waits before this one is served."""
        if self._waiting is None:
            self._waiting = self._next()
        try:
            await self._waiting.connected()
        except OSError as error:
            self._drop()
            raise AcceptFailed(error.strerror) from error
        connected, self._waiting = self._waiting, None
        # Where none can be made now, this client is served all the same; the next accept tries again, and says so.
        with suppress(AcceptFailed):
            self._waiting = self._next()
        return LocalTransport(_PipeStream(connected), PIPE_PEER)

    def _next(self) -> PipeInstance:
        try:
            return self._factory(self._name, first=False)
        except OSError as error:
            raise AcceptFailed(error.strerror) from error

    def _drop(self) -> None:
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        try:
            self._waiting = self._factory(self._name, first=True)
        except PermissionError as error:
            raise EndpointBusy(
                f"another program serves the pipe {self._name}", details={"path": self._name}
            ) from error
        try:
            yield
        finally:
            self._drop()
