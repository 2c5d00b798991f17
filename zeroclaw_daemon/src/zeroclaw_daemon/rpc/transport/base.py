"""What the protocol needs of a byte stream, whatever carries it: the seam for every further transport (RPC-224)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from zeroclaw_daemon.authority.principal import PeerCredential
from zeroclaw_daemon.clock import Clock


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, in the words of the operating system.

    ``label`` is for audit records. ``credential`` is None where the system gives none. ``local`` is false for peers that
    came over a network.
    """

    label: str
    credential: PeerCredential | None = None
    local: bool = True


class Transport(Protocol):
    """One connection: bytes in both directions. The peer's going away is an end of bytes or a closed stream, never an
    exception of the operating system.
    """

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        ...

    async def receive(self, max_bytes: int) -> bytes:
        """Some bytes, at least one; none once the peer will send no more."""
        ...

    async def send(self, data: memoryview) -> int:
        """Write a first part of the bytes; how many.

        :raises TransportClosed: the peer takes no more bytes.
        """
        ...

    def send_now(self, data: bytes) -> int:
        """Write what can be written without waiting; how many of the bytes, which may be none. Not while :meth:`send` is
        at work.

        :raises TransportClosed: the peer takes no more bytes.
        """
        ...

    def admitted(self) -> None:
        """The peer has introduced itself: a transport that held it to less so far need not any longer."""
        ...

    async def farewell(self) -> None:
        """Say that nothing more comes, where the transport has words for it beside the end of its bytes."""
        ...

    def end(self) -> None:
        """Send nothing more; what was written still reaches the peer, and its bytes still arrive."""
        ...

    async def abandoned(self) -> None:
        """Wait until the peer has closed its side. Takes nothing that is still to be read; after :meth:`end`, what comes may be
        thrown away.
        """
        ...

    def close(self) -> None:
        """Release everything. Calling it again does nothing."""
        ...


class TransportClosed(Exception):
    """Bytes can no longer be written: the peer is gone, or this side was closed."""


class AcceptFailed(Exception):
    """One accept failed for a reason that passes; the listener goes on."""


class Listener(Protocol):
    """Takes connections at one place."""

    @property
    def endpoint(self) -> str:
        """The place as a person writes it: a path, a name or an address."""
        ...

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold the place: connections arrive once the block is entered, and the place is given back when it is left."""
        ...

    async def accept(self) -> Transport:
        """The next connection.

        :raises AcceptFailed: this one failed; call again after a pause.
        """
        ...


async def linger(transport: Transport, clock: Clock, seconds: float) -> None:
    """End the stream and keep the socket until the peer closes it, but not for longer than this.

    A socket that is closed while bytes of the peer are unread becomes a reset at the other end, which could overtake what
    was written last.
    """
    transport.end()
    with clock.move_on_after(seconds):
        await transport.abandoned()
