"""A plugin host in one object: what a program that embeds plugins starts from.

    with PluginHost(Path("plugins"), Path("cache")) as host:
        host.install("./redact.zip")
        tool = host.load_tool(host.discover().get("redact"))

The host does what it is told. Whether plugins are on at all, and which of them are active, is the program's decision.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from zeroclaw_host.errors import Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.installation.account import account
from zeroclaw_host.installation.discovery import Discovery, InstalledPackage, discover
from zeroclaw_host.installation.install import InstallReport, PrepareRow, install
from zeroclaw_host.installation.migrate import Migration, migrate
from zeroclaw_host.installation.package_log import Action, Journal, Unlogged
from zeroclaw_host.installation.remove import RemoveReport, remove
from zeroclaw_host.installation.rows import RowStore
from zeroclaw_host.installation.source import LocalSource, parse_source
from zeroclaw_host.installation.update import Updater
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.download import Progress as DownloadProgress
from zeroclaw_host.registry.location import RegistryNotNamed
from zeroclaw_host.sandbox.compiling.compile import Progress as CompileProgress
from zeroclaw_host.sandbox.compiling.compile_limits import CompileLimits
from zeroclaw_host.sandbox.compiling.shelf import DEFAULT_CACHE_BYTES
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig, resolve_config
from zeroclaw_host.services.log_queue import LogQueue, warn_of_drops
from zeroclaw_host.services.logging import LogRecord, StandardLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.loading import LoadVerdict, check_load
from zeroclaw_host.worlds.memory import MemoryPlugin
from zeroclaw_host.worlds.tool import ToolPlugin


@dataclass(frozen=True, slots=True)
class CheckedPackage:
    """An installed package and whether it loads here and now."""

    installed: InstalledPackage
    verdict: LoadVerdict


class _NoStoredConfig:
    """A resolver for programs that store no configuration: every instance has what its schema makes of nothing."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        raw = scope.manifest.config_schema
        return resolve_config(scope, None if raw is None else ConfigSchema.compile(raw), dict[str, str])


class PluginHost:
    """Installs, finds, checks and loads plugins.

    :param plugins_dir: where packages are installed, one directory each (PLG-001).
    :param cache_dir: where compiled components are kept; only this user may be able to write there.
    :param policy: which signatures are asked for; none, when left out.
    :param limits: the bounds of every guest call.
    :param compile_limits: memory and time of one compilation.
    :param share_core_modules: compile what plugins have in common once. Otherwise every component is compiled as it is.
    :param cache_bytes: size of all compiled components on disk that is kept to.
    :param services: what the host lends to its plugins. When left out: nothing is stored for them, neither configuration
        nor state, and their log records go to Python's :mod:`logging`. State that lasts is
        ``DurableState(Path("plugin-state.db"), KeyFile(Path(".secret_key")))`` of ``services.state_store`` and
        ``services.sealing``, as ``state`` of the bundle; whoever opens it closes it. Both files are made with the first value.
    :param rows: where the configuration rows of installed packages are seeded; nowhere, when left out.
    :param journal: where every install, update, removal, refusal and approval is recorded; nowhere, when left out.

    Safe to use from several threads. A context manager; :meth:`close` ends it. A program that keeps threads of its own busy
    lets guests sooner have the interpreter by ``sys.setswitchinterval(0.0005)``, which is a setting of its whole process.
    """

    def __init__(
        self,
        plugins_dir: Path,
        cache_dir: Path,
        *,
        policy: SignaturePolicy | None = None,
        limits: Limits | None = None,
        compile_limits: CompileLimits | None = None,
        share_core_modules: bool = True,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        services: InstanceServices | None = None,
        rows: RowStore | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.plugins_dir = plugins_dir
        self.cache_dir = cache_dir
        self.policy = policy or SignaturePolicy()
        self.limits = limits or Limits()
        self._log: LogQueue[LogRecord] | None = None
        if services is None:
            self._log = LogQueue(StandardLogSink().emit, warn_of_drops)
            services = InstanceServices(config=_NoStoredConfig(), log=self._log)
        self._services = services
        self._rows = rows
        self._journal: Journal = journal or Unlogged()
        self._open_sandbox = partial(
            Sandbox,
            cache_dir,
            compile_limits=compile_limits,
            share_core_modules=share_core_modules,
            cache_bytes=cache_bytes,
        )
        self._sandbox: Sandbox | None = None
        self._loaded: dict[str, InstalledPackage] = {}
        """What was loaded last of each name: an earlier one of that name cannot be read again."""
        self._warm: WeakSet[ChannelPlugin | MemoryPlugin] = WeakSet()
        """What holds a guest between its calls, as long as somebody holds it."""
        self._starting = threading.Lock()

    def install(
        self,
        source: str | PackageReader,
        *,
        registry: RegistryClient | None = None,
        verify: bool = True,
        prepare_row: PrepareRow | None = None,
        on_download: DownloadProgress | None = None,
        on_compile: CompileProgress | None = None,
    ) -> InstallReport:
        """Install a package from a directory, an archive or a registry.

        :param source: a path, a registry's ``name`` or ``name@version``, or a reader of a package.
        :param registry: where names are looked up.
        :param verify: whether the component must load here; all other checks hold in any case (PLG-038, PLG-039).
        :param prepare_row: prepares what this install is to configure, in place of ``rows``.
        :param on_download: told the bytes that arrived, and how many are announced.
        :param on_compile: told the seconds spent compiling so far.
        :raises ZeroclawError: nothing was installed; see :func:`~zeroclaw_host.installation.install.install`.
        """
        reader = self._open(source, registry, on_download) if isinstance(source, str) else source

        def load_check(package: AdmittedPackage) -> LoadVerdict:
            return self.check_package(package, on_compile=on_compile)

        return install(
            self.plugins_dir,
            reader,
            policy=self.policy,
            load_check=load_check if verify else None,
            rows=self._rows,
            prepare_row=prepare_row,
            journal=self._journal,
        )

    def updater(self, *, on_compile: CompileProgress | None = None) -> Updater:
        """What replaces installed packages by other versions of themselves, by this host's policy and limits.

        :param on_compile: told the seconds spent compiling so far.
        """

        def load_check(package: AdmittedPackage) -> LoadVerdict:
            return self.check_package(package, on_compile=on_compile)

        return Updater(self.plugins_dir, self.policy, load_check, rows=self._rows, journal=self._journal)

    def migrate(self, source: Path, *, on_compile: CompileProgress | None = None) -> Iterator[Migration]:
        """Move every package of another directory here, each as if it were installed.

        :raises StorageError: there is no such directory; see :func:`~zeroclaw_host.installation.migrate.migrate`.
        """

        def install_one(reader: PackageReader) -> InstallReport:
            return self.install(reader, on_compile=on_compile)

        return migrate(source, install_one, self.policy, target=self.plugins_dir, journal=self._journal)

    def remove(self, name: str) -> RemoveReport:
        """Delete an installed package, or what an install left under its name; configuration and state stay.

        :raises ZeroclawError: it is still there; see :func:`~zeroclaw_host.installation.remove.remove`.
        """
        return remove(self.plugins_dir, name, policy=self.policy, journal=self._journal)

    def discover(self) -> Discovery:
        """What is installed. Reads and checks; starts no engine and compiles nothing (PLG-044).

        :raises StorageError: the plugins directory cannot be listed.
        """
        return discover(self.plugins_dir, self.policy)

    def check(self, name: str) -> LoadVerdict:
        """Whether an installed package loads: the check a program's start makes, with its whole chain of causes (PLG-040).

        :raises PackageError: admission refuses the package.
        :raises PluginNotFound: it is not installed.
        """
        return self._check_installed(discover(self.plugins_dir, self.policy, only=name).get(name))

    def check_all(self) -> tuple[CheckedPackage, ...]:
        """The verdict on every installed package, by name (PLG-043).

        :raises StorageError: the plugins directory cannot be listed.
        """
        return tuple(
            CheckedPackage(installed, self._check_installed(installed))
            for installed in self.discover().packages
        )

    def check_package(
        self, package: AdmittedPackage, *, on_compile: CompileProgress | None = None
    ) -> LoadVerdict:
        """Whether an admitted package loads, with the limits of this host.

        :raises StorageError: the cache of compiled components cannot be used.
        """
        return check_load(self.sandbox, package, self.limits, progress=on_compile)

    def load_tool(
        self, installed: InstalledPackage, *, on_compile: CompileProgress | None = None
    ) -> ToolPlugin:
        """The tool of an installed package, in its default binding, ready to be called.

        The bytes are read and admitted again, so that what runs is what was checked.

        :raises ZeroclawError: the package has no tool, was changed since it was found, or does not load.
        """
        package = self._read(installed)
        scope = InstanceScope.admit(InstanceIdentity.default_tool(installed.name), package.manifest)
        return ToolPlugin.load(self.sandbox, package, scope, self._services, self.limits, progress=on_compile)

    def load_channel(
        self, installed: InstalledPackage, binding: str, *, on_compile: CompileProgress | None = None
    ) -> ChannelPlugin:
        """The channel of an installed package under a binding, configured and ready to be used. Close it when it is not
        needed any more.

        The bytes are read and admitted again, so that what runs is what was checked.

        :param binding: the alias the operator gave it; never a name of the package's own (PLG-134).
        :raises ZeroclawError: the package has no channel, was changed since it was found, or does not load.
        """
        package = self._read(installed)
        identity = InstanceIdentity(installed.name, Capability.CHANNEL, binding)
        scope = InstanceScope.admit(identity, package.manifest)
        channel = ChannelPlugin.load(
            self.sandbox, package, scope, self._services, self.limits, progress=on_compile
        )
        self._warm.add(channel)
        return channel

    def load_memory(
        self,
        installed: InstalledPackage,
        binding: str | None = None,
        *,
        on_compile: CompileProgress | None = None,
    ) -> MemoryPlugin:
        """The memory of an installed package, empty and ready to be used. Close it when it is not needed any more.

        The bytes are read and admitted again, so that what runs is what was checked.

        :param binding: the name it is used under; the package's when left out.
        :raises ZeroclawError: the package has no memory, was changed since it was found, or does not load.
        """
        package = self._read(installed)
        identity = InstanceIdentity(installed.name, Capability.MEMORY, binding or installed.name)
        scope = InstanceScope.admit(identity, package.manifest)
        memory = MemoryPlugin.load(
            self.sandbox, package, scope, self._services, self.limits, progress=on_compile
        )
        self._warm.add(memory)
        return memory

    def tools(self) -> list[ToolPlugin]:
        """The tools of all installed packages, by package name.

        :raises ZeroclawError: one of them does not load. A program that wants the others loads them one by one.
        """
        return [
            self.load_tool(installed)
            for installed in self.discover().packages
            if Capability.TOOL in installed.manifest.capabilities
        ]

    def improvable(self) -> tuple[InstalledPackage, ...]:
        """The packages in use whose instances would start sooner after :meth:`improve`, by name."""
        sandbox = self._sandbox
        digests = frozenset[str]() if sandbox is None else sandbox.improvable()
        found = [package for package in self._loaded.copy().values() if package.component_sha256 in digests]
        return tuple(sorted(found, key=lambda package: package.name))

    def improve(self, installed: InstalledPackage, *, on_compile: CompileProgress | None = None) -> None:
        """Compile a package that runs in the form that was there soonest in the one that runs best, and change to that.

        Takes as long as compiling a first Python plugin, at low priority, and disturbs no call. For one at a time.

        :param on_compile: told the seconds spent so far; whoever raises there gives it up.
        :raises ZeroclawError: the package was changed, or :meth:`Sandbox.improve` failed; it runs on as it did.
        """
        sandbox = self._sandbox
        if sandbox is None:
            return
        package = installed.read()
        if package.component is not None:
            sandbox.improve(package.component, sha256=package.component_sha256, progress=on_compile)

    @property
    def sandbox(self) -> Sandbox:
        """The engine all plugins share, started when it is first needed."""
        with self._starting:
            if self._sandbox is None:
                self._sandbox = self._open_sandbox()
            return self._sandbox

    @property
    def started(self) -> bool:
        """Whether an engine is running."""
        return self._sandbox is not None

    def close(self) -> None:
        """End every call, stop the engine, and write what its plugins logged. What was loaded can no longer be called."""
        with self._starting:
            for plugin in list(self._warm):
                plugin.close()
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, installed: InstalledPackage) -> AdmittedPackage:
        """The bytes of a package that is about to be loaded, and a note of where they came from."""
        package = installed.read()
        self._loaded[installed.name] = installed
        return package

    def _open(
        self, source: str, registry: RegistryClient | None, progress: DownloadProgress | None
    ) -> PackageReader:
        parsed = parse_source(source)
        if isinstance(parsed, LocalSource):
            return parsed.open()
        if registry is None:
            raise RegistryNotNamed(
                f"{parsed.spec} is no path, so it would be looked up in a registry, and none is named",
                remedy=Remedy(RemedyAction.NAME_REGISTRY),
            )
        with account(self._journal, Action.INSTALL, parsed.spec.name, source=str(registry.location)):
            return registry.open(parsed.spec, progress=progress)

    def _check_installed(self, installed: InstalledPackage) -> LoadVerdict:
        try:
            package = installed.read()
        except ZeroclawError as error:
            return LoadVerdict(loads=False, causes=(error.message, *error.causes()), error=error)
        return self.check_package(package)
