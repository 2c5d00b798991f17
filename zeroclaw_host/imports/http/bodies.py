"""``outgoing-body``, ``incoming-body`` and ``future-trailers``: content, one way and the other.

A body's stream is its child. By the standard a body that goes before its stream ends the guest; pollables, like those of
``wasi:io``, may outlive what they look at.
"""

from __future__ import annotations

from typing import Final

from zeroclaw_host.egress.http.body import Upload, UploadState
from zeroclaw_host.egress.http.exchange import Exchange
from zeroclaw_host.imports.http.error_codes import PROTOCOL_ERROR, ErrorCode, body_size, code_of, stream_error
from zeroclaw_host.imports.http.fields import Fields
from zeroclaw_host.imports.http.rules import broken_rule, too_much_held
from zeroclaw_host.imports.wasi.streams import MAX_CHUNK, InputStream, OutputStream, Pollable, StreamEnded
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.holdings import Holding
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import OK, Err, Ok

_BEFORE_CONTENT: Final = frozenset({b"content-length", b"host"})
"""Fields that say where a message ends or goes. In trailers they are too late, and could be taken for those of another one."""

# --- out ------------------------------------------------------------------------------------------------------------


class OutgoingBody:
    """The content of a request.

    :param declared: how long it has to be, where ``content-length`` says so.
    :param holding: counts what is written before it is on its way. From then on connections are what is counted.
    """

    def __init__(self, upload: Upload, declared: int | None, holding: Holding) -> None:
        self.upload = upload
        self.declared = declared
        self.holding: Holding | None = holding
        self.written = 0
        self.chunked = declared is None
        """Whether trailers can follow it; whoever sends the request knows better."""
        self.stream: BodyOutput | None = None
        self.stream_alive = False

    def finish(self, trailers: Fields | None) -> ErrorCode | None:
        """All of it was written; or what is wrong with it, which gives the request up."""
        if self.declared is not None and self.written != self.declared:
            self.upload.abandon()
            return body_size(self.written)
        lines = () if trailers is None else trailers.as_sent()
        if lines and (not self.chunked or any(name in _BEFORE_CONTENT for name, _ in lines)):
            self.upload.abandon()
            return PROTOCOL_ERROR
        self.upload.finish(lines)
        return None

    def close(self) -> None:
        """Dropped: a request that was not finished is given up.

        :raises GuestTrap: its stream is still there.
        """
        if self.upload.abandon() and self.holding is not None:
            self.holding.resize(0)
        if self.stream_alive:
            raise broken_rule("an outgoing-body was dropped before its stream")


class BodyOutput(OutputStream):
    """The stream into an outgoing body."""

    def __init__(self, body: OutgoingBody) -> None:
        super().__init__()
        self._body = body

    def budget(self) -> int:
        """What there is room for."""
        if self._body.upload.state is not UploadState.OPEN:
            raise StreamEnded
        return min(self._body.upload.room, MAX_CHUNK)

    def accept(self, frame: CallFrame, contents: bytes) -> None:
        """Take bytes, unless there are more than were declared."""
        body = self._body
        if body.upload.state is not UploadState.OPEN:
            raise StreamEnded
        written = body.written + len(contents)
        if body.declared is not None and written > body.declared:
            body.upload.abandon()
            raise StreamEnded(stream_error(body_size(written)))
        if body.holding is not None and not body.holding.grow(len(contents)):
            raise too_much_held()
        body.written = written
        body.upload.write(contents)

    def ready(self) -> bool:
        """Whether there is room, or will be none."""
        return self._body.upload.state is not UploadState.OPEN or self._body.upload.room > 0

    def close(self) -> None:
        """Dropped; the body goes on."""
        self._body.stream_alive = False


def _write(frame: CallFrame, body: OutgoingBody) -> Ok | Err:
    if body.stream is not None:
        return Err()
    body.stream = BodyOutput(body)
    body.stream_alive = True
    return Ok(body.stream)


def _finish_outgoing(frame: CallFrame, body: OutgoingBody, trailers: Fields | None) -> Ok | Err:
    if body.stream_alive:
        body.upload.abandon()
        raise broken_rule("an outgoing-body was finished before its stream was dropped")
    wrong = body.finish(trailers)
    return OK if wrong is None else Err(wrong)


# --- in -------------------------------------------------------------------------------------------------------------


class IncomingBody:
    """The content of a response. Dropping it ends the exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.taken = False
        self.stream_alive = False

    def close(self) -> None:
        """Dropped.

        :raises GuestTrap: its stream is still there.
        """
        self.exchange.close()
        if self.stream_alive:
            raise broken_rule("an incoming-body was dropped before its stream")


class BodyInput(InputStream):
    """The stream out of an incoming body."""

    def __init__(self, body: IncomingBody) -> None:
        self._body = body
        self._download = body.exchange.download

    def ready(self) -> bool:
        """Whether there is something, or the end."""
        return self._download.ready

    def read(self, limit: int) -> bytes:
        """What came; then the end, or what went wrong."""
        if self._download.exhausted:
            failure = self._download.failure
            raise StreamEnded(None if failure is None else stream_error(code_of(failure)))
        return self._download.read(limit)

    def close(self) -> None:
        """Dropped; the body goes on."""
        self._body.stream_alive = False


class FutureTrailers:
    """The trailers of a response, once its content is over."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.given = False

    def close(self) -> None:
        """Dropped: nobody wants the rest."""
        self.exchange.close()


def _stream(frame: CallFrame, body: IncomingBody) -> Ok | Err:
    if body.taken:
        return Err()
    body.taken = body.stream_alive = True
    return Ok(BodyInput(body))


def _finish_incoming(frame: CallFrame, body: IncomingBody) -> FutureTrailers:
    if body.stream_alive:
        body.exchange.close()
        raise broken_rule("an incoming-body was finished before its stream was dropped")
    body.exchange.download.discard()
    return FutureTrailers(body.exchange)


def _subscribe_trailers(frame: CallFrame, future: FutureTrailers) -> Pollable:
    download = future.exchange.download
    return Pollable(lambda: download.ended)


def _get_trailers(frame: CallFrame, future: FutureTrailers) -> Ok | Err | None:
    download = future.exchange.download
    if not download.ended:
        return None
    if future.given:
        return Err()
    future.given = True
    if download.failure is not None:
        return Ok(Err(code_of(download.failure)))
    if not download.trailers:
        return Ok(Ok(None))
    return Ok(Ok(Fields.received(download.trailers, frame.table.holdings.open())))


FUNCTIONS: Final = (
    HostFunction("[method]outgoing-body.write", _write),
    HostFunction("[static]outgoing-body.finish", _finish_outgoing),
    HostFunction("[method]incoming-body.stream", _stream),
    HostFunction("[static]incoming-body.finish", _finish_incoming),
    HostFunction("[method]future-trailers.subscribe", _subscribe_trailers),
    HostFunction("[method]future-trailers.get", _get_trailers),
)
