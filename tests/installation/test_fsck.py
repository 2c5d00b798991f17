"""``fsck``: one of each kind of thing that can lie in a plugins directory, and what is to be done about it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.displaced import survey
from zeroclaw_host.installation.fsck import Finding, FindingKind, fsck
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.transaction import EntryName, TransactionKind
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy

OPEN = SignaturePolicy()
STRICT = SignaturePolicy(SignatureMode.STRICT)

Make = Callable[[Path], Path]


def manifest(name: str, more: str = "") -> str:
    return f'name = "{name}"\nversion = "1.0.0"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n{more}\n'


def package(directory: Path, name: str, more: str = "") -> Path:
    directory.mkdir(parents=True)
    (directory / "manifest.toml").write_text(manifest(name, more))
    (directory / "plugin.wasm").write_bytes(b"\0asm")
    return directory


def entry(
    kind: TransactionKind, *, full: bool = True, marked: bool = False, lease: bool = True
) -> Callable[[Path, str], Path]:
    """An entry whose command is gone."""

    def make(plugins: Path, name: str) -> Path:
        path = plugins / str(EntryName.fresh(name, kind))
        path.mkdir()
        if full:
            package(path / "package", name)
        for member, wanted in (("lease", lease), ("deleting", marked)):
            if wanted:
                (path / member).touch()
        return path

    return make


def beside(
    make: Callable[[Path, str], Path], other: Callable[[Path, str], object]
) -> Callable[[Path, str], Path]:
    def both(plugins: Path, name: str) -> Path:
        other(plugins, name)
        return make(plugins, name)

    return both


def installed(plugins: Path, name: str) -> Path:
    return package(plugins / name, name)


def directory(files: dict[str, str]) -> Callable[[Path, str], Path]:
    def make(plugins: Path, name: str) -> Path:
        (plugins / name).mkdir()
        for path, text in files.items():
            (plugins / name / path).write_text(text.replace("NAME", name))
        return plugins / name

    return make


def link(plugins: Path, name: str) -> Path:
    (plugins / name).symlink_to("elsewhere")
    return plugins / name


def file(plugins: Path, name: str) -> Path:
    (plugins / name).write_text("x")
    return plugins / name


def hidden(plugins: Path, name: str) -> Path:
    return file(plugins, f".{name}")


def legacy(plugins: Path, name: str) -> Path:
    (plugins / f".{name}.installing-4711").mkdir()
    return plugins / f".{name}.installing-4711"


def linked_entry(plugins: Path, name: str) -> Path:
    path = plugins / str(EntryName.fresh(name, TransactionKind.INSTALLING))
    path.symlink_to(plugins)
    return path


INSTALLING, RECOVERING, REPLACING = TransactionKind
KINDS: list[tuple[FindingKind, Callable[[Path, str], Path], RemedyAction | None, bool]] = [
    (FindingKind.ABANDONED_STAGING, entry(INSTALLING), RemedyAction.REPAIR_PLUGINS, True),
    (
        FindingKind.ABANDONED_STAGING,
        entry(INSTALLING, full=False, lease=False),
        RemedyAction.REPAIR_PLUGINS,
        True,
    ),
    (FindingKind.LEGACY_STAGING, legacy, RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.UNCLEAR_ENTRY, entry(INSTALLING, lease=False), RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.UNCLEAR_ENTRY, entry(REPLACING, lease=False), RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.UNCLEAR_ENTRY, linked_entry, RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.INTERRUPTED_REMOVAL, entry(RECOVERING), RemedyAction.REMOVE_PLUGIN, True),
    (
        FindingKind.INTERRUPTED_REMOVAL,
        beside(entry(RECOVERING), installed),
        RemedyAction.CLEAR_BY_HAND,
        False,
    ),
    (FindingKind.UNFINISHED_REMOVAL, entry(RECOVERING, marked=True), RemedyAction.REMOVE_PLUGIN, True),
    (FindingKind.UNFINISHED_REMOVAL, entry(RECOVERING, full=False), RemedyAction.REMOVE_PLUGIN, True),
    (FindingKind.REPLACED_VERSION, entry(REPLACING, marked=True), RemedyAction.REPAIR_PLUGINS, True),
    (FindingKind.REPLACED_VERSION, beside(entry(REPLACING), installed), RemedyAction.REPAIR_PLUGINS, True),
    (FindingKind.DISPLACED, entry(REPLACING), RemedyAction.UPDATE_PLUGIN, False),
    (FindingKind.DISPLACED_SEVERAL, beside(entry(REPLACING), file), RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.EMPTY_DIRECTORY, directory({}), RemedyAction.REMOVE_PLUGIN, False),
    (
        FindingKind.INCOMPLETE_PACKAGE,
        directory({"manifest.toml": "name = "}),
        RemedyAction.REMOVE_PLUGIN,
        False,
    ),
    (
        FindingKind.BROKEN_PACKAGE,
        directory({"manifest.toml": manifest("NAME"), "notes.txt": "mine"}),
        RemedyAction.CLEAR_BY_HAND,
        False,
    ),
    (FindingKind.FOREIGN_DIRECTORY, directory({"notes.txt": "mine"}), RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.FOREIGN_FILE, file, RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.LINK, link, RemedyAction.CLEAR_BY_HAND, False),
    (FindingKind.HIDDEN, hidden, RemedyAction.CLEAR_BY_HAND, False),
    (
        FindingKind.AMBIGUOUS_NAME,
        beside(installed, lambda plugins, name: package(plugins / f"{name}-too", name)),
        RemedyAction.CLEAR_BY_HAND,
        False,
    ),
]


def at(findings: tuple[Finding, ...], path: Path) -> Finding:
    [found] = [finding for finding in findings if finding.path == path]
    return found


def state(plugins: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(plugins.rglob("*")):
        if path.name != LOCK_NAME:
            regular = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(plugins))] = (
                hashlib.sha256(path.read_bytes()).hexdigest() if regular else str(path.lstat().st_mode)
            )
    return found


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Path, dict[Path, tuple[FindingKind, RemedyAction | None, bool]]]:
    """A directory with one of each, and two packages that are just installed."""
    expected: dict[Path, tuple[FindingKind, RemedyAction | None, bool]] = {}
    for number, (kind, make, action, repairable) in enumerate(KINDS):
        expected[make(tmp_path, f"x{number}")] = (kind, action, repairable)
    package(tmp_path / "fine", "fine")
    package(tmp_path / "by-hand", "well")
    return tmp_path, expected


def test_everything_is_named_with_its_kind_and_its_remedy_and_nothing_is_changed(
    prepared: tuple[Path, dict[Path, tuple[FindingKind, RemedyAction | None, bool]]],
) -> None:
    plugins, expected = prepared
    before = state(plugins)
    findings = fsck(plugins, OPEN)
    for path, (kind, action, repairable) in expected.items():
        found = at(findings, path)
        assert (found.kind, found.remedy and found.remedy.action, found.repairable) == (
            kind,
            action,
            repairable,
        )
        assert found.explanation
        assert not found.repaired
    # What was only put there to be in the way, and the second of one name.
    others = {finding.path for finding in findings} - expected.keys()
    assert {path.name for path in others} == {"x13", "x21-too"}
    assert state(plugins) == before
    assert list(findings) == sorted(findings, key=lambda finding: finding.path)


def test_repairing_does_what_may_be_done_unasked_and_nothing_else(
    prepared: tuple[Path, dict[Path, tuple[FindingKind, RemedyAction | None, bool]]],
) -> None:
    plugins, expected = prepared
    before = state(plugins)
    packages = {each.name for each in discover(plugins, OPEN).packages}
    findings = fsck(plugins, OPEN, repair=True)
    after = state(plugins)
    for path, (kind, _, repairable) in expected.items():
        assert at(findings, path).repaired == repairable
        assert (path.name in after) == (not repairable)
        if kind is FindingKind.INTERRUPTED_REMOVAL and repairable:
            name = at(findings, path).name
            assert after[f"{name}/plugin.wasm"] == before[f"{path.name}/package/plugin.wasm"]
            packages.add(str(name))
        elif not repairable:
            mine = {each: seen for each, seen in before.items() if each.startswith(path.name)}
            assert mine.items() <= after.items()
    assert {each.name for each in discover(plugins, OPEN).packages} == packages
    left = fsck(plugins, OPEN)
    assert not any(finding.repairable for finding in left)
    assert fsck(plugins, OPEN, repair=True) == left


def test_every_kind_there_is_appears_in_a_test() -> None:
    elsewhere = {FindingKind.LIVE_ENTRY, FindingKind.REFUSED_PACKAGE, FindingKind.LOCK_UNUSABLE}
    assert {kind for kind, *_ in KINDS} | elsewhere == set(FindingKind)


@pytest.mark.req("PLG-055", "PLG-077")
@pytest.mark.parametrize("kind", TransactionKind)
def test_what_a_running_command_holds_is_told_and_left(tmp_path: Path, kind: TransactionKind) -> None:
    path = entry(kind)(tmp_path, "x")
    before = state(tmp_path)
    with (path / "lease").open("r+") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        [found] = fsck(tmp_path, OPEN, repair=True)
    assert (found.kind, found.remedy, found.repaired) == (FindingKind.LIVE_ENTRY, None, False)
    assert state(tmp_path) == before


def test_a_package_the_signature_policy_refuses_is_told_with_the_policys_remedy(tmp_path: Path) -> None:
    package(tmp_path / "x", "x")
    [found] = fsck(tmp_path, STRICT, repair=True)
    assert found.kind is FindingKind.REFUSED_PACKAGE
    assert found.remedy is not None
    assert found.remedy.action is RemedyAction.SIGN_PLUGIN
    assert fsck(tmp_path, OPEN) == ()


@pytest.mark.parametrize("what", ["directory", "link", "pipe"])
def test_a_lock_file_that_cannot_be_one_is_told(tmp_path: Path, what: str) -> None:
    path = tmp_path / LOCK_NAME
    match what:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to("nowhere")
        case _:
            os.mkfifo(path)
    [found] = fsck(tmp_path, OPEN, repair=True)
    assert (found.kind, found.path) == (FindingKind.LOCK_UNUSABLE, path)
    assert os.path.lexists(path)


def test_two_displaced_versions_are_two_findings_that_only_a_person_can_settle(tmp_path: Path) -> None:
    for _ in range(2):
        entry(REPLACING)(tmp_path, "x")
    findings = fsck(tmp_path, OPEN, repair=True)
    assert [finding.kind for finding in findings] == [FindingKind.DISPLACED_SEVERAL] * 2
    assert len(survey(tmp_path, OPEN).displaced[0].locations) == 2


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_missing_directory_holds_nothing_to_tell(tmp_path: Path, exists: bool) -> None:
    plugins = tmp_path / "plugins"
    if exists:
        plugins.mkdir()
    assert fsck(plugins, OPEN) == ()
    assert plugins.exists() == exists
