"""Sealing what is secret in a document, wherever the schema says that something is (PLG-139)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tomlkit import TOMLDocument

from zeroclaw_daemon.config.coercion import MASKS
from zeroclaw_daemon.config.file import decode, read_bytes, toml_values
from zeroclaw_daemon.config.overrides import overrides_in
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, step
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.services.install_key import LEGACY, REFERENCE, InstallKey, SealBroken, is_sealed
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable

Table = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret text of a document, where it stands."""

    path: tuple[str, ...]
    table: Table = field(repr=False)
    text: str = field(repr=False)

    @property
    def plain(self) -> bool:
        """Whether it is written out. A mask stands for nothing, and a reference is no secret."""
        return self.text not in MASKS and not is_sealed(self.text) and not self.text.startswith(REFERENCE)

    @property
    def legacy(self) -> bool:
        """Whether it is sealed as early releases did."""
        return self.text.startswith(LEGACY)

    def replace(self, text: str) -> None:
        """Write another text in its place; the comment beside it stays."""
        self.table[self.path[-1]] = text


def secrets_in(document: TOMLDocument) -> Iterator[Secret]:
    """Every secret text there is, in the document's order."""
    return _walk(ROOT, cast("Table", document))


@dataclass(frozen=True, slots=True)
class Sealing:
    """How many secrets were sealed, and the properties whose legacy text could not be read and stayed."""

    sealed: int = 0
    unreadable: tuple[str, ...] = ()


def seal_secrets(document: TOMLDocument, key_file: KeyFile, *, env: Mapping[str, str]) -> Sealing:
    """Seal every secret that is written out or sealed as early releases did, unless ``secrets.encrypt`` is false.

    A legacy text that cannot be read stays as it is: it stops who needs it, and nobody else.

    :param env: the environment, whose variables override the file.
    :raises KeyUnavailable: there is something to seal and no usable key. A new key is made only while the document holds
        nothing that is sealed: beside sealed texts, the key is lost and not missing.
    """
    if not _encrypts(document, env):
        return Sealing()
    found = list(secrets_in(document))
    plain = [secret for secret in found if secret.plain]
    if plain:
        lost = any(is_sealed(secret.text) for secret in found)
        key = key_file.read() if lost else key_file.read_or_create()
        for secret in plain:
            secret.replace(key.seal(secret.text))
    sealed, unreadable = len(plain), list[str]()
    for secret in found:
        if secret.legacy:
            renewed = _renewed(secret.text, key_file)
            if renewed is None:
                unreadable.append(".".join(secret.path))
            else:
                secret.replace(renewed)
                sealed += 1
    return Sealing(sealed, tuple(unreadable))


@dataclass(frozen=True, slots=True)
class SecretCounts:
    """How a file's secrets are kept: sealed, sealed as early releases did, and the paths of those that are written out."""

    sealed: int
    legacy: int
    plain: tuple[str, ...]


def count_secrets(path: Path) -> SecretCounts:
    """How the secrets of a configuration file are kept; without a file there are none.

    :raises ConfigSyntaxInvalid: it is no TOML. StorageError: it cannot be read.
    """
    text = decode(read_bytes(path) or b"", path)
    found = list(_walk(ROOT, toml_values(text, path)))
    legacy = sum(secret.legacy for secret in found)
    sealed = sum(is_sealed(secret.text) for secret in found) - legacy
    return SecretCounts(
        sealed, legacy, tuple(".".join(secret.path) for secret in found if secret.plain and secret.text)
    )


def unreadable_secrets(path: Path, key_file: KeyFile) -> tuple[SecretUnreadable, ...]:
    """What is wrong with each sealed text of a configuration file that the key does not open.

    :raises KeyUnavailable: there is a sealed text, and no usable key. ConfigSyntaxInvalid, StorageError: as :func:`count_secrets`.
    """
    found = _walk(ROOT, toml_values(decode(read_bytes(path) or b"", path), path))
    return tuple(fault for secret in found if (fault := _fault(secret, key_file)) is not None)


class SecretUnreadable(SealBroken):
    """A sealed text of the file cannot be read. ``details`` holds ``property``; the remedy is to set it anew."""

    def __init__(self, secret: Secret, error: SealBroken) -> None:
        path = ".".join(secret.path)
        super().__init__(
            f"{path}: {error.message}",
            remedy=Remedy(RemedyAction.SET_CONFIG, {"path": path}),
            details={"property": path},
        )


def check_secrets(document: TOMLDocument, key_file: KeyFile) -> None:
    """See that every sealed text can be read.

    :raises SecretUnreadable: one cannot.
    :raises KeyUnavailable: there is one, and no usable key.
    """
    for secret in secrets_in(document):
        if (fault := _fault(secret, key_file)) is not None:
            raise fault


def reseal_secrets(document: TOMLDocument, key: InstallKey, *, env: Mapping[str, str]) -> int:
    """Seal every secret with this key that is not sealed with it; one that is written out only if secrets are sealed at all.

    :returns: how many were sealed.
    :raises SecretUnreadable: one cannot be read with the key or its former.
    """
    encrypts, count = _encrypts(document, env), 0
    for secret in list(secrets_in(document)):
        if (encrypts and secret.plain) or (is_sealed(secret.text) and not key.sealed_this(secret.text)):
            try:
                secret.replace(key.seal(key.unseal(secret.text)))
            except SealBroken as error:
                raise SecretUnreadable(secret, error) from error
            count += 1
    return count


def _fault(secret: Secret, key_file: KeyFile) -> SecretUnreadable | None:
    """Why a sealed text cannot be read; None where it can, or is not sealed."""
    if is_sealed(secret.text):
        try:
            key_file.read().unseal(secret.text)
        except SealBroken as error:
            return SecretUnreadable(secret, error)
    return None


def _renewed(text: str, key_file: KeyFile) -> str | None:
    try:
        key: InstallKey = key_file.read()
        return key.seal(key.unseal(text))
    except (KeyUnavailable, SealBroken):
        return None


def _encrypts(document: TOMLDocument, env: Mapping[str, str]) -> bool:
    for override in overrides_in(env):
        if override.property == "secrets.encrypt":
            return override.text != "false"
    table: object = cast("Table", document).get("secrets")
    return not isinstance(table, Mapping) or cast("Table", table).get("encrypt") is not False


def _walk(
    node: Node, current: object, path: tuple[str, ...] = (), table: Table | None = None
) -> Iterator[Secret]:
    match node:
        case Value(kind=ValueKind.SECRET) if isinstance(current, str) and table is not None:
            yield Secret(path, table, str(current))
        case TableOf() | MapOf() if isinstance(current, MutableMapping):
            inside = cast("Table", current)
            for name in list(inside):
                inner = step(node, name)
                if inner is not None:
                    yield from _walk(inner, inside[name], (*path, name), inside)
        case RowsOf(model) if isinstance(current, Sequence):
            for index, row in enumerate(cast("Sequence[object]", current)):
                table = cast("Table", row) if isinstance(row, MutableMapping) else dict[str, Any]()
                yield from _walk(TableOf(model), table, (*path, str(table.get("name", index))))
        case _:
            return
