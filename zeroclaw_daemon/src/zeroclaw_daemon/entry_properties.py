"""The properties of plugin instances, as the schemas of the installed packages have them (D-24).

The configuration keeps every one of them as a text under ``plugins.entries.<key>.config``. What the text has to be, only the
package says.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from zeroclaw_daemon.config.coercion import PropertyValueInvalid
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.properties import UnknownProperty, instance_property
from zeroclaw_daemon.plugins import installed
from zeroclaw_host.errors import ConfigInvalid, ZeroclawError
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity
from zeroclaw_host.package.config_schema import ConfigProperty, ConfigSchema, PropertyType

_SUGGESTIONS: Final = 3
_STRUCTURED: Final = frozenset({PropertyType.ARRAY, PropertyType.OBJECT})


class PackageUnknown(ZeroclawError):
    """What a package wants of a value cannot be known: it is not installed, or not readable."""

    code = "package_unknown"


class EntryProperties:
    """Looks properties up in the packages that are installed. Each package is read once.

    :param current: the configuration that says where packages are and which may load.
    """

    def __init__(self, current: Callable[[], Snapshot], paths: Paths) -> None:
        self._current: Final = current
        self._paths: Final = paths
        self._schemas: Final[dict[str, ConfigSchema | None]] = {}

    def find(self, path: str) -> ConfigProperty | None:
        """What the package says of the property at this path; None for a path that is none of an instance.

        :raises PackageUnknown: no package says anything, because there is none of the name, or none that can be read.
        :raises UnknownProperty: the package has no such property; ``details`` holds ``suggestions``.
        """
        named = _named(path)
        if named is None:
            return None
        identity, name = named
        return self._property(path, self._schema(identity.package), identity, name)

    def names(self, key: str) -> tuple[str, ...]:
        """The properties of the instance with this key; none where nobody knows them."""
        with suppress(IdentityInvalid, PackageUnknown):
            schema = self._schema(InstanceIdentity.parse(key).package)
            return () if schema is None else tuple(schema.properties)
        return ()

    def check(self, path: str, value: object) -> None:
        """Refuse a value that the installed package would refuse. Where there is no package, every value is accepted.

        :param path: any path; one that is none of an instance is not looked at.
        :param value: a text as the file keeps it, or an array or object, which only a property of that type takes.
        :raises UnknownProperty: the package has no such property (D-07).
        :raises PropertyValueInvalid: the text is none that the package's schema accepts; in the schema's words.
        """
        named = _named(path)
        if named is None:
            return
        identity, name = named
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        try:
            schema = self._schema(identity.package)
        except PackageUnknown:
            return
        declared = self._property(path, schema, identity, name)
        if not isinstance(value, str) and declared.type not in _STRUCTURED:
            raise PropertyValueInvalid(
                f"{path}: a value of type {declared.type.value} is wanted (package {identity.package})",
                details={"property": path},
            )
        try:
            if schema is not None:
                schema.check(name, text)
        except ConfigInvalid as error:
            raise PropertyValueInvalid(
                f"{path}: {error.message} (package {identity.package})", details={"property": path}
            ) from None

    def _property(
        self, path: str, schema: ConfigSchema | None, identity: InstanceIdentity, name: str
    ) -> ConfigProperty:
        if schema is None:
            raise UnknownProperty(
                f"Unknown property {path}: package {identity.package} takes no configuration",
                details={"property": path, "suggestions": ()},
            )
        if name in schema.properties:
            return schema.properties[name]
        stem = path.removesuffix(name)
        close = difflib.get_close_matches(name, schema.properties, n=_SUGGESTIONS)
        shown = ", ".join(close or schema.properties) or "none"
        raise UnknownProperty(
            f"Unknown property {path}: package {identity.package} has no property {name}; "
            f"{'the closest are' if close else 'there is'} {shown}",
            details={"property": path, "suggestions": tuple(f"{stem}{each}" for each in close)},
        )

    def _schema(self, package: str) -> ConfigSchema | None:
        """The package's schema; None when it takes no configuration."""
        if package not in self._schemas:
            snapshot = self._current()
            try:
                found = installed(snapshot, self._paths, only=package)
                raw = found.get(package).manifest.config_schema
            except ZeroclawError as error:
                raise PackageUnknown(error.message) from error
            self._schemas[package] = None if raw is None else ConfigSchema.compile(raw)
        return self._schemas[package]


def _named(path: str) -> tuple[InstanceIdentity, str] | None:
    """The instance and the name of its property that a path leads to."""
    found = instance_property(path)
    if found is None:
        return None
    row, name = found
    try:
        return InstanceIdentity.parse(row), name
    except IdentityInvalid:
        return None
