"""Every command, stopped at every step it has: killed before and after each, and failed by the disk at each.

The matrix is made from the steps the commands themselves announce, so that a step that is added is a case that is added.
After each stop: a package is what it was or what it was to become, the same command again ends well or says what to do,
``fsck`` sees what there is and repairs what may be repaired, and the package log is intact.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from zeroclaw_host.errors import PluginNotFound, RemedyAction, ZeroclawError
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.displaced import survey
from zeroclaw_host.installation.faults import WatchedFileSystem
from zeroclaw_host.installation.filesystem import PosixFileSystem
from zeroclaw_host.installation.fsck import FindingKind, fsck
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.package_log import PackageLog
from zeroclaw_host.installation.transaction import NameOccupied
from zeroclaw_host.package.signature import SignaturePolicy

OPEN = SignaturePolicy()
CHILD: Final = Path(__file__).with_name("kill_child.py")
COMMANDS: Final = ("install", "remove", "recover", "update")
FAULTS: Final = (errno.EIO, errno.ENOSPC, errno.EACCES)

ABSENT: Final = None
ALLOWED: Final[dict[str, set[str | None]]] = {
    "install": {ABSENT, "1.0.0"},
    "remove": {"1.0.0", ABSENT},
    "recover": {ABSENT},
    "update": {"1.0.0", "2.0.0"},
}
"""What may be installed after a stop, without anything having been done about it; old and new."""


def load_child() -> ModuleType:
    specification = importlib.util.spec_from_file_location("kill_child", CHILD)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


child = load_child()


def files(version: str) -> dict[str, bytes]:
    """A tiny package of code and a skill, owed a row."""
    lines = (
        'name = "x"',
        f'version = "{version}"',
        'capabilities = ["tool", "skill"]',
        'permissions = ["http_client"]',
        'wasm_path = "plugin.wasm"',
    )
    return {
        "manifest.toml": "\n".join(lines).encode(),
        "skills/a/SKILL.md": b"---\nname: a\ndescription: " + version.encode() + b"\n---\n",
        "plugin.wasm": b"\0asm" + version.encode(),
    }


def lay(directory: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)


def prepare(home: Path, command: str) -> Path:
    """A home in which the command has its work to do."""
    for version in ("1.0.0", "2.0.0"):
        lay(home / version, files(version))
    (home / "plugins").mkdir()
    match command:
        case "remove" | "update":
            lay(home / "plugins" / "x", files("1.0.0"))
        case "recover":
            lay(home / "plugins" / "x", {"manifest.toml": files("1.0.0")["manifest.toml"]})
        case _:
            pass
    return home


def run(
    home: Path, command: str, act: object = lambda number, name: None
) -> tuple[ZeroclawError | None, list[str]]:
    """Run a command in this process; its error, and the steps it reached."""
    steps = child.Steps(act)
    filesystem = WatchedFileSystem(PosixFileSystem(), before=steps.disk)
    journal = PackageLog(home / "log" / "packages.jsonl", at=steps.log)
    try:
        child.run(command, home, filesystem, journal)
    except ZeroclawError as error:
        return error, steps.names
    return None, steps.names


def installed(home: Path) -> str | None:
    """The version that is installed, which is whole to the last byte; None when there is none."""
    found = discover(home / "plugins", OPEN).packages
    if not found:
        return None
    [package] = found
    path = home / "plugins" / "x"
    there = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    assert there == files(package.version)
    return package.version


def entries(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "plugins").iterdir() if path.name not in ("x", LOCK_NAME))


HARMLESS: Final = {
    "install": {FindingKind.ABANDONED_STAGING},
    "remove": {FindingKind.INTERRUPTED_REMOVAL, FindingKind.UNFINISHED_REMOVAL},
    "recover": {
        FindingKind.INTERRUPTED_REMOVAL,
        FindingKind.UNFINISHED_REMOVAL,
        FindingKind.INCOMPLETE_PACKAGE,
    },
    "update": {FindingKind.ABANDONED_STAGING, FindingKind.REPLACED_VERSION, FindingKind.DISPLACED},
}
"""What a stopped command may leave, in the words of ``fsck``."""


def check_what_is_left(home: Path, command: str) -> None:
    """Old or new; or, of an update, moved aside and said to be."""
    plugins = home / "plugins"
    findings = fsck(plugins, OPEN)
    kinds = {finding.kind for finding in findings}
    assert kinds <= HARMLESS[command]
    assert {finding.path.name for finding in findings} >= set(entries(home))
    assert all(finding.remedy is not None for finding in findings)
    displaced = [each.name for each in survey(plugins, OPEN).displaced]
    assert (FindingKind.DISPLACED in kinds) == (displaced == ["x"])
    version = installed(home)
    if displaced:
        assert (command, version) == ("update", ABSENT)
    else:
        assert version in ALLOWED[command]
    assert PackageLog(home / "log" / "packages.jsonl").verify().intact


def check_again(home: Path, command: str) -> None:
    """The same command once more does what it was to do, or says that it was done."""
    before = installed(home)
    error, _ = run(home, command)
    match command:
        case "install" if before is not None:
            assert isinstance(error, NameOccupied)
            assert error.remedy is not None
            assert error.remedy.action is RemedyAction.UPDATE_PLUGIN
        case "install":
            assert error is None
        case "update":
            assert error is None
        case _:
            assert error is None or isinstance(error, PluginNotFound)
    assert installed(home) == {"install": "1.0.0", "update": "2.0.0"}.get(command)
    if command in ("remove", "recover"):
        assert not (home / "plugins" / "x").exists()
        assert not [name for name in entries(home) if (home / "plugins" / name / "package").exists()]
    assert not [name for name in entries(home) if ".replacing-" in name]
    after = installed(home)
    fsck(home / "plugins", OPEN, repair=True)
    assert entries(home) == []
    assert fsck(home / "plugins", OPEN) == ()
    assert installed(home) == after
    assert PackageLog(home / "log" / "packages.jsonl").verify().intact


def steps_of(homes: Path, command: str) -> list[str]:
    """Every step of an undisturbed run, by name."""
    error, names = run(prepare(homes / "undisturbed", command), command)
    assert error is None
    return names


@pytest.fixture(scope="module")
def killer() -> Iterator[subprocess.Popen[str]]:
    """The program whose children are killed."""
    process = subprocess.Popen(
        [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How many cases there were, told at the end where somebody reads it."""
    counted: Counter[str] = Counter()
    yield counted
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
        print("\nkill matrix:", ", ".join(f"{count} {what}" for what, count in counted.items()))


@pytest.fixture
def homes() -> Iterator[Path]:
    """Where hundreds of homes are made: in memory where there is such a place, because every step waits for the disk."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="kill-matrix-") as path:
        yield Path(path)


def kill(killer: subprocess.Popen[str], home: Path, command: str, step: int, when: str) -> None:
    assert killer.stdin is not None
    assert killer.stdout is not None
    case = {"home": str(home), "command": command, "step": step, "when": when}
    killer.stdin.write(json.dumps(case) + "\n")
    killer.stdin.flush()
    assert int(killer.stdout.readline()) == -signal.SIGKILL, (command, step, when)


def points(names: list[str], when: str) -> list[int]:
    """The steps that can be killed at. The log announces its steps ahead of them, the disk on both sides."""
    return [
        number for number, name in enumerate(names) if when == "before" or not name.startswith(child.LOG_STEP)
    ]


@pytest.mark.req("PLG-053", "PLG-098", "PLG-099", "PLG-335", "PLG-337", "PLG-341", "PAINS-11")
@pytest.mark.parametrize("command", COMMANDS)
def test_kill_matrix_after_a_kill_at_any_step(
    command: str, homes: Path, killer: subprocess.Popen[str], tally: Counter[str]
) -> None:
    names = steps_of(homes, command)
    assert len(names) > 15
    tally["steps"] += len(names)
    for when in ("before", "after"):
        for step in points(names, when):
            home = prepare(homes / f"{when}-{step}", command)
            kill(killer, home, command, step, when)
            tally["kill points"] += 1
            check_what_is_left(home, command)
            check_again(home, command)


@pytest.mark.req("PLG-048", "PLG-053", "PLG-332", "PLG-334", "PAINS-11")
@pytest.mark.parametrize("number", FAULTS, ids=[errno.errorcode[number] for number in FAULTS])
@pytest.mark.parametrize("command", COMMANDS)
def test_kill_matrix_after_a_fault_at_any_step(
    command: str, number: int, homes: Path, tally: Counter[str]
) -> None:
    names = steps_of(homes, command)
    for step in range(len(names)):
        home = prepare(homes / str(step), command)

        def act(reached: int, name: str, step: int = step) -> None:
            del name
            if reached == step:
                raise OSError(number, os.strerror(number))

        error, _ = run(home, command, act)
        if error is not None:
            assert os.strerror(number).lower() in error.message.lower()
            assert installed(home) == {"remove": "1.0.0", "update": "1.0.0"}.get(command)
            assert (home / "plugins" / "x").exists() == (command != "install")
            # What a command that goes on living cannot do, it undoes.
            assert entries(home) == []
        check_what_is_left(home, command)
        check_again(home, command)
        tally["faults"] += 1


SEQUENCES: Final = 24
KILLS: Final = 4
"""How often a command is killed before one is let run to its end."""


@pytest.mark.req("PLG-098", "PLG-337", "PLG-341", "PLG-342", "PAINS-11")
@pytest.mark.parametrize("commands", [("update",), ("install", "remove", "update")], ids=["updates", "all"])
def test_kill_matrix_after_several_kills_in_a_row(
    commands: tuple[str, ...], homes: Path, killer: subprocess.Popen[str], tally: Counter[str]
) -> None:
    dice = random.Random(0)
    for sequence in range(SEQUENCES):
        home = prepare(homes / str(sequence), "update")
        for _ in range(KILLS):
            kill_somewhere(killer, home, dice)(dice.choice(commands))
            tally["kills in a row"] += 1
            version = installed(home)
            if commands == ("update",):
                # Nothing but updates: a whole version is in its place, or moved aside and said to be.
                assert version is not None or survey(home / "plugins", OPEN).displaced
            assert PackageLog(home / "log" / "packages.jsonl").verify().intact
        settle(home)


def kill_somewhere(killer: subprocess.Popen[str], home: Path, dice: random.Random) -> Callable[[str], None]:
    """Kill a command at any of its steps; one that ends before it gets there has ended, which is as good."""

    def run_and_kill(command: str) -> None:
        assert killer.stdin is not None
        assert killer.stdout is not None
        when = dice.choice(("before", "after"))
        case = {"home": str(home), "command": command, "step": dice.randrange(45), "when": when}
        killer.stdin.write(json.dumps(case) + "\n")
        killer.stdin.flush()
        assert int(killer.stdout.readline()) in (-signal.SIGKILL, 0)

    return run_and_kill


def settle(home: Path) -> None:
    """An operator who wants version 2 gets it by what the commands say, and nothing is left lying about."""
    error, _ = run(home, "update")
    for _ in range(3):
        match error and error.remedy and error.remedy.action:
            case None:
                break
            case RemedyAction.INSTALL_PLUGIN:
                run(home, "install")
            case RemedyAction.REMOVE_PLUGIN:
                run(home, "remove")
            case other:
                pytest.fail(f"{error}: {other}")
        error, _ = run(home, "update")
    assert error is None
    assert installed(home) == "2.0.0"
    fsck(home / "plugins", OPEN, repair=True)
    left = {finding.kind for finding in fsck(home / "plugins", OPEN)}
    # A copy that an interrupted removal holds is the operator's to look at once its name is taken again.
    assert left <= {FindingKind.INTERRUPTED_REMOVAL}
    assert installed(home) == "2.0.0"
