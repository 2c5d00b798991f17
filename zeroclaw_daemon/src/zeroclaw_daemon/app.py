"""The daemon, wired: configuration, log, plugins, agents and the endpoint.

This is the one place that knows all of them.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_daemon.activation.current import Activation
from zeroclaw_daemon.activation.standing import PluginsReports, plugins_state
from zeroclaw_daemon.agents import ConfiguredAgents, settings_of
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.installation_key import installation_key
from zeroclaw_daemon.config.network import findings
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.config.saving import storage_error
from zeroclaw_daemon.config.schema import Gateway
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_daemon.config.strays import strays
from zeroclaw_daemon.daemon_log import DaemonLogHandler, LogFile, guest_log
from zeroclaw_daemon.entry_properties import EntryProperties
from zeroclaw_daemon.leaves import unwrapped
from zeroclaw_daemon.network.dialer import network_of
from zeroclaw_daemon.network.log import NetworkLog
from zeroclaw_daemon.network.usage_file import UsageUnavailable
from zeroclaw_daemon.network.usage_ledger import UsageLedger
from zeroclaw_daemon.plugin_improvement import PluginImprovement
from zeroclaw_daemon.plugin_tools import PluginTools
from zeroclaw_daemon.plugins import installed
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.limits import REMOTE_REFUSAL_SECONDS, ServerLimits
from zeroclaw_daemon.rpc.methods.config import ConfigMethods
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.absent import AbsentListener, GatewayNotInstalled
from zeroclaw_daemon.rpc.transport.base import Listener
from zeroclaw_daemon.rpc.transport.endpoint import listener_at
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_daemon.terminal import Terminal, TerminalHandler, told
from zeroclaw_host.errors import Remedy, RemedyAction, StorageError, ZeroclawError
from zeroclaw_host.private_files import DIRECTORY_MODE, make_private
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.state_store import DurableState

SWITCH_SECONDS: Final = 0.0005
"""How long a thread of the daemon may keep the interpreter from another that waits for it. Guests run on threads and need
it at each host call; with Python's own 5 ms, one busy thread makes a short call several times as long.
"""

_LOGGERS: Final = ("zeroclaw_daemon", "zeroclaw_host")

logger = logging.getLogger(__name__)


def run(paths: Paths, env: Mapping[str, str], *, ephemeral: bool = False) -> None:
    """Run the daemon until SIGINT or SIGTERM.

    :param ephemeral: end as well when the last client has gone (RPC-217).
    :raises ZeroclawError: it cannot start: a configuration that cannot be used, an endpoint that cannot be had.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with Daemon(paths, env, ephemeral=ephemeral) as daemon, unwrapped():
        anyio.run(daemon.serve)


class Daemon:
    """One daemon, from its log to its endpoint. Entered, everything but the endpoint is there."""

    def __init__(self, paths: Paths, env: Mapping[str, str], *, ephemeral: bool = False) -> None:
        self._paths = paths
        self._ephemeral = ephemeral
        self._env = env
        self._undo = ExitStack()
        self._load_again: Callable[[], object] = lambda: None
        self._providers: Callable[[Snapshot], Sequence[JsonValue]] = lambda _: ()
        self._plugins_reports = PluginsReports()

    def __enter__(self) -> Daemon:
        with ExitStack() as undo:
            _prepare_data_dir(Path(self._paths.data_dir))
            self._terminal = Terminal()
            undo.callback(self._terminal.close)
            log = undo.enter_context(_log_to(Path(self._paths.log_file), self._terminal, self._paths))
            guests = guest_log(log)
            undo.callback(guests.close)
            self._config = ConfigSource(
                Path(self._paths.config_file), self._env, on_error=_report_error, on_change=_report_snapshot
            )
            _report_snapshot(self._config.current())
            self._paired = PairedTokens(Path(self._paths.tokens_file), on_error=_report_tokens)
            self._paired.valid()  # What is wrong with them is said at the start.
            key_file = installation_key(self._paths)
            if key_file.rotating:
                _report_rotation()
            self._store = ConfigStore(
                self._config,
                key_file,
                checks=lambda: EntryProperties(self._config.current, self._paths).check,
            )
            state = DurableState(Path(self._paths.state_file), key_file, report=_report_state)
            undo.callback(state.close)
            usage = UsageLedger(Path(self._paths.usage_file), report=_report_usage)
            undo.callback(usage.close)
            network_log = _network_log(log, usage, self._terminal, self._paths)
            undo.callback(network_log.close)
            services = InstanceServices(
                config=EntryResolver(self._config.current, key_file),
                log=guests,
                state=state,
                network=network_of(self._config.current, network_log),
            )
            self._improvement = PluginImprovement(lambda: self._tools.host)
            self._activation = Activation(lambda snapshot: installed(snapshot, self._paths))
            self._tools = PluginTools(
                self._paths,
                services,
                on_load=self._improvement.look,
                channels=self._activation.channels,
            )
            undo.callback(self._tools.close)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._undo.close()

    async def serve(self) -> None:
        """Serve the endpoint until a signal says otherwise."""
        snapshot = self._config.current()
        agents = ConfiguredAgents(self._config.current, self._paths, self._tools)
        self._providers = agents.models.facts
        authority = RosterAuthority.over(self._config, self._paired, os.geteuid())
        durable = DurableSessions.at(Path(self._paths.sessions_dir))
        self._undo.callback(durable.close)
        server = Server(
            listener_at(self._paths.endpoint, data_dir=Path(self._paths.data_dir)),
            agents=agents,
            authority=authority,
            version=version("zeroclaw-daemon"),
            facts=self._facts,
            config=ConfigMethods(self._store, authority, prepare=agents.models.prepare, reload=self.reload),
            limits=ServerLimits(max_connections=snapshot.config.rpc.max_local_connections),
            durable=durable,
            gateway=_gateway(snapshot.config.gateway, self._paths),
            gateway_limits=ServerLimits(
                max_connections=snapshot.config.gateway.max_connections,
                refusal_seconds=REMOTE_REFUSAL_SECONDS,
            ),
        )
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # D-36
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            await anyio.to_thread.run_sync(self._activation.start, snapshot)
            async with anyio.create_task_group() as tasks:
                self._load_again = lambda: tasks.start_soon(self._load_tools)
                await tasks.start(server.serve)
                tasks.start_soon(self._load_tools)
                tasks.start_soon(self._improve_plugins)
                self._terminal.say(f"zeroclaw daemon, process {os.getpid()}, serves {self._paths.endpoint}")
                if (gateway := server.gateway_facts())["state"] == "listening":
                    self._terminal.say(f"its gateway listens at {gateway['endpoint']}")
                try:
                    cause = await self._until_told(signals, server)
                    record(
                        logger, logging.INFO, "the daemon ends", action="stop", category="daemon", cause=cause
                    )
                    server.stop()
                finally:  # their threads end only when they are told to
                    self._tools.stop()
                    self._improvement.stop()

    async def _until_told(self, signals: AsyncIterable[signal.Signals], server: Server) -> str:
        """Why the daemon is to end, once it is: a signal's name, or ``no_clients``."""
        causes: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def by_signal() -> None:
                causes.append((await anext(aiter(signals))).name)
                tasks.cancel_scope.cancel()

            async def by_silence() -> None:
                await server.deserted()
                causes.append("no_clients")
                tasks.cancel_scope.cancel()

            tasks.start_soon(by_signal)
            if self._ephemeral:
                tasks.start_soon(by_silence)
        return causes[0]

    async def reload(self) -> dict[str, JsonValue]:
        """Make the activation plan anew from the file as it is, and load tools again (D-36). Calls that run go on.

        :returns: the result of ``config/reload``: what is different, and what is wrong with the file's ``[plugins]``.
        :raises ZeroclawError: the file cannot be used, or the plugins directory not be listed; the plan stays as it is.
        """
        answer = await anyio.to_thread.run_sync(self._reload)
        self._load_again()
        return answer

    def _reload(self) -> dict[str, JsonValue]:
        snapshot = self._config.newest()
        if self._config.error is not None:
            raise self._config.error
        changes = self._activation.reload(snapshot)
        self._tools.refresh()
        return {
            "reloading": True,
            "revision": snapshot.revision,
            "changes": list(changes),
            "problems": [str(problem) for problem in snapshot.problems],
        }

    async def _load_tools(self) -> None:
        """Load what is installed ahead of the first prompt, which then need not wait for it."""
        await anyio.to_thread.run_sync(self._tools.tools, self._config.current())

    async def _improve_plugins(self) -> None:
        """Compile plugins again for speed, behind everything else. Keeps its thread until the daemon ends."""
        await anyio.to_thread.run_sync(self._improvement.run, limiter=anyio.CapacityLimiter(1))

    def _facts(self) -> dict[str, JsonValue]:
        """What ``status`` tells besides the server's own numbers."""
        snapshot = self._config.current()
        problems = [str(problem) for problem in snapshot.problems]
        if self._config.error is not None:
            problems.append(f"{self._config.error.message}; the last good configuration is in force")
        if self._paired.error is not None:
            problems.append(self._paired.error.message)
        in_force = self._activation.in_force
        tools = self._tools.toolset(snapshot)
        plugins = self._plugins_reports.of(in_force, tools, snapshot.config)
        problems.extend(plugins.problems)
        return {
            "configDir": self._paths.config_dir,
            "configFile": str(self._config.path),
            "dataDir": self._paths.data_dir,
            "configRevision": snapshot.revision,
            "agents": sorted(settings_of(snapshot)),
            "providers": self._providers(snapshot),
            "pluginsEnabled": snapshot.config.plugins.enabled,
            "pluginsState": plugins_state(in_force, tools, snapshot).value,
            "tools": list(self._tools.names(snapshot)),
            "plugins": [standing.facts() for standing in plugins.standings],
            "planRevision": in_force.revision,
            "reloadPending": self._activation.waits(snapshot.config),
            "problems": problems,
        }


def _gateway(settings: Gateway, paths: Paths) -> Listener | None:
    """The way in for other machines, as it is configured (D-35)."""
    if not settings.enabled:
        return None
    base = Path(paths.config_dir)
    try:
        from zeroclaw_daemon.rpc.transport.wss import GatewaySettings, WssListener
    except ModuleNotFoundError as error:
        return AbsentListener(
            f"{settings.host}:{settings.port}", GatewayNotInstalled(error.name or "a library")
        )
    certificate, private_key = (
        str(base / Path(path).expanduser()) if path is not None else None
        for path in (settings.certificate, settings.private_key)
    )
    return WssListener(
        GatewaySettings(settings.host, settings.port, certificate, private_key, settings.allowed_origins)
    )


def _prepare_data_dir(path: Path) -> None:
    """The data directory, private (RPC-048)."""
    try:
        make_private(path)
        if path.stat().st_uid == os.geteuid():
            path.chmod(DIRECTORY_MODE)
    except OSError as error:
        raise storage_error(error, str(path), "prepare the data directory") from error


@contextmanager
def _log_to(path: Path, terminal: Terminal, paths: Paths) -> Generator[LogFile]:
    """Everything the daemon and its host log, into its file; warnings on the terminal as well."""
    file = LogFile(path, complain=terminal.say)
    place = _place(paths)
    roots = [logging.getLogger(name) for name in _LOGGERS]
    handlers: list[logging.Handler] = [
        DaemonLogHandler(file, lambda remedy: asdict(advise(remedy, place))),
        TerminalHandler(terminal, place),
    ]
    for root in roots:
        root.setLevel(logging.INFO)
        root.propagate = False
        for handler in handlers:
            root.addHandler(handler)
    try:
        yield file
    finally:
        for root in roots:
            for handler in handlers:
                root.removeHandler(handler)
        with suppress(OSError):
            file.close()


def _network_log(file: LogFile, ledger: UsageLedger, terminal: Terminal, paths: Paths) -> NetworkLog:
    """What becomes of plugins' connections, into the log and the ledger; refusals on the terminal as well."""
    place = _place(paths)
    return NetworkLog(
        file,
        ledger,
        advise=lambda remedy: asdict(advise(remedy, place)),
        tell=lambda words, remedies: terminal.say(told("warning", words, remedies, place)),
    )


def _place(paths: Paths) -> Place:
    """The installation that printed commands name."""
    return Place(paths.config_dir, data_dir_named=paths.data_dir_named)


def _report_error(error: ZeroclawError) -> None:
    record(
        logger, logging.ERROR, f"the configuration cannot be used, the last good one stays: {error.message}",
        action="config_invalid", category="config", outcome="failure", details=dict(error.details), remedy=error.remedy,
    )  # fmt: skip


def _report_tokens(error: ZeroclawError) -> None:
    record(
        logger, logging.ERROR, error.message,
        action="paired_tokens_unusable", category="audit", outcome="failure", details=dict(error.details), remedy=error.remedy,
    )  # fmt: skip


def _report_rotation() -> None:
    record(
        logger, logging.WARNING,
        "a rotation of the key that secrets are sealed with was interrupted; everything can be read",
        action="key_rotation_interrupted", category="config", remedy=Remedy(RemedyAction.ROTATE_SECRETS),
    )  # fmt: skip


def _report_state(error: StorageError) -> None:
    record(
        logger, logging.ERROR, f"plugins' state is not available: {error.message}",
        action="state_unavailable", category="state", outcome="failure",
        details=dict(error.details), remedy=error.remedy,
    )  # fmt: skip


def _report_usage(error: UsageUnavailable) -> None:
    record(
        logger, logging.ERROR, f"what plugins use of the network is not kept: {error.message}",
        action="usage_unavailable", category="egress", outcome="failure",
        details=dict(error.details), remedy=error.remedy,
    )  # fmt: skip


def _report_snapshot(snapshot: Snapshot) -> None:
    record(
        logger, logging.INFO, "a configuration is in force",
        action="config_loaded", category="config", revision=snapshot.revision, path=str(snapshot.path),
    )  # fmt: skip
    for notice in snapshot.notices:
        record(logger, logging.WARNING, notice, action="config_notice", category="config")
    for finding in findings(snapshot.config):
        record(
            logger, logging.WARNING, finding.message,
            action="grant_refused", category="config", property=finding.path,
        )  # fmt: skip
    for stray in strays(snapshot.config):
        record(
            logger, logging.WARNING, stray.message, action="row_not_read", category="config", row=stray.name
        )
    for problem in snapshot.problems:
        record(
            logger, logging.ERROR, f"{problem}; the whole [plugins] section is not in force, and plugins are off",
            action="config_section_dropped", category="config", outcome="failure", property=problem.property,
        )  # fmt: skip
