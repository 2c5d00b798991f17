"""Putting a package into the plugins directory.

The bytes that were checked are the bytes that are written: nothing is read from the source a second time. Until the one
move that publishes them, nothing is at the package's name; from then on all of it is (PLG-048).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zeroclaw_host.errors import InstallError, Remedy, RemedyAction, StorageError
from zeroclaw_host.installation.account import account
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.filesystem import FileSystem, Operation, PosixFileSystem, storage_error
from zeroclaw_host.installation.lock import Clock, DirectoryLock, locked
from zeroclaw_host.installation.package_log import Action, Journal, Unlogged
from zeroclaw_host.installation.pipeline import LoadCheck, prepare
from zeroclaw_host.installation.rows import RowChange, RowStore, seed_for
from zeroclaw_host.installation.staging import Staging, staging
from zeroclaw_host.installation.transaction import NameOccupied, Step
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Manifest
from zeroclaw_host.package.notices import Notice
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.signature import SignaturePolicy, SignatureVerdict
from zeroclaw_host.private_files import make_private

PrepareRow = Callable[[Manifest], RowChange | None]


@dataclass(frozen=True, slots=True)
class InstallReport:
    """What an install did."""

    directory: Path
    manifest: Manifest
    component_sha256: str | None
    signature: SignatureVerdict
    notices: tuple[Notice, ...]
    key: str | None
    """The key of the default tool binding's row, where one is owed."""
    row_created: bool
    """Whether the row was written just now; an existing one is left as it is."""
    egress_hosts: tuple[str, ...]
    """What a row created just now grants."""
    leftover: Path | None
    """A hidden entry that could not be removed after the package was published. It does no harm."""

    @property
    def name(self) -> str:
        """The package's name."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The package's version."""
        return self.manifest.version


def install(
    directory: Path,
    reader: PackageReader,
    *,
    policy: SignaturePolicy,
    load_check: LoadCheck | None,
    rows: RowStore | None = None,
    prepare_row: PrepareRow | None = None,
    filesystem: FileSystem | None = None,
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> InstallReport:
    """Check a package and publish it in ``directory``, which is made when it is missing.

    :param load_check: None installs a component that was never tried (PLG-039).
    :param rows: where the row of the default tool binding is seeded; None seeds none.
    :param prepare_row: prepares what is to be configured for the package, in place of ``rows``. It is asked twice, before the
        component is compiled and under the directory's lock, and its refusal is the install's.
    :param journal: told what is published before it is, and what was refused.
    :raises PackageError: admission refused the package.
    :raises ZeroclawError: the component does not load.
    :raises NameOccupied: the name is taken; the remedy removes or updates what is there (PLG-062).
    :raises StorageError: the disk did not do its part; nothing was published.
    :raises InstallError: see :mod:`~zeroclaw_host.installation.transaction` and ``lock``.
    """

    with account(journal or Unlogged(), Action.INSTALL, source=reader.origin) as told:

        def before_compiling(package: AdmittedPackage) -> None:
            told.about(package, policy)
            require_free(directory, package.manifest.name, policy)
            if prepare_row is not None:
                prepare_row(package.manifest)

        package = prepare(reader, policy, load_check, before_compiling=before_compiling)
        name = package.manifest.name
        _make_plugins_directory(directory)
        with locked(directory, clock=clock) as lock:
            require_free(directory, name, policy)
            seed = seed_for(package.manifest)
            if prepare_row is not None:
                row = prepare_row(package.manifest)
            else:
                row = rows.prepare(seed) if rows is not None and seed is not None else None
            with staging(lock, filesystem or PosixFileSystem(), name) as work:
                work.fill(payload(package))
                told.begin(work)
                _publish(work, lock)
                if row is not None:
                    work.on_failure(row.undo)
                    row.commit()
    created = row is not None and row.creates
    return InstallReport(
        directory=directory / name,
        manifest=package.manifest,
        component_sha256=package.component_sha256,
        signature=package.signature,
        notices=package.notices,
        key=None if seed is None else seed.key,
        row_created=created,
        egress_hosts=seed.egress_hosts if seed is not None and created else (),
        leftover=work.leftover,
    )


def payload(package: AdmittedPackage) -> tuple[Step, ...]:
    """The steps that write a package: manifest, skills, the component last; then everything flushed (PLG-366)."""
    files = package.files()
    folders = list(dict.fromkeys(folder for path in files for folder in _folders(path)))
    return (
        *(Step(Operation.MAKE, folder) for folder in folders),
        *(Step(Operation.WRITE, path, data) for path, data in files.items()),
        *(Step(Operation.SYNC, path) for path in files),
        *(Step(Operation.SYNC, folder) for folder in reversed(folders)),
        Step(Operation.SYNC, ""),
    )


def _folders(path: str) -> Iterator[str]:
    """The folders above a relative path, outermost first."""
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth])


def require_free(directory: Path, name: str, policy: SignaturePolicy) -> None:
    """Whether a package of this name could be published.

    :raises NameOccupied: something is at the name, or an installed package has it under another directory name.
    """
    found = discover(directory, policy, only=name)
    for package in found.packages:
        if package.name == name:
            raise NameOccupied(
                f"{name} is installed already, in {package.directory}",
                remedy=Remedy(RemedyAction.UPDATE_PLUGIN, {"name": name}),
                details={"name": name, "path": str(package.directory)},
            )
        raise NameOccupied(
            f"{package.directory} is in the way of {name}: it holds the package {package.name}",
            remedy=Remedy(RemedyAction.REMOVE_PLUGIN, {"name": package.name}),
            details={"name": name, "path": str(package.directory)},
        )
    for rejected in found.rejected:
        raise _not_a_package(name, rejected.directory) from rejected.error
    if _occupied(directory / name):
        raise _not_a_package(name, directory / name)


def _publish(work: Staging, lock: DirectoryLock) -> None:
    try:
        work.publish()
    except NameOccupied as error:
        # Something that takes no part in the lock got there first.
        raise _not_a_package(work.name.package, lock.directory / work.name.package) from error


def _not_a_package(name: str, path: Path) -> InstallError:
    return NameOccupied(
        f"{path} is in the way of {name} and is no package that loads",
        remedy=Remedy(RemedyAction.REMOVE_PLUGIN, {"name": name}),
        details={"name": name, "path": str(path)},
    )


def _occupied(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise storage_error(error, str(path), "look for an installed package") from error
    return True


def _make_plugins_directory(directory: Path) -> None:
    try:
        make_private(directory)
    except FileExistsError as error:
        raise StorageError(
            f"{directory} is not a directory, so no plugin can be installed in it",
            remedy=Remedy(RemedyAction.MAKE_DIRECTORY, {"path": str(directory)}),
            details={"path": str(directory), "errno": errno.ENOTDIR},
        ) from error
    except OSError as error:
        raise storage_error(error, str(directory), "make the plugins directory") from error
