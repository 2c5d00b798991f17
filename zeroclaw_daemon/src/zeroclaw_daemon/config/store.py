"""The one way to write the configuration, for commands and for the daemon (D-18).

A commit takes the lock, starts from the file as it is on disk, changes it in place, seals what is secret, validates the
whole, saves once and puts the result in force. Whatever fails on the way, file and configuration in force are as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import ParseError, TOMLKitError

from zeroclaw_daemon.config.document.fidelity import faithful
from zeroclaw_daemon.config.document.line_ends import as_before, with_line_feeds
from zeroclaw_daemon.config.document.location import Place
from zeroclaw_daemon.config.draft import Draft, ValueCheck, unchecked
from zeroclaw_daemon.config.file import MAX_BYTES, Snapshot, decode, parse, read_bytes, toml_values
from zeroclaw_daemon.config.migration import (
    VERSION,
    ConfigOutdated,
    ConfigTooNew,
    KeyOf,
    Migration,
    check_version,
    rename_rows,
    stamped,
    version_of,
)
from zeroclaw_daemon.config.overrides import overrides_in
from zeroclaw_daemon.config.problems import (
    ConfigCandidateInvalid,
    ConfigFileInvalid,
    Problem,
)
from zeroclaw_daemon.config.saving import (
    LOCK_WAIT_SECONDS,
    ConfigOvertaken,
    Stamp,
    Steps,
    remove_file,
    replace_file,
    write_lock,
)
from zeroclaw_daemon.config.schema import SCHEMA_VERSION
from zeroclaw_daemon.config.sealed import check_secrets, reseal_secrets, seal_secrets
from zeroclaw_host.services.install_key import InstallKey
from zeroclaw_host.services.sealing import KeyFile

_ATTEMPTS: Final = 3
"""How often a commit begins anew when an editor saves the file meanwhile."""

Change = Callable[[Draft], object]
Authorise = Callable[[Snapshot], None]
Prepare = Callable[[Snapshot], Callable[[], None]]


class SnapshotSource(Protocol):
    """Who knows the configuration in force, and is told of each commit."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """The environment whose variables override the file (D-38)."""
        ...

    def current(self) -> Snapshot:
        """The snapshot in force."""
        ...

    def adopt(self, snapshot: Snapshot, stamp: Stamp) -> None:
        """Put a snapshot in force that was just saved; ``stamp`` is the saved file's."""
        ...

    def between_holds(self, wait: float) -> AbstractContextManager[None]:
        """Let nobody keep the snapshot in force while a block runs that replaces it.

        :raises ConfigBusy: somebody did for longer than ``wait`` seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """A commit that can be taken back: the snapshot it led to, and the file's bytes before and after it."""

    snapshot: Snapshot
    before: bytes | None = field(repr=False)  # secrets may be in them
    after: bytes | None = field(repr=False)


class ConfigStore:
    """Reads and writes one configuration. Safe to use from several threads; several processes share the file's lock.

    Everything here blocks, a commit for as long as the disk takes: a daemon calls it in a worker thread.

    :param source: the configuration in force: a running :class:`~zeroclaw_daemon.config.source.ConfigSource`, or a
        :class:`~zeroclaw_daemon.config.source.FileSource` for one command.
    :param key_file: the installation's key. It is made when a first secret is to be sealed, and never else.
    :param steps: the steps of a save; a test gives its own.
    :param lock_wait: seconds to wait for another writer.
    :param checks: makes, for each commit, what judges values that the schema alone cannot.
    """

    def __init__(
        self,
        source: SnapshotSource,
        key_file: KeyFile,
        *,
        steps: Steps | None = None,
        lock_wait: float = LOCK_WAIT_SECONDS,
        checks: Callable[[], ValueCheck] = lambda: unchecked,
    ) -> None:
        self._source: Final = source
        self._key_file: Final = key_file
        self._steps: Final = steps or Steps()
        self._lock_wait: Final = lock_wait
        self._checks: Final = checks

    @property
    def path(self) -> Path:
        """The file."""
        return self._source.path

    @property
    def key_file(self) -> KeyFile:
        """The installation's key."""
        return self._key_file

    def current(self) -> Snapshot:
        """The configuration in force.

        :raises ZeroclawError: there is none, which only a :class:`FileSource` says.
        """
        return self._source.current()

    def read(self) -> Snapshot:
        """The file as it is on disk, whether or not it is in force; errors as in :func:`~zeroclaw_daemon.config.file.load`."""
        return self._parsed(read_bytes(self.path))

    def commit(
        self, change: Change, *, authorise: Authorise | None = None, prepare: Prepare | None = None
    ) -> Snapshot:
        """Change the file and put it in force, all or nothing.

        In this order: the lock; the file from disk; ``authorise`` with its snapshot; ``change``; sealing; validation;
        ``prepare`` with the candidate; one atomic save; the candidate is in force; what ``prepare`` returned is called,
        still under the lock, and must not fail. A change after which the text is as it was writes nothing and prepares
        nothing.

        An editor takes no lock: what it saves while all that goes on stays, and the commit begins anew from there.

        :param change: alters the draft; what it returns is of no account. What it raises ends the commit.
        :param authorise: raises when the caller may not write by the policy on disk.
        :param prepare: makes what the candidate needs to be installed, and returns the step that installs it.
        :returns: the configuration in force after it, overriding variables included.
        :raises ConfigSyntaxInvalid: the file is no TOML; it keeps its bytes (RPC-249).
        :raises ConfigOutdated: the file has the layout of an earlier release (PLG-368); :class:`ConfigTooNew`: of a later one.
        :raises ConfigFileInvalid: the file is invalid and would stay so, or its policy cannot be read to ``authorise``.
        :raises ConfigCandidateInvalid: the change would make it invalid (RPC-076).
        :raises KeyUnavailable: there is a secret to seal, and no usable key.
        :raises ConfigBusy: another writer held the lock for too long, or an editor saves the file again and again.
        :raises StorageError: the file cannot be read or written (RPC-077).
        """
        return self.write(change, authorise=authorise, prepare=prepare).snapshot

    def write(
        self, change: Change, *, authorise: Authorise | None = None, prepare: Prepare | None = None
    ) -> Written:
        """As :meth:`commit`, for who may have to take it back with :meth:`take_back`."""
        with self._lock():
            for _ in range(_ATTEMPTS - 1):
                with suppress(ConfigOvertaken):
                    return self._write(change, authorise, prepare)
            return self._write(change, authorise, prepare)

    def _write(self, change: Change, authorise: Authorise | None, prepare: Prepare | None) -> Written:
        found = self._found()
        check_version(found.values, self.path)
        draft = Draft(found.document(), lambda: self._parsed(found.raw), self._checks())
        if authorise is not None:
            authorise(draft.snapshot)
        if not found.values:
            draft.document[VERSION] = SCHEMA_VERSION
        before = draft.document.as_string()
        try:
            change(draft)
        except TOMLKitError as error:
            raise self._unmakeable() from error
        seal_secrets(draft.document, self._key_file, env=self._source.env)
        if draft.document.as_string() == before:
            return Written(self._parsed(found.raw), found.raw, found.raw)
        return self._save(draft.document, found, prepare)

    def take_back(self, written: Written) -> bool:
        """Put the bytes back that a commit replaced, if nobody changed the file since.

        :returns: whether the file is now as it was before that commit.
        :raises ConfigBusy: another writer held the lock for too long.
        :raises StorageError: the file cannot be read or written.
        """
        if written.before == written.after:
            return True
        with self._lock():
            if read_bytes(self.path) != written.after:
                return False
            if written.before is None:
                remove_file(self.path, self._steps)
            else:
                replace_file(self.path, written.before, self._steps)
        return True

    def reseal(self, begin: Callable[[], InstallKey], *, after: Callable[[], None]) -> int:
        """Seal every secret of the file with another key, in one save, for a rotation of the key.

        :param begin: called under the lock once the file and its secrets have been read; the key it returns seals with the
            next key and unseals with both.
        :param after: called once the file is saved, still under the lock.
        :returns: how many secrets were sealed anew.
        :raises SecretUnreadable: a sealed text cannot be read; nothing was begun.
        :raises ConfigFileInvalid: the file is not usable. ConfigBusy and StorageError as in :meth:`commit`.
        """
        with self._lock():
            found = self._found()
            document = found.document()
            check_secrets(document, self._key_file)
            count = reseal_secrets(document, begin(), env=self._source.env)
            if count:
                self._save(document, found)
            after()
        return count

    def migrate(self, key_of: KeyOf) -> Migration:
        """Bring the file to today's layout in one save, or find that nothing is to be done (D-39).

        Rows that still have a former name are looked at whatever the version, and so are secrets that are not sealed.

        :param key_of: tells the instance of a row of a former name.
        :raises ConfigTooNew: the file is of a later release.
        :raises ConfigFileInvalid: it is no TOML, or breaks a rule that no migration mends; nothing is written. Other errors
            as in :meth:`commit`.
        """
        with self._lock():
            found = self._found()
            version = version_of(found.values)
            if version is None:
                self._parsed(found.raw)  # raises: a version is a number
            elif version > SCHEMA_VERSION:
                raise ConfigTooNew(self.path, version)
            if not found.values:
                return Migration(SCHEMA_VERSION, changed=False)
            document = found.document()
            before = document.as_string()
            renamed, left = rename_rows(document, key_of)
            sealing = seal_secrets(document, self._key_file, env=self._source.env)
            document = stamped(document)
            changed = document.as_string() != before
            if changed:
                self._save(document, found)
            return Migration(
                version or 0, changed, tuple(renamed), tuple(left), sealing.sealed, sealing.unreadable
            )

    def check_writable(self) -> None:
        """Whether a commit could begin now: for who wants to know before doing anything else.

        :raises ConfigOutdated: the file is of an earlier release (PLG-368).
        :raises ConfigTooNew: it is of a later one.
        :raises ConfigSyntaxInvalid: it is no TOML.
        :raises StorageError: it cannot be read.
        """
        check_version(self._found().values, self.path)

    def is_outdated(self) -> bool:
        """Whether the file is to be migrated before anything is written to it (PLG-368).

        :raises ZeroclawError: as :meth:`check_writable`, otherwise.
        """
        try:
            self.check_writable()
        except ConfigOutdated:
            return True
        return False

    def _lock(self) -> AbstractContextManager[None]:
        return write_lock(self.path, wait=self._lock_wait)

    def _found(self) -> _Found:
        """The file as it is on disk."""
        raw = read_bytes(self.path)
        text = decode(raw or b"", self.path)
        return _Found(self.path, raw, text, toml_values(text, self.path))

    def _save(self, document: TOMLDocument, found: _Found, prepare: Prepare | None = None) -> Written:
        text = document.as_string()
        if not faithful(document, text):
            raise self._unmakeable()
        data = as_before(text, found.text).encode()
        if len(data) > MAX_BYTES:  # nobody could read it again, and so nobody make it smaller
            words = f"the file would be larger than {MAX_BYTES} bytes"
            raise ConfigCandidateInvalid([Problem(str(self.path), "", words)])
        snapshot = self._accepted(data, found.raw or b"")
        install = prepare(snapshot) if prepare is not None else None
        with self._source.between_holds(self._lock_wait):
            if read_bytes(self.path) != found.raw:
                raise ConfigOvertaken(
                    f"somebody changed {self.path} at the same time; nothing was written, so try again",
                    details={"path": str(self.path)},
                )
            self._source.adopt(snapshot, replace_file(self.path, data, self._steps))
        if install is not None:
            install()
        return Written(snapshot, found.raw, data)

    def _unmakeable(self) -> ConfigCandidateInvalid:
        return ConfigCandidateInvalid(
            [Problem(str(self.path), "", "the file is written in a form that this change cannot be made in")]
        )

    def _parsed(self, raw: bytes | None) -> Snapshot:
        return parse(raw or b"", self.path, env=self._source.env, exists=raw is not None)

    def _accepted(self, data: bytes, old: bytes) -> Snapshot:
        """The candidate's snapshot, or an error that tells a fault of the file from a fault of the change."""
        path = self.path
        try:
            snapshot = parse(data, path)
            if not snapshot.problems and overrides_in(self._source.env):
                snapshot = self._parsed(data)
            if not snapshot.problems:
                return snapshot
            problems = snapshot.problems
        except ConfigFileInvalid as error:
            problems = error.problems
        before = parse(old, path, env=self._source.env)
        if before.problems:
            raise ConfigFileInvalid(before.problems)
        raise ConfigCandidateInvalid(problems)


@dataclass(frozen=True, slots=True)
class _Found:
    """The file as it was found under the lock."""

    path: Path
    raw: bytes | None = field(repr=False)  # secrets are in it
    text: str = field(repr=False)
    values: dict[str, object] = field(repr=False)

    def document(self) -> TOMLDocument:
        """The text, parsed so that it can be edited.

        :raises ConfigFileInvalid: it is TOML, but of a form that tomlkit cannot take.
        """
        try:
            return tomlkit.parse(with_line_feeds(self.text))
        except TOMLKitError as error:
            place = Place(error.line, error.col + 1) if isinstance(error, ParseError) else None
            words = (
                "commands cannot change a file of this form, in which tables that belong together stand apart, or values "
                "nest too deep; put in order what is around this line, or edit the file by hand"
            )
            raise ConfigFileInvalid([Problem(str(self.path), "", words, place)]) from error
