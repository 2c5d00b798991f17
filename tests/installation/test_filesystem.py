from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.installation.filesystem import PosixFileSystem, storage_error, system_mover, tree

Move = Callable[[int, bytes, int, bytes], None]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_move_brings_a_directory_with_all_it_holds(root: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x")
    PosixFileSystem().rename_no_replace(root, "a", "b")
    assert (tmp_path / "b" / "file").read_bytes() == b"x"
    assert not (tmp_path / "a").exists()


@pytest.mark.req("PLG-048")
@pytest.mark.parametrize("occupant", ["empty directory", "directory", "file", "link", "dangling link"])
def test_a_move_replaces_nothing_not_even_an_empty_directory(
    root: int, tmp_path: Path, occupant: str
) -> None:
    (tmp_path / "a").mkdir()
    target = tmp_path / "b"
    match occupant:
        case "empty directory":
            target.mkdir()
        case "directory":
            (target / "child").mkdir(parents=True)
        case "file":
            target.write_bytes(b"mine")
        case "link":
            target.symlink_to(tmp_path)
        case _:
            target.symlink_to("nowhere")
    before = target.lstat()
    with pytest.raises(FileExistsError):
        PosixFileSystem().rename_no_replace(root, "a", "b")
    after = target.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "a").is_dir()


def test_a_write_creates_and_never_opens_what_is_there(root: int, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"keep")
    (tmp_path / "link").symlink_to("secret")
    for name in ("secret", "link"):
        with pytest.raises(FileExistsError):
            PosixFileSystem().write(root, name, b"overwritten")
    assert (tmp_path / "secret").read_bytes() == b"keep"


def test_operations_land_in_the_open_directory_wherever_its_path_leads_now(root: int, tmp_path: Path) -> None:
    moved = tmp_path.with_name(tmp_path.name + "-moved")
    tmp_path.rename(moved)
    tmp_path.mkdir()
    PosixFileSystem().write(root, "file", b"x")
    assert (moved / "file").exists()
    assert not (tmp_path / "file").exists()


def test_dropping_a_link_leaves_its_target(root: int, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    PosixFileSystem().drop(root, "link")
    assert (tmp_path / "target").is_dir()
    assert not (tmp_path / "link").is_symlink()


def test_a_tree_lists_children_first_and_follows_no_link(root: int, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "file").touch()
    (tmp_path / "top" / "folder-link").symlink_to(tmp_path / "outside")
    (tmp_path / "top" / "file-link").symlink_to(tmp_path / "outside" / "file")
    for path in tree(root, "top"):
        PosixFileSystem().drop(root, path)
    assert not (tmp_path / "top").exists()
    assert (tmp_path / "outside" / "file").exists()


def test_a_tree_that_cannot_be_listed_is_an_error_and_not_an_empty_tree(root: int) -> None:
    with pytest.raises(FileNotFoundError):
        tree(root, "missing")


class Library:
    """A C library that offers exactly these functions."""

    def __init__(self, **functions: Callable[..., int]) -> None:
        for name, function in functions.items():
            setattr(self, name, function)


@pytest.mark.req("PLG-050", "PLG-051")
def test_a_platform_without_a_safe_move_has_no_move_at_all(root: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="not implemented") as caught:
        PosixFileSystem(system_mover(Library())).rename_no_replace(root, "a", "b")
    assert caught.value.errno == errno.ENOSYS
    assert (tmp_path / "a").is_dir()


@pytest.mark.parametrize(("symbol", "flag"), [("renameat2", 1), ("renameatx_np", 4)])
def test_each_platforms_own_call_is_made_with_its_own_flag_for_no_replacing(symbol: str, flag: int) -> None:
    calls: list[tuple[object, ...]] = []

    def function(*arguments: object) -> int:
        calls.append(arguments)
        return 0

    system_mover(Library(**{symbol: function}))(3, b"a", 4, b"b")
    assert calls == [(3, b"a", 4, b"b", flag)]


def test_a_failing_call_raises_what_the_system_said() -> None:
    def function(*arguments: object) -> int:
        del arguments
        ctypes.set_errno(errno.EXDEV)
        return -1

    with pytest.raises(OSError, match="'a' -> 'b'") as caught:
        system_mover(Library(renameat2=function))(3, b"a", 4, b"b")
    assert caught.value.errno == errno.EXDEV


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (errno.ENOSPC, RemedyAction.FREE_SPACE),
        (errno.EDQUOT, RemedyAction.FREE_SPACE),
        (errno.EACCES, RemedyAction.MAKE_DIRECTORY),
        (errno.EROFS, RemedyAction.MAKE_DIRECTORY),
        (errno.EIO, None),
    ],
)
def test_what_the_system_said_becomes_a_sentence_and_a_remedy(
    number: int, action: RemedyAction | None
) -> None:
    error = storage_error(OSError(number, os.strerror(number)), "/srv/plugins", "write /srv/plugins/x")
    assert error.message == f"cannot write /srv/plugins/x: {os.strerror(number).lower()} (/srv/plugins)"
    assert error.details == {"path": "/srv/plugins", "errno": number}
    assert (error.remedy and error.remedy.action) is action


FILES = PosixFileSystem()


@pytest.mark.parametrize(
    "operate",
    [
        lambda root: FILES.make(root, "entry/folder/new", 0o755),
        lambda root: FILES.write(root, "entry/folder/new", b"x"),
        lambda root: FILES.mark(root, "entry/folder/new"),
        lambda root: FILES.sync(root, "entry/folder/file"),
        lambda root: FILES.drop(root, "entry/folder/file"),
        lambda root: FILES.rename_no_replace(root, "entry/folder/file", "stolen"),
        lambda root: FILES.rename_no_replace(root, "other", "entry/folder/new"),
        lambda root: tree(root, "entry/folder/sub"),
    ],
    ids=["make", "write", "mark", "sync", "drop", "move out", "move in", "tree"],
)
def test_no_operation_goes_through_a_link_put_in_a_directorys_place(
    root: int, tmp_path: Path, operate: Callable[[int], object]
) -> None:
    outside = tmp_path / "outside"
    (outside / "folder" / "sub").mkdir(parents=True)
    (outside / "folder" / "file").write_bytes(b"keep")
    (tmp_path / "other").mkdir()
    (tmp_path / "entry").mkdir()
    (tmp_path / "entry" / "folder").symlink_to(outside / "folder")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        operate(root)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert sorted(path.name for path in (outside / "folder").iterdir()) == ["file", "sub"]
    assert (outside / "folder" / "file").read_bytes() == b"keep"


def test_a_tree_deeper_than_any_path_is_deleted(root: int, tmp_path: Path) -> None:
    files = PosixFileSystem()
    path = "a"
    files.make(root, path, 0o755)
    for _ in range(700):
        path += "/" + "deeper"
        files.make(root, path, 0o755)
    for member in tree(root, "a"):
        files.drop(root, member)
    assert list(tmp_path.iterdir()) == []
