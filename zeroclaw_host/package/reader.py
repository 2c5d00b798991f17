"""Reading a package from where it lies.

Reading has stages, because the signature is judged before the component is read. Every file is read once: the bytes that
admission checks are the bytes that are published and run, so swapping a file in between changes nothing (PAINS 10).
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from zeroclaw_host.errors import ComponentMissing, ManifestError, ManifestMissing, SkillsInvalid, StorageError
from zeroclaw_host.package import toml_source
from zeroclaw_host.package.manifest import MANIFEST_NAME, SKILLS_DIRECTORY

MAX_COMPONENT_BYTES: Final = 64 * 1024 * 1024
MAX_SKILLS_BYTES: Final = 50 * 1024 * 1024
"""As much as an archive may hold when extracted."""
MAX_SKILL_ENTRIES: Final = 10_000
MAX_SKILL_DEPTH: Final = 32

_CHUNK: Final = 1024 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that opening a FIFO in a package's place cannot hang the host.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SkillTree:
    """What lies under ``skills/``, as POSIX paths relative to it: regular files with their bytes, and directories.

    Links and special files are not part of it.
    """

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    directories: frozenset[str] = frozenset()


class PackageReader(Protocol):
    """A source of one package's bytes."""

    @property
    def origin(self) -> str:
        """Where the package comes from, for messages."""
        ...

    def read_manifest(self) -> bytes:
        """The bytes of ``manifest.toml``.

        :raises ManifestMissing: there is none.
        :raises ManifestError: it is no regular file, or too large.
        :raises StorageError: the file system failed.
        """
        ...

    def read_component(self, wasm_path: str) -> bytes:
        """The bytes of the component at a path that a manifest holds.

        :raises ComponentMissing: it is not there, is reached through a link, is no regular file, or is too large.
        :raises StorageError: the file system failed.
        """
        ...

    def read_skills(self) -> SkillTree:
        """What lies under ``skills/``.

        :raises SkillsInvalid: there is no such directory, it is a link, or the tree is too large.
        :raises StorageError: the file system failed.
        """
        ...


class DirectoryReader:
    """Reads a package from its directory, following no link below it.

    The directory must stay the same one between two reads; another one in its place is an error.

    :param shown: how messages call the directory, where its path means nothing to a person.
    """

    def __init__(self, path: Path, *, shown: Path | None = None) -> None:
        self._path = path
        self._shown = path if shown is None else shown
        self._identity: tuple[int, int] | None = None

    @property
    def origin(self) -> str:
        """The directory's path, or what it is shown as."""
        return str(self._shown)

    def read_manifest(self) -> bytes:
        """See :meth:`PackageReader.read_manifest`."""
        path = str(self._shown / MANIFEST_NAME)
        try:
            with self._root() as root:
                return _read_file(root, MANIFEST_NAME, toml_source.MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            raise ManifestMissing(f"{self.origin} holds no {MANIFEST_NAME}", details={"path": path}) from None
        except _Unfit as error:
            raise ManifestError(f"{path} {error}", details={"path": path}) from None
        except OSError as error:
            raise _storage_error(path, error) from error

    def read_component(self, wasm_path: str) -> bytes:
        """See :meth:`PackageReader.read_component`."""
        path = str(self._shown / wasm_path)
        *parents, name = wasm_path.split("/")
        try:
            with self._root() as root, _descend(root, parents) as directory:
                return _read_file(directory, name, MAX_COMPONENT_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            raise ComponentMissing(f"the component {path} does not exist", details={"path": path}) from None
        except _Unfit as error:
            raise ComponentMissing(f"the component {path} {error}", details={"path": path}) from None
        except OSError as error:
            raise _storage_error(path, error) from error

    def read_skills(self) -> SkillTree:
        """See :meth:`PackageReader.read_skills`."""
        path = str(self._shown / SKILLS_DIRECTORY)
        try:
            with self._root() as root, _descend(root, [SKILLS_DIRECTORY]) as directory:
                return _SkillWalk().run(directory)
        except FileNotFoundError:
            raise SkillsInvalid(
                f"{self.origin} holds no {SKILLS_DIRECTORY}/", details={"path": path}
            ) from None
        except NotADirectoryError:
            raise SkillsInvalid(f"{path} is not a directory", details={"path": path}) from None
        except _Unfit as error:
            raise SkillsInvalid(f"{path} {error}", details={"path": path}) from None
        except OSError as error:
            raise _storage_error(path, error) from error

    @contextmanager
    def _root(self) -> Generator[int]:
        with _opened(_open(self._path, _DIRECTORY)) as root:
            status = os.fstat(root)
            identity = (status.st_dev, status.st_ino)
            if self._identity not in (None, identity):
                raise _Unfit("was replaced while the package was being read")
            self._identity = identity
            yield root


class _Unfit(Exception):
    """A file is there, and is not one that a package may hold."""


class _SkillWalk:
    """Collects a tree within its bounds."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._directories: set[str] = set()
        self._bytes = 0

    def run(self, directory: int) -> SkillTree:
        self._walk(directory, "", 0)
        return SkillTree(self._files, frozenset(self._directories))

    def _walk(self, directory: int, prefix: str, depth: int) -> None:
        if depth > MAX_SKILL_DEPTH:
            raise _Unfit(f"is nested deeper than {MAX_SKILL_DEPTH} directories")
        for name in sorted(os.listdir(directory)):
            if len(self._files) + len(self._directories) >= MAX_SKILL_ENTRIES:
                raise _Unfit(f"holds more than {MAX_SKILL_ENTRIES} files and directories")
            if not name.isprintable():
                raise _Unfit("holds a file whose name is not printable text")
            relative = prefix + name
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                self._directories.add(relative)
                with _descend(directory, [name]) as below:
                    self._walk(below, f"{relative}/", depth + 1)
            elif stat.S_ISREG(mode):
                content = _read_file(directory, name, MAX_SKILLS_BYTES - self._bytes)
                self._bytes += len(content)
                self._files[relative] = content


@contextmanager
def open_regular_file(path: Path) -> Generator[BinaryIO]:
    """Open a file that a person named, through links, for reading; neither a pipe nor a device is waited for.

    :raises OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            reason = os.strerror(number) if stat.S_ISDIR(mode) else "Not a regular file"
            raise OSError(number, reason, str(path))
        yield file


@contextmanager
def _opened(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _descend(directory: int, names: list[str]) -> Generator[int]:
    """Open a directory below another one, name by name."""
    if not names:
        yield directory
        return
    with _opened(_open(names[0], _DIRECTORY, directory)) as below, _descend(below, names[1:]) as found:
        yield found


def _open(path: str | Path, flags: int, directory: int | None = None) -> int:
    try:
        return os.open(path, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(path, directory)):
            raise _Unfit("is reached through a link") from None
        if error.errno in (errno.ENAMETOOLONG, errno.ENXIO):
            raise _Unfit("is not a file that can be opened") from None
        raise


def _is_link(path: str | Path, directory: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(path, dir_fd=directory, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read_file(directory: int, name: str, limit: int) -> bytes:
    """Read one regular file whole. One byte past the limit is asked for, so that a file that grows is noticed."""
    with _opened(_open(name, _FILE, directory)) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Unfit("is not a regular file")
        if status.st_size > limit:
            raise _Unfit(f"is larger than the {limit} bytes allowed")
        content = io.BytesIO()  # hands its bytes over without a second copy of them
        while chunk := os.read(descriptor, min(_CHUNK, limit + 1 - content.tell())):
            content.write(chunk)
            if content.tell() > limit:
                raise _Unfit(f"is larger than the {limit} bytes allowed")
        return content.getvalue()


def _storage_error(path: str, error: OSError) -> StorageError:
    reason = error.strerror or type(error).__name__
    return StorageError(f"{path} cannot be read: {reason}", details={"path": path, "errno": error.errno})
