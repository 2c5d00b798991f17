"""One connection, seen from either end: one read loop, one writer (:mod:`.writer`), and the calls in between.

Requests are served one after the other in the order they came, except those whose handler says that they run beside the
others. Responses are matched with what this side asked, and with nothing else: correlation is directional (RPC-090).

The peer's end of bytes is a hang-up. What was asked before it is still answered (RPC-231); whoever registered with
:meth:`Connection.at_hang_up` hears of it first, which is how the turns of a connection end with it (RPC-032).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.records import Pace, Ration, record
from zeroclaw_daemon.rpc.envelope import (
    Dropped,
    Envelope,
    Rejected,
    Request,
    Response,
    classify,
    error_line,
    notification_line,
    request_line,
    result_line,
)
from zeroclaw_daemon.rpc.errors import (
    INTERNAL,
    AnswerTooLarge,
    ConnectionLost,
    ErrorObject,
    FrameTimeout,
    FrameTooLarge,
    RemoteError,
    error_object,
)
from zeroclaw_daemon.rpc.framing import READ_BYTES, LineBuffer
from zeroclaw_daemon.rpc.limits import ConnectionLimits
from zeroclaw_daemon.rpc.mailbox import Mailbox
from zeroclaw_daemon.rpc.transport.base import Peer, Transport, linger
from zeroclaw_daemon.rpc.writer import FrameWriter
from zeroclaw_daemon.strict_json import JsonValue, weight
from zeroclaw_host.errors import ZeroclawError

_MAX_FAULTS_RECORDED: Final = 20
"""Of one connection."""

_MAX_PARSERS: Final = 2
"""Long lines that are parsed at once, of all connections: the interpreter's lock lets no more be done, and each takes memory."""
_PARSERS: Final = anyio.lowlevel.RunVar[anyio.CapacityLimiter]("_PARSERS")

_INTERNAL_FAULT: Final = ErrorObject(
    INTERNAL, "the daemon failed at this call; its log says more", {"reason": "internal"}
)

logger = logging.getLogger(__name__)


class Handler(Protocol):
    """Answers what the peer asks."""

    def observe(self, notification: Request) -> bool:
        """Take a notification at once, ahead of calls that wait. False: queue it with them."""
        ...

    def runs_beside(self, method: str) -> bool:
        """Whether calls of this method run beside the others instead of in their order."""
        ...

    async def handle(self, request: Request) -> JsonValue:
        """The result of one call.

        :raises ZeroclawError: it failed; the peer is told.
        """
        ...


@dataclass(slots=True)
class _Asked:
    """A request of ours that the peer has not answered."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None


class Connection:
    """A JSON-RPC peer over a transport. :meth:`run` is its whole life; everything else works while that runs.

    :param pace: what the records of the peer's faults count against, beside their own bound.
    """

    def __init__(
        self,
        transport: Transport,
        handler: Handler,
        *,
        limits: ConnectionLimits | None = None,
        clock: Clock | None = None,
        pace: Callable[[], Pace | None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._handler = handler
        self._limits = limits or ConnectionLimits()
        self._clock = clock or SystemClock()
        self._inbox = Mailbox[Request | Rejected](self._limits.inbound_requests, self._limits.inbound_bytes)
        self._writer = FrameWriter(
            transport,
            self._limits,
            self._clock,
            alone=lambda: not self._inbox.waiting,
            at_loss=self.disconnect,  # Nobody reads any more: read nothing that would have to be answered.
        )
        self._life = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._handshake = anyio.CancelScope()
        self._ready = self._limits.initialize_seconds is None
        self._hung_up = False
        self._hang_up_calls: dict[object, Callable[[], None]] = {}
        self._all_answered = anyio.Event()
        self._asked: dict[str, _Asked] = {}
        self._last_words: ErrorObject | None = None
        self._next_id = 0
        self._faults = Ration(_MAX_FAULTS_RECORDED, pace)
        self._frame_left = self._limits.frame_seconds

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        return self._transport.peer

    @property
    def hung_up(self) -> bool:
        """Whether the peer is gone."""
        return self._hung_up

    # What the owner of a connection does with it.

    async def run(self) -> None:
        """Serve until the peer is gone, :meth:`disconnect` is called, or the connection breaks a limit."""
        try:
            with self._life:
                await self._live()
                with self._clock.move_on_after(self._limits.linger_seconds):
                    await self._transport.farewell()
        finally:
            self._hang_up()
            self._writer.close()
            self._transport.close()

    def mark_ready(self) -> None:
        """The handshake succeeded: its deadline is off, and the one of frames is on."""
        self._ready = True
        self._transport.admitted()
        self._handshake.cancel()

    def disconnect(self) -> None:
        """Read nothing more; answer what was asked, then end."""
        self._reading.cancel()

    def abort(self) -> None:
        """End at once: no further byte is written and every call is cancelled."""
        self._hang_up()
        self._writer.silence()
        self._life.cancel()

    @contextmanager
    def at_hang_up(self, call: Callable[[], None]) -> Generator[None]:
        """While the block runs, have ``call`` called once when the peer hangs up; at once if it has already."""
        if self._hung_up:
            call()
            yield
            return
        key = object()
        self._hang_up_calls[key] = call
        try:
            yield
        finally:
            self._hang_up_calls.pop(key, None)

    # What calls do with it.

    async def notify(self, method: str, params: JsonValue) -> None:
        """Send a notification. Waits while the queue is full; does nothing once nobody reads.

        :raises FrameTooLarge: it does not fit in a line; nothing was sent.
        """
        await self._writer.send(self._writer.fitting(notification_line(method, params)))

    async def request(self, method: str, params: JsonValue) -> JsonValue:
        """Ask the peer and wait for its answer. Whoever calls bounds the time.

        :raises RemoteError: the peer answered with an error.
        :raises ConnectionLost: the peer can answer no more.
        :raises FrameTooLarge: it does not fit in a line; nothing was sent.
        """
        request_id = f"zc-out-{self._next_id}"
        line = self._writer.fitting(request_line(method, params, request_id))
        self._next_id += 1
        asked = self._asked[request_id] = _Asked()
        try:
            if not self._hung_up:
                await self._writer.send(line)
                await asked.answered.wait()
        finally:
            del self._asked[request_id]
        if asked.response is None:
            raise ConnectionLost(f"the connection ended before {method} was answered", self._last_words)
        if asked.response.error is not None:
            raise RemoteError(asked.response.error)
        return asked.response.result

    # The life of a connection.

    async def _live(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._await_handshake)
            tasks.start_soon(self._writer.run)
            ending = await self._converse()
            self._handshake.cancel()
            if ending is None:
                self._writer.close()
            else:
                await self._end_with(ending)
                tasks.cancel_scope.cancel()

    async def _converse(self) -> ZeroclawError | None:
        """Read and answer until the peer hangs up; the error to end with, if there is one."""
        ending: ZeroclawError | None = None
        async with anyio.create_task_group() as calls:
            calls.start_soon(self._serve_in_order)
            ending = await self._read()
            self._inbox.close()
            self._hang_up()
            if ending is not None:
                with self._clock.move_on_after(self._limits.terminal_seconds):
                    await self._all_answered.wait()
                calls.cancel_scope.cancel()
        return ending

    async def _end_with(self, error: ZeroclawError) -> None:
        """Write a last error and end the stream so that the peer can read both, whatever it still sends (RPC-234)."""
        self._blame("a connection broke a limit", error.code, peer=self.peer.label)
        with self._clock.move_on_after(self._limits.terminal_seconds):
            await self._writer.send(error_line(error_object(error), None))
            self._writer.close()
            await self._writer.emptied()
        await linger(self._transport, self._clock, self._limits.linger_seconds)

    async def _await_handshake(self) -> None:
        if self._limits.initialize_seconds is None:
            return
        with self._handshake:
            await self._clock.sleep(self._limits.initialize_seconds)
            if self._ready:  # it succeeded in this very moment
                return
            self._blame("no initialize came in time", "initialize_timeout", peer=self.peer.label)
            self.abort()

    def _hang_up(self) -> None:
        self._hung_up = True
        for asked in self._asked.values():
            asked.answered.set()
        while self._hang_up_calls:
            _, call = self._hang_up_calls.popitem()
            call()

    # Reading.

    async def _read(self) -> ZeroclawError | None:
        with self._reading:
            try:
                await self._read_lines()
            except (FrameTooLarge, FrameTimeout) as error:
                return error
        return None

    async def _read_lines(self) -> None:
        buffer = LineBuffer(self._limits.frame_bytes)
        while data := await self._receive(buffer):
            if b"\n" in data:
                self._frame_left = self._limits.frame_seconds
            buffer.feed(data)
            while (line := buffer.next_line()) is not None:
                await self._take(line)
        if (line := buffer.last_line()) is not None:
            await self._take(line)

    async def _receive(self, buffer: LineBuffer) -> bytes:
        """Some bytes; while a line is unfinished, the time spent waiting here is the line's (RPC-027, RPC-028)."""
        while buffer.unfinished and self._frame_left is not None:
            began = self._clock.now()
            with self._clock.move_on_after(self._frame_left):
                data = await self._transport.receive(READ_BYTES)
                self._frame_left -= self._clock.now() - began
                return data
            if self._ready and self._limits.frame_seconds is not None:
                raise FrameTimeout(round(self._limits.frame_seconds * 1000))
            self._frame_left = self._limits.frame_seconds
        return await self._transport.receive(READ_BYTES)

    async def _take(self, line: bytes) -> None:
        values = self._limits.frame_values
        if len(line) <= self._limits.inline_bytes:
            envelope = classify(line, values)
        else:
            envelope = await _classified_beside(line, values)
        self._last_words = None
        match envelope:
            case Request() if not envelope.wants_reply and self._handler.observe(envelope):
                pass
            case Request():
                await self._queue(envelope, weight(line))
            case Rejected():
                self._blame("a malformed frame", envelope.error.code, length=len(line))
                await self._queue(envelope, 0)
            case Response():
                self._resolve(envelope, len(line))
                # Whoever waited goes on before what came after the answer is looked at.
                await anyio.lowlevel.checkpoint()
            case Dropped():
                self._blame(
                    "a malformed response", "response_dropped", length=len(line), fault=envelope.fault
                )

    async def _queue(self, item: Request | Rejected, size: int) -> None:
        """Queue what is to be answered. While there is no room nothing is read, so whether the peer goes is watched here."""
        if self._inbox.put_nowait(item, size):
            return

        async def watch() -> None:
            await self._transport.abandoned()
            self.disconnect()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await self._inbox.put(item, size)
            tasks.cancel_scope.cancel()

    def _blame(self, message: str, action: str, *, length: int | None = None, **facts: str) -> None:
        """Warn of what the peer sent or asked for, unless it was warned of often enough: one peer must not fill the log."""
        if (words := self._faults.spend(message)) is not None:
            sized: dict[str, Any] = {} if length is None else {"length": length}
            record(logger, logging.WARNING, words, action=action, **sized, **facts)

    def _resolve(self, response: Response, length: int) -> None:
        asked = self._asked.get(response.id) if isinstance(response.id, str) else None
        if asked is None or asked.response is not None:
            self._blame("a response to nothing", "response_unknown", length=length)
            if response.id is None:
                self._last_words = response.error  # if nothing follows, it says why
            return
        asked.response = response
        asked.answered.set()

    # Answering.

    async def _serve_in_order(self) -> None:
        async with anyio.create_task_group() as beside:
            async for item in self._inbox:
                if isinstance(item, Request) and self._handler.runs_beside(item.method):
                    beside.start_soon(self._answer, item)
                    # It begins before what came after it: a cancel must find the prompt that it follows.
                    await anyio.lowlevel.checkpoint()
                else:
                    await self._answer(item)
        self._all_answered.set()

    async def _answer(self, item: Request | Rejected) -> None:
        if isinstance(item, Rejected):
            await self._writer.send(error_line(error_object(item.error), item.id))
            return
        line = await self._outcome(item)
        if not item.wants_reply:
            return
        if not self._writer.fits(line):
            self._blame("an answer does not fit in a line", "answer_too_large", length=len(line))
            line = error_line(error_object(AnswerTooLarge(self._limits.sent_bytes)), item.id)
        await self._writer.send(line)

    async def _outcome(self, request: Request) -> bytes:
        try:
            try:
                return result_line(await self._handler.handle(request), request.id)
            except ZeroclawError as error:
                return error_line(error_object(error), request.id)
        except Exception:
            # A fault of ours in one call must not end the connections and turns of everybody else.
            logger.exception("a call of %s failed unexpectedly", self.peer.label)
            return error_line(_INTERNAL_FAULT, request.id)


async def _classified_beside(line: bytes, max_values: int | None) -> Envelope:
    """What a long line is, found in a thread: it holds up nobody else (RPC-031)."""
    limiter = _PARSERS.get(None)
    if limiter is None:
        _PARSERS.set(limiter := anyio.CapacityLimiter(_MAX_PARSERS))
    return await anyio.to_thread.run_sync(classify, line, max_values, limiter=limiter)
