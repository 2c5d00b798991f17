"""Finding a host's addresses, once for each request, without waiting longer than its deadline.

The system's resolver cannot be interrupted. It runs on threads of its own, whose number is bounded, in all and for each
instance: a name server that does not answer costs the plugin that asked it, and no other.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import ResolutionFailed, Stage
from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.instance import InstanceIdentity

MAX_LOOKUPS: Final = 32
"""Lookups at once, those included that nobody waits for any more. A system's resolver gives one up after 10 to 30 s."""

MAX_LOOKUPS_OF_ONE: Final = 8
"""Lookups at once of one instance, so that no four instances take all of them."""


class Resolver(Protocol):
    """Finds addresses. Called on a thread that may be blocked for as long as it takes."""

    def resolve(self, host: str) -> Sequence[Address]:
        """The addresses of a canonical host name, in the order they are to be tried.

        :raises ResolutionFailed: there is no answer, or it says that there is no such host.
        """
        ...


class SystemResolver:
    """What the operating system knows: its hosts file, its name servers, its order (RFC 6724)."""

    def resolve(self, host: str) -> Sequence[Address]:
        """See :meth:`Resolver.resolve`."""
        try:
            # As bytes: the host is ASCII already, and is not to be encoded once more.
            found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ResolutionFailed(f"the host could not be resolved: {error}") from error
        addresses: list[Address] = []
        for family, _, _, _, name in found:
            if family == socket.AF_INET:
                addresses.append(ipaddress.IPv4Address(name[0]))
            elif family == socket.AF_INET6:
                text, zone = str(name[0]).partition("%")[0], name[3] if len(name) > 3 else 0
                addresses.append(ipaddress.IPv6Address(f"{text}%{zone}" if zone else text))
        return addresses


class Lookups:
    """Runs a resolver on bounded threads. Thread-safe.

    :param most: lookups at once.
    :param most_of_one: lookups at once of one instance.
    """

    def __init__(
        self, resolver: Resolver, *, most: int = MAX_LOOKUPS, most_of_one: int = MAX_LOOKUPS_OF_ONE
    ) -> None:
        self._resolver = resolver
        self._most = most
        self._most_of_one = most_of_one
        self._changed = threading.Condition()
        self._running: dict[InstanceIdentity, int] = {}

    @property
    def running(self) -> int:
        """Lookups that have not ended, whether or not somebody still waits for them."""
        with self._changed:
            return sum(self._running.values())

    def resolve(self, identity: InstanceIdentity, host: str, deadline: Deadline) -> Sequence[Address]:
        """The host's addresses, asked for now.

        :raises ResolutionFailed: it has none to be found.
        :raises TimeIsUp: the deadline passed; the lookup may go on, and its answer is dropped.
        :raises DialCancelled: the deadline was cancelled.
        """
        lookup = _Lookup(self, identity, host)
        with deadline.waker.calling(self._notify), self._changed:
            while not self._has_room(identity):
                self._changed.wait(_pause(deadline))
            deadline.remaining(Stage.RESOLVE)
            self._running[identity] = self._running.get(identity, 0) + 1
            try:
                threading.Thread(target=lookup.run, name="zeroclaw-resolve", daemon=True).start()
            except RuntimeError as error:  # the system has no more threads
                self._end(identity)
                raise ResolutionFailed("no thread could be started for the lookup") from error
            while not lookup.done:
                self._changed.wait(_pause(deadline))
        deadline.remaining(Stage.RESOLVE)
        return lookup.result()

    def ask(self, host: str) -> Sequence[Address]:
        """Ask the resolver, on this thread."""
        return self._resolver.resolve(host)

    def finish(self, lookup: _Lookup) -> None:
        """A lookup's thread is at its end."""
        with self._changed:
            lookup.done = True
            self._end(lookup.identity)

    def _end(self, identity: InstanceIdentity) -> None:
        left = self._running[identity] - 1
        if left:
            self._running[identity] = left
        else:
            del self._running[identity]
        self._changed.notify_all()

    def _has_room(self, identity: InstanceIdentity) -> bool:
        own = self._running.get(identity, 0)
        return own < self._most_of_one and sum(self._running.values()) < self._most

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _Lookup:
    """One question and, later, its answer."""

    def __init__(self, lookups: Lookups, identity: InstanceIdentity, host: str) -> None:
        self.identity = identity
        self.done = False
        self._lookups = lookups
        self._host = host
        self._answer: Sequence[Address] = ()
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._answer = tuple(self._lookups.ask(self._host))
        except Exception as error:  # noqa: BLE001 - carried to whoever asked, and raised there
            self._error = error
        finally:
            self._lookups.finish(self)

    def result(self) -> Sequence[Address]:
        if self._error is not None:
            raise self._error
        return self._answer


def _pause(deadline: Deadline) -> float:
    """How long a condition may be waited for."""
    return min(deadline.remaining(Stage.RESOLVE), threading.TIMEOUT_MAX)
