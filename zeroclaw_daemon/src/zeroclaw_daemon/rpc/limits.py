"""What a local client may hold, and for how long. Every number is an argument; these are the shipped values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES
from zeroclaw_daemon.strict_json import MAX_VALUES

REMOTE_REFUSAL_SECONDS: Final = 5.0
"""To tell a refused client of another machine so: TLS and the WebSocket are negotiated before."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds of one connection. Times are in seconds."""

    frame_bytes: int = MAX_FRAME_BYTES
    """Longest line, its line end included (RPC-021)."""
    sent_bytes: int = MAX_FRAME_BYTES
    """Longest line that is sent: the bound binds both peers (RPC-251)."""
    frame_values: int | None = MAX_VALUES
    """Values in one line (RPC-233); None for any number."""
    inline_bytes: int = 64 * 1024
    """A longer line is parsed in a thread, so that others are served meanwhile; a shorter one takes milliseconds at most."""
    initialize_seconds: float | None = 30.0
    """From the accept to a successful ``initialize`` (RPC-024…026); None where there is no handshake to wait for."""
    frame_seconds: float | None = 30.0
    """From a line's first byte to its end (RPC-027); None to wait for ever."""
    write_seconds: float = 30.0
    """For the peer to take one frame (RPC-030)."""
    outbound_frames: int = 64
    """Frames waiting to be written; whoever produces more waits."""
    outbound_bytes: int = 16 * 1024 * 1024
    """Bytes of these frames; while as many wait, whoever produces more waits too. The last one may go beyond."""
    inbound_requests: int = 64
    """Requests read and not yet begun; while there are as many, nothing more is read."""
    inbound_bytes: int = 16 * 1024 * 1024
    """Memory that these requests take, about; while it is as much, nothing more is read. The last one may go beyond."""
    terminal_seconds: float = 5.0
    """To deliver the error that ends a connection."""
    linger_seconds: float = 1.0
    """How long the socket stays after the daemon's last byte, so that the client can read it (RPC-234)."""

    def __post_init__(self) -> None:
        bounds = [getattr(self, name) for name in self.__slots__]
        if any(bound is not None and bound <= 0 for bound in bounds):
            raise ValueError("every limit of a connection must be positive")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The bounds of one listener. Times are in seconds."""

    connection: ConnectionLimits = ConnectionLimits()
    max_connections: int = 512
    """Connections open at once, read when the listener starts (RPC-033, RPC-037)."""
    refusal_notices: int = 16
    """Refused connections that are being told so at once; further ones are closed without a word (RPC-034)."""
    refusal_seconds: float = 0.25
    """To write one such notice."""
    accept_pause_seconds: float = 0.05
    """Pause after an accept that failed for a passing reason."""
    drain_seconds: float = 5.5
    """For connections to unwind when the daemon stops."""

    def __post_init__(self) -> None:
        if self.max_connections < 1 or self.refusal_notices < 0:
            raise ValueError("a listener serves at least one connection")
