"""The plan in force: made at a start and at a reload, and at no other time."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from zeroclaw_daemon.activation.current import Activation
from zeroclaw_daemon.activation.plan import Unmet
from zeroclaw_daemon.config.file import Snapshot, load
from zeroclaw_host.errors import StorageError
from zeroclaw_host.installation.discovery import Discovery, discover
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.signature import SignaturePolicy

OPS = InstanceIdentity("acme", Capability.CHANNEL, "ops")
BOUND = (
    '[plugins]\nenabled = true\n[agents.ada]\nchannels = ["plugin.ops"]\n'
    '[channels.plugin.ops]\npackage = "acme"\n'
)


class Installation:
    """A configuration file and a plugins directory, with an :class:`Activation` over both."""

    def __init__(self, path: Path) -> None:
        self.file = path / "config.toml"
        self.plugins = path / "plugins"
        self.plugins.mkdir()
        self.looked = 0
        self.activation = Activation(self._discover)

    def _discover(self, snapshot: Snapshot) -> Discovery:
        self.looked += 1
        return discover(self.plugins, SignaturePolicy())

    def configure(self, text: str) -> Snapshot:
        self.file.write_text(text)
        return load(self.file)

    def install(self, name: str, *capabilities: str) -> None:
        directory = self.plugins / name
        directory.mkdir()
        (directory / "plugin.wasm").write_bytes(b"\0asm")
        (directory / "manifest.toml").write_text(
            f'name = "{name}"\nversion = "1"\ncapabilities = {json.dumps(capabilities)}\nwasm_path = "plugin.wasm"\n'
        )

    @property
    def admitted(self) -> tuple[InstanceIdentity, ...]:
        return self.activation.in_force.plan.admitted


@pytest.fixture
def here(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


@pytest.mark.req("PLG-276")
def test_what_is_bound_meanwhile_waits_for_the_reload(here: Installation) -> None:
    here.install("acme", "channel")
    before = here.configure('[plugins]\nenabled = true\n[agents.ada]\nchannels = ["plugin.ops"]\n')
    here.activation.start(before)
    assert not here.activation.waits(before.config)
    after = here.configure(BOUND)
    assert here.activation.waits(after.config)
    assert here.admitted == ()
    assert here.activation.reload(after) == ("the channel ops of acme is active",)
    assert here.admitted == (OPS,)
    assert not here.activation.waits(after.config)
    assert here.activation.reload(after) == ()


def test_what_is_unbound_or_switched_off_runs_until_the_reload(here: Installation) -> None:
    here.install("acme", "channel")
    here.activation.start(here.configure(BOUND))
    off = here.configure(BOUND + "enabled = false\n")
    assert here.activation.waits(off.config)
    assert here.admitted == (OPS,)
    [change] = here.activation.reload(off)
    assert change == (
        "the channel ops of acme is not active: its binding is off: channels.plugin.ops.enabled is false"
    )
    assert here.activation.reload(here.configure("")) == ("the channel ops of acme is gone",)


def test_a_package_that_came_since_is_seen_by_the_reload_alone(here: Installation) -> None:
    bound = here.configure(BOUND)
    here.activation.start(bound)
    here.install("acme", "channel")
    assert here.admitted == ()
    here.activation.reload(bound)
    assert here.admitted == (OPS,)


@pytest.mark.req("PLG-348")
def test_while_plugins_are_off_nobody_looks_at_the_plugins_directory(here: Installation) -> None:
    here.install("acme", "channel")
    off = here.configure(BOUND.replace("true", "false"))
    here.activation.start(off)
    assert here.looked == 0
    placement = here.activation.in_force.plan.of_instance(OPS)
    assert placement is not None
    assert placement.unmet is Unmet.PLUGINS_OFF
    assert not here.activation.waits(off.config)
    assert here.activation.waits(here.configure(BOUND).config)


@pytest.mark.req("PLG-275")
def test_a_plugins_directory_that_cannot_be_listed_leaves_the_plan_as_it_was(
    here: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    here.install("acme", "channel")
    bound = here.configure(BOUND)
    here.activation.start(bound)
    before = here.activation.in_force
    here.plugins.rename(here.plugins.with_name("away"))
    here.plugins.write_text("in its place")
    with pytest.raises(StorageError):
        here.activation.reload(bound)
    assert here.activation.in_force is before
    with caplog.at_level(logging.ERROR):
        here.activation.start(bound)
    assert "the plan cannot be made" in caplog.text


def test_only_what_nobody_switched_off_is_warned_of(
    here: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        here.activation.start(here.configure(BOUND + "enabled = false\n"))
        here.activation.start(here.configure(BOUND.replace("true", "false")))
        assert caplog.messages == []
        here.activation.start(here.configure(BOUND))
    assert caplog.messages == ["the channel ops of acme is not active: the package acme is not installed"]
