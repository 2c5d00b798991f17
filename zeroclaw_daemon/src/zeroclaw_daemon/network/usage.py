"""What plugin instances really used of the network: values, as the ledger keeps them and reports show them.

:mod:`zeroclaw_daemon.network.usage_file` reads and writes them; :mod:`zeroclaw_daemon.network.minimal_grant` makes a grant of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

ADDRESSES: Final = 4
"""Addresses of one destination that are kept."""

SEVERAL: Final = -1
"""The port of a row that adds up several destinations. None is numbered so."""


class Outcome(StrEnum):
    """What became of a request for a connection."""

    OPENED = "opened"
    FAILED = "failed"
    """The grant let it pass, and no connection came of it: no such host, nobody listens, a certificate is not trusted."""
    LIMITED = "limited"
    """The grant let it pass, and the instance held as many connections as it may."""
    REFUSED = "refused"
    """The policy did not let it pass."""

    @property
    def permitted(self) -> bool:
        """Whether the grant was used: without it, the request would have been refused."""
        return self is not Outcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedDestination:
    """What one instance did with one destination, over all its calls.

    Of an instance that names more destinations than are kept, the least recently used are added up in one value: one for
    each entry of the grant that let them pass, one for each reason of those that were refused. Its ``port`` is None, and its
    ``host`` is that entry, or None where there is none. So nothing that the grant was used for is ever forgotten.
    """

    transport: str
    """``http``, ``websocket`` or ``sockets``."""
    host: str | None
    """Canonical where it is a host at all; otherwise as the guest named it, safe to show, at most 257 characters."""
    port: int | None
    tls_profile: str | None
    """The TLS profile that a permitted request named."""
    outcome: Outcome
    reason: str | None
    """Why there was no connection: a word of ``decision.Reason``, or the code of the failure. None of an opened one."""
    rule: str | None
    """The entry of ``egress_hosts`` that last let it pass."""
    count: int
    """Requests for a connection."""
    bytes_sent: int
    """Of connections that ended. Under TLS, of what is inside it."""
    bytes_received: int
    addresses: tuple[str, ...]
    """Those that were connected to last, the latest first."""
    private: bool
    """Whether one of the addresses, ever, was one that needs ``egress_allow_private``."""
    first: datetime
    """In UTC."""
    last: datetime


class Key(NamedTuple):
    """What is counted together. Texts are empty where there is none."""

    instance: str
    """The instance's key."""
    outcome: Outcome
    transport: str
    host: str
    port: int
    tls_profile: str = ""
    reason: str = ""


@dataclass(slots=True)
class Tally:
    """What was counted under one key. Times are milliseconds since 1970."""

    count: int = 0
    sent: int = 0
    received: int = 0
    addresses: tuple[str, ...] = ()
    private: bool = False
    rule: str = ""
    first: int = 0
    last: int = 0

    def add(self, other: Tally) -> None:
        """Count something else in. Of the addresses and the rule, the later ones stay."""
        early, late = (self, other) if self.last <= other.last else (other, self)
        self.addresses = tuple(dict.fromkeys((*late.addresses, *early.addresses)))[:ADDRESSES]
        self.rule = late.rule or early.rule
        self.count += other.count
        self.sent += other.sent
        self.received += other.received
        self.private |= other.private
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)


def added_up(key: Key, tally: Tally) -> Key:
    """Where a destination that is not kept singly is counted: with its rule, or with those refused for the same reason."""
    host = tally.rule if key.outcome.permitted else ""
    return key._replace(host=host, port=SEVERAL)
