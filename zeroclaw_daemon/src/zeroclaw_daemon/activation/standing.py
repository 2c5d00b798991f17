"""What ``status`` tells of each plugin: what runs, what is to run, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from zeroclaw_daemon.activation.current import InForce
from zeroclaw_daemon.activation.plan import ActivationPlan, Placement, Unmet
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.strays import strays
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.installation.discovery import Rejected
from zeroclaw_host.package.manifest import Capability, Manifest

MEMORY_PREFIX: Final = "plugin:"
"""How ``memory.backend`` names a package."""


class State(StrEnum):
    """How it is with a plugin."""

    LOADED = "loaded"
    """It is loaded and can be called."""
    ADMITTED = "admitted"
    """The plan has it, and it is not loaded yet."""
    INACTIVE = "inactive"
    """The plan does not have it."""
    FAILED = "failed"
    """The plan has it, and it does not load."""
    REFUSED = "refused"
    """Its package lies in the plugins directory, and admission refuses it."""
    MISSING = "missing"
    """The configuration names a package that is not installed."""


_FAULTS: Final = frozenset({State.FAILED, State.REFUSED, State.MISSING})


@dataclass(frozen=True, slots=True)
class Standing:
    """How it is with one instance; with a package, where no instance of it can be."""

    package: str
    state: State
    reason: str = ""
    version: str | None = None
    capability: str | None = None
    binding: str | None = None
    key: str | None = None

    @property
    def problem(self) -> str | None:
        """The sentence of an operator's problem, if it is one."""
        if self.state not in _FAULTS:
            return None
        instance = f" ({self.capability} {self.binding})" if self.capability is not None else ""
        return f"plugin {self.package}{instance} is {self.state}: {self.reason}"

    def facts(self) -> dict[str, JsonValue]:
        """The members of ``status``."""
        return {
            "package": self.package,
            "version": self.version,
            "capability": self.capability,
            "binding": self.binding,
            "key": self.key,
            "state": self.state.value,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that were loaded last: what they were planned from, and what became of each package."""

    plan: ActivationPlan = field(default_factory=ActivationPlan)
    manifests: Mapping[str, Manifest] = field(default_factory=dict[str, Manifest])
    rejected: tuple[Rejected, ...] = ()
    loaded: frozenset[str] = frozenset()
    """Packages whose tools can be called."""
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Packages whose tools do not load, and why."""


class PluginsState(StrEnum):
    """How it is with plugins as a whole."""

    ON = "on"
    """They may run, and what is installed is known."""
    OFF = "off"
    """``plugins.enabled`` is false."""
    UNREADABLE = "unreadable"
    """``[plugins]`` cannot be read, so they are off (PLG-123)."""
    UNSEEN = "unseen"
    """They were turned on, and nobody has looked at what is installed since."""


def plugins_state(in_force: InForce, tools: ToolSet | None, snapshot: Snapshot) -> PluginsState:
    """How it is with plugins as a whole: an empty list of them alone would not say why it is empty (D-17)."""
    if snapshot.plugins_dropped:
        return PluginsState.UNREADABLE
    if not snapshot.config.plugins.enabled:
        return PluginsState.OFF
    return PluginsState.UNSEEN if tools is None and in_force.manifests is None else PluginsState.ON


def standings(in_force: InForce, tools: ToolSet | None, config: Config) -> tuple[Standing, ...]:
    """Everything there is to tell, in the plan's order, then what was refused.

    Channels are told as the plan in force has them; tools and skills as the newest tool set has them, or, while there is
    none, as a turn with this configuration would find them.
    """
    manifests = {**(in_force.manifests or {}), **(tools.manifests if tools is not None else {})}
    others = (
        tools.plan
        if tools is not None
        else ActivationPlan.of(config, in_force.manifests or {}, channels=in_force.plan.channels)
    )
    found = [
        *(_of(each, manifests, tools) for each in in_force.plan.channels),
        *(_of(each, manifests, tools) for each in others.placements if not each.is_channel),
        *_memory(config, in_force, manifests),
    ]
    rejected = tools.rejected if tools is not None else in_force.rejected
    found.extend(
        Standing(each.name or each.directory.name, State.REFUSED, each.error.message) for each in rejected
    )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PluginsReport:
    """The standings, and the sentences of what is wrong: with rows that nothing reads, then with plugins."""

    standings: tuple[Standing, ...]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, in_force: InForce, tools: ToolSet | None, config: Config) -> PluginsReport:
        """See :func:`standings` and :func:`~zeroclaw_daemon.config.strays.strays`."""
        found = standings(in_force, tools, config)
        problems = [stray.message for stray in strays(config, in_force.manifests)]
        problems.extend(standing.problem for standing in found if standing.problem is not None)
        return cls(found, tuple(problems))


class PluginsReports:
    """Gives :class:`PluginsReport`, made anew only when something that it is made of is another: ``status`` is asked often."""

    def __init__(self) -> None:
        self._made: tuple[InForce, ToolSet | None, Config, PluginsReport] | None = None

    def of(self, in_force: InForce, tools: ToolSet | None, config: Config) -> PluginsReport:
        """See :meth:`PluginsReport.of`. All three never change, so the same objects mean the same."""
        made = self._made
        if made is None or made[0] is not in_force or made[1] is not tools or made[2] is not config:
            made = self._made = (in_force, tools, config, PluginsReport.of(in_force, tools, config))
        return made[3]


def _of(placement: Placement, manifests: Mapping[str, Manifest], tools: ToolSet | None) -> Standing:
    identity = placement.identity
    manifest = manifests.get(identity.package)
    state, reason = _state(placement, tools)
    return Standing(
        identity.package,
        state,
        reason,
        manifest.version if manifest is not None else None,
        identity.capability.value,
        identity.binding,
        identity.key,
    )


def _state(placement: Placement, tools: ToolSet | None) -> tuple[State, str]:
    package = placement.identity.package
    if placement.unmet is Unmet.NOT_INSTALLED:
        return State.MISSING, placement.reason
    if not placement.admitted:
        return State.INACTIVE, placement.reason
    if placement.identity.capability is not Capability.TOOL or tools is None:
        return State.ADMITTED, ""
    if package in tools.failed:
        return State.FAILED, tools.failed[package]
    return (State.LOADED if package in tools.loaded else State.ADMITTED), ""


def _memory(config: Config, in_force: InForce, manifests: Mapping[str, Manifest]) -> Iterator[Standing]:
    """A memory that the configuration chooses and nobody installed."""
    package = config.memory.backend.removeprefix(MEMORY_PREFIX)
    if package != config.memory.backend and in_force.manifests is not None and package not in manifests:
        yield Standing(
            package, State.MISSING, f"memory.backend names it, and no package {package} is installed"
        )
