"""The file that holds the key of an installation; texts are sealed with it in :mod:`~zeroclaw_host.services.install_key` (D-49).

The file holds 32 bytes as 64 hexadecimal digits, and only its owner may read it.

A key is replaced without a moment at which something cannot be read: :meth:`KeyFile.begin_rotation` puts the next key beside the
present one. From then on everybody seals with the next and unseals with both, until :meth:`KeyFile.finish_rotation` puts it in
the present one's place. A rotation that was interrupted just goes on.
"""

from __future__ import annotations

import binascii
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import NO_SPACE, Remedy, RemedyAction, StorageError
from zeroclaw_host.private_files import FileSteps, make_private
from zeroclaw_host.services.install_key import KEY_BYTES, InstallKey

_SETTLED_NS: Final = 2_000_000_000
"""A file changed so long ago has a time of change that a further change would alter, on every file system in use."""


class KeyUnavailable(StorageError):
    """The installation's key cannot be had. ``details`` holds ``path`` and ``reason``, a word: ``missing``, ``link``,
    ``not_a_file``, ``open_to_others``, ``damaged`` or ``unreadable``; with the last also ``errno``.
    """

    code = "install_key_unavailable"


class KeySteps(FileSteps):
    """The steps of writing a key file."""

    def publish(self, source: Path, target: Path) -> None:
        """Give a file its name; :class:`FileExistsError` when anything has it already."""
        os.link(source, target)

    def drop(self, path: Path) -> None:
        """Take a name away."""
        path.unlink()

    def replace(self, source: Path, target: Path) -> None:
        """Put the next key in the present one's place."""
        source.replace(target)


Stamp = tuple[int, int, int, int, int, int]
"""Device, inode, size, mode, and the times of the last writing and the last change."""


class KeyFile:
    """The file that holds an installation's key. Callable from any thread; several processes may use one file.

    :param path: the file; it need not exist. The next key of a rotation lies beside it, its name ending in ``.next``.
    :param in_use: whether there is something that the key had sealed. Then a key that is missing is lost, and none is made.
    """

    def __init__(
        self, path: Path, *, steps: KeySteps | None = None, in_use: Callable[[], bool] = lambda: False
    ) -> None:
        self.path: Final = path
        self.next_path: Final = path.with_name(path.name + ".next")
        self._steps = steps or KeySteps()
        self._in_use = in_use
        self._kept: dict[Path, tuple[Stamp, InstallKey]] = {}
        self._pair: tuple[InstallKey, InstallKey, InstallKey] | None = None

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def read(self) -> InstallKey:
        """The key in force; while a rotation is under way the next one, with the present one as its former.

        Costs a look at the file when the file is as it was.

        :raises KeyUnavailable: there is none, or what is there is no file that only its owner can read, or holds no key. A key
            is never made here.
        """
        # The next one first: had it been moved into place in between, the present one is it.
        following = self._key_in(self.next_path)
        present = self._key_in(self.path)
        if present is None:
            raise self._unavailable(
                "missing",
                "does not exist, and what is sealed with it cannot be opened before it is put back",
                self.path,
            )
        if following is None or following.same_as(present):
            return present
        pair = self._pair
        if pair is None or pair[0] is not present or pair[1] is not following:
            pair = self._pair = (present, following, following.with_former(present))
        return pair[2]

    def read_or_create(self) -> InstallKey:
        """The key in force, made at random if there is no file. Of several who make one at once, all get the same.

        :raises KeyUnavailable: as :meth:`read`, or it cannot be written; then there is none. Or there is none, and it had been
            in use.
        """
        # Who finds something in use that another sealed just now finds his key at the next look.
        if not self.exists and not self.rotating and not self._in_use():
            self._make(self.path)
        key = self.read()
        self._sweep(self.path)
        return key

    @property
    def exists(self) -> bool:
        """Whether anything is in the file's place."""
        return os.path.lexists(self.path)

    @property
    def rotating(self) -> bool:
        """Whether a rotation was begun and not finished."""
        return os.path.lexists(self.next_path)

    def begin_rotation(self) -> InstallKey:
        """Put a next key beside the present one, or find the one an interrupted rotation left; as :meth:`read` returns it.

        :raises KeyUnavailable: there is no present key to replace, or the next cannot be written.
        """
        self.read()
        if not self.rotating:
            self._make(self.next_path)
        key = self.read()
        self._sweep(self.next_path)
        return key

    def finish_rotation(self) -> None:
        """Put the next key in the present one's place. What is still sealed with the former cannot be read any more.

        :raises KeyUnavailable: it could not be done; the rotation goes on. Nothing happens when none is under way.
        """
        if not self.rotating:
            return
        self.read()
        with self._storage_errors(self.path, "replace"):
            self._steps.replace(self.next_path, self.path)
            self._sync_directory()

    def _key_in(self, path: Path) -> InstallKey | None:
        """The key in a file, or None when there is no file."""
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # of the directory, so it is about both
            raise self._unreadable(error, self.path) from error
        kept = self._kept.get(path)
        if kept is not None and kept[0] == _stamp(found):
            return kept[1]
        before = time.time_ns()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._unavailable(
                    "link", "is a link", path, Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)})
                ) from None
            raise self._unreadable(error, path) from error
        try:
            found = os.fstat(descriptor)
            self._check(found, path)
            text = os.read(descriptor, 2 * KEY_BYTES + 2)
        except OSError as error:
            raise self._unreadable(error, path) from error
        finally:
            os.close(descriptor)
        key = self._parse(text, path)
        if kept is not None and kept[1].same_as(key):
            key = kept[1]
        if max(found.st_ctime_ns, found.st_mtime_ns) + _SETTLED_NS < before:
            self._kept[path] = (_stamp(found), key)
        else:
            self._kept.pop(path, None)
        return key

    def _check(self, found: os.stat_result, path: Path) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise self._unavailable(
                "not_a_file",
                "is not a regular file",
                path,
                Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)}),
            )
        if found.st_mode & 0o077:
            raise self._unavailable(
                "open_to_others",
                "can be read or written by others than its owner",
                path,
                Remedy(RemedyAction.RESTRICT_FILE, {"path": str(path)}),
            )

    def _parse(self, text: bytes, path: Path) -> InstallKey:
        digits = text.removesuffix(b"\n")
        try:
            if len(digits) == 2 * KEY_BYTES:
                return InstallKey(binascii.unhexlify(digits))
        except ValueError:
            pass
        raise self._unavailable("damaged", f"does not hold {2 * KEY_BYTES} hexadecimal digits", path)

    def _make(self, path: Path) -> None:
        """Put a new key at ``path`` unless something is there. A reader finds no file, or the whole of it."""
        with self._storage_errors(path, "make"):
            make_private(path.parent)
            temporary = path.with_name(f"{path.name}-{secrets.token_hex(8)}.partial")
            descriptor = self._steps.create(temporary)
            try:
                try:
                    self._steps.write(descriptor, InstallKey(secrets.token_bytes(KEY_BYTES)).digits())
                    self._steps.sync(descriptor)
                finally:
                    os.close(descriptor)
                # Somebody who was quicker may have swept the file away already, and his key is the one.
                with suppress(FileExistsError, FileNotFoundError):
                    self._steps.publish(temporary, path)
            finally:
                with suppress(OSError):  # what is left is swept by the next
                    self._steps.drop(temporary)
            self._sync_directory()

    def _sweep(self, path: Path) -> None:
        """Take away what killed processes left. The key has its place, so nobody needs a file of his own any more."""
        for left in path.parent.glob(f"{path.name}-*.partial"):
            with suppress(OSError):
                self._steps.drop(left)

    def _sync_directory(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._steps.sync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _storage_errors(self, path: Path, doing: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._unreadable(error, path, doing) from error

    def _unreadable(self, error: OSError, path: Path, doing: str = "read") -> KeyUnavailable:
        reason = (error.strerror or type(error).__name__).lower()
        remedy = Remedy(RemedyAction.FREE_SPACE, {"path": str(path)}) if error.errno in NO_SPACE else None
        return KeyUnavailable(
            f"cannot {doing} the key that secrets are sealed with: {reason} ({path})",
            remedy=remedy,
            details={
                "path": str(path),
                "reason": "unreadable",
                "errno": errno.errorcode.get(error.errno or 0, "EIO"),
            },
        )

    def _unavailable(
        self, reason: str, what: str, path: Path, remedy: Remedy | None = None
    ) -> KeyUnavailable:
        return KeyUnavailable(
            f"the file of the key that secrets are sealed with {what} ({path})",
            remedy=remedy,
            details={"path": str(path), "reason": reason},
        )


def _stamp(found: os.stat_result) -> Stamp:
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mode,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
