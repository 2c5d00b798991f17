"""How a file gets into ``uploads``, whatever fails on the way."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import folder_child
import pytest
from folder_child import CASES, NAME, NEW, OLD, Watched, prepared, steps_of

from zeroclaw_daemon.attachments.folder import FolderSteps, UploadsFolder
from zeroclaw_host.errors import RemedyAction, StorageError

UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")


def names(workspace: Path) -> list[str]:
    folder = workspace / "uploads"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


def content(workspace: Path) -> bytes | None:
    file = workspace / "uploads" / NAME
    return file.read_bytes() if file.exists() else None


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_written_synced_renamed_and_synced_again(tmp_path: Path, case: str) -> None:
    steps = [name for name, phase in steps_of(prepared(tmp_path / case, case)) if phase == "after"]
    made = ["make_directory", "sync"] if case == "empty" else []
    assert steps == [*made, "create", "lock", "write", "sync", "rename", "sync"]
    assert (names(tmp_path / case), content(tmp_path / case)) == ([NAME], NEW)


def test_a_file_that_is_right_already_is_made_to_last_and_not_written(tmp_path: Path) -> None:
    workspace = prepared(tmp_path / "w", "empty")
    steps_of(workspace)
    before = (workspace / "uploads" / NAME).stat()
    assert [name for name, phase in steps_of(workspace) if phase == "after"] == ["sync", "sync"]
    after = (workspace / "uploads" / NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


class Failing(Watched):
    """Fails at one moment, and at nothing that cleans up after it."""

    def __init__(self, number: int, code: int) -> None:
        left = number

        def watch(name: str, phase: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(code, os.strerror(code))

        super().__init__(watch)


FAULTS = [errno.ENOSPC, errno.EACCES, errno.EIO]
DONE = {("make_directory", "after"), ("create", "after"), ("lock", "after"), ("rename", "after")}
"""A step that fails has not been done, but for those whose effect is in doubt: a write, and a sync."""


def _moments(case: str) -> list[tuple[str, str]]:
    """Every moment of a store, as it is known here."""
    rest = ["create", "lock", "write", "sync", "rename", "sync"]
    phases = {"write": ("before", "half", "after")}
    found = [(name, phase) for name in rest for phase in phases.get(name, ("before", "after"))]
    first = [("make_directory", "before")]  # Where it is there already, the system says so.
    made = [("make_directory", "after"), ("sync", "before"), ("sync", "after")]
    return first + (made if case == "empty" else []) + found


MOMENTS = [
    (case, number, *moment)
    for case in CASES
    for number, moment in enumerate(_moments(case))
    if moment not in DONE
]


@pytest.mark.parametrize("code", FAULTS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: "-".join(map(str, moment)))
def test_a_step_that_fails_leaves_the_old_or_nothing(
    tmp_path: Path, moment: tuple[str, int, str, str], code: int
) -> None:
    case, number, _, _ = moment
    workspace = prepared(tmp_path / "w", case)
    with pytest.raises(StorageError) as caught:
        UploadsFolder(str(workspace), Failing(number, code)).store(NAME, NEW)
    assert caught.value.details["errno"] == errno.errorcode[code]
    assert (caught.value.remedy is not None) == (code == errno.ENOSPC)
    # Once the new one is in place and may not last, there is none rather than one nobody was told of.
    last = [each for each in MOMENTS if each[0] == case][-2:]
    expected = OLD if case == "edited" and moment not in last else None
    assert content(workspace) == expected
    assert names(workspace) == ([NAME] if expected is not None else [])
    UploadsFolder(str(workspace)).store(NAME, NEW)
    assert (names(workspace), content(workspace)) == ([NAME], NEW)


@pytest.mark.parametrize("case", CASES)
def test_every_moment_of_a_store_is_failed_at(tmp_path: Path, case: str) -> None:
    assert steps_of(prepared(tmp_path / case, case)) == _moments(case)


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_and_what_is_unfinished_goes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, folder_child.__file__, str(tmp_path)], check=True, timeout=120)
    killed = [each for each in sorted(tmp_path.iterdir()) if not each.name.endswith("whole")]
    assert len(killed) >= 28
    seen: set[bytes | None] = set()
    for workspace in killed:
        found = content(workspace)
        seen.add(found)
        assert found in (NEW, OLD if workspace.name.startswith("edited") else None), workspace.name
        rest = [name for name in names(workspace) if name != NAME]
        assert all(UNFINISHED.fullmatch(name) for name in rest)
        assert len(rest) <= 1
        UploadsFolder(str(workspace)).store("other", b"x")
        assert names(workspace) == sorted([*([NAME] if found is not None else []), "other"]), workspace.name
        UploadsFolder(str(workspace)).store(NAME, NEW)
        assert content(workspace) == NEW
    assert seen == {None, OLD, NEW}


def test_what_another_process_is_writing_is_not_swept_away(tmp_path: Path) -> None:
    workspace = prepared(tmp_path / "w", "empty")
    here = UploadsFolder(str(workspace))

    def meanwhile(name: str, phase: str) -> None:
        if (name, phase) == ("write", "half"):
            here.store("other", b"x")

    UploadsFolder(str(workspace), Watched(meanwhile)).store(NAME, NEW)
    assert (names(workspace), content(workspace)) == ([NAME, "other"], NEW)


def test_an_unfinished_file_that_was_swept_before_its_lock_is_begun_again(tmp_path: Path) -> None:
    workspace = prepared(tmp_path / "w", "empty")
    here = UploadsFolder(str(workspace))
    swept: list[str] = []

    def meanwhile(name: str, phase: str) -> None:
        if (name, phase) == ("create", "after") and not swept:
            swept.extend(names(workspace))
            here.store("other", b"x")

    UploadsFolder(str(workspace), Watched(meanwhile)).store(NAME, NEW)
    assert len(swept) == 1
    assert (names(workspace), content(workspace)) == ([NAME, "other"], NEW)


def test_an_unfinished_file_whose_lock_a_sweeper_has_is_begun_again(tmp_path: Path) -> None:
    class Held(FolderSteps):
        tries = 0

        def lock(self, descriptor: int) -> bool:
            self.tries += 1
            return self.tries > 1 and super().lock(descriptor)

    workspace, steps = prepared(tmp_path / "w", "empty"), Held()
    UploadsFolder(str(workspace), steps).store(NAME, NEW)
    assert steps.tries == 2
    assert content(workspace) == NEW
    UploadsFolder(str(workspace)).store("other", b"x")
    assert names(workspace) == [NAME, "other"]


def test_what_looks_unfinished_and_is_a_link_stays_and_so_does_its_target(tmp_path: Path) -> None:
    workspace = prepared(tmp_path / "w", "edited")
    target = tmp_path / "target"
    target.write_bytes(b"target")
    link = workspace / "uploads" / f".{'0' * 16}.part"
    link.symlink_to(target)
    (workspace / "uploads" / ".notes.part").write_bytes(b"mine")
    UploadsFolder(str(workspace)).store(NAME, NEW)
    assert names(workspace) == [link.name, ".notes.part", NAME]
    assert target.read_bytes() == b"target"


def _swap(workspace: Path, elsewhere: Path) -> None:
    (workspace / "uploads").rename(workspace / "aside")
    (workspace / "uploads").symlink_to(elsewhere)


@pytest.mark.req("RPC-216")
@pytest.mark.parametrize("moment", ["create", "write", "rename"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path: Path, moment: str) -> None:
    workspace, elsewhere = prepared(tmp_path / "w", "edited"), tmp_path / "elsewhere"
    elsewhere.mkdir()

    def meanwhile(name: str, phase: str) -> None:
        if (name, phase) == (moment, "before"):
            _swap(workspace, elsewhere)

    UploadsFolder(str(workspace), Watched(meanwhile)).store(NAME, NEW)
    assert list(elsewhere.iterdir()) == []
    assert (workspace / "aside" / NAME).read_bytes() == NEW


def test_a_workspace_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        UploadsFolder(str(tmp_path / "none")).store(NAME, NEW)
    assert caught.value.details == {"path": str(tmp_path / "none" / "uploads" / NAME), "errno": "ENOENT"}


def test_a_real_limit_of_file_sizes_is_told_with_what_to_do(tmp_path: Path) -> None:
    """The system's own refusal, in a process of its own, which leaves nothing."""
    program = (
        "import resource, signal, sys; from zeroclaw_daemon.attachments.folder import UploadsFolder\n"
        "from zeroclaw_host.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: UploadsFolder(sys.argv[1]).store('n', b'x' * 2000)\n"
        "except StorageError as error: print(error.details['errno'], error.remedy.action.value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["EFBIG", RemedyAction.FREE_SPACE.value]
    assert names(tmp_path) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        UploadsFolder(str(tmp_path)).store(NAME, NEW)
    finally:
        os.umask(before)
    assert (tmp_path / "uploads").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "uploads" / NAME).stat().st_mode & 0o777 == 0o600


SIZES: dict[str, Callable[[bytes], bytes]] = {
    "first byte": lambda data: b"#" + data[1:],
    "last byte": lambda data: data[:-1] + b"#",
    "at the border of two pieces": lambda data: data[: 1024 * 1024] + b"#" + data[1024 * 1024 + 1 :],
    "one byte less": lambda data: data[:-1],
    "one byte more": lambda data: data + b"#",
}


@pytest.mark.req("RPC-214")
@pytest.mark.parametrize("change", SIZES)
def test_one_byte_that_differs_anywhere_is_found(tmp_path: Path, change: str) -> None:
    data = b"x" * (2 * 1024 * 1024 + 5)
    folder = UploadsFolder(str(tmp_path))
    folder.store(NAME, data)
    (tmp_path / "uploads" / NAME).write_bytes(SIZES[change](data))
    folder.store(NAME, data)
    assert (tmp_path / "uploads" / NAME).read_bytes() == data
