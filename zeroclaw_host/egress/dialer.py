"""The only place that opens a plugin's connections.

One straight line: authorise, resolve once, judge every address, take a slot, connect to those addresses and no others,
TLS for the host's name. One deadline is over all of it. Whatever goes wrong, no socket and no slot stays behind.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Final

from zeroclaw_host.egress.addresses import judge_address
from zeroclaw_host.egress.anchors import PROCESS_ANCHORS, AnchorStore, TrustAnchors
from zeroclaw_host.egress.connection import Connection, connect
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.decision import Authorisation, Decision, PolicyResult, Reason, authorise, judge
from zeroclaw_host.egress.failures import (
    AttemptFailed,
    ConnectFailed,
    ConnectionLimit,
    EgressRefused,
    ResolutionFailed,
    Stage,
    TimeIsUp,
    TlsFailed,
)
from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.egress.policy import PolicyInvalid, PolicySource, PolicyUnavailable
from zeroclaw_host.egress.records import (
    EgressLog,
    Usage,
    anchors_read,
    connection_ended,
    connection_failed,
    connection_opened,
    denial,
    limit_reached,
)
from zeroclaw_host.egress.request import EgressRequest, TlsMode
from zeroclaw_host.egress.resolving import Lookups, Resolver, SystemResolver
from zeroclaw_host.egress.slots import PROCESS_SLOTS, ConnectionSlots, Slot
from zeroclaw_host.egress.tls import MaterialSource, no_material, profile_context
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.package.hosts import address_text

LEAST_ATTEMPT_SECONDS: Final = 2.0
"""What one of several addresses may take before the next one is tried, at least. The time is shared among them otherwise,
so that an address that swallows everything does not take it from those that answer."""

Establish = Callable[[Connection, Deadline], object]
"""A transport's own opening on a fresh connection, such as an upgrade.

Raises :class:`~zeroclaw_host.egress.failures.AttemptFailed` where the next address is to be tried.
"""


class Dialer:
    """Makes connections for plugin instances. Thread-safe; :meth:`open` blocks, and is for worker threads.

    :param policies: finds the policy in force, anew for each request.
    :param log: told of every request that ends without a connection, of each connection when it is opened and when it
        ended, and of what is trusted.
    :param resolver: finds addresses; the system's when left out.
    :param slots: the counts; this process's when left out.
    :param anchors: the trusted authorities; this process's when left out.
    """

    def __init__(
        self,
        policies: PolicySource,
        log: EgressLog,
        *,
        resolver: Resolver | None = None,
        slots: ConnectionSlots = PROCESS_SLOTS,
        anchors: AnchorStore = PROCESS_ANCHORS,
    ) -> None:
        self._policies = policies
        self._log = log
        self._lookups = Lookups(SystemResolver() if resolver is None else resolver)
        self._slots = slots
        self._anchors = anchors

    def open(
        self,
        request: EgressRequest,
        deadline: Deadline,
        *,
        material: MaterialSource = no_material,
        establish: Establish | None = None,
    ) -> Connection:
        """Connect to where the request goes, under TLS if it says so.

        :param deadline: over everything. Cancelling it from another thread ends this at once.
        :param material: reads the certificates of the profile that the request names.
        :param establish: the transport's own opening, part of each address's attempt.
        :raises EgressRefused: the policy says no; nothing was sent, and it was logged.
        :raises ResolutionFailed: the host has no addresses to be found.
        :raises ConnectionLimit: the instance holds as many connections as it may.
        :raises TlsConfigurationFailed: the profile's certificates cannot be used.
        :raises TlsFailed: no address had a peer that is trusted and is the host.
        :raises ConnectFailed: no address could be connected to.
        :raises AttemptFailed: ``establish`` failed with every address.
        :raises TimeIsUp: the deadline passed; ``stage`` says where.
        :raises DialCancelled: the deadline was cancelled.
        """
        granted = authorise(request, self._policy(request))
        if isinstance(granted, Decision):
            raise self._refused(granted)
        try:
            return self._open(granted, deadline, material, establish)
        except (EgressRefused, ConnectionLimit):  # each has a record of its own
            raise
        except ZeroclawError as failure:
            self._log.emit(connection_failed(granted, failure))
            raise

    def _open(
        self,
        granted: Authorisation,
        deadline: Deadline,
        material: MaterialSource,
        establish: Establish | None,
    ) -> Connection:
        decision = judge(granted, self._addresses(granted, deadline))
        if decision.reason is Reason.NO_ADDRESSES:
            raise ResolutionFailed("the host has no addresses", empty=True)
        if not decision.allowed:
            raise self._refused(decision)
        slot = self._slot(granted)
        try:
            context = self._context(granted, material)
            return self._first(granted, decision, context, slot, deadline, establish)
        except BaseException:
            slot.release()
            raise

    def _policy(self, request: EgressRequest) -> PolicyResult:
        try:
            return self._policies.policy(request.identity)
        except (PolicyInvalid, PolicyUnavailable) as error:
            return error

    def _refused(self, decision: Decision) -> EgressRefused:
        self._log.emit(denial(decision))
        return EgressRefused(decision)

    def _addresses(self, granted: Authorisation, deadline: Deadline) -> Sequence[Address]:
        deadline.remaining(Stage.RESOLVE)
        if granted.host.address is not None:
            return (granted.host.address,)
        return self._lookups.resolve(granted.request.identity, granted.host.text, deadline)

    def _slot(self, granted: Authorisation) -> Slot:
        try:
            return self._slots.take(granted.request.identity, granted.policy.max_connections)
        except ConnectionLimit as limit:
            self._log.emit(limit_reached(granted.request, limit, granted.rule))
            raise

    def _context(self, granted: Authorisation, material: MaterialSource) -> ssl.SSLContext | None:
        if granted.request.tls is TlsMode.NONE:
            return None
        if granted.profile is None:
            return self._anchors.context(self._report_anchors)
        return profile_context(
            granted.profile, material(granted.profile), self._anchors, self._report_anchors
        )

    def _report_anchors(self, anchors: TrustAnchors) -> None:
        self._log.emit(anchors_read(anchors))

    def _first(
        self,
        granted: Authorisation,
        decision: Decision,
        context: ssl.SSLContext | None,
        slot: Slot,
        deadline: Deadline,
        establish: Establish | None,
    ) -> Connection:
        """The first address that does, in the order the resolver gave them."""
        failures: list[AttemptFailed] = []
        count = len(decision.addresses)
        for index, address in enumerate(decision.addresses):
            left = deadline.remaining(Stage.CONNECT)
            own = deadline.sooner(max(left / (count - index), LEAST_ATTEMPT_SECONDS))
            try:
                return self._attempt(granted, decision, address, context, slot, own, establish)
            except TimeIsUp as late:
                if deadline.over or index == count - 1:
                    raise
                failures.append(ConnectFailed(f"{address_text(address)} took too long ({late.stage.value})"))
            except AttemptFailed as failure:
                failures.append(failure)
        raise _most_telling(failures)

    def _attempt(
        self,
        granted: Authorisation,
        decision: Decision,
        address: Address,
        context: ssl.SSLContext | None,
        slot: Slot,
        deadline: Deadline,
        establish: Establish | None,
    ) -> Connection:
        plain: socket.socket = connect(address, granted.request.port, deadline)
        ending = _Ending(slot, lambda usage: self._log.emit(connection_ended(decision, usage)))
        connection = Connection(
            plain,
            decision=decision,
            address=address,
            server_name=granted.host.text,
            context=context,
            ended=ending.ended,
        )
        try:
            if granted.request.tls is TlsMode.DIRECT:
                connection.start_tls(deadline)
            if establish is not None:
                establish(connection, deadline)
        except BaseException:
            connection.close()
            raise
        kind = judge_address(address, granted.policy.nat64).kind
        self._log.emit(connection_opened(decision, address, kind))
        ending.hand_over()
        return connection


class _Ending:
    """Gives the slot back at a connection's end: one that its opener gave up leaves the slot to the next attempt."""

    def __init__(self, slot: Slot, report: Callable[[Usage], object]) -> None:
        self._slot = slot
        self._report = report
        self._lock = threading.Lock()
        self._handed_over = False
        self._over = False
        self._usage: Usage | None = None

    def ended(self, usage: Usage | None) -> None:
        """The connection is closed."""
        with self._lock:
            self._over, self._usage = True, usage
            if not self._handed_over:
                return
        self._end()

    def hand_over(self) -> None:
        """From here on the connection holds the slot."""
        with self._lock:
            self._handed_over = True
            over = self._over
        if over:
            self._end()

    def _end(self) -> None:
        self._slot.release()
        if self._usage is not None:
            self._report(self._usage)


def _most_telling(failures: Sequence[AttemptFailed]) -> AttemptFailed:
    """What to say of several addresses: the one that went furthest, or that none could be connected to."""
    for failure in failures:
        if isinstance(failure, TlsFailed):
            return failure
    for failure in failures:
        if not isinstance(failure, ConnectFailed):
            return failure
    refused = all(isinstance(failure, ConnectFailed) and failure.refused for failure in failures)
    found = ConnectFailed("no address of the host could be connected to", refused=refused)
    found.__cause__ = failures[-1]
    return found
