"""The ledger of what plugin instances used of the network, in a file that outlives the daemon."""

from __future__ import annotations

from pathlib import Path

from zeroclaw_daemon.egress_usage import UsedDestination
from zeroclaw_host.errors import StorageError
from zeroclaw_host.instance import InstanceIdentity


class UsageUnavailable(StorageError):
    """The ledger cannot be read or written. ``details`` holds ``path``. Plugins go on without it."""

    code = "egress_usage_unavailable"


def read_usage(path: Path, identity: InstanceIdentity) -> tuple[UsedDestination, ...]:
    """What one instance used, the latest first. Nothing where there is no file. Daemons may be writing meanwhile.

    :raises UsageUnavailable: the file cannot be read, is damaged, or is none of ours.
    """
    del path, identity
    return ()
