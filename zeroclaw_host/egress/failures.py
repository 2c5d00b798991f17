"""What can go wrong between a request and its connection, each with the stage it happened in.

None of the messages holds a secret, and none is for the guest: every transport answers with its own interface's error.
"""

from __future__ import annotations

from enum import StrEnum

from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError


class Stage(StrEnum):
    """Where a request was when its time was over."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    RECEIVE = "receive"


class EgressRefused(ZeroclawError):
    """The policy does not let this connection be made. ``decision`` says why."""

    code = "egress_refused"
    kind = Kind.REFUSED

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        reason = decision.reason
        assert reason is not None, "an allowed request is not refused"
        super().__init__(
            f"the destination is not permitted: {reason.value} ({decision.steps[-1].by})",
            remedies=decision.remedies,
            details={"reason": reason.value, "transport": decision.request.transport.value},
        )


class ResolutionFailed(ZeroclawError):
    """The host's addresses could not be found. ``empty``: the answer came and held none."""

    code = "resolution_failed"
    kind = Kind.UNAVAILABLE

    def __init__(self, message: str, *, empty: bool = False) -> None:
        self.empty = empty
        super().__init__(message, details={"empty": empty})


class ConnectionLimit(ZeroclawError):
    """The instance holds as many connections as it may. ``details`` holds ``limit`` and ``held``."""

    code = "connection_limit"
    kind = Kind.LIMIT

    def __init__(self, limit: int, held: int) -> None:
        super().__init__(
            f"the instance holds {held} connections, and may hold {limit}",
            remedy=Remedy(RemedyAction.RAISE_LIMIT, {"limit": "max_connections_per_instance"}),
            details={"limit": limit, "held": held},
        )


class TimeIsUp(ZeroclawError):
    """The time for a connection, or for reading or writing, is over. ``stage`` says what was being waited for."""

    code = "egress_timeout"
    kind = Kind.LIMIT

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(f"the time is over ({stage.value})", details={"stage": stage.value})


class DialCancelled(ZeroclawError):
    """Whoever asked for the connection no longer wants it."""

    code = "egress_cancelled"
    kind = Kind.UNAVAILABLE

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(f"the connection was given up ({stage.value})", details={"stage": stage.value})


class AttemptFailed(ZeroclawError):
    """One address did not do; the next one is tried. A transport raises it in its own opening."""

    code = "connect_failed"
    kind = Kind.UNAVAILABLE


class ConnectFailed(AttemptFailed):
    """No address could be connected to. ``refused``: every one of them said no at once."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(message, details={"refused": refused})


class TlsFailed(AttemptFailed):
    """The peer's certificate is not trusted, is for another host, or the handshake went wrong otherwise."""

    code = "tls_failed"


class TlsConfigurationFailed(ZeroclawError):
    """The certificates of a profile cannot be used: a secret is missing, or its text is no PEM of that kind."""

    code = "tls_configuration_failed"
    kind = Kind.INVALID


class ConnectionBroken(ZeroclawError):
    """An open connection failed."""

    code = "connection_broken"
    kind = Kind.UNAVAILABLE


class TlsBroken(ConnectionBroken):
    """TLS ended an open connection: an alert came, or what came was no TLS. A peer that demands a client certificate says
    so only now, in TLS 1.3."""

    code = "tls_broken"


class ConnectionClosed(ZeroclawError):
    """The connection was closed on this side."""

    code = "connection_closed"
    kind = Kind.UNAVAILABLE
