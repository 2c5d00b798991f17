"""Rows of ``[[plugins.entries]]`` that no instance reads, because their name is no instance's key (PLG-171).

Before 1.0 a row was named after its package, or after the alias of a channel. What such a row configures or grants is not in
force; it is reported wherever an operator looks, and otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.installation.rows import seed_for
from zeroclaw_host.instance import KEY_PREFIX, IdentityInvalid, InstanceIdentity
from zeroclaw_host.package.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Stray:
    """One row that nothing reads."""

    name: str
    key: str | None = None
    """The key it is to be renamed to; None when no installed package's tool was meant."""
    grants: bool = False
    """Whether it would grant destinations."""

    @property
    def message(self) -> str:
        """What is the matter, in one sentence."""
        what = "its configuration and its grants are" if self.grants else "its configuration is"
        cause = "is no instance's key" if self.name.startswith(KEY_PREFIX) else "has the form of before 1.0"
        told = f"the row {self.name} of plugins.entries is read by nobody, for its name {cause}: {what} not in force"
        return told if self.key is None else f"{told}; rename it to {self.key}"

    def facts(self) -> dict[str, object]:
        """The same for programs."""
        return {"name": self.name, "key": self.key, "grants": self.grants, "message": self.message}


def strays(config: Config, manifests: Mapping[str, Manifest] | None = None) -> tuple[Stray, ...]:
    """Every row that nothing reads, in the order of the file.

    :param manifests: the installed packages by name. A row named after one of them that owns state is its tool's, and is told
        the key to be renamed to; without them, and for a row named after an alias, nobody can say (PLG-218).
    """
    return tuple(
        Stray(row.name, _meant(row.name, manifests or {}, config), bool(row.egress_hosts))
        for row in config.plugins.entries
        if not _is_key(row.name)
    )


def _meant(name: str, manifests: Mapping[str, Manifest], config: Config) -> str | None:
    manifest = manifests.get(name)
    seed = seed_for(manifest) if manifest is not None else None
    # Where the instance has a row already, the former one cannot be given its name.
    return None if seed is None or config.plugins.entry(seed.key) is not None else seed.key


def _is_key(name: str) -> bool:
    try:
        InstanceIdentity.parse(name)
    except IdentityInvalid:
        return False
    return True
