"""Room for artifacts is bounded: what is of least use goes first, and what somebody uses stays."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import StorageError
from zeroclaw_host.sandbox.compiling import shelf as shelves
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName, Shelf, StoredArtifact, lock

HERE = "a" * 16
ELSEWHERE = "b" * 16
HOUR = 3600.0


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, HERE)


def put(shelf: Shelf, number: int, *, size: int = 100, age: float = 0, fingerprint: str = HERE) -> Path:
    path = Shelf(shelf.directory, fingerprint).path(ArtifactName("component", f"{number:064x}"))
    path.write_bytes(b"x" * size)
    path.chmod(0o600)
    used = time.time() - age
    os.utime(path, (used, used))
    return path


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(descriptor)


def names(artifacts: tuple[StoredArtifact, ...]) -> list[Path]:
    return [artifact.path for artifact in artifacts]


def test_what_is_of_least_use_comes_first(shelf):
    young = put(shelf, 1, age=1 * HOUR)
    old = put(shelf, 2, age=3 * HOUR)
    stale = put(shelf, 3, age=0, fingerprint=ELSEWHERE)
    older_stale = put(shelf, 4, age=2 * HOUR, fingerprint=ELSEWHERE)
    unknown = shelf.directory / "0123.artifact"  # as an earlier release named them
    unknown.write_bytes(b"x")
    os.utime(unknown, (0, 0))
    assert names(shelf.stored()) == [unknown, older_stale, stale, old, young]
    assert [artifact.stale for artifact in shelf.stored()] == [True, True, True, False, False]
    assert shelf.stored()[0].name is None
    assert shelf.stored()[-1].name == ArtifactName("component", f"{1:064x}")


def test_what_was_used_in_the_future_is_of_a_clock_that_went_wrong_and_goes_first(shelf):
    now, old = put(shelf, 1), put(shelf, 2, age=3 * HOUR)
    soon = put(shelf, 3, age=-HOUR / 2)  # within what the time of use is exact to
    later, much_later = put(shelf, 4, age=-2 * HOUR), put(shelf, 5, age=-9000 * HOUR)
    assert names(shelf.stored()) == [later, much_later, old, now, soon]


def test_thousands_of_artifacts_are_pruned_in_time_that_grows_with_their_number(shelf):
    for number in range(1000):
        shelf.path(ArtifactName("component", f"{number:064x}")).touch()
    compared: list[int] = []

    class Counted(type(shelf.directory)):
        def __eq__(self, other: object) -> bool:
            compared.append(1)
            return super().__eq__(other)

        __hash__ = Path.__hash__

    found = Shelf(Counted(shelf.directory), HERE)
    pruned = found.prune(0, also=found.stored()[::2])
    assert (len(pruned.removed), len(pruned.kept)) == (500, 500)
    assert len(compared) < 5 * 1000


def test_nothing_goes_at_the_bound_and_the_first_one_past_it(shelf):
    paths = [put(shelf, number, age=-number) for number in range(3)]
    assert shelf.prune(300).removed == ()
    pruned = shelf.prune(299)
    assert names(pruned.removed) == paths[:1]
    assert names(pruned.kept) == paths[1:]
    assert (pruned.freed_bytes, pruned.kept_bytes) == (100, 200)
    assert [path.exists() for path in paths] == [False, True, True]


def test_what_is_in_use_stays_however_old_and_however_much(shelf):
    used, stale, free = put(shelf, 1, age=9 * HOUR), put(shelf, 2, fingerprint=ELSEWHERE), put(shelf, 3)
    with in_use(used), in_use(stale):
        assert [artifact.in_use for artifact in shelf.stored()] == [True, True, False]
        assert names(shelf.prune(0).removed) == [free]
    assert names(shelf.prune(0).removed) == [stale, used]


def test_what_is_not_wanted_goes_though_there_is_room_unless_it_is_in_use(shelf):
    first, second = put(shelf, 1), put(shelf, 2)
    put(shelf, 3)
    with in_use(second):
        unwanted = [each for each in shelf.stored() if each.path in (first, second)]
        assert names(shelf.prune(10**9, also=unwanted).removed) == [first]


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=8
    ),
    st.integers(0, 200),
)
def test_pruning_keeps_the_bound_and_removes_no_more_than_it_must(tmp_path_factory, artifacts, bound):
    shelf = Shelf(tmp_path_factory.mktemp("shelf"), HERE)
    with ExitStack() as users:
        for number, (size, hours, stale, used) in enumerate(artifacts):
            fingerprint = ELSEWHERE if stale else HERE
            path = put(shelf, number, size=size, age=hours * HOUR, fingerprint=fingerprint)
            if used:
                users.enter_context(in_use(path))
        order = shelf.stored()
        pruned = shelf.prune(bound)
        assert {each.path for each in shelf.stored()} == {each.path for each in pruned.kept}
        assert sorted(names(pruned.removed + pruned.kept)) == sorted(names(order))
        assert not any(each.in_use for each in pruned.removed)
        if pruned.kept_bytes > bound:
            assert all(each.in_use for each in pruned.kept)
        if pruned.removed:
            assert pruned.kept_bytes + pruned.removed[-1].size > bound, "the last one had to go"
        free = [each for each in order if not each.in_use]
        assert list(pruned.removed) == free[: len(pruned.removed)]


def test_clearing_takes_what_is_in_use_too_and_nothing_that_is_no_artifact(shelf):
    used = put(shelf, 1)
    key = shelf.directory / "key"
    key.write_bytes(b"k" * 32)
    with in_use(used):
        assert [artifact.in_use for artifact in shelf.clear().removed] == [True]
    assert list(shelf.directory.iterdir()) == [key]


def test_a_link_is_removed_and_not_what_it_leads_to(shelf, tmp_path_factory):
    target = tmp_path_factory.mktemp("elsewhere") / "target"
    target.write_bytes(b"x")
    link = shelf.directory / "0123.artifact"
    link.symlink_to(target)
    assert names(shelf.prune(0).removed) == [link]
    assert target.exists()


def test_a_pipe_in_an_artifacts_place_holds_nobody_up(shelf):
    os.mkfifo(shelf.directory / "0123.artifact")
    shelf.prune(0, also=shelf.stored())
    assert not list(shelf.directory.iterdir())


def test_a_missing_directory_holds_nothing_and_is_not_made(tmp_path):
    shelf = Shelf(tmp_path / "none", HERE)
    assert shelf.stored() == shelf.prune(0).removed == shelf.clear().removed == ()
    assert not shelf.directory.exists()


def test_a_directory_that_cannot_be_read_is_an_error(shelf, monkeypatch):
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        shelf.stored()


@pytest.mark.parametrize("name", [".x.partial", ".x.lock"])
def test_what_nobody_holds_is_abandoned_after_a_minute(name, shelf):
    path = shelf.directory / name
    path.write_bytes(b"half")
    shelf.sweep()
    assert path.exists(), "its maker may not have come to lock it"
    os.utime(path, (time.time() - 61, time.time() - 61))
    with in_use(path):
        shelf.sweep()
        assert path.exists(), "its maker is at work"
    shelf.sweep()
    assert not path.exists()
    path.write_bytes(b"half")
    os.utime(path, (time.time() + 61, time.time() + 61))
    shelf.sweep()
    assert not path.exists(), "the clock was set back since"


def test_what_the_system_does_not_open_at_the_moment_is_not_taken_for_free(shelf, monkeypatch):
    artifact, partial = put(shelf, 1), shelf.directory / ".x.partial"
    partial.write_bytes(b"half")
    os.utime(partial, (0, 0))

    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(shelves.os, "open", exhausted)
    assert [found.in_use for found in shelf.stored()] == [True]
    assert shelf.prune(0).removed == ()
    assert artifact.exists()
    assert partial.exists()


def test_where_there_are_no_locks_nothing_is_taken_for_abandoned_and_artifacts_are_still_removed(
    shelf, monkeypatch
):
    partial = shelf.directory / ".x.partial"
    partial.write_bytes(b"half")
    os.utime(partial, (0, 0))
    put(shelf, 1)

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(shelves.fcntl, "flock", unsupported)
    assert [artifact.in_use for artifact in shelf.stored()] == [False]
    assert len(shelf.prune(0).removed) == 1
    assert list(shelf.directory.iterdir()) == [partial]


def test_a_lock_is_taken_once(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    with path.open() as first, path.open() as second:
        assert lock(first.fileno(), fcntl.LOCK_EX) is True
        assert lock(second.fileno(), fcntl.LOCK_SH) is False


def test_a_successor_takes_the_place_of_other_releases_artifacts_unless_they_are_in_use(shelf):
    used, free = put(shelf, 1, fingerprint=ELSEWHERE), put(shelf, 1, fingerprint="c" * 16)
    new, other = put(shelf, 1), put(shelf, 2, fingerprint=ELSEWHERE)
    with in_use(used):
        shelf.supersede(ArtifactName("component", f"{1:064x}"))
    assert [path.exists() for path in (used, free, new, other)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("kind", "digest"), [("Component", "1" * 64), ("", "1" * 64), ("a/b", "1" * 64), ("module", "1" * 63)]
)
def test_a_name_is_a_word_and_a_digest_and_no_path(kind, digest):
    with pytest.raises(ValueError, match="SHA-256"):
        ArtifactName(kind, digest)
