"""A guest's connection: which operation is allowed in which phase, and what a guest is told.

It is in its negotiation or its application, and each has its own way to send and to receive. The one of the other phase is
refused and takes nothing. After the end there is no phase: what is left can be received, and then why it ended.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.stream import (
    CHUNK_BYTES,
    BufferedStream,
    PlaintextWaiting,
    StreamEnd,
    StreamOver,
    WritesWaiting,
)
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.imports.sockets.failures import (
    BACKPRESSURE,
    CHUNK_TOO_LARGE,
    CLOSED,
    INVALID_STATE,
    TLS_HANDSHAKE_FAILED,
)
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.values import OK, Err, Ok

TLS_SECONDS: Final = 30.0
"""What one TLS handshake may take, besides the time of the call it is made in."""

MAX_SEND_BYTES: Final = CHUNK_BYTES
"""Most bytes of one send."""

_IDLE: Final = Ok(("idle", None))

_REASONS: Final = {
    StreamEnd.PEER: "peer-closed",
    StreamEnd.FAILED: "io-error",
    StreamEnd.HERE: "host-closed",
    StreamEnd.TLS: "tls-upgrade-failed",
}


class Phase(Enum):
    """How far a connection is."""

    NEGOTIATION = auto()
    """In plaintext, and to go on under TLS."""
    UPGRADING = auto()
    """The handshake is under way, or has failed."""
    APPLICATION = auto()
    """As its mode has it."""


class GuestConnection:
    """The resource ``connection``. Used by one guest, whose calls may be many; closing it may come from any thread.

    :param connection: open, in the state its mode begins with.
    :param start_tls: whether it begins with a negotiation in plaintext.
    :raises ConnectionClosed: it is closed.
    :raises OSError: the process has no descriptors left.
    """

    def __init__(self, connection: Connection, *, start_tls: bool) -> None:
        self._phase = Phase.NEGOTIATION if start_tls else Phase.APPLICATION
        self._frame: CallFrame | None = None
        self._stream = BufferedStream(connection, self._changed)

    def send(self, frame: CallFrame, data: bytes, phase: Phase) -> Ok | Err:
        """Send bytes, and wait until the system has them.

        :param phase: in which the guest takes the connection to be.
        :raises DeadlineExceeded: the peer takes nothing, and the call's deadline passed.
        :raises CallCancelled: the call was given up.
        """
        if self._stream.end is not None:
            return CLOSED
        if self._phase is not phase:
            return INVALID_STATE
        if len(data) > MAX_SEND_BYTES:
            return CHUNK_TOO_LARGE
        self._frame = frame
        try:
            write = self._stream.send(data)
            frame.wait(lambda: write.sent is not None, "a peer to take what is sent")
        except StreamOver:
            return CLOSED
        except WritesWaiting:
            return BACKPRESSURE
        finally:
            self._frame = None
        return OK if write.sent else CLOSED

    def receive(self, phase: Phase) -> Ok | Err:
        """The next bytes, without waiting. Nothing is lost by an operation that its phase refuses.

        :param phase: in which the guest takes the connection to be.
        """
        # Asked before the buffer is: what arrives until the end is there by then.
        end = self._stream.end
        if self._phase is phase:
            data = self._stream.take()
        elif self._stream.pending:
            return INVALID_STATE
        else:
            data = None
        if data is not None:
            return Ok(("data", data))
        if end is not None:
            return Ok(("closed", _REASONS[end]))
        # There is nothing that a reader too early could take from the negotiation; one too late has no phase to wait for.
        early = self._phase is not phase and phase is Phase.NEGOTIATION
        return INVALID_STATE if early else _IDLE

    def pending(self) -> int:
        """Chunks that wait to be received."""
        return self._stream.pending

    def upgrade(self, frame: CallFrame) -> Ok | Err:
        """Go on under TLS, and wait until it is so. A connection that cannot is closed: never does it go on in plaintext.

        :raises DeadlineExceeded: the call's deadline passed.
        :raises CallCancelled: the call was given up.
        """
        if self._phase is not Phase.NEGOTIATION:
            return INVALID_STATE
        deadline = Deadline(TLS_SECONDS)
        results: list[ZeroclawError | None] = []

        def done(error: ZeroclawError | None) -> None:
            results.append(error)
            frame.notify()

        try:
            self._stream.secure(deadline, done)
        except (PlaintextWaiting, StreamOver):
            return INVALID_STATE
        self._phase = Phase.UPGRADING
        try:
            frame.wait(lambda: bool(results), "a TLS handshake")
        except BaseException:
            deadline.cancel()
            raise
        if results[0] is not None:
            return TLS_HANDSHAKE_FAILED
        self._phase = Phase.APPLICATION
        return OK

    def close(self) -> None:
        """End it: socket and slot are free when this returns, unless a handshake has to let go of them first."""
        self._stream.close()

    def _changed(self) -> None:
        frame = self._frame
        if frame is not None:
            frame.notify()
