"""Sealing what is secret in a document, wherever the schema says that something is (PLG-139)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tomlkit import TOMLDocument

from zeroclaw_daemon.config.overrides import overrides_in
from zeroclaw_daemon.config.properties import MASKS
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, step
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.services.install_key import LEGACY, REFERENCE
from zeroclaw_host.services.sealing import InstallKey, KeyFile, KeyUnavailable, SealBroken, is_sealed

Table = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret text of a document, where it stands."""

    path: tuple[str, ...]
    table: Table
    text: str

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


def seal_secrets(document: TOMLDocument, key_file: KeyFile, *, env: Mapping[str, str]) -> None:
    """Seal every secret that is written out or sealed as early releases did, unless ``secrets.encrypt`` is false.

    A legacy text that cannot be read stays as it is: it stops who needs it, and nobody else.

    :param env: the environment, whose variables override the file.
    :raises KeyUnavailable: there is something to seal and no usable key. A new key is made only while the document holds
        nothing that is sealed: beside sealed texts, the key is lost and not missing.
    """
    if not _encrypts(document, env):
        return
    found = list(secrets_in(document))
    plain = [secret for secret in found if secret.plain]
    legacy = [secret for secret in found if secret.legacy]
    if plain:
        sealed = any(is_sealed(secret.text) for secret in found)
        key = key_file.read() if sealed else key_file.read_or_create()
        for secret in plain:
            secret.replace(key.seal(secret.text))
    for secret in legacy:
        renewed = _renewed(secret.text, key_file)
        if renewed is not None:
            secret.replace(renewed)


class SecretUnreadable(SealBroken):
    """A sealed text of the file cannot be read. ``details`` holds ``property``; the remedy is to set it anew."""

    def __init__(self, secret: Secret, error: SealBroken) -> None:
        path = ".".join(secret.path)
        super().__init__(
            f"{path}: {error.message}",
            remedy=Remedy(RemedyAction.SET_CONFIG, {"path": path}),
            details={"property": path},
        )


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
