"""Replacing an installed package by another version of itself.

Everything is checked before anything is touched, and what the new version wants beyond the installed one must have been
accepted by name before work is spent on it. Then, under the directory lock: the new version is written aside, the installed
one is claimed, compared with the one that was prepared against, and the new one moves into the same place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from zeroclaw_host.errors import (
    InstallError,
    Kind,
    PackageError,
    PluginNotFound,
    RegistryEntryNotFound,
    Remedy,
    RemedyAction,
    ZeroclawError,
)
from zeroclaw_host.installation.account import Account, account
from zeroclaw_host.installation.authority import added_authority
from zeroclaw_host.installation.claim import replacement
from zeroclaw_host.installation.discovery import InstalledPackage, PackageChanged, discover
from zeroclaw_host.installation.displaced import settle_replaced, survey
from zeroclaw_host.installation.filesystem import FileSystem, PosixFileSystem
from zeroclaw_host.installation.install import payload
from zeroclaw_host.installation.lock import Clock, locked
from zeroclaw_host.installation.offers import Offer, Selection, UpdateSpec
from zeroclaw_host.installation.package_log import Action, Journal, Unlogged
from zeroclaw_host.installation.pipeline import LoadCheck, prepare
from zeroclaw_host.installation.rows import RowStore, seed_for
from zeroclaw_host.installation.staging import staging
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.manifest import Manifest
from zeroclaw_host.package.notices import Notice
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.package.versions import is_older


class ApprovalNeeded(InstallError):
    """A new version wants authority the installed one does not have. ``details["authority"]`` lists it (PLG-313…318)."""

    code = "update_needs_approval"
    kind = Kind.REFUSED


class Outcome(StrEnum):
    """How an update ended for one package (PLG-328)."""

    UPDATED = "updated"
    UP_TO_DATE = "up_to_date"
    SKIPPED = "skipped"
    NEEDS_APPROVAL = "needs_approval"
    NOT_UPDATED = "not_updated"


class SkipReason(StrEnum):
    """Why a package was skipped when all were to be updated (PLG-329)."""

    NOT_LISTED = "the registry does not list it"
    DISPLACED = "an interrupted update left it moved aside; an update by its name puts it back"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What could not be deleted of a replaced version."""

    path: Path
    marked: bool
    """Whether the next update deletes it. Otherwise somebody has to, or a later update by name puts it back (PLG-340)."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What became of one package."""

    name: str
    outcome: Outcome
    installed: str | None = None
    """The version that was installed before; it still is, unless the package was updated."""
    version: str | None = None
    """The version that was selected, where one was."""
    error: ZeroclawError | None = None
    skipped: SkipReason | None = None
    manifest: Manifest | None = None
    """That of the new version, once the package was updated."""
    put_back: bool = False
    """Whether a package that an interrupted update had moved aside was put back first."""
    notices: tuple[Notice, ...] = ()
    key: str | None = None
    row_created: bool = False
    leftover: Leftover | None = None
    staging_leftover: Path | None = None

    @property
    def older(self) -> bool:
        """Whether the selected version is older than the one that was installed (PLG-304)."""
        if self.version is None or self.installed is None:
            return False
        return is_older(self.version, self.installed)

    @property
    def failed(self) -> bool:
        """Whether a command with this result has failed (PLG-330)."""
        return self.outcome in (Outcome.NEEDS_APPROVAL, Outcome.NOT_UPDATED)


@dataclass(slots=True)
class _Attempt:
    """One package on its way to another version, and what is known of it so far."""

    spec: UpdateSpec
    offer: Offer
    accepted: frozenset[str]
    result: UpdateResult

    def learn(self, **facts: Any) -> None:
        self.result = replace(self.result, **facts)

    def fail(self, error: ZeroclawError) -> None:
        approval = isinstance(error, ApprovalNeeded)
        self.learn(outcome=Outcome.NEEDS_APPROVAL if approval else Outcome.NOT_UPDATED, error=error)


@dataclass(frozen=True, slots=True)
class Updater:
    """Updates packages in one plugins directory.

    :param load_check: compiles and instantiates a component; there is no update without it (PLG-312).
    :param rows: where the row of a default tool binding that has none is made, granting nothing (PLG-325).
    """

    directory: Path
    policy: SignaturePolicy
    load_check: LoadCheck
    rows: RowStore | None = None
    filesystem: FileSystem | None = None
    clock: Clock | None = None
    journal: Journal | None = None

    def update(self, spec: UpdateSpec, offer: Offer, accepted: frozenset[str] = frozenset()) -> UpdateResult:
        """Update one package by its name. Does not raise for what happens to it; the result says it.

        A package that an interrupted update left moved aside is put back first, whatever comes of the rest (PLG-337).

        :param accepted: what the new version may have beyond the installed one, see ``authority``.
        """
        attempt = _Attempt(spec, offer, accepted, UpdateResult(spec.name, Outcome.NOT_UPDATED))
        try:
            attempt.learn(put_back=self._settle(spec.name, put_back=True))
            self._update(attempt)
        except ZeroclawError as error:
            attempt.fail(error)
        return attempt.result

    def update_all(self, offer: Offer) -> Iterator[UpdateResult]:
        """Update every installed package, one result after the other. Nothing is put back, and nothing more is granted.

        :raises ZeroclawError: what is installed cannot be found out.
        """
        seen: set[str] = set()
        for package in survey(self.directory, self.policy, clock=self.clock).discovery.packages:
            seen.add(package.name)
            yield self._update_listed(package, offer)
        for each in survey(self.directory, self.policy, clock=self.clock).displaced:
            if each.name not in seen:
                yield UpdateResult(each.name, Outcome.SKIPPED, skipped=SkipReason.DISPLACED)

    def _update_listed(self, package: InstalledPackage, offer: Offer) -> UpdateResult:
        result = UpdateResult(package.name, Outcome.NOT_UPDATED, installed=package.version)
        attempt = _Attempt(UpdateSpec(package.name), offer, frozenset(), result)
        try:
            self._settle(package.name, put_back=False)
            self._update(attempt)
        except RegistryEntryNotFound:
            attempt.learn(outcome=Outcome.SKIPPED, skipped=SkipReason.NOT_LISTED)
        except PluginNotFound as error:
            displaced = survey(self.directory, self.policy, clock=self.clock).displaced
            if any(each.name == package.name for each in displaced):
                attempt.learn(outcome=Outcome.SKIPPED, skipped=SkipReason.DISPLACED)
            else:
                attempt.fail(error)
        except ZeroclawError as error:
            attempt.fail(error)
        return attempt.result

    def _settle(self, name: str, *, put_back: bool) -> bool:
        return settle_replaced(
            self.directory,
            self._files,
            name,
            self.policy,
            put_back=put_back,
            clock=self.clock,
            journal=self.journal,
        )

    def _update(self, attempt: _Attempt) -> None:
        installed = self._installed(attempt.spec.name)
        attempt.learn(installed=installed.version)
        selected = attempt.offer.select(attempt.spec)
        attempt.learn(version=selected.version)
        if selected.version == installed.version and not attempt.offer.always:
            attempt.learn(outcome=Outcome.UP_TO_DATE)
            return
        with account(self.journal or Unlogged(), Action.UPDATE, attempt.spec.name) as told:
            package = self._prepare(attempt, selected, installed, told)
            self._replace(attempt, installed, package, told)

    def _prepare(
        self, attempt: _Attempt, selected: Selection, installed: InstalledPackage, told: Account
    ) -> AdmittedPackage:
        """The new version, checked in full; the installed one is untouched (PLG-306 to PLG-312)."""

        def require_approval(package: AdmittedPackage) -> None:
            attempt.spec.check(package.manifest)
            attempt.learn(version=package.manifest.version, notices=package.notices)
            told.about(package, self.policy, previous=installed.version)
            wanted = added_authority(installed.manifest, package.manifest)
            if not attempt.accepted.issuperset(wanted):
                raise _approval_needed(package, wanted, attempt.offer)
            if wanted:
                told.approved(wanted)

        return prepare(selected.open(), self.policy, self.load_check, before_compiling=require_approval)

    def _replace(
        self, attempt: _Attempt, installed: InstalledPackage, package: AdmittedPackage, told: Account
    ) -> None:
        place = installed.directory.name
        with locked(self.directory, clock=self.clock) as lock:
            _require_same(self._installed(installed.name), installed)
            seed = seed_for(package.manifest)
            row = None
            if self.rows is not None and seed is not None:
                # An update grants nothing, not even in a row it makes.
                row = self.rows.prepare(replace(seed, egress_hosts=()))
            with (
                replacement(lock, self._files, installed.name, place) as old,
                staging(lock, self._files, installed.name) as new,
            ):
                new.fill(payload(package))
                told.begin(new)
                old.take()
                _require_contents(old.contents, installed)
                new.publish(place)
                if row is not None:
                    new.on_failure(row.undo)
                    row.commit()
                old.commit()
        attempt.learn(
            outcome=Outcome.UPDATED,
            manifest=package.manifest,
            key=None if seed is None else seed.key,
            row_created=row is not None and row.creates,
            leftover=None if old.leftover is None else Leftover(old.leftover, old.marked),
            staging_leftover=new.leftover,
        )

    def _installed(self, name: str) -> InstalledPackage:
        try:
            return discover(self.directory, self.policy, only=name).get(name)
        except PluginNotFound as error:
            raise PluginNotFound(
                error.message,
                remedy=Remedy(RemedyAction.INSTALL_PLUGIN, {"source": name}),
                details=error.details,
            ) from error
        except PackageError as error:
            if error.remedy is not None:
                raise
            raise PluginNotFound(
                f"what is installed as {name} is no package this host accepts, so there is nothing to update",
                remedy=Remedy(RemedyAction.REMOVE_PLUGIN, {"name": name}),
                details={"name": name},
            ) from error

    @property
    def _files(self) -> FileSystem:
        return self.filesystem or PosixFileSystem()


def _require_same(found: InstalledPackage, prepared: InstalledPackage) -> None:
    if found.directory != prepared.directory or _identity(found) != _identity(prepared):
        raise _changed(prepared)


def _require_contents(contents: Path, installed: InstalledPackage) -> None:
    """Whether what was claimed is what the update was prepared against (PLG-333).

    :raises PackageChanged: it is not.
    """
    try:
        found = admit(DirectoryReader(contents, shown=installed.directory), installed.policy)
    except PackageError as error:
        raise _changed(installed) from error
    if _identity(found) != _identity(installed):
        raise _changed(installed)


def _identity(package: AdmittedPackage | InstalledPackage) -> tuple[bytes, str | None]:
    return package.manifest_bytes, package.component_sha256


def _changed(installed: InstalledPackage) -> PackageChanged:
    return PackageChanged(
        f"{installed.directory} was changed while its update was being prepared; it stays as it is",
        details={"name": installed.name, "path": str(installed.directory)},
    )


def _approval_needed(package: AdmittedPackage, wanted: tuple[str, ...], offer: Offer) -> ApprovalNeeded:
    version = package.manifest.version
    arguments = {"package": f"{package.name}@{version}", "items": json.dumps(wanted), **offer.repeated}
    return ApprovalNeeded(
        f"{package.name} {version} requests authority the installed version does not have: {', '.join(wanted)}",
        remedy=Remedy(RemedyAction.ALLOW_UPDATE, arguments),
        details={"name": package.name, "version": version, "authority": list(wanted)},
    )
