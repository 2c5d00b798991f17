"""A daemon compiles its plugins again for speed, after it began to serve, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.plugin_tools import PluginTools
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink

SECONDS = 240.0
"""Long, because what is tried here waits for every other process of the machine."""

ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"


Found = TypeVar("Found")


def until(what: Callable[[], Found]) -> Found:
    """Wait for something that no event tells of, and return it."""
    end = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def gone(process: int) -> bool:
    """Whether a process has ended. One that nobody takes leave of stays in the table as a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def with_library(component: bytes) -> bytes:
    """The component with one more core module, large enough that others might have it too."""
    module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x04\x01\x02\0\x0b"
    padding = b"\x07padding" + b"x" * 200_000
    module += b"\0" + _length(padding) + padding
    return component + b"\x01" + _length(module) + module


def _length(content: bytes) -> bytes:
    rest, out = len(content), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def artifacts(home) -> list[str]:
    """The kinds of what lies in the cache, unfinished files among them."""
    files = [path.name for path in (home.data / "cache").iterdir()]
    return sorted(name.partition("-")[0] for name in files if name.endswith((".artifact", ".partial")))


def actions(home) -> list[str]:
    return [line["event"]["action"] for line in home.log()]


def compilers_of(process: int) -> list[int]:
    """The compiling children of a process."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == process and b"zeroclaw_host.sandbox.compiling.compiler" in command:
            found.append(int(status.parent.name))
    return found


def install(home, zeroclaw, package, component: bytes) -> None:
    home.configure(ON)
    done = zeroclaw("plugin", "install", str(package(component=with_library(component))))
    assert done.status == 0, done.err
    assert artifacts(home) == ["module", "shared"]


def test_whether_modules_are_shared_is_a_setting_that_holds_from_the_next_turn_on(
    home, zeroclaw, package, echo_component
) -> None:
    install(home, zeroclaw, package, echo_component)
    services = InstanceServices(
        config=EntryResolver(lambda: load(home.config_file), home.key_file), log=MemoryLogSink()
    )
    loads: list[str] = []
    tools = PluginTools(
        Paths.resolve(None, home.environment()), services, on_load=lambda: loads.append("loaded")
    )
    try:
        assert [tool.name for tool in tools.tools(load(home.config_file))] == ["wat_echo"]
        assert tools.host is not None
        assert [found.name for found in tools.host.improvable()] == ["wat-echo"]
        home.configure(f"{ON}[plugins.compile]\nshare_core_modules = false\n")
        assert [tool.name for tool in tools.tools(load(home.config_file))] == ["wat_echo"]
        assert tools.host.improvable() == ()
        assert artifacts(home) == ["component", "module", "shared"]
        assert loads == ["loaded", "loaded"]
    finally:
        tools.close()


@pytest.mark.slow
def test_a_plugin_is_in_its_faster_form_some_time_after_the_daemon_began_to_serve(
    home, zeroclaw, zeroclaw_process, package, echo_component, start_daemon
) -> None:
    install(home, zeroclaw, package, echo_component)
    daemon = start_daemon()
    until(lambda: "plugin_improved" in actions(home))
    assert artifacts(home) == ["component", "module"]
    done = zeroclaw_process("prompt", "/tool wat_echo " + json.dumps({"still": "there"}))
    assert done.status == 0, done.err
    assert "still" in done.out
    assert daemon.stop()[0] == 0


@pytest.mark.slow
def test_a_daemon_ends_at_once_although_it_compiles_and_leaves_nothing_unfinished(
    home, zeroclaw, package, large_component, start_daemon
) -> None:
    install(home, zeroclaw, package, large_component)
    daemon = start_daemon()
    [compiler] = until(lambda: compilers_of(daemon.pid))
    until(lambda: os.getpriority(os.PRIO_PROCESS, compiler) == 19)
    os.kill(compiler, signal.SIGSTOP)  # so that it is not done before the daemon is told to stop
    status, _ = daemon.stop()
    assert status == 0
    assert gone(compiler)
    assert artifacts(home) == ["module", "shared"]
    assert "stop" in actions(home)
    assert "plugin_not_improved" not in actions(home)


@pytest.mark.slow
def test_the_compiler_of_a_daemon_that_was_killed_ends_as_well_and_the_next_daemon_begins_again(
    home, zeroclaw, package, large_component, start_daemon
) -> None:
    install(home, zeroclaw, package, large_component)
    daemon = start_daemon()
    [compiler] = until(lambda: compilers_of(daemon.pid))
    daemon.stop(signal.SIGKILL)
    until(lambda: gone(compiler))
    assert "component" not in artifacts(home)
    again = start_daemon()
    until(lambda: compilers_of(again.pid))
    assert again.stop()[0] == 0
