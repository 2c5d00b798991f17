from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import ComponentMismatch, PluginNotFound, RemedyAction, StorageError
from zeroclaw_host.host import PluginHost
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.archive import write_archive
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.location import Location, RegistryNotNamed
from zeroclaw_host.services.logging import CallSite

Write = Callable[..., Any]


@pytest.fixture
def host(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginHost]:
    with PluginHost(tmp_path / "plugins", tmp_path / "cache") as running:
        yield running


def test_a_tool_goes_from_a_directory_to_an_answer(
    host: PluginHost, tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "source")
    assert host.install(str(tmp_path / "source")).name == "echo"
    tool = host.load_tool(host.discover().get("echo"))
    assert tool.name == "echo"
    assert json.loads(tool.execute_sync({"text": "hello"}).output) == {"text": "hello"}


@pytest.mark.anyio
async def test_a_tool_answers_on_an_event_loop_too(
    host: PluginHost, tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "plugins" / "echo")
    [tool] = host.tools()
    assert (await tool.execute({"n": 1}, call_site=CallSite())).output == '{"n": 1}'


@pytest.mark.req("PAINS-13")
def test_installed_listed_checked_and_callable_agree_from_any_directory_and_environment(
    tmp_path: Path, write_package: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path / "source")
    with PluginHost(tmp_path / "plugins", tmp_path / "cache") as host:
        host.install(str(tmp_path / "source"))
    (tmp_path / "elsewhere" / "echo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in list(os.environ):
        monkeypatch.delenv(name)
    with PluginHost(tmp_path / "plugins", tmp_path / "cache") as host:
        assert [package.name for package in host.discover().packages] == ["echo"]
        assert host.check("echo").loads
        assert [tool.name for tool in host.tools()] == ["echo"]
        assert host.tools()[0].execute_sync({}).success
        host.remove("echo")
        assert host.discover().packages == ()
        assert host.tools() == []
        with pytest.raises(PluginNotFound):
            host.check("echo")


def test_a_package_comes_from_an_archive_and_from_a_registry(tmp_path: Path, write_package: Write) -> None:
    source = write_package(tmp_path / "source")
    archive = write_archive(admit(DirectoryReader(source.directory), SignaturePolicy()))
    (tmp_path / "echo.zip").write_bytes(archive)
    entry = {"name": "echo", "version": "1.0.0", "url": "echo.zip"}
    (tmp_path / "registry.json").write_text(json.dumps({"plugins": [entry]}))
    with PluginHost(tmp_path / "a", tmp_path / "cache") as host:
        host.install(str(tmp_path / "echo.zip"))
    with PluginHost(tmp_path / "b", tmp_path / "cache") as host:
        host.install("echo@1.0.0", registry=RegistryClient(Location.parse(str(tmp_path))))
    for plugins in ("a", "b"):
        installed = tmp_path / plugins / "echo" / "plugin.wasm"
        assert installed.read_bytes() == (source.directory / "plugin.wasm").read_bytes()


def test_a_name_without_a_registry_says_how_to_name_one(host: PluginHost) -> None:
    with pytest.raises(RegistryNotNamed, match="redact is no path") as caught:
        host.install("redact")
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.NAME_REGISTRY


@pytest.mark.req("PLG-039", "PLG-040", "PLG-041", "PLG-042")
def test_what_was_installed_unverified_is_checked_with_its_whole_chain_of_causes(
    host: PluginHost, tmp_path: Path, write_package: Write, foreign_component: bytes
) -> None:
    write_package(tmp_path / "source", component=foreign_component)
    with pytest.raises(ComponentMismatch):
        host.install(str(tmp_path / "source"))
    host.install(str(tmp_path / "source"), verify=False)
    verdict = host.check("echo")
    assert not verdict.loads
    assert verdict.applicable
    assert isinstance(verdict.error, ComponentMismatch)
    assert verdict.error.remedy is not None
    assert verdict.error.remedy.action is RemedyAction.REBUILD_PLUGIN
    assert verdict.causes[0] == verdict.error.message
    assert verdict.causes[1:] == verdict.error.causes()


@pytest.mark.req("PLG-041")
def test_the_verdict_holds_what_the_engine_said_below_what_the_host_says(
    host: PluginHost, tmp_path: Path, write_package: Write, trapping_component: bytes
) -> None:
    write_package(tmp_path / "plugins" / "echo", component=trapping_component)
    verdict = host.check("echo")
    assert not verdict.loads
    assert verdict.causes[0] == "the plugin aborted (unreachable)"
    assert verdict.error is not None
    assert verdict.error.details["trap"] == "unreachable"
    assert "boom" in str(verdict.error.details["backtrace"])


def test_a_cache_that_cannot_be_used_says_nothing_about_a_package(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "plugins" / "echo")
    (tmp_path / "cache").touch()
    with PluginHost(tmp_path / "plugins", tmp_path / "cache") as host:
        with pytest.raises(StorageError):
            host.check("echo")
        with pytest.raises(StorageError):
            host.check_all()


@pytest.mark.req("PLG-043", "PLG-045")
def test_every_installed_package_gets_its_own_verdict(
    host: PluginHost, tmp_path: Path, write_package: Write, write_skill: Write
) -> None:
    write_package(tmp_path / "plugins" / "a", name="good")
    write_package(tmp_path / "plugins" / "b", name="bad", component=b"\0asm\x0d\0\x01\0\xff\xff")
    write_skill(tmp_path / "plugins" / "c")
    verdicts = {checked.installed.name: checked.verdict for checked in host.check_all()}
    assert list(verdicts) == ["bad", "good", "manners"]
    assert verdicts["good"].loads
    assert not verdicts["bad"].loads
    assert len(verdicts["bad"].causes) >= 1
    assert verdicts["manners"].loads
    assert not verdicts["manners"].applicable


@pytest.mark.req("PLG-044")
def test_looking_at_what_is_installed_starts_no_engine_and_compiles_nothing(
    host: PluginHost, tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "plugins" / "a")
    write_package(tmp_path / "plugins" / "b", name="corrupt", component=b"\0asm\x0d\0\x01\0\xff\xff")
    assert [package.name for package in host.discover().packages] == ["corrupt", "echo"]
    assert not host.started
    assert not (tmp_path / "cache").exists()


@pytest.mark.req("PAINS-10")
def test_a_component_swapped_after_it_was_found_does_not_run(
    host: PluginHost, tmp_path: Path, write_package: Write, foreign_component: bytes
) -> None:
    write_package(tmp_path / "plugins" / "echo")
    installed = host.discover().get("echo")
    (tmp_path / "plugins" / "echo" / "plugin.wasm").write_bytes(foreign_component)
    with pytest.raises(Exception, match="changed after it was found"):
        host.load_tool(installed)
    assert not host.check("echo").loads
    assert not host.check_all()[0].verdict.loads


def test_what_would_be_improved_is_what_was_loaded_last_of_each_name(
    host: PluginHost,
    tmp_path: Path,
    write_package: Write,
    echo_component: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "plugins" / "echo"
    write_package(directory)
    write_package(tmp_path / "plugins" / "twin", name="twin")
    held = [host.load_tool(package) for package in host.discover().packages]
    everything = type("Everything", (), {"__contains__": lambda *_: True})()
    monkeypatch.setattr(host.sandbox, "improvable", lambda: everything)  # these are too small to be shared
    assert [package.name for package in host.improvable()] == ["echo", "twin"], "though they are the same"
    for number in range(3):  # as an author does who builds and loads again
        (directory / "plugin.wasm").write_bytes(echo_component + bytes([0, 3, 1, 120, number]))
        held.append(host.load_tool(host.discover().get("echo")))
    assert list(host.improvable()) == list(host.discover().packages), (
        "the earlier ones are not there to be read"
    )


def test_a_closed_host_can_be_asked_what_is_installed_and_closing_twice_is_fine(tmp_path: Path) -> None:
    host = PluginHost(tmp_path / "plugins", tmp_path / "cache")
    host.close()
    host.close()
    assert host.discover().packages == ()
