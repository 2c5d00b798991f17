"""The activation plan in force: made when the daemon starts and when it is told to reload, and at no other time (D-36)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zeroclaw_daemon.activation.plan import ActivationPlan, Placement, Unmet
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.records import record
from zeroclaw_host.errors import StorageError
from zeroclaw_host.installation.discovery import Discovery, Rejected
from zeroclaw_host.package.manifest import Manifest

logger = logging.getLogger(__name__)

_DELIBERATE: Final = frozenset({Unmet.PLUGINS_OFF, Unmet.BINDING_OFF, Unmet.DISCOVERY_OFF})
"""What an operator switched off needs no warning."""


@dataclass(frozen=True, slots=True)
class InForce:
    """A plan, and what it was made from."""

    plan: ActivationPlan = field(default_factory=ActivationPlan)
    revision: str = ""
    manifests: Mapping[str, Manifest] | None = None
    """Of every installed package, by name; None when plugins were off, for then nobody looks."""
    rejected: tuple[Rejected, ...] = ()


class Activation:
    """Keeps the plan in force. Thread-safe; :meth:`reload` reads the plugins directory and is never called on the event loop.

    :param discover: what is installed, for a configuration.
    """

    def __init__(self, discover: Callable[[Snapshot], Discovery]) -> None:
        self._discover: Final = discover
        self._lock = threading.Lock()
        self._in_force = InForce()
        self._waits: tuple[InForce, Config, bool] | None = None

    @property
    def in_force(self) -> InForce:
        """The plan in force and its origin; empty before the first :meth:`reload`."""
        return self._in_force

    def channels(self) -> tuple[Placement, ...]:
        """The channels of the plan in force."""
        return self._in_force.plan.channels

    def reload(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Make the plan anew and put it in force; what cannot be made changes nothing.

        :returns: what is different, one sentence each; empty when the plan is as it was.
        :raises StorageError: the plugins directory cannot be listed (PLG-275).
        """
        with self._lock:
            made = self._made(snapshot)
            before, self._in_force = self._in_force, made
        changes = tuple(_changes(before.plan, made.plan))
        _report(made.plan, changes)
        return changes

    def _made(self, snapshot: Snapshot) -> InForce:
        if not snapshot.config.plugins.enabled:
            return InForce(ActivationPlan.of(snapshot.config, {}), snapshot.revision)
        found = self._discover(snapshot)
        return InForce(
            ActivationPlan.of(snapshot.config, found.manifests),
            snapshot.revision,
            found.manifests,
            found.rejected,
        )

    def start(self, snapshot: Snapshot) -> None:
        """As :meth:`reload`, for a daemon that starts: a plugins directory it cannot list is reported, and nothing runs."""
        try:
            self.reload(snapshot)
        except StorageError as error:
            record(
                logger, logging.ERROR, f"no plugin is active, for the plan cannot be made: {error.message}",
                action="plan_failed", category="plugin", outcome="failure", details=dict(error.details), remedy=error.remedy,
            )  # fmt: skip

    def waits(self, config: Config) -> bool:
        """Whether a reload with this configuration would run other channels than the plan in force does.

        Judged by the packages of the last plan; what was installed since is seen by the reload alone.
        """
        in_force, known = self._in_force, self._waits
        if known is None or known[0] is not in_force or known[1] is not config:
            known = self._waits = (in_force, config, _waits(in_force, config))
        return known[2]


def _waits(in_force: InForce, config: Config) -> bool:
    plan = ActivationPlan.of(config, in_force.manifests or {})
    if in_force.manifests is None:
        # Nobody has looked yet: a channel that lacks nothing but its package may have it.
        return any(placement.unmet is Unmet.NOT_INSTALLED for placement in plan.channels)
    return plan.channels != in_force.plan.channels


def _changes(before: ActivationPlan, after: ActivationPlan) -> list[str]:
    """What is different for somebody who knew the plan before."""
    known = {placement.identity: placement for placement in before.placements}
    changes: list[str] = []
    for placement in after.placements:
        former = known.pop(placement.identity, None)
        if former is None or former.unmet != placement.unmet:
            changes.append(f"{describe(placement)} {_state(placement)}")
    changes.extend(f"{describe(placement)} is gone" for placement in known.values())
    return changes


def describe(placement: Placement) -> str:
    """An instance in words."""
    identity = placement.identity
    if placement.is_channel:
        return f"the channel {identity.binding} of {identity.package}"
    return f"the {identity.capability.value} of {identity.package}"


def _state(placement: Placement) -> str:
    return "is active" if placement.admitted else f"is not active: {placement.reason}"


def _report(plan: ActivationPlan, changes: tuple[str, ...]) -> None:
    record(
        logger, logging.INFO, f"the activation plan has {len(plan.admitted)} of {len(plan.placements)} instances",
        action="plan_made", category="plugin", active=[str(identity.key) for identity in plan.admitted], changes=list(changes),
    )  # fmt: skip
    for placement in plan.channels:
        if placement.unmet is not None and placement.unmet not in _DELIBERATE:
            record(
                logger, logging.WARNING, f"{describe(placement)} is not active: {placement.reason}",
                action="plugin_not_active", category="plugin", plugin=placement.identity.package,
                binding=placement.identity.binding, unmet=placement.unmet.value, remedy=placement.remedy,
            )  # fmt: skip
