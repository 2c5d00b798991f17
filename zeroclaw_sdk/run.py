"""Calling a built plugin once, in the sandbox, on its author's machine."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zeroclaw_host.errors import PluginError, UsageError, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.logging import CallSite, LogRecord
from zeroclaw_host.worlds.kinds import ToolResult
from zeroclaw_host.worlds.tool import ToolPlugin
from zeroclaw_sdk.files import read_file
from zeroclaw_sdk.trial import run_help, trial_services
from zeroclaw_sdk.trial_network import Reach, Refusal, TrialNetwork


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one call did. ``result`` is None when it did not end with one; then ``error`` says why."""

    result: ToolResult | None
    error: ZeroclawError | None
    logs: tuple[LogRecord, ...]
    milliseconds: float
    fuel: int | None
    """Units of guest work; None when the guest was not called."""
    refusals: tuple[Refusal, ...] = ()
    """Connections that were not permitted."""

    def other_logs(self) -> tuple[LogRecord, ...]:
        """See :func:`other_logs`."""
        return other_logs(self.logs, self.error)


def other_logs(logs: tuple[LogRecord, ...], error: ZeroclawError | None) -> tuple[LogRecord, ...]:
    """The records that say something else than the error does: not the plugin's own record of it, nor what its language
    printed as it died, where the error holds that."""
    if error is None:
        return logs
    printed = isinstance(error, PluginError) and bool(error.details.get("stderr"))
    return tuple(
        record
        for record in logs
        if record.message != error.message and not (printed and record.source == "stderr")
    )


def run(
    package: AdmittedPackage,
    arguments: Mapping[str, object],
    sandbox: Sandbox,
    *,
    config: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    reach: Reach | None = None,
) -> RunReport:
    """Load a package's tool and call it once.

    :param config: values as an operator stores them: texts as they are, everything else as JSON text.
    :param reach: what it may connect to; nothing when left out.
    :raises ConfigInvalid: the configuration does not fit the schema.
    :raises UsageError: there is configuration, and the package declares none; or an entry of ``reach`` is no host.
    :raises ZeroclawError: the component does not load.
    """
    scope = InstanceScope.admit(InstanceIdentity.default_tool(package.manifest.name), package.manifest)
    network = TrialNetwork(reach or Reach())
    services, sink = trial_services(package, scope, config, network)
    plugin = ToolPlugin.load(sandbox, package, scope, services, limits or Limits())
    started = time.perf_counter()
    result: ToolResult | None = None
    failure: ZeroclawError | None = None
    used: list[int] = []
    try:
        call_site = CallSite({"caller": "zeroclaw-plugin run"})
        result = plugin.execute_sync(arguments, call_site=call_site, meter=used.append)
    except ZeroclawError as error:
        failure = error
    return RunReport(
        result,
        failure,
        tuple(sink.records),
        (time.perf_counter() - started) * 1000,
        used[0] if used else None,
        network.refusals,
    )


def parse_arguments(text: str) -> Mapping[str, object]:
    """The arguments object of a call.

    :raises UsageError: the text is no JSON object.
    """
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the arguments are not JSON: {error}", remedy=run_help()) from error
    if not isinstance(value, dict):
        raise UsageError(
            'the arguments must be a JSON object, such as \'{"name": "Ada"}\'', remedy=run_help()
        )
    return cast("dict[str, object]", value)


def parse_setting(text: str) -> tuple[str, str]:
    """A ``key=value`` of the command line.

    :raises UsageError: there is no ``=`` or no key.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("a configuration value is written as key=value", remedy=run_help())
    return name, value


def read_config_file(path: Path) -> dict[str, str]:
    """Configuration values from a TOML or JSON file, as an operator would store them.

    :raises UsageError: the file is neither, or holds no table.
    :raises StorageError: it cannot be read.
    """
    try:
        text = read_file(path).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    try:
        values: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is neither TOML nor (named .json) JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path} holds no table of values")
    table = cast("dict[str, object]", values)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in table.items()}
