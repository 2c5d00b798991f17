"""Moving packages from another directory: the rules of an install, and nothing lost in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroclaw_host.errors import ComponentMismatch, StorageError
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.install import InstallReport, install
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.migrate import Migration, migrate
from zeroclaw_host.installation.transaction import NameOccupied
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

OPEN = SignaturePolicy()


def package(directory: Path, name: str, version: str = "1.0.0") -> Path:
    directory.mkdir(parents=True)
    (directory / "manifest.toml").write_text(
        f'name = "{name}"\nversion = "{version}"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n'
    )
    (directory / "plugin.wasm").write_bytes(f"\0asm {name} {version}".encode())
    return directory


def move(
    source: Path, target: Path, *, broken: str | None = None, policy: SignaturePolicy = OPEN
) -> dict[str, Migration]:
    def check(package: AdmittedPackage) -> LoadVerdict:
        loads = package.name != broken
        return LoadVerdict(loads=loads, error=None if loads else ComponentMismatch("it exports nothing"))

    def install_one(reader: PackageReader) -> InstallReport:
        return install(target, reader, policy=policy, load_check=check)

    return {result.source.name: result for result in migrate(source, install_one, policy, target=target)}


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != LOCK_NAME)


def test_packages_move_and_whatever_does_not_pass_stays_with_its_reason(tmp_path: Path) -> None:
    source, target = tmp_path / "old", tmp_path / "new"
    for name in ("a", "b", "broken", "taken"):
        package(source / name, name)
    package(target / "taken", "taken", "9.0.0")
    (source / "junk").mkdir()
    (source / "notes.txt").write_text("mine")
    results = move(source, target, broken="broken")
    assert {name for name, result in results.items() if result.error is None} == {"a", "b"}
    assert isinstance(results["broken"].error, ComponentMismatch)
    assert isinstance(results["taken"].error, NameOccupied)
    assert results["junk"].error is not None
    assert names(source) == ["broken", "junk", "notes.txt", "taken"]
    assert {each.name: each.version for each in discover(target, OPEN).packages} == {
        "a": "1.0.0",
        "b": "1.0.0",
        "taken": "9.0.0",
    }
    assert (target / "a" / "plugin.wasm").read_bytes() == b"\0asm a 1.0.0"


def test_the_signature_policy_holds_here_as_well(tmp_path: Path) -> None:
    package(tmp_path / "old" / "a", "a")
    results = move(tmp_path / "old", tmp_path / "new", policy=SignaturePolicy(SignatureMode.STRICT))
    assert results["a"].error is not None
    assert names(tmp_path / "old") == ["a"]
    assert not (tmp_path / "new").exists()


def test_a_move_that_was_stopped_in_between_goes_on_where_it_was(tmp_path: Path) -> None:
    for directory in ("old", "new"):
        package(tmp_path / directory / "a", "a")
    results = move(tmp_path / "old", tmp_path / "new")
    assert results["a"].error is None
    assert results["a"].report is None
    assert names(tmp_path / "old") == []
    assert names(tmp_path / "new") == ["a"]


def test_nothing_is_moved_from_where_it_goes_to_or_from_nowhere(tmp_path: Path) -> None:
    package(tmp_path / "new" / "a", "a")
    (tmp_path / "link").symlink_to("new")
    for source in ("new", "link", "nowhere"):
        with pytest.raises(StorageError):
            move(tmp_path / source, tmp_path / "new")
    assert names(tmp_path / "new") == ["a"]
