"""What the network authority tells, as a daemon keeps it: in its log, in the ledger, and at the terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from zeroclaw_daemon.daemon_log import LogFile, drops_line, log_line, to_do
from zeroclaw_daemon.network.usage import Key, Outcome, Tally
from zeroclaw_daemon.network.usage_ledger import UsageLedger
from zeroclaw_host.egress.addresses import AddressClass
from zeroclaw_host.egress.hosts import RequestHost, parse_request_host
from zeroclaw_host.egress.records import EgressRecord, ErrorKey
from zeroclaw_host.errors import Remedy
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.log_queue import CLOSE_SECONDS, LogQueue
from zeroclaw_host.services.logging import MAX_RECORD_BYTES

MOST_TOLD: Final = 32
"""Different refusals of one instance that a person at the terminal is told. The log has all of them; a plugin that makes up
hosts must not fill a screen with them."""

_EVENTS: Final[Mapping[ErrorKey, tuple[str, str]]] = {
    ErrorKey.DENIED: ("connect", "failure"),
    ErrorKey.CONNECTION_LIMIT: ("connect", "failure"),
    ErrorKey.FAILED: ("connect", "failure"),
    ErrorKey.OPENED: ("connect", "success"),
    ErrorKey.CONNECTION: ("disconnect", "success"),
    ErrorKey.TRUST_ANCHORS: ("load", "success"),
}
"""Action and outcome of a record, in the words that plugins' own records have (``plugin-action``)."""

_ATTRIBUTION: Final = ("plugin", "plugin_capability", "plugin_binding")

Advise = Callable[[Remedy], Mapping[str, object]]
Tell = Callable[[str, Sequence[Remedy]], object]


class NetworkLog:
    """Takes what the network authority tells, to the daemon log and to the ledger. Never waits for a disk. Thread-safe.

    :param file: the daemon log.
    :param ledger: what is really used; closed by who made it.
    :param advise: turns a remedy into what a reader of the log can do.
    :param tell: says a refusal to whoever is at the terminal, with what can be done: each once, and not too many.
    """

    def __init__(self, file: LogFile, ledger: UsageLedger, *, advise: Advise, tell: Tell) -> None:
        self._ledger = ledger
        self._tell = tell
        self._told = _Told()
        self._queue = LogQueue[_Dated](
            lambda record: file.write(_line(record, advise)), lambda drops: file.write(drops_line(drops))
        )

    def emit(self, record: EgressRecord) -> None:
        """See :class:`~zeroclaw_host.egress.records.EgressLog`."""
        dated = _Dated(record)
        if record.error_key is not ErrorKey.TRUST_ANCHORS:
            self._ledger.note(*_used(record, dated.time_ns // 1_000_000))
        if record.level == "warn" and self._told.first_time(record):
            self._tell(_words(record), record.remedies)
        self._queue.emit(dated)

    def close(self, *, seconds: float = CLOSE_SECONDS) -> None:
        """Write what waits, and take no more. Before the file is closed.

        :param seconds: how long to wait for that.
        """
        self._queue.close(seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Dated:
    """A record, and when it was."""

    record: EgressRecord
    time_ns: int = field(default_factory=time.time_ns)

    @property
    def size(self) -> int:
        """Bytes of its texts, nearly: what a guest named is in there several times, and a remedy may hold a whole row. None is
        too large to be written."""
        texts = (*self.record.attributes.values(), *(remedy.arguments for remedy in self.record.remedies))
        return min(sum(len(str(each)) for each in texts), MAX_RECORD_BYTES)


class _Told:
    """Which refusals were said already."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_instance: dict[tuple[object, ...], set[tuple[object, ...]]] = {}

    def first_time(self, record: EgressRecord) -> bool:
        """Whether a refusal like this one is still to be said."""
        facts = record.attributes
        what = record.error_key, facts.get("transport"), facts.get("host"), facts.get("reason")
        with self._lock:
            known = self._by_instance.setdefault(tuple(facts.get(name) for name in _ATTRIBUTION), set())
            if what in known or len(known) >= MOST_TOLD:
                return False
            known.add(what)
            return True


def _words(record: EgressRecord) -> str:
    """A refusal in one line."""
    facts = record.attributes
    if record.error_key is ErrorKey.TRUST_ANCHORS:
        return f"{record.message}: {'; '.join(cast('Sequence[str]', facts['problems']))}"
    who = f"{facts['plugin']} ({facts['plugin_capability']} {facts['plugin_binding']})"
    why = facts.get("reason") or f"{facts.get('held')} are open"
    return f"{record.message}: {who}, {facts['transport']} to {facts['host']} port {facts['port']}: {why}"


def _line(dated: _Dated, advise: Advise) -> dict[str, object]:
    """A record in the daemon log's shape, attributed like a plugin's own (PLG-184)."""
    record = dated.record
    action, outcome = _EVENTS[record.error_key]
    facts = record.attributes
    return log_line(
        time_ns=dated.time_ns,
        severity=record.level,
        message=record.message,
        event={"action": action, "category": "egress", "outcome": outcome},
        attribution={name: facts[name] for name in _ATTRIBUTION if name in facts},
        attributes={
            "error_key": record.error_key.value,
            **{name: value for name, value in facts.items() if name not in _ATTRIBUTION},
            **to_do(record.remedies, advise),
        },
    )


def instance_of(record: EgressRecord) -> InstanceIdentity:
    """Whose request or connection a record is about."""
    facts = record.attributes
    return InstanceIdentity(
        str(facts["plugin"]), Capability(facts["plugin_capability"]), str(facts["plugin_binding"])
    )


def _used(record: EgressRecord, milliseconds: int) -> tuple[Key, Tally]:
    """What the ledger counts of a record."""
    facts = record.attributes
    found = Tally(count=1, rule=str(facts.get("rule") or ""), first=milliseconds, last=milliseconds)
    reason = ""
    match record.error_key:
        case ErrorKey.DENIED:
            outcome, reason = Outcome.REFUSED, str(facts["reason"])
        case ErrorKey.CONNECTION_LIMIT:
            outcome = Outcome.LIMITED
        case ErrorKey.FAILED:
            outcome, reason = Outcome.FAILED, str(facts["failure"])
        case _:
            outcome = Outcome.OPENED
            found.addresses = (str(facts["address"]),)
    if record.error_key is ErrorKey.CONNECTION:  # it was counted when it was opened
        found.count = 0
        found.sent, found.received = cast("int", facts["bytes_sent"]), cast("int", facts["bytes_received"])
    found.private = facts.get("address_class") == AddressClass.PRIVATE.value
    host = parse_request_host(str(facts["host"]))
    key = Key(
        instance=instance_of(record).key,
        outcome=outcome,
        transport=str(facts["transport"]),
        host=host.text if isinstance(host, RequestHost) else str(facts["host"]),
        port=max(cast("int", facts["port"]), 0),
        tls_profile=str(facts.get("tls_profile") or "") if outcome.permitted else "",
        reason=reason,
    )
    return key, found
