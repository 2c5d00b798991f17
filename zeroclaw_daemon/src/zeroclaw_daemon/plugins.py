"""The plugin host as the configuration wants it: for the daemon, and for the commands that manage packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy

if TYPE_CHECKING:
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.discovery import Discovery
    from zeroclaw_host.installation.rows import RowStore
    from zeroclaw_host.services.bundle import InstanceServices
    from zeroclaw_host.services.logging import LogRecord

REGISTRY_VARIABLE = "ZEROCLAW_PLUGIN_REGISTRY_URL"


def plugins_dir(snapshot: Snapshot, paths: Paths) -> Path:
    """Where packages are installed; a relative setting starts from the configuration directory (PLG-120, PAINS 13)."""
    configured = snapshot.config.plugins.plugins_dir
    if configured is None:
        return Path(paths.plugins_dir_default)
    return Path(paths.config_dir) / Path(configured).expanduser()


def signature_policy(snapshot: Snapshot) -> SignaturePolicy:
    """Which packages may load.

    While ``[plugins]`` cannot be read nobody knows what the operator demanded, so the strictest is in force.
    """
    if snapshot.plugins_dropped:
        return SignaturePolicy(SignatureMode.STRICT, frozenset())
    security = snapshot.config.plugins.security
    return SignaturePolicy(SignatureMode(security.signature_mode), frozenset(security.trusted_publisher_keys))


def installed(snapshot: Snapshot, paths: Paths, *, only: str | None = None) -> Discovery:
    """What is in the plugins directory, admitted or not, without running any of it.

    :param only: look at the package of this name alone.
    :raises StorageError: the directory cannot be listed.
    """
    from zeroclaw_host.installation.discovery import discover

    return discover(plugins_dir(snapshot, paths), signature_policy(snapshot), only=only)


def open_host(
    snapshot: Snapshot,
    paths: Paths,
    *,
    services: InstanceServices | None = None,
    rows: RowStore | None = None,
) -> PluginHost:
    """A plugin host for this configuration. Its engine starts when it is first needed.

    :param services: what plugins are lent; by default their configuration, and nobody who listens to them.
    :param rows: where an install seeds rows; nowhere, when left out.
    """
    from zeroclaw_daemon.config.installation_key import installation_key
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.package_log import PackageLog
    from zeroclaw_host.services.bundle import InstanceServices

    compiling = snapshot.config.plugins.compile
    return PluginHost(
        plugins_dir(snapshot, paths),
        Path(paths.cache_dir),
        policy=signature_policy(snapshot),
        limits=snapshot.config.plugins.limits.as_limits(),
        compile_limits=compiling.as_limits(),
        share_core_modules=compiling.share_core_modules,
        cache_bytes=compiling.cache_max_bytes,
        services=services
        or InstanceServices(config=EntryResolver(lambda: snapshot, installation_key(paths)), log=_Unheard()),
        rows=rows,
        journal=PackageLog(Path(paths.package_log)),
    )


def registry_location(flag: str | None, env: Mapping[str, str], snapshot: Snapshot) -> str | None:
    """The registry to use: the option, then the environment, then the configuration (D-22). Blank means unset."""
    for candidate in (flag, env.get(REGISTRY_VARIABLE), snapshot.config.plugins.registry_url):
        if candidate is not None and candidate.strip():
            return candidate.strip()
    return None


class _Unheard:
    """Takes the records of guests that a command runs only to see whether they load."""

    def emit(self, record: LogRecord) -> None:
        """Nobody listens."""

    def drop(self) -> None:
        """Nobody counts."""
