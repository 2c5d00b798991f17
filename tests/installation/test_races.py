"""Others at work in the plugins directory: another command, a program that looks on, somebody who swaps things."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.displaced import survey
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.fsck import fsck
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.lock import LOCK_NAME, NamespaceChanged
from zeroclaw_host.installation.offers import DirectoryOffer, UpdateSpec
from zeroclaw_host.installation.package_log import PackageLog
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.installation.update import Outcome, Updater
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

OPEN = SignaturePolicy()
RACER = Path(__file__).with_name("race_child.py")
ROUNDS = 60
"""Of each of the two programs."""

EXPECTED = {
    "install": {"done", "package_name_occupied"},
    "update": {"done", "plugin_not_found", "package_changed"},
    "remove": {"done", "plugin_not_found"},
}


def component(name: str, version: str) -> bytes:
    return f"\0asm {name} {version}".encode() * 50


def package(directory: Path, name: str, version: str) -> Path:
    directory.mkdir(parents=True)
    data = component(name, version)
    (directory / "plugin.wasm").write_bytes(data)
    (directory / "manifest.toml").write_text(
        f'name = "{name}"\nversion = "{version}"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n'
        f'wasm_sha256 = "{hashlib.sha256(data).hexdigest()}"\n'
    )
    return directory


@pytest.mark.req("PLG-331", "PLG-055")
def test_two_programs_at_random_lose_no_package_and_mix_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for version in ("1.0.0", "2.0.0"):
            package(tmp_path / "sources" / f"{name}@{version}", name, version)
    racers = [
        subprocess.Popen(
            [sys.executable, RACER, tmp_path, str(seed), str(ROUNDS)], stdout=subprocess.PIPE, text=True
        )
        for seed in (1, 2)
    ]
    looks = 0
    while any(racer.poll() is None for racer in racers):
        for found in discover(tmp_path / "plugins", OPEN).packages:
            # Whatever is seen at whatever moment is a whole package of one version; the digest is declared.
            assert found.component_sha256 == hashlib.sha256(component(found.name, found.version)).hexdigest()
        looks += 1
    done = [json.loads(line) for racer in racers for line in racer.communicate(timeout=60)[0].splitlines()]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert len(done) == 2 * ROUNDS
    assert looks > 0

    assert all(each["outcome"] in EXPECTED[each["command"]] for each in done)
    assert {(each["command"], each["outcome"] == "done") for each in done} >= {
        (command, True) for command in EXPECTED
    }
    plugins = tmp_path / "plugins"
    present = {found.name: found for found in discover(plugins, OPEN).packages}
    for name in ("a", "b"):
        succeeded = [each["command"] for each in done if each["name"] == name and each["outcome"] == "done"]
        assert succeeded.count("install") - succeeded.count("remove") == (name in present)
    assert survey(plugins, OPEN).displaced == ()
    assert fsck(plugins, OPEN) == ()
    check_log(
        tmp_path / "packages.jsonl", {name: found.version for name, found in present.items()}, len(done)
    )


def check_log(path: Path, present: dict[str, str], count: int) -> None:
    """The log tells, in one order, what led to what is there."""
    found = PackageLog(path).verify()
    assert found.intact
    told: dict[str, str] = {}
    undone: list[dict[str, str]] = []
    for record in found.records:
        match record["action"]:
            case "install" | "update":
                told[record["package"]] = record["version"]
            case "remove":
                told.pop(record["package"])
            case "undo":
                undone.append(record)
            case _:
                pass
    assert undone == []
    assert told == present
    assert len(found.records) <= count


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Something that no command may touch, with every name that a package has."""
    root = package(tmp_path / "outside", "precious", "9.9.9")
    for name in ("lease", "deleting"):
        (root / name).write_text("precious")
    package(root / "package", "precious", "9.9.9")
    return root


def state(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def act(command: str, home: Path, filesystem: WatchedFileSystem) -> None:
    plugins = home / "plugins"
    match command:
        case "install":
            install(plugins, DirectoryReader(home / "1"), policy=OPEN, load_check=None, filesystem=filesystem)
        case "update":
            updater = Updater(plugins, OPEN, lambda _: LoadVerdict(loads=True), filesystem=filesystem)
            result = updater.update(UpdateSpec("x"), DirectoryOffer(home / "2"))
            if result.error is not None:
                raise result.error
        case _:
            remove(plugins, "x", policy=OPEN, filesystem=filesystem)


def prepare(home: Path, command: str) -> Path:
    package(home / "1", "x", "1.0.0")
    package(home / "2", "x", "2.0.0")
    (home / "plugins").mkdir()
    match command:
        case "remove" | "update":
            package(home / "plugins" / "x", "x", "1.0.0")
        case "recover":
            (home / "plugins" / "x").mkdir()
            (home / "plugins" / "x" / "manifest.toml").write_text("name = ")
        case _:
            pass
    return home


COMMANDS = ("install", "remove", "recover", "update")


def undisturbed(home: Path, command: str) -> list[Event]:
    watched = WatchedFileSystem(PosixFileSystem())
    act(command, prepare(home, command), watched)
    return watched.events


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_planted_at_any_path_a_command_uses_leads_it_nowhere(
    command: str, tmp_path: Path, outside: Path
) -> None:
    precious = state(outside)
    planted = 0
    for event in undisturbed(tmp_path / "undisturbed", command):
        depths = event.path.count("/") + 1 if event.path != "." else 0
        for depth in range(1, depths + 1):
            home = prepare(tmp_path / f"{event.number}-{depth}", command)

            def before(
                reached: Event, wanted: int = event.number, depth: int = depth, home: Path = home
            ) -> None:
                if reached.number == wanted:
                    plant(home, "/".join(reached.path.split("/")[:depth]), outside)

            with suppress(ZeroclawError):
                act(command, home, WatchedFileSystem(PosixFileSystem(), before=before))
            assert state(outside) == precious, (command, event, depth)
            planted += 1
    assert planted > 15


def plant(home: Path, path: str, outside: Path) -> None:
    """Put a link to something precious of the same kind in the place of a path; what was there is moved away."""
    at = home / "plugins" / path
    if at.is_symlink() or at.exists():
        at.rename(home / "aside")
    target = outside / at.name
    at.symlink_to(target if target.exists() else outside)


def exchange(home: Path, what: str, gone: bool, others: dict[str, bytes | None]) -> None:
    """Take the plugins directory or its lock away, and put another one in its place unless it is to be gone."""
    plugins = home / "plugins"
    if what == "lock":
        (plugins / LOCK_NAME).unlink()
        if not gone:
            (plugins / LOCK_NAME).touch()
        return
    plugins.rename(home / "old")
    if not gone:
        package(plugins / "x", "x", "7.7.7")
        others.update(state(plugins))


@pytest.mark.req("PLG-059", "PLG-060")
@pytest.mark.parametrize("what", ["root", "lock"])
@pytest.mark.parametrize("gone", [True, False], ids=["removed", "replaced"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_or_lock_that_is_exchanged_ends_every_command_before_its_moves(
    command: str, what: str, gone: bool, tmp_path: Path
) -> None:
    for event in undisturbed(tmp_path / "undisturbed", command):
        home = prepare(tmp_path / str(event.number), command)
        plugins, old = home / "plugins", home / "old"
        others: dict[str, bytes | None] = {}

        def before(
            reached: Event,
            number: int = event.number,
            home: Path = home,
            others: dict[str, bytes | None] = others,
        ) -> None:
            if reached.number == number:
                exchange(home, what, gone, others)

        error: ZeroclawError | None = None
        try:
            act(command, home, WatchedFileSystem(PosixFileSystem(), before=before))
        except ZeroclawError as caught:
            error = caught
        if what == "root" and not gone:
            assert {path: data for path, data in state(plugins).items() if path != LOCK_NAME} == others
        if error is not None:
            assert isinstance(error, NamespaceChanged), (event, error)
        # In the directory that was locked: the old version or the new one, in its place or whole in an entry.
        root = old if what == "root" else plugins
        wholes = {
            path.parent.relative_to(root).parts[-1]
            for path in root.rglob("plugin.wasm")
            if path.read_bytes() in (component("x", "1.0.0"), component("x", "2.0.0"))
        }
        if command in ("remove", "update") and error is not None:
            assert wholes
        if command == "update" and error is None:
            assert (root / "x" / "plugin.wasm").read_bytes() == component("x", "2.0.0")


@pytest.mark.req("PAINS-10")
@pytest.mark.parametrize("command", ["install", "update"])
def test_a_source_that_is_swapped_after_the_check_changes_nothing_about_what_is_published(
    command: str, tmp_path: Path
) -> None:
    home = prepare(tmp_path / "home", command)
    source = home / ("1" if command == "install" else "2")
    checked = state(source)

    def swap(package: AdmittedPackage) -> LoadVerdict:
        del package
        (source / "plugin.wasm").write_bytes(b"evil")
        (source / "manifest.toml").write_text("evil")
        return LoadVerdict(loads=True)

    if command == "install":
        install(home / "plugins", DirectoryReader(source), policy=OPEN, load_check=swap)
    else:
        result = Updater(home / "plugins", OPEN, swap).update(UpdateSpec("x"), DirectoryOffer(source))
        assert result.outcome is Outcome.UPDATED
    assert state(home / "plugins" / "x") == checked


@pytest.mark.req("PLG-048")
@pytest.mark.parametrize("command", ["install", "update"])
def test_a_component_that_is_exchanged_while_it_is_staged_is_found_by_its_declared_digest(
    command: str, tmp_path: Path
) -> None:
    home = prepare(tmp_path / "home", command)

    def before(event: Event) -> None:
        if event.operation is Operation.SYNC and event.path.endswith("package/plugin.wasm"):
            (home / "plugins" / event.path).write_bytes(b"evil")

    with suppress(ZeroclawError):
        act(command, home, WatchedFileSystem(PosixFileSystem(), before=before))
    assert discover(home / "plugins", OPEN).packages == ()
