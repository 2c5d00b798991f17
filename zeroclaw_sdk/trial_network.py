"""The network of a plugin that its author tries: what the command line allows, by the authority that decides in a host too."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.policy import EgressPolicy, PolicyField, PolicyInvalid
from zeroclaw_host.egress.records import EgressRecord, ErrorKey
from zeroclaw_host.egress.source import EgressRow, EgressSettings, RowPolicies
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.instance import InstanceIdentity


@dataclass(frozen=True, slots=True)
class Reach:
    """What a plugin may reach: hosts in the grammar of a manifest, and whether their addresses may be private ones."""

    hosts: tuple[str, ...] = ()
    private: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A connection that was not permitted. ``options`` are what permits it; empty where nothing does."""

    transport: str
    host: str
    port: int
    reason: str
    options: tuple[str, ...]


class TrialNetwork:
    """A dialer with exactly these grants, and what it refused.

    :raises UsageError: an entry is no host that can be granted, or private addresses are allowed of none.
    """

    def __init__(self, reach: Reach) -> None:
        if reach.private and not reach.hosts:
            raise UsageError(
                "--allow-private is about the hosts of --allow-host, and there are none", remedy=_help()
            )
        self._row = EgressRow(reach.hosts, reach.hosts if reach.private else ())
        try:
            EgressPolicy.of(self._row.hosts, self._row.allow_private)
        except PolicyInvalid as error:
            said = "; ".join(
                f"{each.entry!a} {each.reason}" for each in error.faults if each.field is PolicyField.HOSTS
            )
            raise UsageError(f"--allow-host: {said}", remedy=_help()) from error
        self._lock = threading.Lock()
        self._refusals: list[Refusal] = []
        self.dialer = Dialer(RowPolicies(self._granted), self)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What was refused so far, each once."""
        with self._lock:
            return tuple(dict.fromkeys(self._refusals))

    def emit(self, record: EgressRecord) -> None:
        """See :meth:`~zeroclaw_host.egress.records.EgressLog.emit`. Keeps the refusals."""
        if record.error_key is ErrorKey.DENIED:
            refusal = self._refusal(record)
            with self._lock:
                self._refusals.append(refusal)

    def _granted(self, identity: InstanceIdentity) -> tuple[EgressSettings, EgressRow | None]:
        return EgressSettings(), self._row

    def _refusal(self, record: EgressRecord) -> Refusal:
        facts = record.attributes
        port = facts["port"]
        assert isinstance(port, int)
        options: list[str] = []
        for remedy in record.remedies:
            name = remedy.arguments.get("path", "").rpartition(".")[2]
            if name == PolicyField.HOSTS.value:
                # The list as it would have to be; what is allowed already need not be said again.
                for host in remedy.arguments["value"].split(","):
                    if host not in self._row.hosts:
                        options += ["--allow-host", host]
            elif name == PolicyField.ALLOW_PRIVATE.value:
                options.append("--allow-private")
        return Refusal(
            str(facts["transport"]), str(facts["host"]), port, str(facts["reason"]), tuple(options)
        )


def _help() -> Remedy:
    return Remedy(RemedyAction.RUN_HELP, {"command": "run"})
