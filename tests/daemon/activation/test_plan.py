"""Which instances are to run: a function of the configuration and of what is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.activation.plan import ActivationPlan, Unmet
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability, Manifest


def manifest(name: str, *capabilities: str) -> Manifest:
    return Manifest.model_validate(
        {"name": name, "version": "1", "capabilities": capabilities, "wasm_path": "plugin.wasm"}
    )


def installed(**capabilities: str) -> dict[str, Manifest]:
    """``acme="channel tool"`` and so on."""
    return {name: manifest(name, *words.split()) for name, words in capabilities.items()}


def config(
    *,
    enabled: bool = True,
    auto_discover: bool = False,
    bindings: Mapping[str, Mapping[str, object]] | None = None,
    listed: tuple[str, ...] = ("plugin.ops",),
    agent_enabled: bool = True,
    ceiling: int = 50,
) -> Config:
    found: dict[str, Any] = {
        "plugins": {"enabled": enabled, "auto_discover": auto_discover, "max_active_instances": ceiling},
        "agents": {"ada": {"enabled": agent_enabled, "channels": listed}},
        "channels": {"plugin": bindings if bindings is not None else {"ops": {"package": "acme"}}},
    }
    return Config.model_validate(found)


OPS = InstanceIdentity("acme", Capability.CHANNEL, "ops")


def unmet(made: ActivationPlan, identity: InstanceIdentity = OPS) -> Unmet | None:
    placement = made.of_instance(identity)
    assert placement is not None
    return placement.unmet


@pytest.mark.req("PLG-129", "PLG-370")
def test_a_bound_channel_needs_no_discovery_of_tools_and_no_enabled_key() -> None:
    made = ActivationPlan.of(config(auto_discover=False), installed(acme="channel tool"))
    assert made.admitted == (OPS,)
    assert unmet(made, InstanceIdentity.default_tool("acme")) is Unmet.DISCOVERY_OFF


@pytest.mark.req("PLG-270", "PLG-370")
def test_the_first_thing_that_lacks_is_named_and_mending_it_names_the_next() -> None:
    """Each step mends exactly what the step before was told."""
    off = {"ops": {"package": "acme", "enabled": False}}
    on = {"ops": {"package": "acme", "enabled": True}}
    nobody: dict[str, Manifest] = {}
    two = {"ops": {"package": "acme"}, "aaa": {"package": "acme"}}
    both = ("plugin.ops", "plugin.aaa")
    steps = [
        (config(enabled=False, bindings=off, listed=()), nobody, Unmet.PLUGINS_OFF),
        (config(bindings=off, listed=()), nobody, Unmet.BINDING_OFF),
        (config(bindings=on, listed=()), nobody, Unmet.NO_AGENT),
        (config(bindings=on, agent_enabled=False), nobody, Unmet.NO_AGENT),
        (config(bindings=on), nobody, Unmet.NOT_INSTALLED),
        (config(bindings=on), installed(acme="tool"), Unmet.NO_CHANNEL),
        (config(bindings=two, listed=both, ceiling=1), installed(acme="channel"), Unmet.NO_SLOT),
        (config(bindings=two, listed=both, ceiling=2), installed(acme="channel"), None),
    ]
    assert [unmet(ActivationPlan.of(found, packages)) for found, packages, _ in steps] == [
        expected for *_, expected in steps
    ]


def test_an_agent_lists_a_channel_by_its_whole_name() -> None:
    for listed in (("ops",), ("plugin.op",), ("plugin.opsx",), ("*",)):
        assert unmet(ActivationPlan.of(config(listed=listed), installed(acme="channel"))) is Unmet.NO_AGENT


@pytest.mark.req("PLG-138")
def test_packages_share_an_alias_only_by_name_and_a_binding_belongs_to_one() -> None:
    made = ActivationPlan.of(config(), installed(acme="channel", other="channel"))
    assert [identity.package for identity in made.admitted] == ["acme"]


def test_channels_come_first_then_tools_and_skills_each_sorted() -> None:
    bindings = {"b": {"package": "zeta"}, "a": {"package": "zeta"}, "ops": {"package": "acme"}}
    packages = installed(zeta="tool channel skill", acme="channel", alpha="skill tool")
    made = ActivationPlan.of(
        config(auto_discover=True, bindings=bindings, listed=("plugin.a", "plugin.b", "plugin.ops")), packages
    )
    told = [(i.package, i.capability.value, i.binding) for i in made.admitted]
    assert told == [
        ("acme", "channel", "ops"),
        ("zeta", "channel", "a"),
        ("zeta", "channel", "b"),
        ("alpha", "skill", "alpha"),
        ("alpha", "tool", "alpha"),
        ("zeta", "skill", "zeta"),
        ("zeta", "tool", "zeta"),
    ]


def test_one_that_cannot_run_takes_no_slot() -> None:
    bindings = {"aaa": {"package": "gone"}, "ops": {"package": "acme"}}
    made = ActivationPlan.of(
        config(bindings=bindings, listed=("plugin.aaa", "plugin.ops"), ceiling=1), installed(acme="channel")
    )
    assert made.admitted == (OPS,)


def test_channels_in_force_keep_their_slots_before_new_ones() -> None:
    packages = installed(acme="channel tool", beta="tool")
    before = ActivationPlan.of(config(auto_discover=True, ceiling=2), packages)
    unbound = config(auto_discover=True, bindings={}, ceiling=2)
    after = ActivationPlan.of(unbound, packages, channels=before.channels)
    assert after.admitted == (OPS, InstanceIdentity.default_tool("acme"))
    assert len(ActivationPlan.of(unbound, packages).admitted) == 2


@pytest.mark.req("PLG-271", "PLG-273")
@pytest.mark.parametrize(
    ("found", "path"),
    [
        (config(enabled=False), "plugins.enabled"),
        (config(bindings={"ops": {"package": "acme", "enabled": False}}), "channels.plugin.ops.enabled"),
        (config(listed=()), None),
        (config(), None),
    ],
)
def test_what_one_command_mends_comes_with_it(found: Config, path: str | None) -> None:
    placement = ActivationPlan.of(found, {}).of_instance(OPS)
    assert placement is not None
    assert placement.reason
    remedy = placement.remedy
    assert (None if remedy is None else remedy.arguments["path"]) == path
    assert remedy is None or remedy.action is RemedyAction.SET_CONFIG


ALIASES = st.sampled_from(["a", "b", "c", "d"])
NAMES = st.sampled_from(["p", "q", "r"])
CAPABILITIES = st.sets(st.sampled_from(["tool", "channel", "skill"]), min_size=1).map(sorted)


@given(
    bindings=st.dictionaries(ALIASES, st.fixed_dictionaries({"package": NAMES, "enabled": st.booleans()})),
    listed=st.sets(ALIASES),
    packages=st.dictionaries(NAMES, CAPABILITIES),
    enabled=st.booleans(),
    auto_discover=st.booleans(),
    ceiling=st.integers(1, 6),
)
def test_whatever_is_configured_the_plan_obeys_its_rules(
    bindings: dict[str, dict[str, object]],
    listed: set[str],
    packages: dict[str, list[str]],
    enabled: bool,
    auto_discover: bool,
    ceiling: int,
) -> None:
    found = config(
        enabled=enabled,
        auto_discover=auto_discover,
        bindings=bindings,
        listed=tuple(f"plugin.{alias}" for alias in sorted(listed)),
        ceiling=ceiling,
    )
    manifests = {name: manifest(name, *words) for name, words in packages.items()}
    made = ActivationPlan.of(found, manifests)
    assert made == ActivationPlan.of(found, dict(reversed(manifests.items()))), "an order means nothing"
    assert len(made.admitted) <= ceiling
    assert not made.admitted or enabled
    identities = [placement.identity for placement in made.placements]
    assert len(set(identities)) == len(identities)
    for placement in made.placements:
        identity = placement.identity
        if placement.admitted:
            assert identity.capability in manifests[identity.package].capabilities
            assert placement.is_channel or auto_discover
        if placement.unmet is Unmet.NO_SLOT:
            assert len(made.admitted) == ceiling
    for alias, binding in bindings.items():
        wanted = (
            enabled
            and binding["enabled"]
            and alias in listed
            and "channel" in packages.get(str(binding["package"]), ())
        )
        placement = made.of_instance(InstanceIdentity(str(binding["package"]), Capability.CHANNEL, alias))
        assert placement is not None
        assert (placement.unmet in (None, Unmet.NO_SLOT)) == wanted
