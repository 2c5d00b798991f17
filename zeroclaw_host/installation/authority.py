"""What a new version of a package wants beyond what the installed one has, as items that an operator accepts by name.

An item is ``permission:<name>``, ``capability:<name>``, ``provides:<id>``, ``publisher:<key>`` or ``publisher:unsigned``.
Wanting less is no item, and neither is a publisher key where none was named: outside of strict mode a key is a claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from zeroclaw_host.errors import UsageError
from zeroclaw_host.package.manifest import Capability, Manifest, Permission
from zeroclaw_host.package.toml_source import printable

UNSIGNED: Final = "unsigned"


class Authority(StrEnum):
    """The kinds of items."""

    PERMISSION = "permission"
    CAPABILITY = "capability"
    PROVIDES = "provides"
    PUBLISHER = "publisher"


def added_authority(installed: Manifest, new: Manifest) -> tuple[str, ...]:
    """The items that have to be accepted before ``new`` may take the place of ``installed`` (PLG-313 to PLG-317)."""
    items = [
        _item(Authority.PERMISSION, permission)
        for permission in new.permissions
        if permission not in installed.permissions
    ]
    items += [
        _item(Authority.CAPABILITY, capability)
        for capability in new.capabilities
        if capability not in installed.capabilities
    ]
    if new.provides is not None and new.provides != installed.provides:
        items.append(_item(Authority.PROVIDES, new.provides))
    former, key = _key(installed), _key(new)
    if former is not None and key != former:
        items.append(_item(Authority.PUBLISHER, key or UNSIGNED))
    return tuple(items)


def parse_items(texts: Iterable[str]) -> frozenset[str]:
    """Items as an operator writes them, one a text (PLG-319).

    :raises UsageError: one of them is no item.
    """
    return frozenset(map(_parsed, texts))


def split_items(text: str) -> list[str]:
    """The items of a comma-separated list (PLG-320)."""
    return [part.strip() for part in text.split(",")]


def _parsed(text: str) -> str:
    kind, colon, value = text.partition(":")
    if not colon or kind not in set(Authority) or not value.strip():
        forms = ", ".join(f"{each}:…" for each in Authority)
        raise UsageError(f"{printable(text)!r} is nothing that can be allowed; write one of {forms}")
    match Authority(kind):
        case Authority.PERMISSION:
            return _item(Authority.PERMISSION, _known(Permission, value, text))
        case Authority.CAPABILITY:
            return _item(Authority.CAPABILITY, _known(Capability, value, text))
        case Authority.PUBLISHER:
            return _item(Authority.PUBLISHER, value.strip().lower())
        case Authority.PROVIDES:
            return text


def _known(kind: type[Permission | Capability], value: str, text: str) -> str:
    try:
        return kind(value).value
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise UsageError(f"{printable(text)!r} is nothing that can be allowed; there are {known}") from None


def _item(kind: Authority, value: str) -> str:
    return f"{kind}:{value}"


def _key(manifest: Manifest) -> str | None:
    return None if manifest.publisher_key is None else manifest.publisher_key.strip().lower()
