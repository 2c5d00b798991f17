from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.errors import (
    ComponentMismatch,
    ComponentMissing,
    ConfigSchemaError,
    DigestMismatch,
    InstallError,
    ManifestError,
    PackageError,
    RemedyAction,
    SignatureRefused,
    StorageError,
    ZeroclawError,
)
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.install import InstallReport, install
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.pipeline import LoadCheck
from zeroclaw_host.installation.rows import MemoryRowStore, RowChange, RowSeed
from zeroclaw_host.installation.transaction import MoveUnsupported, NameOccupied
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.loading import LoadVerdict, check_load

OPEN = SignaturePolicy(SignatureMode.DISABLED, frozenset())
PERMISSIVE = SignaturePolicy(SignatureMode.PERMISSIVE, frozenset())
STRICT = SignaturePolicy(SignatureMode.STRICT, frozenset())

HTTP_TOOL = {
    "manifest": 'permissions = ["http_client"]',
    "tables": '[egress]\nhosts = ["api.example.org"]\n',
}
"""A package that is owed a row."""

Write = Callable[..., Any]


@pytest.fixture(scope="module")
def load_check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadCheck]:
    sandbox = Sandbox(tmp_path_factory.mktemp("cache"))
    yield lambda package: check_load(sandbox, package, Limits())
    sandbox.close()


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return tmp_path / "home" / "plugins"


def run(plugins: Path, package: Any, policy: SignaturePolicy = OPEN, **more: Any) -> InstallReport:
    return install(plugins, DirectoryReader(package.directory), policy=policy, **{"load_check": None, **more})


def visible(plugins: Path) -> list[str]:
    """Every name in the plugins directory but that of the lock file."""
    return (
        sorted(path.name for path in plugins.iterdir() if path.name != LOCK_NAME) if plugins.exists() else []
    )


@pytest.mark.req("PLG-001")
def test_an_installed_package_is_a_directory_of_its_name_with_manifest_and_component(
    plugins: Path, tmp_path: Path, write_package: Write, load_check: LoadCheck
) -> None:
    source = write_package(tmp_path / "source", wasm_path="bin/plugin.wasm", declare_digest=True)
    (source.directory / "README.md").write_text("not part of the package")
    report = run(plugins, source, load_check=load_check)
    installed = {
        str(path.relative_to(plugins / "echo")): path.read_bytes()
        for path in (plugins / "echo").rglob("*")
        if path.is_file()
    }
    assert installed == {name: data for name, data in source.files().items() if name != "README.md"}
    assert (report.name, report.version, report.directory) == ("echo", "1.0.0", plugins / "echo")
    assert visible(plugins) == ["echo"]
    assert [package.name for package in discover(plugins, OPEN).packages] == ["echo"]


@pytest.mark.req("PLG-004")
def test_a_skill_bundle_is_installed_by_the_same_machinery_without_a_component(
    plugins: Path, tmp_path: Path, write_skill: Write, load_check: LoadCheck
) -> None:
    source = write_skill(tmp_path / "source")
    report = run(plugins, source, load_check=load_check)
    assert report.component_sha256 is None
    assert report.key is None
    files = {
        str(path.relative_to(plugins / "manners"))
        for path in (plugins / "manners").rglob("*")
        if path.is_file()
    }
    assert files == set(source.files())
    assert discover(plugins, OPEN).get("manners").read().files() == source.files()


@pytest.mark.req("PLG-004", "PLG-350", "PAINS-12")
def test_in_strict_mode_nothing_unsigned_is_installed_be_it_code_or_a_skill(
    plugins: Path, tmp_path: Path, write_package: Write, write_skill: Write
) -> None:
    for source in (write_package(tmp_path / "code", declare_digest=True), write_skill(tmp_path / "skill")):
        with pytest.raises(SignatureRefused):
            run(plugins, source, STRICT)
    assert visible(plugins) == []


@pytest.mark.req("PLG-350", "PLG-351", "PAINS-12")
@pytest.mark.parametrize("mode", SignatureMode)
@pytest.mark.parametrize("fault", ["none", "unsigned", "untrusted", "altered"])
def test_install_and_discovery_agree_on_whose_signature_is_good_enough(
    plugins: Path,
    tmp_path: Path,
    write_package: Write,
    echo_component: bytes,
    mode: SignatureMode,
    fault: str,
) -> None:
    key = Ed25519PrivateKey.generate()
    trusted = Ed25519PrivateKey.generate() if fault == "untrusted" else key
    policy = SignaturePolicy.of(mode, [publisher_key(trusted)])
    source = write_package(tmp_path / "source", declare_digest=True)
    manifest = source.directory / "manifest.toml"
    if fault != "unsigned":
        manifest.write_bytes(sign_manifest(manifest.read_bytes(), private_key=key, component=echo_component))
    if fault == "altered":
        manifest.write_bytes(manifest.read_bytes().replace(b'"1.0.0"', b'"1.0.1"'))
    by_hand = tmp_path / "by-hand"
    shutil.copytree(source.directory, by_hand / "echo")

    loads = fault == "none" or mode is not SignatureMode.STRICT
    warned = fault != "none" and mode is SignatureMode.PERMISSIVE
    if loads:
        assert len(run(plugins, source, policy).notices) == warned
    else:
        with pytest.raises(SignatureRefused):
            run(plugins, source, policy)
    found = discover(by_hand, policy)
    assert [len(package.notices) for package in found.packages] == ([warned] if loads else [])
    assert [type(rejected.error) for rejected in found.rejected] == ([] if loads else [SignatureRefused])
    assert visible(plugins) == (["echo"] if loads else [])


@pytest.mark.req("PLG-351")
def test_permissive_mode_installs_with_a_warning_and_disabled_mode_without(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    assert len(run(plugins, write_package(tmp_path / "a"), PERMISSIVE).notices) == 1
    assert run(plugins, write_package(tmp_path / "b", name="other"), OPEN).notices == ()


@pytest.mark.req("PLG-351", "PAINS-10", "PAINS-14")
@pytest.mark.parametrize("mode", [SignatureMode.DISABLED, SignatureMode.PERMISSIVE])
def test_a_component_with_another_digest_is_installed_in_no_mode(
    plugins: Path, tmp_path: Path, write_package: Write, mode: SignatureMode
) -> None:
    source = write_package(tmp_path / "source", declare_digest=True)
    with (source.directory / "plugin.wasm").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DigestMismatch):
        run(plugins, source, SignaturePolicy(mode, frozenset()))
    assert visible(plugins) == []


@pytest.mark.req("PLG-010", "PLG-011", "PLG-364")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"manifest": 'permissions = ["config_read"]'}, PackageError),
        (
            {"tables": '[config_schema]\ntype = "object"\nadditionalProperties = false\nproperties = {}\n'},
            PackageError,
        ),
        (
            {"manifest": 'permissions = ["config_read"]', "tables": "[config_schema]\ntype = 1\n"},
            ConfigSchemaError,
        ),
        ({"name": "Bad"}, ManifestError),
        ({"capabilities": "[]"}, ManifestError),
        ({"capabilities": '["foo"]'}, ManifestError),
        ({"component": None}, ManifestError),
    ],
)
def test_what_admission_refuses_is_not_installed_even_unverified(
    plugins: Path, tmp_path: Path, write_package: Write, change: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(plugins, write_package(tmp_path / "source", **change))
    assert visible(plugins) == []


@pytest.mark.req("PAINS-10")
def test_a_component_reached_through_a_link_is_not_installed(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    source = write_package(tmp_path / "source")
    (source.directory / "plugin.wasm").rename(tmp_path / "real.wasm")
    (source.directory / "plugin.wasm").symlink_to(tmp_path / "real.wasm")
    with pytest.raises(ComponentMissing):
        run(plugins, source)
    assert visible(plugins) == []


@pytest.mark.req("PAINS-10")
def test_what_is_published_is_what_was_checked_even_when_the_source_changes_in_between(
    plugins: Path, tmp_path: Path, write_package: Write, echo_component: bytes, load_check: LoadCheck
) -> None:
    source = write_package(tmp_path / "source")

    def check_then_swap(package: Any) -> Any:
        verdict = load_check(package)
        (source.directory / "plugin.wasm").write_bytes(b"swapped")
        (source.directory / "manifest.toml").write_text('name = "swapped"')
        return verdict

    run(plugins, source, load_check=check_then_swap)
    assert (plugins / "echo" / "plugin.wasm").read_bytes() == echo_component


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize("kind", ["another world", "truncated", "no component", "core module"])
def test_a_component_that_does_not_load_here_is_not_installed(
    plugins: Path,
    tmp_path: Path,
    write_package: Write,
    load_check: LoadCheck,
    echo_component: bytes,
    foreign_component: bytes,
    kind: str,
) -> None:
    component = {
        "another world": foreign_component,
        "truncated": echo_component[: len(echo_component) // 2],
        "no component": b"print('hello')",
        "core module": b"\0asm\x01\0\0\0",
    }[kind]
    with pytest.raises(ZeroclawError) as caught:
        run(plugins, write_package(tmp_path / "source", component=component), load_check=load_check)
    assert caught.value.code in ("component_invalid", "component_mismatch")
    assert visible(plugins) == []


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize(
    ("drift", "named"),
    [
        ("an import this host does not know", "clairvoyance"),
        ("an import with another parameter type", "secrets"),
        ("an export whose record lacks a field", "tool"),
        ("an export that is missing", "plugin-info"),
    ],
)
def test_a_component_built_against_another_contract_is_not_installed_and_is_told_to_be_rebuilt(
    plugins: Path,
    tmp_path: Path,
    write_package: Write,
    drifted_component: Callable[[str], bytes],
    load_check: LoadCheck,
    drift: str,
    named: str,
) -> None:
    source = write_package(tmp_path / "source", component=drifted_component(drift))
    with pytest.raises(ComponentMismatch, match=named) as caught:
        run(plugins, source, load_check=load_check)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.REBUILD_PLUGIN
    assert visible(plugins) == []


@pytest.mark.req("PLG-039")
def test_unverified_a_component_that_does_not_load_is_installed_but_nothing_else_is_skipped(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    run(plugins, write_package(tmp_path / "source", component=b"never looked at"))
    assert (plugins / "echo" / "plugin.wasm").read_bytes() == b"never looked at"
    with pytest.raises(SignatureRefused):
        run(plugins, write_package(tmp_path / "other", name="other", declare_digest=True), STRICT)


@pytest.mark.req("PLG-062")
def test_an_installed_package_is_not_overwritten_and_the_remedy_is_an_update(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    run(plugins, write_package(tmp_path / "source"))
    before = (plugins / "echo" / "manifest.toml").read_bytes()
    with pytest.raises(NameOccupied, match="installed already") as caught:
        run(plugins, write_package(tmp_path / "new", version="2.0.0"))
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.UPDATE_PLUGIN
    assert (plugins / "echo" / "manifest.toml").read_bytes() == before


@pytest.mark.req("PLG-062")
@pytest.mark.parametrize("occupant", ["empty directory", "file", "link", "half a manifest"])
def test_what_is_in_the_way_stays_and_the_remedy_is_a_removal(
    plugins: Path, tmp_path: Path, write_package: Write, occupant: str
) -> None:
    plugins.mkdir(parents=True)
    final = plugins / "echo"
    match occupant:
        case "empty directory":
            final.mkdir()
        case "file":
            final.write_bytes(b"mine")
        case "link":
            final.symlink_to(tmp_path)
        case _:
            final.mkdir()
            (final / "manifest.toml").write_text('name = "ec')
    before = final.lstat()
    with pytest.raises(NameOccupied, match="no package that loads") as caught:
        run(plugins, write_package(tmp_path / "source"))
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.REMOVE_PLUGIN
    assert caught.value.remedy.arguments == {"name": "echo"}
    after = final.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_name_installed_under_another_directory_is_taken_and_so_is_a_directory_of_another_name(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    write_package(plugins / "by-hand")
    with pytest.raises(NameOccupied, match=r"installed already, in .*by-hand"):
        run(plugins, write_package(tmp_path / "source"))
    with pytest.raises(NameOccupied, match="it holds the package echo") as caught:
        run(plugins, write_package(tmp_path / "second", name="by-hand"))
    assert caught.value.remedy is not None
    assert caught.value.remedy.arguments == {"name": "echo"}


def test_a_taken_name_is_told_before_anything_is_compiled(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    run(plugins, write_package(tmp_path / "source"))

    def never(package: object) -> Any:
        pytest.fail("compiled for nothing")

    with pytest.raises(NameOccupied):
        run(plugins, write_package(tmp_path / "new", version="2.0.0"), load_check=never)


@pytest.mark.req("PLG-062")
def test_what_appears_at_the_name_at_the_last_moment_is_left_and_named(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    def before(event: Event) -> None:
        if event.operation is Operation.RENAME:
            (plugins / "echo").mkdir()

    with pytest.raises(NameOccupied) as caught:
        run(
            plugins,
            write_package(tmp_path / "source"),
            filesystem=WatchedFileSystem(PosixFileSystem(), before=before),
        )
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.REMOVE_PLUGIN
    assert visible(plugins) == ["echo"]


@pytest.mark.req("PLG-048", "PLG-366")
def test_the_component_is_written_last_and_everything_is_flushed_before_the_move(
    plugins: Path, tmp_path: Path, write_package: Write, write_skill: Write
) -> None:
    write_skill(tmp_path / "source")
    source = tmp_path / "source"
    (source / "manifest.toml").unlink()
    (tmp_path / "code").mkdir()
    both = write_package(
        tmp_path / "code" / "x", capabilities='["tool", "skill"]', wasm_path="a/b/plugin.wasm"
    )
    (source / "skills").rename(both.directory / "skills")
    watched = WatchedFileSystem(PosixFileSystem())
    run(plugins, both, filesystem=watched)
    done = [
        (event.operation, event.path.partition("/")[2].removeprefix("package/")) for event in watched.events
    ]
    move = next(number for number, (operation, _) in enumerate(done) if operation is Operation.RENAME)
    written = [path for operation, path in done if operation is Operation.WRITE and path != "lease"]
    assert written[0] == "manifest.toml"
    assert written[-1] == "a/b/plugin.wasm"
    assert "skills/greet/examples/one.md" in written
    synced = [path for operation, path in done[:move] if operation is Operation.SYNC]
    made = [path for operation, path in done if operation is Operation.MAKE]
    assert set(synced) == {*written, *made}
    last_write = max(number for number, (operation, _) in enumerate(done) if operation is Operation.WRITE)
    assert last_write < done.index((Operation.SYNC, "manifest.toml"))


def failing(number: int, error: int) -> WatchedFileSystem:
    def before(event: Event) -> None:
        if event.number == number:
            raise OSError(error, os.strerror(error))

    return WatchedFileSystem(PosixFileSystem(), before=before)


@pytest.mark.req("PLG-048", "PLG-053", "PAINS-11")
@pytest.mark.parametrize(
    ("number", "action"),
    [(errno.ENOSPC, RemedyAction.FREE_SPACE), (errno.EACCES, RemedyAction.MAKE_DIRECTORY), (errno.EIO, None)],
)
def test_a_full_or_forbidden_disk_at_any_step_is_one_error_and_nothing_is_half_written(
    tmp_path: Path, write_package: Write, number: int, action: RemedyAction | None
) -> None:
    source = write_package(tmp_path / "source", **HTTP_TOOL)
    watched = WatchedFileSystem(PosixFileSystem())
    run(tmp_path / "undisturbed", source, filesystem=watched)
    for step in range(len(watched.events)):
        plugins = tmp_path / str(step)
        rows = MemoryRowStore()
        error: StorageError | None = None
        try:
            report = run(plugins, source, rows=rows, filesystem=failing(step, number))
        except StorageError as caught:
            error = caught
        if error is None:
            # Published, and only the emptied entry was left behind.
            assert report.leftover is not None
        else:
            assert (error.remedy and error.remedy.action) is action
            assert str(plugins) in error.message
            assert visible(plugins) == []
            assert rows.rows == {}
            run(plugins, source, rows=rows)
        assert len(rows.rows) == 1
        assert (plugins / "echo" / "plugin.wasm").read_bytes() == source.files()["plugin.wasm"]


@pytest.mark.req("PLG-049", "PLG-050", "PLG-052")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_a_safe_move_takes_no_package(
    plugins: Path, tmp_path: Path, write_package: Write, number: int
) -> None:
    def mover(*arguments: object) -> None:
        del arguments
        raise OSError(number, os.strerror(number))

    for attempt in ("first", "second"):
        with pytest.raises(MoveUnsupported):
            run(plugins, write_package(tmp_path / attempt), filesystem=PosixFileSystem(mover))
        assert visible(plugins) == []


@pytest.mark.req("PLG-132")
def test_the_row_of_the_default_tool_binding_is_seeded_once_the_package_is_published(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    rows = MemoryRowStore()
    report = run(plugins, write_package(tmp_path / "source", **HTTP_TOOL), rows=rows)
    assert report.key is not None
    assert rows.rows == {report.key: ("api.example.org",)}
    assert report.row_created
    assert report.egress_hosts == ("api.example.org",)


@pytest.mark.req("PLG-132")
def test_an_existing_row_stays_as_it_is(plugins: Path, tmp_path: Path, write_package: Write) -> None:
    rows = MemoryRowStore()
    source = write_package(tmp_path / "source", **HTTP_TOOL)
    key = run(plugins, source, rows=rows).key
    assert key is not None
    rows.rows[key] = ("mine.example.org",)
    report = run(tmp_path / "again", source, rows=rows)
    assert rows.rows == {key: ("mine.example.org",)}
    assert report.key == key
    assert not report.row_created
    assert report.egress_hosts == ()


@pytest.mark.req("PLG-133")
def test_a_plain_tool_gets_no_row_and_no_key(plugins: Path, tmp_path: Path, write_package: Write) -> None:
    rows = MemoryRowStore()
    report = run(plugins, write_package(tmp_path / "source"), rows=rows)
    assert rows.rows == {}
    assert report.key is None


class RefusingRows:
    """Rows that cannot be prepared, or cannot be written."""

    creates = True

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.undone = 0

    def prepare(self, seed: RowSeed) -> RowChange:
        del seed
        if self.stage == "prepare":
            raise InstallError("the configuration is unreadable")
        return self

    def commit(self) -> None:
        raise StorageError("the configuration cannot be written")

    def undo(self) -> None:
        self.undone += 1


@pytest.mark.req("PLG-048")
@pytest.mark.parametrize("stage", ["prepare", "commit"])
def test_without_its_row_a_package_is_not_installed(
    plugins: Path, tmp_path: Path, write_package: Write, stage: str
) -> None:
    rows = RefusingRows(stage)
    with pytest.raises(ZeroclawError, match="the configuration"):
        run(plugins, write_package(tmp_path / "source", **HTTP_TOOL), rows=rows)
    assert visible(plugins) == []
    assert rows.undone == (stage == "commit")


def test_a_plugins_directory_that_cannot_be_made_is_one_error_with_a_remedy(
    tmp_path: Path, write_package: Write
) -> None:
    (tmp_path / "file").touch()
    for plugins in (tmp_path / "file", tmp_path / "file" / "plugins"):
        with pytest.raises(StorageError) as caught:
            run(plugins, write_package(tmp_path / f"source{len(plugins.parts)}"))
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.MAKE_DIRECTORY


def test_the_plugins_directory_is_made_for_its_owner_alone(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    run(plugins, write_package(tmp_path / "source"))
    assert plugins.stat().st_mode & 0o077 == 0


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from zeroclaw_host.installation.faults import WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.install import install
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy

plugins, source, when, operation, end = sys.argv[1:]

def kill(event):
    if event.operation == operation and event.path.endswith(end):
        os.kill(os.getpid(), signal.SIGKILL)

watched = WatchedFileSystem(PosixFileSystem(), **{when: kill})
install(Path(plugins), DirectoryReader(Path(source)), policy=SignaturePolicy(), load_check=None, filesystem=watched)
"""


@pytest.mark.req("PLG-053", "PLG-055", "PAINS-11")
@pytest.mark.parametrize(
    ("when", "operation", "end", "published"),
    [
        ("before", Operation.WRITE, "plugin.wasm", False),
        ("after", Operation.WRITE, "plugin.wasm", False),
        ("before", Operation.RENAME, "package", False),
        ("after", Operation.RENAME, "package", True),
        ("before", Operation.DROP, "lease", True),
    ],
)
def test_after_a_kill_the_package_is_absent_and_installs_again_or_is_whole(
    plugins: Path,
    tmp_path: Path,
    write_package: Write,
    when: str,
    operation: Operation,
    end: str,
    published: bool,
) -> None:
    source = write_package(tmp_path / "source")
    arguments = [str(plugins), str(source.directory), when, operation, end]
    killed = subprocess.run([sys.executable, "-c", KILLED_AT, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (plugins / "echo").exists() == published
    assert len([name for name in visible(plugins) if name.startswith(".echo.installing-v1-")]) == 1
    if published:
        with pytest.raises(NameOccupied, match="installed already"):
            run(plugins, source)
    else:
        run(plugins, source)
    assert discover(plugins, OPEN).get("echo").read().component == source.files()["plugin.wasm"]


def test_of_two_installs_of_one_name_at_once_one_publishes_and_the_other_says_why(
    plugins: Path, tmp_path: Path, write_package: Write
) -> None:
    sources = [write_package(tmp_path / version, version=version) for version in ("1.0.0", "2.0.0")]
    both_admitted = threading.Barrier(2)

    def meet(package: object) -> LoadVerdict:
        del package
        both_admitted.wait(timeout=30)
        return LoadVerdict(loads=True)

    def attempt(source: Any) -> InstallReport | NameOccupied:
        try:
            return run(plugins, source, load_check=meet)
        except NameOccupied as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(attempt, sources))
    [won] = [outcome for outcome in outcomes if isinstance(outcome, InstallReport)]
    [lost] = [outcome for outcome in outcomes if isinstance(outcome, NameOccupied)]
    assert lost.remedy is not None
    assert lost.remedy.action is RemedyAction.UPDATE_PLUGIN
    assert discover(plugins, OPEN).get("echo").version == won.version
    assert visible(plugins) == ["echo"]
