"""The package log: what is in it, and that whatever happens to a record is found."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import InstallError, StorageError, ZeroclawError
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.fsck import fsck
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.offers import DirectoryOffer, RegistryOffer, UpdateSpec
from zeroclaw_host.installation.package_log import GENESIS, Action, PackageLog, Record
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.installation.transaction import EntryName, TransactionKind
from zeroclaw_host.installation.update import Outcome, Updater
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest
from zeroclaw_host.worlds.loading import LoadVerdict

KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
STRICT = SignaturePolicy.of(SignatureMode.STRICT, [publisher_key(KEY)])
COMPONENT = b"\0asm"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> PackageLog:
    return PackageLog(tmp_path / "data" / "logs" / "packages.jsonl", who=lambda: "ada (7)", now=lambda: NOON)


def fill(log: PackageLog, count: int) -> None:
    for number in range(count):
        log.append(Record(Action.INSTALL, f"package-{number}", version="1.0.0"))


def lines(log: PackageLog) -> list[bytes]:
    return log.path.read_bytes().splitlines()


def package(directory: Path, version: str = "1.0.0", more: str = "") -> Path:
    directory.mkdir(parents=True)
    text = f'name = "x"\nversion = "{version}"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n{more}\n'
    signed = sign_manifest(text.encode(), private_key=KEY, component=COMPONENT)
    (directory / "manifest.toml").write_bytes(signed)
    (directory / "plugin.wasm").write_bytes(COMPONENT)
    return directory


def loading(package: object) -> LoadVerdict:
    del package
    return LoadVerdict(loads=True)


def test_a_record_says_who_did_what_to_which_bytes_by_which_key_and_rule(
    tmp_path: Path, log: PackageLog
) -> None:
    plugins, source = tmp_path / "plugins", package(tmp_path / "source")
    install(plugins, DirectoryReader(source), policy=STRICT, load_check=None, journal=log)
    [record] = log.verify().records
    assert record == {
        "n": 1,
        "time": "2026-01-02T12:00:00.000+00:00",
        "who": "ada (7)",
        "action": "install",
        "package": "x",
        "version": "1.0.0",
        "manifest_sha256": hashlib.sha256((source / "manifest.toml").read_bytes()).hexdigest(),
        "component_sha256": hashlib.sha256(COMPONENT).hexdigest(),
        "publisher_key": publisher_key(KEY),
        "signature": "valid",
        "rule": "strict",
        "source": str(source),
        "prev": GENESIS,
    }
    assert log.path.stat().st_mode & 0o077 == 0
    assert log.path.parent.stat().st_mode & 0o077 == 0
    assert log.path.parent.parent.stat().st_mode & 0o077 == 0


def test_installs_updates_removals_refusals_and_approvals_are_all_there_in_their_order(
    tmp_path: Path, log: PackageLog
) -> None:
    plugins = tmp_path / "plugins"
    install(plugins, DirectoryReader(package(tmp_path / "1")), policy=STRICT, load_check=None, journal=log)
    with pytest.raises(InstallError):
        install(plugins, DirectoryReader(tmp_path / "1"), policy=STRICT, load_check=None, journal=log)
    (tmp_path / "unsigned").mkdir()
    (tmp_path / "unsigned" / "manifest.toml").write_text(
        'name = "x"\nversion = "1"\ncapabilities = ["observer"]'
    )
    with pytest.raises(ZeroclawError):
        install(plugins, DirectoryReader(tmp_path / "unsigned"), policy=STRICT, load_check=None, journal=log)
    offer = DirectoryOffer(package(tmp_path / "2", "2.0.0", 'permissions = ["state_read"]'))
    updater = Updater(plugins, STRICT, loading, journal=log)
    updater.update(UpdateSpec("x"), offer)
    accepted = frozenset({"permission:state_read"})
    assert updater.update(UpdateSpec("x"), offer, accepted).outcome is Outcome.UPDATED
    remove(plugins, "x", policy=STRICT, journal=log)
    (plugins / "x").mkdir()
    (plugins / "x" / "mine").touch()
    with pytest.raises(ZeroclawError):
        remove(plugins, "x", policy=STRICT, journal=log)
    told = [
        (record["action"], record.get("package"), record.get("version"), record["rule"])
        for record in log.verify().records
    ]
    assert told == [
        ("install", "x", "1.0.0", "strict"),
        ("refuse", "x", "1.0.0", "package_name_occupied"),
        ("refuse", None, None, "manifest_invalid"),
        ("refuse", "x", "2.0.0", "update_needs_approval"),
        ("approve", "x", "2.0.0", "strict"),
        ("update", "x", "2.0.0", "strict"),
        ("remove", "x", "2.0.0", "strict"),
        ("refuse", "x", None, "remove_refused"),
    ]
    assert log.verify().intact
    approval, update = log.verify().records[4:6]
    assert approval["detail"] == "permission:state_read"
    assert update["previous_version"] == "1.0.0"


@pytest.mark.req("PLG-098", "PLG-337")
def test_packages_that_go_back_to_their_names_are_told(tmp_path: Path, log: PackageLog) -> None:
    plugins = tmp_path / "plugins"

    def aside(kind: TransactionKind) -> None:
        entry = plugins / str(EntryName.fresh("x", kind))
        package(entry / "package")
        (entry / "lease").touch()

    aside(TransactionKind.RECOVERING)
    fsck(plugins, STRICT, repair=True, journal=log)
    remove(plugins, "x", policy=STRICT, journal=log)
    aside(TransactionKind.RECOVERING)
    remove(plugins, "x", policy=STRICT, journal=log)
    aside(TransactionKind.REPLACING)
    Updater(plugins, STRICT, loading, journal=log).update(UpdateSpec("x"), RegistryOffer(None))
    told = [record["action"] for record in log.verify().records]
    assert told == ["restore", "remove", "restore", "remove", "restore"]
    assert (plugins / "x").is_dir()


def test_what_was_told_and_then_failed_is_told_to_be_undone(tmp_path: Path, log: PackageLog) -> None:
    def before(event: Event) -> None:
        if event.operation is Operation.RENAME:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    watched = WatchedFileSystem(PosixFileSystem(), before=before)
    with pytest.raises(StorageError):
        install(
            tmp_path / "plugins",
            DirectoryReader(package(tmp_path / "source")),
            policy=STRICT,
            load_check=None,
            journal=log,
            filesystem=watched,
        )
    told = [(record["action"], record["package"], record["rule"]) for record in log.verify().records]
    assert told == [("install", "x", "strict"), ("undo", "x", "storage_failed")]


@pytest.mark.parametrize(
    "step", ["write a record", "flush the log", "write the note", "flush the note", "publish the note"]
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_what_cannot_be_told_does_not_happen(tmp_path: Path, step: str, number: int) -> None:
    def at(reached: str) -> None:
        if reached == step and failing:
            raise OSError(number, os.strerror(number))

    failing = True
    log = PackageLog(tmp_path / "packages.jsonl", at=at)
    source = DirectoryReader(package(tmp_path / "source"))
    plugins = tmp_path / "plugins"
    with pytest.raises(StorageError, match="package log"):
        install(plugins, source, policy=STRICT, load_check=None, journal=log)
    assert not (plugins / "x").exists()
    assert log.verify().intact
    assert log.verify().records == ()
    failing = False
    install(plugins, source, policy=STRICT, load_check=None, journal=log)
    found = log.verify()
    assert found.intact
    assert found.records[-1]["action"] == "install"
    failing = True
    with pytest.raises(StorageError, match="package log"):
        remove(plugins, "x", policy=STRICT, journal=log)
    assert (plugins / "x" / "plugin.wasm").exists()
    assert len(log.verify().records) == 1


def test_an_empty_or_missing_log_is_intact(log: PackageLog) -> None:
    assert log.verify().intact
    assert log.verify().records == ()


def change(data: list[bytes], at: int) -> list[bytes]:
    record = json.loads(data[at])
    record["package"] = "another"
    return [*data[:at], json.dumps(record, separators=(",", ":")).encode(), *data[at + 1 :]]


TAMPERING: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "changed": change,
    "dropped": lambda data, at: data[:at] + data[at + 1 :],
    "doubled": lambda data, at: data[: at + 1] + data[at:],
    "moved to the front": lambda data, at: (
        [data[at], *data[:at], *data[at + 1 :]] if at else [*data[1:], data[0]]
    ),
    "cut short": lambda data, at: [*data[:at], data[at][: len(data[at]) // 2], *data[at + 1 :]],
    "emptied": lambda data, at: [*data[:at], b"", *data[at + 1 :]],
    "replaced by another kind of value": lambda data, at: [*data[:at], b"[]", *data[at + 1 :]],
    "cut off with all behind it": lambda data, at: data[:at],
}


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("kind", TAMPERING)
def test_whatever_was_done_to_a_record_is_found_and_still_is_after_the_next_one(
    log: PackageLog, kind: str, at: int
) -> None:
    fill(log, 5)
    assert log.verify().intact
    altered = TAMPERING[kind](lines(log), at)
    log.path.write_bytes(b"".join(line + b"\n" for line in altered))
    assert not log.verify().intact
    if not (kind == "changed" and at == 4):  # the newest is held by its note alone, until it has a successor
        fill(log, 1)
        assert not log.verify().intact


@given(st.integers(0), st.integers(0, 255))
def test_any_byte_that_is_changed_is_found(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    log = PackageLog(tmp_path_factory.mktemp("log") / "packages.jsonl", who=lambda: "ada", now=lambda: NOON)
    fill(log, 3)
    data = bytearray(log.path.read_bytes())
    place %= len(data)
    changed = data[place] != byte
    data[place] = byte
    log.path.write_bytes(bytes(data))
    found = log.verify()
    assert changed == (not found.intact or found.torn_bytes > 0)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_note_that_was_removed_or_spoiled_is_found(log: PackageLog, kept: int) -> None:
    fill(log, 3)
    head = log.path.with_name("packages.jsonl.head")
    match kept:
        case 0:
            head.unlink()
        case 1:
            head.write_text("3 abc")
        case _:
            head.write_bytes(b"\xff")
    assert not log.verify().intact


def test_half_a_record_at_the_end_is_no_loss_and_gives_its_place_to_the_next(log: PackageLog) -> None:
    fill(log, 2)
    with log.path.open("ab") as file:
        file.write(b'{"n":3,"time":"20')
    found = log.verify()
    assert (found.intact, found.torn_bytes, len(found.records)) == (True, 17, 2)
    fill(log, 1)
    found = log.verify()
    assert (found.intact, found.torn_bytes, len(found.records)) == (True, 0, 3)


class Killed(BaseException):
    """As good as a kill: nothing of the program runs any more."""


def test_a_stop_before_any_step_loses_no_record_that_was_there(tmp_path: Path) -> None:
    steps: list[str] = []
    counting = PackageLog(tmp_path / "count.jsonl", at=steps.append)
    fill(counting, 1)
    for number in range(len(steps)):
        for records in (0, 1, 2):
            log = PackageLog(tmp_path / f"{number}-{records}.jsonl")
            fill(log, records)
            for _ in range(2):
                reached: list[str] = []

                def at(step: str, number: int = number, reached: list[str] = reached) -> None:
                    reached.append(step)
                    if len(reached) > number:
                        raise Killed

                with pytest.raises(Killed):
                    fill(PackageLog(log.path, at=at), 1)
                assert log.verify().intact
                assert len(log.verify().records) >= records
            fill(log, 1)
            assert log.verify().intact


def test_long_texts_are_cut_and_strange_ones_stay_on_their_line(log: PackageLog) -> None:
    log.append(Record(Action.REFUSE, None, detail="x" * 100_000))
    log.append(Record(Action.REFUSE, "a\nb\u2028\ud800", source="\x1b[31m"))
    found = log.verify()
    assert found.intact
    assert len(found.records) == 2
    assert len(found.records[0]["detail"]) == 1000
    assert found.records[1]["package"] == "a\nb\u2028\ud800"


def test_the_end_is_found_behind_a_record_of_any_length(log: PackageLog) -> None:
    for length in (10, 16 * 1024 - 200, 16 * 1024, 50_000):
        log.append(Record(Action.REFUSE, None, source="s" * length))
    found = log.verify()
    assert found.intact
    assert [record["n"] for record in found.records] == [1, 2, 3, 4]


def _append_many(path: Path, name: str) -> None:
    log = PackageLog(path)
    for _ in range(25):
        log.append(Record(Action.INSTALL, name))


def test_records_of_several_processes_and_threads_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "packages.jsonl"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_append_many, args=(path, f"process-{number}")) for number in range(2)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: _append_many(path, f"thread-{number}"), range(2)))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    found = PackageLog(path).verify()
    assert found.intact
    counts: dict[Any, int] = {}
    for record in found.records:
        counts[record["package"]] = counts.get(record["package"], 0) + 1
    assert counts == {"process-0": 25, "process-1": 25, "thread-0": 25, "thread-1": 25}


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "packages.jsonl").symlink_to("victim")
    with pytest.raises(StorageError):
        fill(PackageLog(tmp_path / "packages.jsonl"), 1)
    assert (tmp_path / "victim").read_text() == "precious"
