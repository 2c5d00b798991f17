"""Compiled code is used only if this cache wrote it, for this component, this release and this processor."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from zeroclaw_host import private_files
from zeroclaw_host.errors import CompileLimit, ComponentInvalid, RemedyAction, StorageError
from zeroclaw_host.sandbox.compiling import cache as caching
from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.cache import ComponentCache
from zeroclaw_host.sandbox.compiling.compile import CompileLimits
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName
from zeroclaw_host.sandbox.engine import Engines


class Compilations:
    """Counts how often something was compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        compile_sources = caching.compile_sources

        def counted(*args: object, **kwargs: object) -> None:
            self.count += 1
            compile_sources(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(caching, "compile_sources", counted)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    return Compilations(monkeypatch)


@pytest.fixture(scope="session")
def component(embed: Callable[..., bytes], tool_core: Callable[..., str]) -> bytes:
    return embed(tool_core())


@pytest.fixture(scope="session")
def other(embed: Callable[..., bytes], tool_core: Callable[..., str]) -> bytes:
    return embed(tool_core("unreachable"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def fresh(directory: Path) -> ComponentCache:
    """The cache as a new process would open it."""
    return ComponentCache(directory, Engines())


def artifact_of(directory: Path, component: bytes) -> Path:
    name = ArtifactName("component", hashlib.sha256(component).hexdigest())
    return fresh(directory).artifacts.shelf.path(name)


def test_a_component_is_compiled_once_and_then_loaded(directory, component, compilations):
    first = fresh(directory)
    loaded = first.load(component)
    assert first.load(component) is loaded
    assert fresh(directory).load(component) is not loaded
    assert compilations.count == 1
    assert fresh(directory).find(hashlib.sha256(component).hexdigest()) is not None


def test_only_the_owner_can_read_what_the_cache_keeps(directory, component):
    fresh(directory).load(component)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(directory.glob("*.partial"))


@pytest.mark.req("PLG-101")
@pytest.mark.parametrize("where", [0, 100, -40, -1])
def test_a_changed_byte_anywhere_discards_the_artifact(where, directory, component, compilations):
    fresh(directory).load(component)
    path = artifact_of(directory, component)
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    fresh(directory).load(component)
    assert compilations.count == 2
    fresh(directory).load(component)
    assert compilations.count == 2, "the good artifact took the place of the bad one"


@pytest.mark.parametrize("keep", [0, 1, 32, 33, -1])
def test_a_truncated_artifact_is_discarded(keep, directory, component, compilations):
    fresh(directory).load(component)
    path = artifact_of(directory, component)
    path.write_bytes(path.read_bytes()[:keep])
    fresh(directory).load(component)
    assert compilations.count == 2


def test_the_artifact_of_one_component_is_not_taken_for_anothers(directory, component, other, compilations):
    fresh(directory).load(component)
    fresh(directory).load(other)
    shutil.copyfile(artifact_of(directory, other), artifact_of(directory, component))
    fresh(directory).load(component)
    assert compilations.count == 3


def test_an_artifact_made_under_another_key_is_forged(directory, tmp_path, component, compilations):
    fresh(directory).load(component)
    elsewhere = tmp_path / "elsewhere"
    fresh(elsewhere).load(component)
    shutil.copyfile(artifact_of(elsewhere, component), artifact_of(directory, component))
    fresh(directory).load(component)
    assert compilations.count == 3


@pytest.mark.req("PLG-101")
def test_an_artifact_of_another_release_is_stale(directory, component, compilations, monkeypatch):
    fresh(directory).load(component)
    old = artifact_of(directory, component)
    monkeypatch.setattr(caching, "fingerprint", lambda: "f" * 64)
    new = artifact_of(directory, component)
    old.rename(new)  # even under the right name
    fresh(directory).load(component)
    assert compilations.count == 2


def test_what_another_release_left_goes_when_its_successor_comes(directory, component, monkeypatch):
    fresh(directory).load(component)
    old = artifact_of(directory, component)
    monkeypatch.setattr(caching, "fingerprint", lambda: "f" * 64)
    fresh(directory).load(component)
    assert not old.exists()


def test_a_link_in_the_artifacts_place_is_not_followed(directory, tmp_path, component, compilations):
    fresh(directory).load(component)
    path = artifact_of(directory, component)
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    fresh(directory).load(component)
    assert compilations.count == 2
    assert not path.is_symlink()
    assert target.exists()


def test_an_artifact_open_to_others_is_not_trusted(directory, component, compilations):
    fresh(directory).load(component)
    artifact_of(directory, component).chmod(0o644)
    fresh(directory).load(component)
    assert compilations.count == 2


def test_the_file_that_was_checked_is_the_file_that_is_loaded(
    directory, component, other, monkeypatch, sandbox
):
    """Somebody swaps the file after it was checked: what is loaded is what was checked."""
    fresh(directory).load(component)
    fresh(directory).load(other)
    path = artifact_of(directory, component)
    authentic = ArtifactStore._authentic

    def swap_after_check(self: ArtifactStore, name: ArtifactName, descriptor: int) -> bool:
        good = authentic(self, name, descriptor)
        path.unlink()
        path.write_bytes(b"not even compiled code")
        return good

    monkeypatch.setattr(ArtifactStore, "_authentic", swap_after_check)
    assert fresh(directory).load(component).type is not None


@pytest.mark.parametrize("damage", ["short", "open", "link"])
def test_a_damaged_key_is_an_error_and_not_replaced(damage, directory, tmp_path):
    fresh(directory)
    key = directory / "key"
    if damage == "short":
        key.write_bytes(b"short")
    elif damage == "open":
        key.chmod(0o640)
    else:
        key.rename(tmp_path / "key")
        key.symlink_to(tmp_path / "key")
    with pytest.raises(StorageError):
        fresh(directory)


def test_a_cache_directory_is_closed_to_others(directory):
    directory.mkdir(mode=0o755)
    fresh(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_link_in_the_directorys_place_is_refused(directory, tmp_path):
    (tmp_path / "real").mkdir()
    directory.symlink_to(tmp_path / "real")
    with pytest.raises(StorageError):
        fresh(directory)


def test_a_full_disk_leaves_nothing_half_written(directory, component, monkeypatch):
    cache = fresh(directory)
    before = sorted(directory.iterdir())

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as caught:
        cache.load(component)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.FREE_SPACE
    left = [path for path in directory.iterdir() if path not in before and path.suffix != ".lock"]
    assert left == []
    monkeypatch.undo()
    cache.load(component)


def test_a_disk_that_is_full_for_the_compiler_is_told_as_such(directory, component, monkeypatch):
    cache = fresh(directory)
    monkeypatch.setattr(private_files, "create", lambda _: os.open("/dev/full", os.O_RDWR))
    with pytest.raises(StorageError, match="the file system is full") as caught:
        cache.load(component)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.FREE_SPACE
    assert [path.name for path in directory.iterdir()] == ["key"]


def test_a_component_the_compiler_refuses_leaves_nothing(directory):
    cache = fresh(directory)
    with pytest.raises(ComponentInvalid):
        cache.load(b"\0asm\x0d\0\x01\0" + b"\x07\x02\x01\x99")
    assert not [path for path in directory.iterdir() if path.suffix in (".partial", ".artifact")]


def test_what_a_killed_process_left_is_swept_once_it_is_old(directory):
    fresh(directory)
    young, old = directory / ".young.partial", directory / ".old.partial"
    for path in (young, old):
        path.write_bytes(b"half")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    fresh(directory)
    assert young.exists()
    assert not old.exists()


def test_a_process_that_holds_the_lock_and_was_stopped_delays_no_longer_than_a_compilation(
    directory, component
):
    cache = ComponentCache(directory, Engines(), limits=CompileLimits(seconds=0.3))
    digest = hashlib.sha256(component).hexdigest()
    told: list[float] = []
    with (directory / f".component-{digest}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with suppress(CompileLimit):  # the time is short for the compiler too
            cache.load(component, progress=told.append)
    assert told


def test_threads_that_want_one_component_compile_it_once(directory, component, compilations):
    cache = fresh(directory)
    start = threading.Barrier(4)

    def load(_: int) -> object:
        start.wait(20)
        return cache.load(component)

    with ThreadPoolExecutor(4) as pool:
        assert len({id(found) for found in pool.map(load, range(4))}) == 1
    assert compilations.count == 1


def test_two_processes_that_start_at_once_agree_on_a_key_and_compile_once(directory, component, compilations):
    start = threading.Barrier(4)

    def load(_: int) -> bytes:
        start.wait(20)
        fresh(directory).load(component)  # caches that share nothing but the directory, as processes do
        return (directory / "key").read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(load, range(4)))) == 1
    assert compilations.count == 1
