from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import InstallError, StorageError, ZeroclawError
from zeroclaw_host.installation.claim import claim
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.lock import LOCK_NAME, DirectoryLock, NamespaceChanged, locked
from zeroclaw_host.installation.staging import staging
from zeroclaw_host.installation.transaction import (
    CleanupFailed,
    EntryName,
    MoveUnsupported,
    NameOccupied,
    Step,
    TransactionKind,
)

STEPS = (
    Step(Operation.MAKE, "skills"),
    Step(Operation.WRITE, "manifest.toml", b"name = 1"),
    Step(Operation.WRITE, "skills/SKILL.md", b"# Skill"),
    Step(Operation.WRITE, "plugin.wasm", b"\0asm" * 100),
    Step(Operation.SYNC, "plugin.wasm"),
    Step(Operation.SYNC, ""),
)


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[DirectoryLock]:
    directory = tmp_path / "plugins"
    directory.mkdir()
    with locked(directory) as held:
        yield held


def contents(directory: Path) -> dict[str, bytes | None]:
    """Every path below a directory, with the bytes of files; the lock file aside."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if path.name != LOCK_NAME
    }


PUBLISHED = {
    "x": None,
    "x/manifest.toml": b"name = 1",
    "x/plugin.wasm": b"\0asm" * 100,
    "x/skills": None,
    "x/skills/SKILL.md": b"# Skill",
}


def put_in(lock: DirectoryLock, filesystem: WatchedFileSystem | None = None) -> None:
    with staging(lock, filesystem or WatchedFileSystem(PosixFileSystem()), "x") as work:
        work.fill(STEPS)
        work.publish()


def take_out(lock: DirectoryLock, filesystem: WatchedFileSystem | None = None) -> Path | None:
    with claim(lock, filesystem or WatchedFileSystem(PosixFileSystem()), "x", "x") as work:
        work.take()
        work.mark()
    return work.leftover


def failing(number: int, error: int, *, then: Callable[[Event], bool] = lambda _: False) -> WatchedFileSystem:
    """A file system whose ``number``-th operation fails, and afterwards whatever ``then`` picks."""

    def before(event: Event) -> None:
        if event.number == number or (event.number > number and then(event)):
            raise OSError(error, os.strerror(error))

    return WatchedFileSystem(PosixFileSystem(), before=before)


def unmovable(error: int, *, then: Callable[[Event], bool] = lambda _: False) -> WatchedFileSystem:
    """A file system that cannot move without replacing, and afterwards fails whatever ``then`` picks."""
    moved: list[Event] = []

    def before(event: Event) -> None:
        if event.operation is Operation.RENAME:
            moved.append(event)
            raise OSError(error, os.strerror(error))
        if moved and then(event):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    return WatchedFileSystem(PosixFileSystem(), before=before)


def count_operations(
    act: Callable[[DirectoryLock, WatchedFileSystem], object], directory: Path, *, filled: bool
) -> int:
    """How many operations an undisturbed run takes."""
    directory.mkdir()
    watched = WatchedFileSystem(PosixFileSystem())
    with locked(directory) as lock:
        if filled:
            put_in(lock)
        act(lock, watched)
    return len(watched.events)


@pytest.mark.req("PLG-048")
def test_a_published_package_is_all_there_is(lock: DirectoryLock) -> None:
    put_in(lock)
    assert contents(lock.directory) == PUBLISHED


@pytest.mark.req("PLG-046")
def test_the_package_is_built_in_a_hidden_entry_whose_lease_is_held(lock: DirectoryLock) -> None:
    with staging(lock, PosixFileSystem(), "x") as work:
        work.fill(STEPS)
        entry = lock.directory / str(work.name)
        assert entry.name.startswith(".x.installing-v1-")
        assert not (lock.directory / "x").exists()
        assert sorted(path.name for path in entry.iterdir()) == ["lease", "package"]
        with (entry / "lease").open() as lease, pytest.raises(BlockingIOError):
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        work.publish()


@pytest.mark.req("PLG-366")
def test_everything_is_flushed_before_the_one_move_and_the_move_itself_after_it(lock: DirectoryLock) -> None:
    watched = WatchedFileSystem(PosixFileSystem())
    put_in(lock, watched)
    operations = [event.operation for event in watched.events]
    move = operations.index(Operation.RENAME)
    assert operations.count(Operation.RENAME) == 1
    assert Operation.WRITE not in operations[move:]
    assert operations[move - 1] is operations[move + 1] is Operation.SYNC
    assert watched.events[move + 1].path == "."


@pytest.mark.req("PLG-048", "PLG-053", "PAINS-11")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failure_of_any_single_operation_leaves_the_package_whole_or_absent(
    tmp_path: Path, number: int
) -> None:
    total = count_operations(put_in, tmp_path / "count", filled=False)
    assert total > 12
    for step in range(total):
        directory = tmp_path / f"{step}"
        directory.mkdir()
        with locked(directory) as lock:
            try:
                put_in(lock, failing(step, number))
            except StorageError as caught:
                error = caught
            else:
                error = None
            if error is not None:
                assert error.details["errno"] == number
                assert contents(directory) == {}
                put_in(lock)
            left = contents(directory)
            assert {path: data for path, data in left.items() if not path.startswith(".")} == PUBLISHED


@pytest.mark.req("PAINS-11")
def test_an_interrupt_before_any_single_operation_leaves_the_package_whole_or_absent(tmp_path: Path) -> None:
    total = count_operations(put_in, tmp_path / "count", filled=False)
    for step in range(total):
        directory = tmp_path / f"{step}"
        directory.mkdir()

        def before(event: Event, step: int = step) -> None:
            if event.number == step:
                raise KeyboardInterrupt

        with locked(directory) as lock:
            with suppress(KeyboardInterrupt):
                put_in(lock, WatchedFileSystem(PosixFileSystem(), before=before))
            left = {path: data for path, data in contents(directory).items() if not path.startswith(".")}
            assert left in ({}, PUBLISHED)


@pytest.mark.req("PLG-049", "PLG-050", "PLG-052")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_a_safe_move_nothing_is_published_and_trying_again_is_not_advised(
    lock: DirectoryLock, number: int
) -> None:
    for _ in range(2):
        watched = unmovable(number)
        with pytest.raises(MoveUnsupported, match="will end the same way"):
            put_in(lock, watched)
        assert contents(lock.directory) == {}
        assert sum(event.operation is Operation.RENAME for event in watched.events) == 1


@pytest.mark.req("PLG-048")
@pytest.mark.parametrize("kind", ["empty directory", "file", "link"])
def test_what_appears_at_the_name_meanwhile_is_left_as_it_is(lock: DirectoryLock, kind: str) -> None:
    final = lock.directory / "x"

    def before(event: Event) -> None:
        if event.operation is Operation.RENAME:
            match kind:
                case "empty directory":
                    final.mkdir()
                case "file":
                    final.write_bytes(b"mine")
                case _:
                    final.symlink_to("nowhere")

    with pytest.raises(NameOccupied):
        put_in(lock, WatchedFileSystem(PosixFileSystem(), before=before))
    assert [path.name for path in lock.directory.iterdir() if path.name != LOCK_NAME] == ["x"]
    assert final.is_symlink() or not final.is_dir() or not any(final.iterdir())


@pytest.mark.req("PLG-055")
def test_other_stagings_of_the_same_name_are_left_as_they_are(lock: DirectoryLock) -> None:
    old = lock.directory / str(EntryName.fresh("x", TransactionKind.INSTALLING))
    (old / "package").mkdir(parents=True)
    (old / "package" / "plugin.wasm").write_bytes(b"half")
    before = contents(lock.directory)
    put_in(lock)
    assert contents(lock.directory) == before | PUBLISHED


@pytest.mark.req("PLG-056", "PLG-057", "PLG-058")
@pytest.mark.parametrize(
    ("stuck", "place"),
    [
        ("package/plugin.wasm", "package"),
        ("package", "package"),
        ("lease", ""),
        ("", ""),
    ],
)
def test_a_failed_cleanup_names_the_place_where_it_stopped(
    lock: DirectoryLock, stuck: str, place: str
) -> None:
    def picks(event: Event) -> bool:
        inner = event.path.partition("/")[2]
        return event.operation is Operation.DROP and inner == stuck

    with pytest.raises(CleanupFailed) as caught:
        put_in(lock, unmovable(errno.ENOSYS, then=picks))
    [entry] = [path for path in lock.directory.iterdir() if path.name.startswith(".x.")]
    location = str(entry / place) if place else str(entry)
    assert caught.value.details["location"] == location
    assert f"stopped at {location} (permission denied)" in caught.value.message
    assert "has to be resolved first" in caught.value.message
    assert "safe move" in caught.value.message
    assert "intact" not in caught.value.message
    assert isinstance(caught.value.__cause__, MoveUnsupported)
    put_in(lock)
    assert (lock.directory / "x").is_dir()


@pytest.mark.req("PLG-059", "PLG-060")
@pytest.mark.parametrize("what", ["root replaced", "root removed", "lock replaced", "lock removed"])
@pytest.mark.parametrize("when", [Operation.WRITE, Operation.RENAME])
def test_a_replaced_directory_or_lock_stops_everything_and_nothing_is_deleted(
    tmp_path: Path, what: str, when: Operation
) -> None:
    directory = tmp_path / "plugins"
    directory.mkdir()
    swapped: list[bool] = []

    def swap() -> None:
        swapped.append(True)
        if what.startswith("root"):
            directory.rename(tmp_path / "old")
            if what == "root replaced":
                (directory / "x").mkdir(parents=True)
                (directory / "x" / "file").write_bytes(b"other")
        else:
            (directory / LOCK_NAME).unlink()
            if what == "lock replaced":
                (directory / LOCK_NAME).touch()

    def before(event: Event) -> None:
        if event.operation is when and event.path.endswith("plugin.wasm") and not swapped:
            swap()
            raise OSError(errno.EIO, "fault")

    def before_publishing(event: Event) -> None:
        if event.operation is Operation.SYNC and "/" not in event.path and not swapped:
            swap()

    hook = before if when is Operation.WRITE else before_publishing
    with locked(directory) as lock, pytest.raises(NamespaceChanged):
        put_in(lock, WatchedFileSystem(PosixFileSystem(), before=hook))
    if what == "root replaced":
        assert (directory / "x" / "file").read_bytes() == b"other"
    kept = tmp_path / "old" if what.startswith("root") else directory
    assert any(path.name.startswith(".x.installing-v1-") for path in kept.iterdir())
    assert not (kept / "x").exists()


def test_what_was_done_beside_is_undone_first_when_the_transaction_fails(lock: DirectoryLock) -> None:
    order: list[str] = []
    watched = WatchedFileSystem(PosixFileSystem(), before=lambda event: order.append(event.operation))

    def fail_at_the_end() -> None:
        with staging(lock, watched, "x") as work:
            work.fill(STEPS)
            work.publish()
            order.clear()
            work.on_failure(lambda: order.append("undone"))
            raise InstallError("no row")

    with pytest.raises(InstallError, match="no row"):
        fail_at_the_end()
    assert order[:2] == ["undone", Operation.RENAME]
    assert contents(lock.directory) == {}


@pytest.mark.req("PLG-064")
def test_a_claimed_and_marked_package_is_gone_with_its_entry(lock: DirectoryLock) -> None:
    put_in(lock)
    assert take_out(lock) is None
    assert contents(lock.directory) == {}


@pytest.mark.req("PAINS-11")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO, errno.ENOSYS])
def test_a_failure_while_taking_out_leaves_the_package_whole_or_gone(tmp_path: Path, number: int) -> None:
    total = count_operations(take_out, tmp_path / "count", filled=True)
    assert total > 8
    for step in range(total):
        directory = tmp_path / f"{step}"
        directory.mkdir()
        with locked(directory) as lock:
            put_in(lock)
            try:
                leftover = take_out(lock, failing(step, number))
            except ZeroclawError:
                assert contents(directory) == PUBLISHED
            else:
                assert not (directory / "x").exists()
                assert (leftover is not None) == bool(contents(directory))


def test_a_package_that_cannot_be_put_back_is_kept_and_its_place_is_told(lock: DirectoryLock) -> None:
    put_in(lock)

    def before(event: Event) -> None:
        if event.operation is Operation.MARK:
            (lock.directory / "x").mkdir()
            raise OSError(errno.EIO, "fault")

    with pytest.raises(CleanupFailed) as caught:
        take_out(lock, WatchedFileSystem(PosixFileSystem(), before=before))
    kept = Path(str(caught.value.details["location"]))
    assert (kept / "manifest.toml").read_bytes() == b"name = 1"
    assert not (kept.parent / "deleting").exists()
    assert list((lock.directory / "x").iterdir()) == []


def test_links_in_a_package_are_deleted_and_not_followed(lock: DirectoryLock, tmp_path: Path) -> None:
    put_in(lock)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (lock.directory / "x" / "link").symlink_to(tmp_path / "outside")
    assert take_out(lock) is None
    assert (tmp_path / "outside" / "file").exists()


def test_a_step_does_not_print_what_it_writes() -> None:
    assert "0asm" not in repr(STEPS)


_slugs = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?", fullmatch=True)


@pytest.mark.req("PLG-047")
@given(_slugs, st.sampled_from(TransactionKind))
def test_an_entry_name_survives_being_written_and_read(package: str, kind: TransactionKind) -> None:
    name = EntryName.fresh(package, kind)
    assert EntryName.parse(str(name)) == name
    assert str(name).startswith(f".{package}.{kind}-v1-")
    assert len(str(name)) < 255


@given(st.text(max_size=80))
def test_other_names_are_no_entries(text: str) -> None:
    name = EntryName.parse(text)
    assert name is None or str(name) == text


@pytest.mark.parametrize(
    "text",
    [LOCK_NAME, "x", ".x.installing-4711", ".x.installing-v1-" + "A" * 32, ".x.installing-v2-" + "a" * 32],
)
def test_the_lock_and_older_forms_are_no_entries(text: str) -> None:
    assert EntryName.parse(text) is None
