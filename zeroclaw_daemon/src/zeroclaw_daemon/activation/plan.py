"""The activation plan: which plugin instances are to run, as a function of the configuration and of what is installed.

No guest code runs for it and nothing is counted, so the same configuration and packages always give the same plan. A daemon
makes it when it starts and when it is told to reload (D-36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from zeroclaw_daemon.config import names
from zeroclaw_daemon.config.instances import channel_instance
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest

CHANNEL_PREFIX: Final = "plugin."
"""How an agent's ``channels`` name the channel of a plugin."""


class Unmet(StrEnum):
    """What an instance lacks, in the order in which it is looked at (PLG-270)."""

    PLUGINS_OFF = "plugins_off"
    BINDING_OFF = "binding_off"
    NO_AGENT = "no_agent"
    NOT_INSTALLED = "not_installed"
    NO_CHANNEL = "no_channel"
    DISCOVERY_OFF = "discovery_off"
    NO_SLOT = "no_slot"


@dataclass(frozen=True, slots=True)
class Placement:
    """One instance the operator could have, and the first thing it lacks; with nothing lacking it is admitted."""

    identity: InstanceIdentity
    unmet: Unmet | None = None

    @property
    def admitted(self) -> bool:
        """Whether it is to run."""
        return self.unmet is None

    @property
    def is_channel(self) -> bool:
        """Whether it is a bound channel, not a package's tool or bundle of skills."""
        return self.identity.capability is Capability.CHANNEL

    @property
    def reason(self) -> str:
        """Why it does not run, as a sentence without its beginning; empty when it is admitted."""
        return "" if self.unmet is None else _REASONS[self.unmet].format(**self._names)

    @property
    def remedy(self) -> Remedy | None:
        """The command that changes that, where one command does (PLG-271, PLG-273)."""
        match self.unmet:
            case Unmet.PLUGINS_OFF:
                return Remedy(RemedyAction.SET_CONFIG, {"path": "plugins.enabled", "value": "true"})
            case Unmet.DISCOVERY_OFF:
                return Remedy(RemedyAction.SET_CONFIG, {"path": "plugins.auto_discover", "value": "true"})
            case Unmet.BINDING_OFF if names.is_alias(self.identity.binding):
                path = f"channels.plugin.{self.identity.binding}.enabled"
                return Remedy(RemedyAction.SET_CONFIG, {"path": path, "value": "true"})
            case Unmet.NO_SLOT:
                return Remedy(RemedyAction.SET_CONFIG, {"path": "plugins.max_active_instances"})
            case _:
                return None

    @property
    def _names(self) -> dict[str, str]:
        return {"package": self.identity.package, "binding": self.identity.binding}


_REASONS: Final[Mapping[Unmet, str]] = {
    Unmet.PLUGINS_OFF: "plugins are off: plugins.enabled is false",
    Unmet.BINDING_OFF: "its binding is off: channels.plugin.{binding}.enabled is false",
    Unmet.NO_AGENT: f"no enabled agent lists {CHANNEL_PREFIX}{{binding}} in its channels",
    Unmet.NOT_INSTALLED: "the package {package} is not installed",
    Unmet.NO_CHANNEL: "the package {package} provides no channel",
    Unmet.DISCOVERY_OFF: "agents get no tools and skills of plugins: plugins.auto_discover is false",
    Unmet.NO_SLOT: "plugins.max_active_instances is reached",
}


@dataclass(frozen=True, slots=True)
class ActivationPlan:
    """Every placement: bound channels first, then tools and skills; each group by package, capability and binding."""

    placements: tuple[Placement, ...] = ()

    @classmethod
    def of(
        cls,
        config: Config,
        manifests: Mapping[str, Manifest],
        *,
        channels: tuple[Placement, ...] | None = None,
    ) -> ActivationPlan:
        """The plan for a configuration and the packages installed under their names (PLG-129, PLG-370).

        :param channels: the channels of a plan in force, which keep their slots until the next reload; those that the
            configuration binds now when left out.
        """
        if channels is None:
            channels = tuple(sorted(_channels(config, manifests), key=_order))
        others = tuple(sorted(_others(config, manifests), key=_order))
        return cls(tuple(_within(config.plugins.max_active_instances, (*channels, *others))))

    @property
    def channels(self) -> tuple[Placement, ...]:
        """The bound channels."""
        return tuple(placement for placement in self.placements if placement.is_channel)

    @property
    def admitted(self) -> tuple[InstanceIdentity, ...]:
        """Who is to run."""
        return tuple(placement.identity for placement in self.placements if placement.admitted)

    def of_instance(self, identity: InstanceIdentity) -> Placement | None:
        """What is planned for this instance."""
        return next((each for each in self.placements if each.identity == identity), None)


def _order(placement: Placement) -> tuple[str, str, str]:
    identity = placement.identity
    return identity.package, identity.capability.value, identity.binding


def _channels(config: Config, manifests: Mapping[str, Manifest]) -> Iterator[Placement]:
    listed = {name for agent in config.agents.values() if agent.enabled for name in agent.channels}
    for alias, channel in config.channels.plugin.items():
        identity = channel_instance(channel.package, alias)
        if identity is None:
            continue
        manifest = manifests.get(channel.package)
        unmet = None
        if not config.plugins.enabled:
            unmet = Unmet.PLUGINS_OFF
        elif not channel.enabled:
            unmet = Unmet.BINDING_OFF
        elif f"{CHANNEL_PREFIX}{alias}" not in listed:
            unmet = Unmet.NO_AGENT
        elif manifest is None:
            unmet = Unmet.NOT_INSTALLED
        elif Capability.CHANNEL not in manifest.capabilities:
            unmet = Unmet.NO_CHANNEL
        yield Placement(identity, unmet)


def _others(config: Config, manifests: Mapping[str, Manifest]) -> Iterator[Placement]:
    unmet = None
    if not config.plugins.enabled:
        unmet = Unmet.PLUGINS_OFF
    elif not config.plugins.auto_discover:
        unmet = Unmet.DISCOVERY_OFF
    for name, manifest in manifests.items():
        for capability in (Capability.TOOL, Capability.SKILL):
            if capability in manifest.capabilities:
                yield Placement(InstanceIdentity(name, capability, name), unmet)


def _within(ceiling: int, placements: tuple[Placement, ...]) -> Iterator[Placement]:
    """The placements, of which no more are admitted than the ceiling allows."""
    taken = 0
    for placement in placements:
        if not placement.admitted:
            yield placement
        elif taken < ceiling:
            taken += 1
            yield placement
        else:
            yield replace(placement, unmet=Unmet.NO_SLOT)
