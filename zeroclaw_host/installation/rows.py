"""The configuration row an installed package is owed.

The host writes no configuration. A program that keeps some gives the installation a :class:`RowStore`: it is asked to
prepare the row before anything changes on the disk, and to write it once the package is at its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest, Permission

GOVERNED_TRANSPORTS: Final = frozenset(
    {Permission.HTTP_CLIENT, Permission.WEBSOCKET_CLIENT, Permission.SOCKET_CLIENT}
)
"""The permissions whose every connection is judged by the instance's row."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a manifest says about the network that counts for one instance. It grants nothing (PLG-174)."""

    hosts: tuple[str, ...] = ()
    """The destinations that the instance has a transport for."""
    governed: bool = False
    """Whether it has a transport at all whose connections its row judges."""


@dataclass(frozen=True, slots=True)
class RowSeed:
    """A row that is missing. ``egress_hosts`` is what it starts with: never more than the manifest declares.

    ``declaration`` is what a row that is there already is compared with.
    """

    identity: InstanceIdentity
    egress_hosts: tuple[str, ...]
    declaration: Declaration = Declaration()

    @property
    def key(self) -> str:
        """The name of the row."""
        return self.identity.key


class RowChange(Protocol):
    """A row that was prepared and is not written yet."""

    @property
    def creates(self) -> bool:
        """Whether the row is missing. An existing one is never changed (PLG-132)."""
        ...

    def commit(self) -> None:
        """Write the row.

        :raises ZeroclawError: it was not written; the configuration is as it was.
        """
        ...

    def undo(self) -> None:
        """Bring the configuration back to what it was; does nothing where :meth:`commit` wrote nothing."""
        ...


class RowStore(Protocol):
    """Where rows live."""

    def prepare(self, seed: RowSeed) -> RowChange:
        """Everything that can be checked ahead of writing.

        :raises ZeroclawError: the row cannot be written; nothing is installed.
        """
        ...


def owns_state(manifest: Manifest) -> bool:
    """Whether instances of the package have host-owned state: typed configuration, or destinations (PLG-133)."""
    return (
        manifest.config_schema is not None
        or bool(manifest.egress.hosts)
        or not GOVERNED_TRANSPORTS.isdisjoint(manifest.permissions)
    )


def declaration_of(manifest: Manifest, capability: Capability) -> Declaration:
    """What counts for an instance in this capability: for a tool only what HTTP reaches, for a channel what any governed
    transport reaches (PLG-186, PLG-208, PLG-209)."""
    counting = {Capability.TOOL: frozenset({Permission.HTTP_CLIENT}), Capability.CHANNEL: GOVERNED_TRANSPORTS}
    if counting.get(capability, frozenset[Permission]()).isdisjoint(manifest.permissions):
        return Declaration()
    return Declaration(tuple(manifest.egress.hosts), governed=True)


def seed_for(manifest: Manifest) -> RowSeed | None:
    """The row of the package's default tool binding, or None where none is owed (PLG-132, PLG-133).

    Destinations are granted only to a package that asks for the transport they are declared for.
    """
    if Capability.TOOL not in manifest.capabilities or not owns_state(manifest):
        return None
    declaration = declaration_of(manifest, Capability.TOOL)
    return RowSeed(InstanceIdentity.default_tool(manifest.name), declaration.hosts, declaration)


class MemoryRowStore:
    """Rows in a dictionary from key to granted hosts, for tests and for hosts without a configuration file."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, ...]] = {}

    def prepare(self, seed: RowSeed) -> RowChange:
        """See :class:`RowStore`."""
        return _MemoryChange(self.rows, seed)


class _MemoryChange:
    def __init__(self, rows: dict[str, tuple[str, ...]], seed: RowSeed) -> None:
        self._rows = rows
        self._seed = seed
        self._written = False
        self.creates = seed.key not in rows

    def commit(self) -> None:
        if self.creates:
            self._rows[self._seed.key] = self._seed.egress_hosts
            self._written = True

    def undo(self) -> None:
        if self._written:
            del self._rows[self._seed.key]
            self._written = False
