"""What the network authority tells the log: values, without secrets and without what a connection carried."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from zeroclaw_host.egress.addresses import AddressClass
from zeroclaw_host.egress.anchors import TrustAnchors
from zeroclaw_host.egress.decision import Authorisation, Decision
from zeroclaw_host.egress.failures import ConnectionLimit
from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.errors import Remedy, ZeroclawError
from zeroclaw_host.package.hosts import address_text
from zeroclaw_host.visible import visible

_SHOWN_HOST: Final = 256
"""Characters of a host that a guest named. The longest name there can be is shorter."""

_SHOWN_TEXT: Final = 1024
"""Characters of a reason. A row with thousands of bad entries has each of them in it."""

_SHOWN_MANY: Final = 32
"""Addresses of a host, and other lists, in one record. Whoever answers for a name may give it thousands, and a record that is too
large is dropped."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING}

_logger = logging.getLogger("zeroclaw_host.egress")


class ErrorKey(StrEnum):
    """What a record is about, for those who search for it."""

    DENIED = "plugin_egress_denied"
    CONNECTION_LIMIT = "plugin_egress_connection_limit"
    TRUST_ANCHORS = "plugin_egress_trust_anchors"
    OPENED = "plugin_egress_opened"
    FAILED = "plugin_egress_failed"
    CONNECTION = "plugin_egress_connection"


@dataclass(frozen=True, slots=True)
class EgressRecord:
    """One record. ``attributes`` are plain values; ``remedies`` are for whoever shows the record to a person."""

    error_key: ErrorKey
    level: str
    message: str
    attributes: Mapping[str, object]
    remedies: tuple[Remedy, ...] = field(default=())


class EgressLog(Protocol):
    """Takes records. Must not block and must not raise; callable from any thread."""

    def emit(self, record: EgressRecord) -> None:
        """Take one record."""
        ...


class MemoryEgressLog:
    """A log that keeps its records in a list, for tests and tools."""

    def __init__(self) -> None:
        self.records: list[EgressRecord] = []

    def emit(self, record: EgressRecord) -> None:
        """Append the record."""
        self.records.append(record)


class StandardEgressLog:
    """Hands records to Python's :mod:`logging`, under ``zeroclaw_host.egress``, the attributes as ``record.egress``."""

    def emit(self, record: EgressRecord) -> None:
        """Log the record at its level."""
        level = _LEVELS[record.level]
        _logger.log(
            level, record.message, extra={"error_key": record.error_key.value, "egress": record.attributes}
        )


def denial(decision: Decision) -> EgressRecord:
    """A refusal (PLG-184)."""
    reason = decision.reason
    assert reason is not None, "an allowed request is no denial"
    return EgressRecord(
        ErrorKey.DENIED,
        "warn",
        "a plugin's connection was refused",
        {
            **_request(decision.request),
            "reason": reason.value,
            "rule": decision.rule,
            "steps": tuple(
                f"{step.check.value} {'passed' if step.passed else 'refused'}: {_shown(step.by, _SHOWN_TEXT)}"
                for step in decision.steps
            ),
        },
        decision.remedies,
    )


def limit_reached(request: EgressRequest, limit: ConnectionLimit, rule: str | None = None) -> EgressRecord:
    """An allowed request that found no slot."""
    remedies = () if limit.remedy is None else (limit.remedy,)
    return EgressRecord(
        ErrorKey.CONNECTION_LIMIT,
        "warn",
        "a plugin's connection found all places taken",
        {**_request(request), "rule": rule, **limit.details},
        remedies,
    )


def anchors_read(anchors: TrustAnchors) -> EgressRecord:
    """What the process trusts from now on (PLG-362)."""
    return EgressRecord(
        ErrorKey.TRUST_ANCHORS,
        "info" if anchors.machine_loaded and not anchors.problems else "warn",
        "plugins trust the bundled authorities and this machine's"
        if anchors.machine_loaded
        else "plugins trust the bundled authorities alone",
        {
            "machine_loaded": anchors.machine_loaded,
            "bundled": len(anchors.bundled),
            "machine": len(anchors.machine),
            "problems": tuple(_shown(problem, _SHOWN_TEXT) for problem in anchors.problems[:_SHOWN_MANY]),
        },
    )


def connection_opened(decision: Decision, address: Address, kind: AddressClass) -> EgressRecord:
    """An allowed request, and the address that it was connected to: what a plugin uses from now on."""
    return EgressRecord(
        ErrorKey.OPENED,
        "debug",
        "a plugin's connection was opened",
        {
            **_request(decision.request),
            "rule": decision.rule,
            "addresses": tuple(map(address_text, decision.addresses[:_SHOWN_MANY])),
            "address_count": len(decision.addresses),
            "address": address_text(address),
            "address_class": kind.value,
        },
    )


def connection_failed(granted: Authorisation, failure: ZeroclawError) -> EgressRecord:
    """A request that the grant let pass, and no connection came of it."""
    return EgressRecord(
        ErrorKey.FAILED,
        "info",
        "a plugin's connection could not be made",
        {
            **_request(granted.request),
            "rule": granted.rule,
            "failure": failure.code,
            "stage": failure.details.get("stage"),
            "because": _shown(failure.message, _SHOWN_TEXT),
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What became of a connection."""

    address: str
    sent: int
    received: int
    seconds: float


def connection_ended(decision: Decision, usage: Usage) -> EgressRecord:
    """A connection that was made, at its end: what a plugin really used."""
    return EgressRecord(
        ErrorKey.CONNECTION,
        "debug",
        "a plugin's connection ended",
        {
            **_request(decision.request),
            "rule": decision.rule,
            "address": usage.address,
            "bytes_sent": usage.sent,
            "bytes_received": usage.received,
            "duration_ms": round(usage.seconds * 1000),
        },
    )


def _request(request: EgressRequest) -> dict[str, object]:
    return {
        "plugin": request.identity.package,
        "plugin_capability": request.identity.capability.value,
        "plugin_binding": request.identity.binding,
        "transport": request.transport.value,
        "host": _shown(request.host, _SHOWN_HOST),
        "port": request.port,
        "tls_profile": None if request.tls_profile is None else visible(request.tls_profile[:_SHOWN_HOST]),
    }


def _shown(text: str, most: int) -> str:
    """A text, safe to show, and only its beginning where it is long."""
    return visible(text) if len(text) <= most else f"{visible(text[:most])}…"
