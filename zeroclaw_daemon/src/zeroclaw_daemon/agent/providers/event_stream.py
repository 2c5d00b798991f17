"""The events of a streamed answer: bounded in size and in time, whatever the server sends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx
from httpx_sse import EventSource

from zeroclaw_daemon.agent.providers.failures import BrokenOff, Failure
from zeroclaw_daemon.clock import Clock

MEDIA_TYPE: Final = "text/event-stream"
_MARK: Final = "\ufeff".encode()
"""A byte order mark, which may stand at the start of a stream and is none of its text."""
_LINE_ENDS: Final = (b"\n", b"\r")
_BYTES_A_CHARACTER: Final = 4
_FRAME_BYTES: Final = 65_536
"""What an event may hold besides its data."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What an answer may take of memory.

    :param event_characters: the data of one event; a call's arguments may come in one.
    :param answer_bytes: all of it, uncompressed.
    """

    event_characters: int = 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024


LIMITS: Final = StreamLimits()


async def event_data(
    response: httpx.Response, *, clock: Clock, seconds: float, limits: StreamLimits = LIMITS
) -> AsyncGenerator[str, None]:
    """The data of each event, in order. An event that does not end is none.

    :param seconds: how long no line may come. Comments count: servers send them while a model thinks.
    :raises Failure: the server sends nothing for longer, or more than it may.
    :raises httpx.TransportError: the connection broke.
    :raises httpx.DecodingError: the bytes are not compressed the way the server says.
    """
    body = _Body(response, clock, seconds, limits)
    plain = httpx.Response(200, headers={"content-type": MEDIA_TYPE}, stream=body)
    async with aclosing(EventSource(plain).aiter_sse()) as events:
        async for event in events:
            body.since_event = 0
            if len(event.data) > limits.event_characters:
                raise _too_large()
            if event.data:
                yield event.data


class _Body(httpx.AsyncByteStream):
    """The bytes of a response, uncompressed, while they keep coming."""

    def __init__(self, response: httpx.Response, clock: Clock, seconds: float, limits: StreamLimits) -> None:
        self._response = response
        self._clock = clock
        self._seconds = seconds
        self._limits = limits
        self.since_event = 0
        """Bytes since the last event."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        largest = self._limits.event_characters * _BYTES_A_CHARACTER + _FRAME_BYTES
        received = 0
        start: bytes | None = b""
        async with aclosing(self._response.aiter_bytes()) as chunks:  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
            due = self._clock.now() + self._seconds
            while (chunk := await self._next(chunks, due)) is not None:  # pyright: ignore[reportUnknownArgumentType]
                if any(end in chunk for end in _LINE_ENDS):
                    due = self._clock.now() + self._seconds
                if start is not None:
                    start += chunk
                    if _MARK.startswith(start):
                        continue
                    chunk, start = start.removeprefix(_MARK), None
                received += len(chunk)
                self.since_event += len(chunk)
                if received > self._limits.answer_bytes:
                    raise Failure("sent more than one answer may have")
                yield chunk
                if self.since_event > largest:
                    raise _too_large()

    async def _next(self, chunks: AsyncIterator[bytes], due: float) -> bytes | None:
        """The next bytes, or None at the end."""
        chunk: bytes | None = None
        with self._clock.move_on_after(max(0.0, due - self._clock.now())) as waiting:
            chunk = await anext(chunks, None)
        if waiting.cancelled_caught:
            raise BrokenOff(f"sent nothing for {self._seconds:g} seconds in the middle of its answer")
        return chunk


def _too_large() -> Failure:
    return Failure("sent an event that is too large")
