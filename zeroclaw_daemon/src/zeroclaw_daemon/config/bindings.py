"""Binding the channel of a package to an alias: ``[channels.plugin.<alias>]``, and the row of the instance that comes to be.

Both are written in one save (PLG-232). What is there already is never changed, so a second run leaves every byte as it is
(PLG-252).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zeroclaw_daemon.config import names
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.entries import ConfigRowStore, add_row, drop_row
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.map_keys import BINDINGS, MapKeyNotFound
from zeroclaw_daemon.config.problems import ConfigFileInvalid, ConfigSyntaxInvalid
from zeroclaw_daemon.config.store import ConfigStore, Written
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.rows import RowSeed, declaration_of, owns_state, seed_for
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest


class Egress(StrEnum):
    """What a row that is made starts with."""

    DECLARED = "declared"
    NONE = "none"


class NotAChannel(ZeroclawError):
    """The package provides no channel, so there is nothing to bind. ``details`` holds ``package``."""

    code = "package_provides_no_channel"
    kind = Kind.INVALID


class AliasInvalid(ZeroclawError):
    """The text cannot name a channel. ``details`` holds ``alias``."""

    code = "channel_alias_invalid"
    kind = Kind.INVALID


class AliasTaken(ZeroclawError):
    """The alias is bound to another package, and stays so. ``details`` holds ``alias`` and ``package``, its owner."""

    code = "channel_alias_taken"
    kind = Kind.CONFLICT


class EgressUndecided(ZeroclawError):
    """A row is to be made, the package declares destinations, and nobody said whether they are granted.

    ``details`` holds ``package``, ``alias`` and ``hosts``.
    """

    code = "egress_undecided"
    kind = Kind.REFUSED


@dataclass(frozen=True, slots=True)
class Bound:
    """What a binding did, or is about to do."""

    identity: InstanceIdentity
    binding_created: bool
    owns_row: bool
    """Whether the instance is owed a row at all (PLG-244)."""
    row: RowSeed | None
    """The row that is made; None where one is there, or none is owed."""
    declared: tuple[str, ...]
    """The destinations the package declares and has a transport for."""
    egress: Egress | None
    governed: bool = False
    """Whether the package asks for a transport whose every connection the row judges."""

    @property
    def egress_not_applied(self) -> bool:
        """Whether a decision was given that decides nothing, because the row is there already or none is owed (PLG-249)."""
        return self.egress is not None and self.row is None


def require_written_now(store: ConfigStore) -> None:
    """Whether the file has the layout that is written today; what else is wrong with it is for later refusals to tell.

    :raises ConfigOutdated: it is of an earlier release, and ``config migrate`` comes first (PLG-236).
    """
    with suppress(ConfigSyntaxInvalid):
        store.check_writable()


def require_channel(manifest: Manifest) -> None:
    """:raises NotAChannel: the package provides no channel (PLG-237)."""
    if Capability.CHANNEL not in manifest.capabilities:
        has = ", ".join(capability.value for capability in manifest.capabilities)
        raise NotAChannel(
            f"{manifest.name} provides no channel to bind; it has: {has}", details={"package": manifest.name}
        )


def require_alias(alias: str) -> None:
    """:raises AliasInvalid: the text cannot name a channel (PLG-238)."""
    try:
        names.alias(alias)
    except ValueError as error:
        raise AliasInvalid(
            f"a channel cannot be named {alias!r}: {error}", details={"alias": alias}
        ) from None


def usable_declaration(manifest: Manifest) -> tuple[str, ...]:
    """The destinations a package declares, if it asks for a transport that could reach them (PLG-245)."""
    return declaration_of(manifest, Capability.CHANNEL).hosts


Deciding = Callable[[Egress], Remedy]
"""What is to be run again with a decision about the network."""


def decide(
    snapshot: Snapshot,
    manifest: Manifest,
    alias: str,
    egress: Egress | None,
    deciding: Deciding | None = None,
) -> Bound:
    """What binding would do in a file that is written as today's are. The first refusal that applies is raised, in this order, and nothing is written.

    :param deciding: what a missing ``egress`` is given to; the command that binds an installed package when left out.

    :raises NotAChannel: see :func:`require_channel`.
    :raises AliasInvalid: see :func:`require_alias`.
    :raises ConfigFileInvalid: ``[plugins]`` cannot be read (PLG-241).
    :raises AliasTaken: another package has the alias (PLG-239).
    :raises EgressUndecided: ``egress`` is needed and not given (PLG-242).
    """
    require_channel(manifest)
    require_alias(alias)
    if snapshot.problems:
        raise ConfigFileInvalid(snapshot.problems)
    found = snapshot.config.channels.plugin.get(alias)
    if found is not None and found.package != manifest.name:
        raise AliasTaken(
            f"channels.plugin.{alias} is bound to {found.package}, and stays so; take another alias for {manifest.name}",
            details={"alias": alias, "package": found.package},
        )
    identity = InstanceIdentity(manifest.name, Capability.CHANNEL, alias)
    declaration = declaration_of(manifest, Capability.CHANNEL)
    declared = declaration.hosts
    owns = owns_state(manifest)
    missing = owns and snapshot.config.plugins.entry(identity.key) is None
    if missing and declared and egress is None:
        raise EgressUndecided(
            f"{manifest.name} declares that it reaches {', '.join(declared)}: say --egress declared to grant that, or "
            "--egress none to grant nothing",
            # In this order: who pastes both has no network (PLG-200).
            remedies=tuple(map(deciding or _binding(manifest, alias), (Egress.NONE, Egress.DECLARED))),
            details={"package": manifest.name, "alias": alias, "hosts": declared},
        )
    seed = RowSeed(identity, declared if egress is Egress.DECLARED else (), declaration) if missing else None
    return Bound(identity, found is None, owns, seed, declared, egress, declaration.governed)


def _binding(manifest: Manifest, alias: str) -> Deciding:
    """Binding the package, which is installed."""
    known = {"package": manifest.name, "alias": alias}
    return lambda egress: Remedy(RemedyAction.BIND_CHANNEL, {**known, "egress": egress.value})


class BindingChange:
    """A binding, its row and, for an install, the row of the package's tool: prepared, and written in one save.

    :param tool: the row of the package's tool, where it is missing.
    :param deciding: see :func:`decide`.
    """

    def __init__(
        self,
        store: ConfigStore,
        manifest: Manifest,
        bound: Bound,
        tool: RowSeed | None = None,
        deciding: Deciding | None = None,
    ) -> None:
        self._store: Final = store
        self._manifest: Final = manifest
        self._tool: Final = tool
        self._deciding: Final = deciding
        self._written: Written | None = None
        self.bound = bound

    @property
    def creates(self) -> bool:
        """Whether the row of the package's tool is made."""
        return self._tool is not None

    def commit(self) -> None:
        """Write all of it; what came there in between stays as it is.

        :raises ZeroclawError: as :func:`decide`, judged by the file under its lock, or the file cannot be written.
        """
        self._written = self._store.write(self._write)

    def undo(self) -> None:
        """The file as it was before; where somebody else changed it since, only what was written here goes."""
        written, self._written = self._written, None
        if written is not None and not self._store.take_back(written):
            self._store.commit(self._take_out)

    def _write(self, draft: Draft) -> None:
        identity = self.bound.identity
        self.bound = decide(
            draft.snapshot, self._manifest, identity.binding, self.bound.egress, self._deciding
        )
        if self.bound.binding_created:
            _add_binding(draft, identity)
        for seed in (self._tool, self.bound.row):
            if seed is not None:
                add_row(draft, seed)

    def _take_out(self, draft: Draft) -> None:
        if self.bound.binding_created:
            _drop_binding(draft, self.bound.identity.binding)
        for seed in (self._tool, self.bound.row):
            if seed is not None:
                drop_row(draft, seed)


def bind(store: ConfigStore, manifest: Manifest, alias: str, egress: Egress | None) -> Bound:
    """Bind an installed package's channel to an alias, in one save.

    :raises ZeroclawError: a refusal of :func:`decide`, a file of an older layout, or one that cannot be read or written.
    """
    require_written_now(store)
    require_channel(manifest)
    require_alias(alias)
    change = BindingChange(store, manifest, decide(store.current(), manifest, alias, egress))
    change.commit()
    return change.bound


def with_binding(
    store: ConfigStore, alias: str, egress: Egress | None, deciding: Deciding | None = None
) -> Callable[[Manifest], BindingChange]:
    """What an install prepares for a package whose channel it binds as well (PLG-229, PLG-231).

    :param deciding: the install itself, since a package whose install is refused cannot be bound.
    """

    def prepare(manifest: Manifest) -> BindingChange:
        require_written_now(store)
        bound = decide(store.current(), manifest, alias, egress, deciding)
        seed = seed_for(manifest)
        row = ConfigRowStore(store).prepare(seed) if seed is not None else None
        tool = seed if row is not None and row.creates else None
        return BindingChange(store, manifest, bound, tool, deciding)

    return prepare


def _add_binding(draft: Draft, identity: InstanceIdentity) -> None:
    draft.create_key(BINDINGS, identity.binding)
    for name, value in (("package", identity.package), ("enabled", True)):
        draft.set(f"{BINDINGS}.{identity.binding}.{name}", value)


def _drop_binding(draft: Draft, alias: str) -> None:
    with suppress(MapKeyNotFound):
        draft.delete_key(BINDINGS, alias)
