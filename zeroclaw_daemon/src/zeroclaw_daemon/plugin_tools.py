"""The tools of installed plugins, loaded when they are wanted and kept while nothing changes.

A tool set is built again when the configuration has another revision or the plugins directory other packages, so a plugin
installed beside a running daemon is there at the next turn. A package that is unchanged is not loaded again. One that
does not load is tried again with the next revision, which may have mended its configuration; what could not be read is
tried again at every turn.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from zeroclaw_daemon.activation.plan import ActivationPlan, Placement, Unmet
from zeroclaw_daemon.activation.standing import ToolSet
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.plugin_schema import PluginCompile
from zeroclaw_daemon.plugins import open_host, plugins_dir, signature_policy
from zeroclaw_daemon.records import record
from zeroclaw_host.errors import PluginUnavailable, StorageError, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.kinds import Tool

if TYPE_CHECKING:
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.discovery import InstalledPackage
    from zeroclaw_host.services.bundle import InstanceServices

logger = logging.getLogger(__name__)

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of last change of every manifest in the plugins directory."""

_UNSETTLED: Final[Stamp] = (("", 0, 0, 0),)
"""The stamp of no directory: what was built under it is built again."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """What a loaded tool depends on besides its package."""

    directory: Path
    policy: SignaturePolicy
    limits: Limits
    compiling: PluginCompile
    ceiling: int


@dataclass(slots=True)
class _Built:
    settings: _Settings
    stamp: Stamp
    tools: tuple[Tool, ...]
    loaded: dict[tuple[str, bytes, str | None], Tool] = field(
        default_factory=dict[tuple[str, bytes, str | None], Tool]
    )
    failed_under: str | None = None
    """The revision of the configuration under which a package did not load."""
    toolset: ToolSet = field(default_factory=ToolSet)
    told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """What was left out and why, so that it is said once."""

    def holds(self, settings: _Settings, stamp: Stamp, revision: str) -> bool:
        """Whether building again would give the same."""
        unchanged = self.settings == settings and self.stamp == stamp
        return unchanged and self.failed_under in (None, revision)


@dataclass(slots=True)
class _Lender:
    """A host, and those of its tools that somebody still holds: an agent, or a turn that runs."""

    host: PluginHost
    lent: WeakSet[Tool] = field(default_factory=WeakSet[Tool])


def wanted(snapshot: Snapshot) -> bool:
    """Whether the operator lets agents use the tools of installed packages (PLG-127, PLG-349)."""
    plugins = snapshot.config.plugins
    return plugins.enabled and plugins.auto_discover


class PluginTools:
    """Loads the tools of every installed package, if the operator wants plugins discovered (PLG-127).

    :param services: what the host lends to instances.
    :param on_load: called whenever tools were loaded, by whoever asked for them; must return at once.
    :param channels: the channels of the activation plan in force, whose slots are not the tools'.

    Thread-safe. Never to be called on the event loop: loading compiles and runs guest code.
    """

    def __init__(
        self,
        paths: Paths,
        services: InstanceServices,
        *,
        on_load: Callable[[], None] = lambda: None,
        channels: Callable[[], tuple[Placement, ...]] = tuple,
    ) -> None:
        self._paths = paths
        self._services = services
        self._on_load = on_load
        self._channels = channels
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._refresh = threading.Event()
        self._lender: _Lender | None = None
        self._former: list[_Lender] = []
        self._built: _Built | None = None

    def tools(self, snapshot: Snapshot) -> Sequence[Tool]:
        """The tools of the packages installed now. A package that does not load is logged and left out.

        With ``plugins.enabled`` or ``plugins.auto_discover`` off nothing is even looked at (PLG-128, PLG-348, PLG-349).
        """
        if not wanted(snapshot):
            return ()
        plugins = snapshot.config.plugins
        settings = _Settings(
            plugins_dir(snapshot, self._paths),
            signature_policy(snapshot),
            plugins.limits.as_limits(),
            plugins.compile,
            plugins.max_active_instances,
        )
        with self._lock:
            self._retire()
            stamp = _stamp(settings.directory)
            built = self._built
            if built is None or self._refresh.is_set() or not built.holds(settings, stamp, snapshot.revision):
                self._refresh.clear()
                built = self._build(snapshot, settings, stamp)
                self._built = built
                self._on_load()
            return built.tools

    def names(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The names of the tools loaded last, as far as they are still wanted. Loads nothing."""
        built = self._built
        if built is None or not wanted(snapshot):
            return ()
        return tuple(dict.fromkeys(tool.name for tool in built.tools))

    def toolset(self, snapshot: Snapshot) -> ToolSet | None:
        """What became of each package when tools were loaded last; None before that, and while nobody wants any."""
        built = self._built
        return built.toolset if built is not None and wanted(snapshot) else None

    def refresh(self) -> None:
        """Let the next who wants tools build the set again, and try once more what did not load (D-36)."""
        self._refresh.set()

    @property
    def host(self) -> PluginHost | None:
        """The host whose tools agents get now."""
        lender = self._lender
        return None if lender is None else lender.host

    def stop(self) -> None:
        """Give up what is being compiled, and load nothing more."""
        self._stopping.set()

    def close(self) -> None:
        """Stop every engine that was started."""
        self.stop()
        with self._lock:
            for lender in self._former:
                lender.host.close()
            self._former.clear()
            if self._lender is not None:
                self._lender.host.close()
                self._lender = None

    def _retire(self) -> None:
        """End the former hosts that nobody uses any more. Without its host a tool would run without a deadline."""
        for lender in [lender for lender in self._former if not lender.lent]:
            self._former.remove(lender)
            lender.host.close()

    def _keep_compiling(self, seconds: float) -> None:
        """Told now and then while a component is compiled.

        :raises PluginUnavailable: nobody will want the result.
        """
        del seconds
        if self._stopping.is_set():
            raise PluginUnavailable("the daemon ends")

    def _build(self, snapshot: Snapshot, settings: _Settings, stamp: Stamp) -> _Built:
        old = self._built if self._built is not None and self._built.settings == settings else None
        if self._lender is None or old is None:
            if self._lender is not None:
                self._former.append(self._lender)
            self._lender = _Lender(open_host(snapshot, self._paths, services=self._services))
        built = _Built(settings, stamp, ())
        told = old.told if old is not None else set[tuple[str, str]]()
        try:
            found = self._lender.host.discover()
        except ZeroclawError as error:
            if (entry := (str(settings.directory), error.message)) not in told:
                _report("the plugins directory cannot be read", error, entry[0])
            loaded = old.loaded if old is not None else built.loaded
            toolset = old.toolset if old is not None else built.toolset
            return replace(built, stamp=_UNSETTLED, loaded=loaded, told={entry}, toolset=toolset)
        for rejected in found.rejected:
            name = rejected.name or rejected.directory.name
            if (entry := (name, rejected.error.message)) not in told:
                _report("a package was left out", rejected.error, name)
            built.told.add(entry)
            if isinstance(rejected.error, StorageError):
                # It could not be read, for a reason that may have passed at the next turn, as a lack of descriptors does.
                built.stamp = _UNSETTLED
        manifests = found.manifests
        plan = ActivationPlan.of(snapshot.config, manifests, channels=self._channels())
        failed: dict[str, str] = {}
        for package in self._admitted(found.packages, plan, settings.ceiling):
            if self._stopping.is_set():
                break
            key = (package.name, package.manifest_bytes, package.component_sha256)
            tool = (old.loaded.get(key) if old is not None else None) or self._load(
                self._lender, package, failed
            )
            if tool is not None:
                built.loaded[key] = tool
            else:
                built.failed_under = snapshot.revision
        built.tools = tuple(built.loaded.values())
        built.toolset = ToolSet(
            plan, manifests, found.rejected, frozenset(name for name, _, _ in built.loaded), failed
        )
        return built

    @staticmethod
    def _admitted(
        packages: Sequence[InstalledPackage], plan: ActivationPlan, ceiling: int
    ) -> Iterator[InstalledPackage]:
        """The packages whose tools the plan has; one without a slot is logged."""
        for package in packages:
            placement = plan.of_instance(InstanceIdentity.default_tool(package.name))
            if placement is not None and placement.unmet is Unmet.NO_SLOT:
                record(
                    logger, logging.WARNING, f"{package.name} is not active: {placement.reason}",
                    action="plugin_not_active", category="plugin", plugin=package.name, limit=ceiling,
                )  # fmt: skip
            elif placement is not None and placement.admitted:
                yield package

    def _load(self, lender: _Lender, package: InstalledPackage, failed: dict[str, str]) -> Tool | None:
        for notice in package.notices:
            record(
                logger, logging.WARNING, notice.message,
                action="plugin_notice", category="plugin", plugin=package.name, notice=notice.code.value,
            )  # fmt: skip
        try:
            tool = lender.host.load_tool(package, on_compile=self._keep_compiling)
        except ZeroclawError as error:
            if self._stopping.is_set():
                return None
            failed[package.name] = error.message
            _report(f"{package.name} does not load", error, package.name)
            return None
        lender.lent.add(tool)
        record(
            logger, logging.INFO, f"the tool {tool.name} of {package.name} {package.version} is there",
            action="plugin_loaded", category="plugin", plugin=package.name, tool=tool.name,
        )  # fmt: skip
        return tool


def _report(what: str, error: ZeroclawError, plugin: str) -> None:
    record(
        logger, logging.WARNING, f"{what}: {error.message}",
        action="plugin_left_out", category="plugin", outcome="failure",
        plugin=plugin, code=error.code, causes=list(error.causes()), remedy=error.remedy,
    )  # fmt: skip


def _stamp(directory: Path) -> Stamp:
    """What tells that a package came, went or changed, without reading any. An install replaces directories as a whole."""
    found: list[tuple[str, int, int, int]] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    found.append((entry.name, *_stamp_of(Path(entry.path) / "manifest.toml")))
    except OSError:
        return ()
    return tuple(sorted(found))


def _stamp_of(manifest: Path) -> tuple[int, int, int]:
    try:
        status = manifest.lstat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
