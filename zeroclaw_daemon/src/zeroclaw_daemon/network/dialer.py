"""The dialer of a daemon's plugin instances: granted by the configuration in force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zeroclaw_daemon.config.egress_remedies import fit_remedies
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.network import granted
from zeroclaw_daemon.network.log import instance_of
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.records import EgressLog, EgressRecord
from zeroclaw_host.egress.resolving import Resolver
from zeroclaw_host.egress.source import RowPolicies


def network_of(
    current: Callable[[], Snapshot], log: EgressLog, *, resolver: Resolver | None = None
) -> Dialer:
    """Makes connections as the configuration in force grants them, asked at each request (PLG-176).

    While ``[plugins]`` cannot be read, every request is refused (D-17).

    :param current: the configuration in force.
    :param resolver: finds addresses; the system's when left out.
    """
    policies = RowPolicies(lambda identity: granted(current(), identity))
    return Dialer(policies, _FittedLog(log, current), resolver=resolver)


class _FittedLog:
    """Hands records on, with remedies that can be followed with the configuration in force (PLG-184, PLG-206)."""

    def __init__(self, log: EgressLog, current: Callable[[], Snapshot]) -> None:
        self._log = log
        self._current = current

    def emit(self, record: EgressRecord) -> None:
        """See :class:`~zeroclaw_host.egress.records.EgressLog`."""
        if record.remedies:
            fitted = fit_remedies(record.remedies, instance_of(record), self._current())
            record = replace(record, remedies=fitted)
        self._log.emit(record)
