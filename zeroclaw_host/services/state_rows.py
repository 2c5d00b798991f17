"""What one row of durable state holds: blind names outside, a sealed record inside (PLG-157).

Nothing of an instance, a key or a value can be read from a row without the installation's key. The record repeats whose it
is and under which key, so that a row that was moved, swapped or renamed is not taken for another's.
"""

from __future__ import annotations

import base64
import binascii
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.install_key import SEALED, InstallKey, SealBroken
from zeroclaw_host.services.state import MAX_VALUE_BYTES, is_key

MAX_REVISION: Final = 2**63 - 1
"""The largest number a column holds."""

_OWNER_DOMAIN: Final = "zeroclaw.plugin-state.owner.v1\0"
_LOCATOR_DOMAIN: Final = "zeroclaw.plugin-state.locator.v1\0"
_FORMAT: Final = 1
_MEMBERS: Final = ["format", "package", "capability", "binding", "key", "revision", "value"]


class RowBroken(Exception):
    """A row is not what was written: changed, moved, or sealed with another key. Holds nothing of the row."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a row means."""

    instance: InstanceIdentity
    key: str = field(repr=False)
    revision: int
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Row:
    """A row as the database has it; columns of a database that somebody changed can hold anything."""

    owner: object
    locator: object
    ciphertext: object = field(repr=False)


def owner_of(install: InstallKey, instance: InstanceIdentity) -> bytes:
    """The blind name of an instance, 32 bytes."""
    return install.digest(_OWNER_DOMAIN, instance.encoded)


def floor_owner(install: InstallKey) -> bytes:
    """The blind name that no instance has. Its last revision counts for all: instances that were forgotten had given out
    numbers up to it.
    """
    return install.digest(_OWNER_DOMAIN, b"")


def mark_owner(install: InstallKey) -> bytes:
    """The blind name that no instance has either. That it is there says that a rotation has begun to name things with this key,
    also when every entry has been deleted since.
    """
    return install.digest(_OWNER_DOMAIN, b"\0")


def locator_of(install: InstallKey, owner: bytes, key: str) -> bytes:
    """The blind name of one key of an instance, 32 bytes."""
    return install.digest(_LOCATOR_DOMAIN, owner + b"\0" + key.encode())


def row_of(install: InstallKey, record: Record) -> Row:
    """The record as a row."""
    instance = record.instance
    values = (
        _FORMAT,
        instance.package,
        instance.capability.value,
        instance.binding,
        record.key,
        record.revision,
        base64.b64encode(record.value).decode(),
    )
    plain = json.dumps(dict(zip(_MEMBERS, values, strict=True)), ensure_ascii=False, separators=(",", ":"))
    owner = owner_of(install, instance)
    return Row(owner, locator_of(install, owner, record.key), install.seal(plain))


def record_of(install: InstallKey, row: Row) -> Record:
    """What a row means, if it is whole and in its own place.

    :raises RowBroken: it is not. No row says that under another key than its own.
    """
    record = misplaced_record_of(install, row)
    owner = owner_of(install, record.instance)
    if row.owner != owner or row.locator != locator_of(install, owner, record.key):
        raise RowBroken
    return record


def misplaced_record_of(install: InstallKey, row: Row) -> Record:
    """What a row meant where it was written, wherever it is now. Only to take it away.

    :raises RowBroken: nobody can tell.
    """
    ciphertext = row.ciphertext
    if not isinstance(ciphertext, str) or not ciphertext.startswith(SEALED):
        raise RowBroken
    try:
        return _parse(install.unseal(ciphertext))
    except SealBroken:
        raise RowBroken from None


def _parse(plain: str) -> Record:
    found: object = None
    with suppress(ValueError, RecursionError):  # which hold the whole text, and are not to be found from ours
        found = json.loads(plain)
    if not isinstance(found, dict):
        raise RowBroken
    members = cast("dict[str, object]", found)
    if list(members) != _MEMBERS or type(members["format"]) is not int or members["format"] != _FORMAT:
        raise RowBroken
    match [members[name] for name in _MEMBERS[1:]]:
        case [
            str() as package,
            str() as capability,
            str() as binding,
            str() as key,
            int() as revision,
            str() as text,
        ]:
            pass
        case _:
            raise RowBroken
    try:
        instance = InstanceIdentity(package, Capability(capability), binding)
        value = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error, IdentityInvalid):
        raise RowBroken from None
    whole = is_key(key) and 0 < revision <= MAX_REVISION and len(value) <= MAX_VALUE_BYTES
    if not whole or type(revision) is not int or base64.b64encode(value).decode() != text:
        raise RowBroken
    return Record(instance, key, revision, value)
