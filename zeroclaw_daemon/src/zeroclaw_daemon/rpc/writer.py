"""Frames on their way to the peer: whole, in the order in which they were sent, and each in its time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import Final

import anyio

from zeroclaw_daemon.clock import Clock
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.errors import FrameTooLarge
from zeroclaw_daemon.rpc.limits import ConnectionLimits
from zeroclaw_daemon.rpc.mailbox import Mailbox, MailboxClosed
from zeroclaw_daemon.rpc.transport.base import Transport, TransportClosed

_BATCH_BYTES: Final = 64 * 1024
"""Small frames that wait together are written together, up to about this much."""

logger = logging.getLogger(__name__)


class FrameWriter:
    """The one writer of a transport. :meth:`run` is its whole life.

    :param alone: whether no other frame is about to follow: those that come together are better written together.
    :param at_loss: called when the peer takes no more bytes.
    """

    def __init__(
        self,
        transport: Transport,
        limits: ConnectionLimits,
        clock: Clock,
        *,
        alone: Callable[[], bool],
        at_loss: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._clock = clock
        self._alone = alone
        self._at_loss = at_loss
        self._queue = Mailbox[bytes](limits.outbound_frames, limits.outbound_bytes)
        self._silent = False
        self._emptied = anyio.Event()

    def fits(self, line: bytes) -> bool:
        """Whether a frame may be sent, for it is no longer than a line may be (RPC-251)."""
        return len(line) <= self._limits.sent_bytes

    def fitting(self, line: bytes) -> bytes:
        """The frame.

        :raises FrameTooLarge: it does not fit in a line.
        """
        if not self.fits(line):
            raise FrameTooLarge(self._limits.sent_bytes)
        return line

    async def send(self, line: bytes) -> None:
        """Write a frame behind those that were sent before. Waits while the queue is full; does nothing once nobody reads."""
        rest = self._written_now(line)
        if rest:
            # Once the connection has ended, what a call still wants to say interests nobody.
            with suppress(MailboxClosed):
                await self._queue.put(rest, len(rest))

    def close(self) -> None:
        """Take no more frames; those that wait are still written."""
        self._queue.close()

    def silence(self) -> None:
        """Write no further byte."""
        self._silent = True

    async def emptied(self) -> None:
        """Wait until everything that was sent is written, after :meth:`close`."""
        await self._emptied.wait()

    async def run(self) -> None:
        """Write what is sent, until :meth:`close` is called and nothing is left."""
        async for line in self._queue:
            if self._silent:
                continue
            batch, size = [line], len(line)
            while size < _BATCH_BYTES and (line := self._queue.get_nowait()) is not None:
                batch.append(line)
                size += len(line)
            try:
                await self._write(batch)
            except TransportClosed:
                self._lose()
        self._emptied.set()

    def _written_now(self, line: bytes) -> bytes:
        """Write what the system takes at once, where nothing is before it; what is left for the writer.

        A task switch less for a call that comes alone.
        """
        if self._silent:
            return b""
        if not (self._queue.awaited and self._alone()):
            return line
        try:
            return line[self._transport.send_now(line) :]
        except TransportClosed:
            self._lose()
            return b""

    async def _write(self, batch: list[bytes]) -> None:
        """Write some frames; each has its own time, counted from the end of the one before (RPC-030)."""
        data = memoryview(b"".join(batch))
        position = 0
        for end in accumulate(map(len, batch)):
            if position >= end:
                continue
            with self._clock.move_on_after(self._limits.write_seconds):
                while position < end:
                    position += await self._transport.send(data[position:])
            if position < end:
                record(
                    logger, logging.WARNING, "a client takes no bytes",
                    action="write_stall", peer=self._transport.peer.label,
                )  # fmt: skip
                raise TransportClosed

    def _lose(self) -> None:
        self._silent = True
        self._at_loss()
