"""From the row of an instance to its configuration: unsealed, typed and validated, at the moment it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.instances import instances
from zeroclaw_daemon.config.plugin_schema import PluginEntry
from zeroclaw_host.errors import ConfigInvalid, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Capability, Manifest, Permission
from zeroclaw_host.services.config import ResolvedConfig, resolve_config
from zeroclaw_host.services.install_key import InstallKey, SealBroken, is_sealed
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable

_NO_KEY: Final = InstallKey(bytes(32))
"""Reads what is not sealed, and refuses what is no secret either."""

_KEPT_SCHEMAS: Final = 128
"""Compiled schemas, one for each text of one."""


class ConfigUnreadable(ConfigInvalid):
    """A sealed value of an instance's row cannot be read. ``details`` holds ``property`` and the fault's code as ``fault``."""

    code = "plugin_config_unreadable"


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found of an instance before, as long as its row, its schema and the key are the same. Holds no secret."""

    raw: Mapping[str, object] | None
    key: InstallKey | None
    public: Mapping[str, object]
    secrets: frozenset[str]
    host_only: frozenset[str]


class EntryResolver:
    """Resolves an instance's configuration from its row, as the file is at that moment (PLG-135, PLG-169).

    Only the row under the instance's own key counts (PLG-171). Everything of one resolution is of one revision of the file.
    Secrets are unsealed for each resolution and kept nowhere; what is public is kept until the file changes.

    :param current: the configuration in force.
    :param key_file: what the values in it are sealed with.
    """

    def __init__(self, current: Callable[[], Snapshot], key_file: KeyFile) -> None:
        self._current: Final = current
        self._key_file: Final = key_file
        self._known: tuple[str, dict[str, _Known]] = ("", {})
        """By instance key, for one revision of the file."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """The typed, validated configuration of this instance; nothing is read for one that may not read it (PLG-151).

        :raises ConfigInvalid: the row's values do not satisfy the package's schema.
        :raises ConfigUnreadable: a value of the row is sealed and cannot be unsealed.
        """
        snapshot = self._current()
        try:
            return self._resolve(scope, snapshot)
        except ConfigUnreadable:
            # The key may have been replaced since the file was read, which was saved before that: a second look has both.
            later = self._current()
            if later.revision == snapshot.revision:
                raise
            return self._resolve(scope, later)

    def _resolve(self, scope: InstanceScope, snapshot: Snapshot) -> ResolvedConfig:
        raw = scope.manifest.config_schema
        if not scope.grants_permission(Permission.CONFIG_READ):
            return resolve_config(scope, _schema(raw), dict[str, str])
        entry = snapshot.config.plugins.entry(scope.identity.key) or PluginEntry(name=scope.identity.key)
        row = _Row(entry, self._key_file)
        revision, all_known = self._known
        if revision != snapshot.revision:
            all_known = {}
            self._known = snapshot.revision, all_known
        known = all_known.get(entry.name)
        if known is not None and known.raw is raw and row.key_is(known.key):
            secrets = {name: row.text(name) for name in known.secrets}
            return ResolvedConfig(scope, known.public, secrets, known.host_only)
        found = resolve_config(scope, _schema(raw), row.texts, host_only=host_only_secrets(entry))
        all_known[entry.name] = _Known(raw, row.key, found.public, frozenset(found.secrets), found.host_only)
        return found


def _schema(raw: Mapping[str, object] | None) -> ConfigSchema | None:
    """The compiled schema."""
    return None if raw is None else _compiled(json.dumps(raw))


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _compiled(text: str) -> ConfigSchema:
    return ConfigSchema.compile(json.loads(text))


def host_only_secrets(entry: PluginEntry) -> frozenset[str]:
    """The secrets that serve TLS profiles of the row: the host reads them, the guest does not."""
    return frozenset(
        name
        for profile in entry.tls_profiles
        for name in (
            profile.custom_ca_secret,
            profile.client_certificate_secret,
            profile.client_private_key_secret,
        )
        if name is not None
    )


class _Row:
    """The values of one row, unsealed when they are asked for, all with one key."""

    def __init__(self, entry: PluginEntry, key_file: KeyFile) -> None:
        self._entry = entry
        self._key_file = key_file
        self._key: InstallKey | None = None

    @property
    def key(self) -> InstallKey | None:
        """The key that the row's values need; None when none of them is sealed.

        :raises ConfigUnreadable: it cannot be had.
        """
        if self._key is None:
            sealed = next(
                (name for name, text in self._entry.config.items() if is_sealed(text.get_secret_value())),
                None,
            )
            if sealed is not None:
                try:
                    self._key = self._key_file.read()
                except KeyUnavailable as error:
                    raise self._unreadable(sealed, error, error.remedy) from error
        return self._key

    def key_is(self, other: InstallKey | None) -> bool:
        """Whether the row's key is this one."""
        key = self.key
        return key is other or (key is not None and other is not None and key.same_as(other))

    def texts(self) -> dict[str, str]:
        """Every value."""
        return {name: self.text(name) for name in self._entry.config}

    def text(self, name: str) -> str:
        """One value.

        :raises ConfigUnreadable: it cannot be unsealed.
        """
        text = self._entry.config[name].get_secret_value()
        key = self.key if is_sealed(text) else _NO_KEY
        assert key is not None, "a sealed value needs a key"
        try:
            return key.unseal(text)
        except SealBroken as error:
            again = Remedy(
                RemedyAction.SET_CONFIG, {"path": f"plugins.entries.{self._entry.name}.config.{name}"}
            )
            raise self._unreadable(name, error, again) from error

    def _unreadable(self, name: str, error: ZeroclawError, remedy: Remedy | None) -> ConfigUnreadable:
        path = f"plugins.entries.{self._entry.name}.config.{name}"
        return ConfigUnreadable(
            f"{path} cannot be read: {error.message}",
            remedy=remedy,
            details={"property": path, "fault": error.code},
        )


def unfit_instances(
    manifest: Manifest, snapshot: Snapshot, key_file: KeyFile
) -> list[tuple[InstanceIdentity, ConfigInvalid]]:
    """The instances of a package whose configuration does not fit its schema: they do not load until it does (PLG-326)."""
    if manifest.config_schema is None:
        return []
    resolver = EntryResolver(lambda: snapshot, key_file)
    found: list[tuple[InstanceIdentity, ConfigInvalid]] = []
    for identity in instances(manifest, snapshot.config):
        if identity.capability in (Capability.TOOL, Capability.CHANNEL):
            try:
                resolver.resolve(InstanceScope.admit(identity, manifest))
            except ConfigInvalid as error:
                found.append((identity, error))
    return found
