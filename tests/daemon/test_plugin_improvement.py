"""Plugins are made faster one at a time, whenever some were loaded, and never in the way of the daemon's end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from zeroclaw_daemon.plugin_improvement import PluginImprovement
from zeroclaw_daemon.records import ATTRIBUTE
from zeroclaw_host.errors import CompileLimit, StorageError, ZeroclawError
from zeroclaw_host.installation.discovery import PackageChanged
from zeroclaw_host.sandbox.compiling.compile import CompilerFailed

SECONDS = 30.0


@dataclass(frozen=True)
class Package:
    name: str
    version: str = "1.0.0"

    @property
    def component_sha256(self) -> str:
        return f"digest of {self.name}"


@dataclass(eq=False)
class Host:
    """A host whose packages wait to be improved. ``faults`` says what goes wrong with which, and how often."""

    waiting: list[str]
    faults: dict[str, list[ZeroclawError]] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    compiling: threading.Event = field(default_factory=threading.Event)
    until_told: bool = False
    at_once: int = 0

    def improvable(self) -> tuple[Package, ...]:
        return tuple(Package(name) for name in self.waiting)

    def improve(self, package: Package, *, on_compile: Callable[[float], None]) -> None:
        self.at_once += 1
        assert self.at_once == 1
        try:
            self.tried.append(package.name)
            self.compiling.set()
            while self.until_told:
                on_compile(0.25)
            faults = self.faults.get(package.name)
            if faults:
                raise faults.pop()
            self.waiting.remove(package.name)
        finally:
            self.at_once -= 1


@contextmanager
def running(host: Host | None) -> Iterator[PluginImprovement]:
    """An improvement at work in its thread; at the end it was told to stop, and did."""
    improvement = PluginImprovement(lambda: host)  # type: ignore[arg-type, return-value]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(improvement.run)
        try:
            yield improvement
        finally:
            improvement.stop()
            done.result(SECONDS)


def look_and_wait(improvement: PluginImprovement, host: Host) -> None:
    """Tell it to look, and wait until it has seen that there is nothing left to do."""
    seen = threading.Event()
    found = host.improvable

    def improvable() -> tuple[Package, ...]:
        packages = found()
        given_up = set[str | None]().union(*improvement._given_up.values())
        passed_over = given_up | improvement._put_off
        if all(package.component_sha256 in passed_over for package in packages):
            seen.set()
        return packages

    host.improvable = improvable  # type: ignore[method-assign]
    improvement.look()
    assert seen.wait(SECONDS)
    host.improvable = found  # type: ignore[method-assign]


def actions(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    facts = [getattr(record, ATTRIBUTE) for record in caplog.records if hasattr(record, ATTRIBUTE)]
    return [(fact["action"], fact["plugin"]) for fact in facts]


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="zeroclaw_daemon")


def test_everything_that_was_loaded_is_improved_one_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(["a", "b", "c"])
    with running(host) as improvement:
        look_and_wait(improvement, host)
    assert host.tried == ["a", "b", "c"]
    assert actions(caplog) == [("plugin_improved", name) for name in "abc"]


def test_nothing_is_done_before_somebody_says_that_plugins_were_loaded() -> None:
    host = Host(["a"])
    with running(host):
        pass
    assert host.tried == []


def test_what_is_loaded_later_is_improved_later() -> None:
    host = Host(["a"])
    with running(host) as improvement:
        look_and_wait(improvement, host)
        host.waiting.append("b")
        look_and_wait(improvement, host)
    assert host.tried == ["a", "b"]


def test_a_plugin_that_cannot_be_improved_is_told_of_once_and_the_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host(["a", "b"], {"a": [CompileLimit("too large") for _ in range(9)]})
    with running(host) as improvement:
        look_and_wait(improvement, host)
        look_and_wait(improvement, host)
    assert host.tried == ["a", "b"]
    assert actions(caplog) == [("plugin_not_improved", "a"), ("plugin_improved", "b")]
    assert "too large" in caplog.text


def test_a_host_with_other_settings_may_do_what_the_former_one_could_not() -> None:
    hosts = [Host(["a"], {"a": [CompileLimit("too large")]})]
    improvement = PluginImprovement(lambda: hosts[-1])  # type: ignore[arg-type, return-value]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(improvement.run)
        look_and_wait(improvement, hosts[-1])
        hosts.append(Host(["a"]))
        look_and_wait(improvement, hosts[-1])
        improvement.stop()
        done.result(SECONDS)
    assert [(host.tried, host.waiting) for host in hosts] == [(["a"], ["a"]), (["a"], [])]


def test_a_full_disk_ends_the_round_and_what_waits_is_tried_when_plugins_are_loaded_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host(["a", "b"], {"a": [StorageError("the file system is full")]})
    with running(host) as improvement:
        improvement.look()
        assert host.compiling.wait(SECONDS)
        look_and_wait(improvement, host)
    assert host.tried == ["a", "a", "b"]
    assert actions(caplog) == [
        ("plugin_not_improved", "a"),
        ("plugin_improved", "a"),
        ("plugin_improved", "b"),
    ]


@pytest.mark.parametrize(
    "fault",
    [
        CompileLimit("took longer than 1200 s", details={"limit": "seconds"}),
        CompilerFailed("the compiler's process ended with signal 9"),
        PackageChanged("a was changed after it was found"),
    ],
    ids=lambda fault: fault.code,
)
def test_what_may_be_otherwise_tomorrow_is_tried_again_when_plugins_are_loaded_again_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture, fault: ZeroclawError
) -> None:
    host = Host(["a", "b"], {"a": [fault, fault]})
    with running(host) as improvement:
        look_and_wait(improvement, host)
        assert host.tried == ["a", "b"]
        look_and_wait(improvement, host)
        assert host.tried == ["a", "b", "a"], "once for each time that plugins were loaded"
        look_and_wait(improvement, host)
    assert host.tried == ["a", "b", "a", "a"]
    assert host.waiting == []


def test_a_daemon_that_ends_gives_up_what_is_being_compiled_and_says_nothing_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host(["a", "b"], until_told=True)
    with running(host) as improvement:
        improvement.look()
        assert host.compiling.wait(SECONDS)
    assert host.tried == ["a"]
    assert actions(caplog) == []


def test_without_a_host_there_is_nothing_to_do() -> None:
    with running(None) as improvement:
        improvement.look()
