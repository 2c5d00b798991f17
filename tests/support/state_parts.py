"""What the tests of durable state share: instances, stores and a look into the database behind their backs."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zeroclaw_host.errors import StorageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_database import StateFile
from zeroclaw_host.services.state_store import DurableState

DEMO = InstanceIdentity.default_tool("demo")
OTHER = InstanceIdentity.default_tool("other")
CHANNEL = InstanceIdentity("demo", Capability.CHANNEL, "demo")
"""Same package and same binding as DEMO, another capability."""


PATIENCE = 60.0
"""Seconds a store of a test waits for others: so long that only what hangs takes them."""


class Home:
    """One installation's key and database, and every reason that was reported."""

    def __init__(self, root: Path) -> None:
        self.key = root / ".secret_key"
        self.database = root / "data" / "plugin-state.db"
        self.reports: list[StorageError] = []

    def store(self, *, busy_seconds: float = PATIENCE) -> DurableState:
        """A store as a process opens it."""
        file = StateFile(self.database, busy_seconds=busy_seconds)
        return DurableState(self.database, KeyFile(self.key), report=self.reports.append, file=file)

    @property
    def reasons(self) -> list[object]:
        """The words of what was reported."""
        return [error.details.get("reason") for error in self.reports]

    @contextmanager
    def inside(self) -> Generator[sqlite3.Connection]:
        """The database as anybody who may open the file has it."""
        raw = sqlite3.connect(self.database, isolation_level=None)
        try:
            yield raw
        finally:
            raw.close()

    def files(self) -> dict[str, bytes]:
        """The key and everything beside the database, by name."""
        found = [self.key, *self.database.parent.glob("*")] if self.database.parent.exists() else [self.key]
        return {path.name: path.read_bytes() for path in found if path.exists()}
