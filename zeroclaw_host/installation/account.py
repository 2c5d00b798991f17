"""What one command tells the package log: what it is about to do, that it was undone, or that it was refused."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType

from zeroclaw_host.errors import StorageError, ZeroclawError
from zeroclaw_host.installation.discovery import InstalledPackage
from zeroclaw_host.installation.package_log import Action, Journal, Record
from zeroclaw_host.installation.transaction import Transaction
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.signature import SignaturePolicy


class Account:
    """One command's part of the log. Made by :func:`account`."""

    def __init__(self, journal: Journal, record: Record) -> None:
        self._journal = journal
        self._record = record
        self._begun = False

    def about(
        self,
        package: AdmittedPackage | InstalledPackage,
        policy: SignaturePolicy,
        *,
        previous: str | None = None,
    ) -> None:
        """Which package it is about, and by which rule it passed."""
        self._record = replace(
            self._record,
            package=package.name,
            version=package.manifest.version,
            previous_version=previous,
            manifest_sha256=hashlib.sha256(package.manifest_bytes).hexdigest(),
            component_sha256=package.component_sha256,
            publisher_key=package.signature.publisher_key,
            signature=package.signature.status.value,
            rule=policy.mode.value,
        )

    def approved(self, authority: Iterable[str]) -> None:
        """What was accepted beyond what the installed version has.

        :raises StorageError: it could not be written.
        """
        self._journal.append(replace(self._record, action=Action.APPROVE, detail=", ".join(authority)))

    def begin(self, work: Transaction) -> None:
        """Write ahead what the transaction is about to make true; should it fail, that is written as well.

        :raises StorageError: it could not be written, and must not happen.
        """
        self._journal.append(self._record)
        self._begun = True
        work.failures.push(self._undone)

    def refused(self, error: ZeroclawError) -> None:
        """Nothing was done, and why. What is refused stays refused when that cannot be written."""
        if not self._begun:
            with suppress(StorageError):
                self._journal.append(
                    replace(self._record, action=Action.REFUSE, rule=error.code, detail=error.message)
                )

    def _undone(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, trace
        rule = error.code if isinstance(error, ZeroclawError) else type(error).__name__
        with suppress(StorageError):  # the error that undid it is on its way
            self._journal.append(replace(self._record, action=Action.UNDO, rule=rule, detail=str(error)))


@contextmanager
def account(
    journal: Journal, action: Action, package: str | None = None, *, source: str | None = None
) -> Generator[Account, None, None]:
    """The account of one command; left by an error before anything was begun, that is a refusal."""
    told = Account(journal, Record(action, package, source=source))
    try:
        yield told
    except ZeroclawError as error:
        told.refused(error)
        raise
