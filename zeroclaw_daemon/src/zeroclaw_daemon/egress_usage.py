"""What plugin instances really used of the network: values, as the ledger keeps them and reports show them.

:mod:`zeroclaw_daemon.usage_file` reads and writes them; :mod:`zeroclaw_daemon.minimal_grant` makes a grant of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


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
