"""The load check, for each kind of package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zeroclaw_host.errors import ComponentInvalid, ComponentMismatch, GuestTrap, MemoryLimit, StorageError
from zeroclaw_host.sandbox.causes import chain
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.loading import check_load


@pytest.fixture(scope="session")
def wat():
    def make(text: str) -> bytes:
        tool = Path(sys.executable).with_name("wasm-tools")
        command = [str(tool), "parse", "-", "-o", "/dev/stdout"]
        return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout

    return make


@pytest.mark.req("PLG-003", "PLG-038")
def test_a_tool_that_fits_loads(sandbox, probe_component, package_of):
    verdict = check_load(sandbox, package_of(probe_component), Limits())
    assert (verdict.loads, verdict.applicable, verdict.causes, verdict.error) == (True, True, (), None)


@pytest.mark.req("PLG-004")
def test_a_bundle_of_skills_has_nothing_to_load(sandbox, package_of):
    verdict = check_load(sandbox, package_of(None, capabilities=("skill",)), Limits())
    assert (verdict.loads, verdict.applicable) == (True, False)


@pytest.mark.req("PLG-003")
@pytest.mark.parametrize("capabilities", [("channel",), ("memory",), ("tool", "channel"), ("memory", "tool")])
def test_every_capability_must_hold(capabilities, sandbox, probe_component, package_of):
    verdict = check_load(sandbox, package_of(probe_component, capabilities=capabilities), Limits())
    assert not verdict.loads
    assert isinstance(verdict.error, ComponentMismatch)
    missing = next(word for word in capabilities if word != "tool")
    assert f"zeroclaw:plugin/{missing}" in str(verdict.error.details["differences"])


@pytest.mark.req("PLG-029", "PLG-038")
def test_a_component_of_no_world_does_not_load_and_the_causes_say_why(sandbox, wat, package_of):
    verdict = check_load(sandbox, package_of(wat("(component)")), Limits())
    assert not verdict.loads
    assert "plugin-info" in verdict.causes[0]


def test_what_is_no_component_does_not_load(sandbox, package_of):
    verdict = check_load(sandbox, package_of(b"\x7fELF"), Limits())
    assert isinstance(verdict.error, ComponentInvalid)


@pytest.mark.req("PLG-022")
def test_the_check_runs_under_the_operators_limits(sandbox, probe_component, package_of):
    verdict = check_load(sandbox, package_of(probe_component), Limits(max_memory_mb=1))
    assert isinstance(verdict.error, MemoryLimit)
    assert verdict.error.details == {"limit": "max_memory_mb", "maximum": 1, "wanted": 13}


@pytest.mark.req("PLG-038")
def test_the_check_configures_nothing_and_calls_no_export(sandbox, probe_component, package_of, monkeypatch):
    from zeroclaw_host.sandbox.store import Guest

    monkeypatch.setattr(Guest, "call", None)
    assert check_load(sandbox, package_of(probe_component, permissions=("config_read",)), Limits()).loads


def test_a_fault_of_the_host_is_no_verdict_on_the_package(sandbox, probe_component, package_of, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise StorageError("the file system is full")

    monkeypatch.setattr(sandbox, "load", full)
    with pytest.raises(StorageError):
        check_load(sandbox, package_of(probe_component), Limits())


@pytest.mark.req("PLG-041")
def test_the_causes_are_the_engines_whole_chain(sandbox, package_of, monkeypatch):
    trap = GuestTrap("the plugin aborted")
    trap.__cause__ = chain(
        "error while executing at wasm backtrace:\n    0: f\n\nCaused by:\n    wasm trap: x"
    )

    def trapped(*_: object, **__: object) -> None:
        raise trap

    monkeypatch.setattr("zeroclaw_host.worlds.loading.link_package", trapped)
    verdict = check_load(sandbox, package_of(b"anything"), Limits())
    assert verdict.causes == ("the plugin aborted", "wasm trap: x")
