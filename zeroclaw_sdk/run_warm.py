"""Calling a built channel or memory: one instance, any number of calls, each as a host makes it."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio

from zeroclaw_host.contract import FlagsType, contract
from zeroclaw_host.errors import UsageError, ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.inbound import QueuedMessage
from zeroclaw_host.services.logging import CallSite, LogRecord
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import Channel, Memory
from zeroclaw_host.worlds.memory import MemoryPlugin
from zeroclaw_sdk.arguments import arguments_of, value_of
from zeroclaw_sdk.run import other_logs
from zeroclaw_sdk.trial import run_help, trial_services
from zeroclaw_sdk.trial_network import Reach, Refusal, TrialNetwork

BINDING: Final = "run"
"""The alias of a channel or memory that is only tried."""

_KINDS: Final[Mapping[Capability, type[Channel] | type[Memory]]] = {
    Capability.CHANNEL: Channel,
    Capability.MEMORY: Memory,
}
_NO_CALLS: Final = frozenset({"aclose"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a function of the kind's base class, and its arguments."""

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallReport:
    """What one call did."""

    function: str
    result: object
    error: ZeroclawError | None
    default: bool
    """Whether the plugin does not claim the function, so that the host answered for it."""
    milliseconds: float


@dataclass(frozen=True, slots=True)
class WarmReport:
    """What all calls did; the last one is the one that failed, if one did."""

    name: str
    capabilities: tuple[str, ...]
    calls: tuple[CallReport, ...]
    logs: tuple[LogRecord, ...]
    refusals: tuple[Refusal, ...] = ()
    """Connections that were not permitted."""

    def other_logs(self) -> tuple[LogRecord, ...]:
        """See :func:`~zeroclaw_sdk.run.other_logs`."""
        return other_logs(self.logs, self.calls[-1].error if self.calls else None)


def functions_of(capability: Capability) -> tuple[str, ...]:
    """The functions that can be called, in the order in which they are declared."""
    return tuple(
        name
        for name, function in vars(_KINDS[capability]).items()
        if inspect.iscoroutinefunction(function) and not name.startswith("_") and name not in _NO_CALLS
    )


def parse_calls(text: str, capability: Capability) -> tuple[Call, ...]:
    """Calls from JSON: an object whose members are functions and their arguments, or an array of such objects.

    :raises UsageError: it is something else, or names a function or parameter that there is not.
    :raises StorageError: a file that is named cannot be read.
    """
    value = _json(text)
    objects = cast("list[object]", value) if isinstance(value, list) else [value]
    calls: list[Call] = []
    known = functions_of(capability)
    for each in objects:
        if not isinstance(each, dict):
            raise UsageError("calls are JSON objects, such as '{\"health_check\": {}}'", remedy=run_help())
        for name, arguments in cast("dict[str, object]", each).items():
            function = name.replace("-", "_")
            if function not in known:
                raise UsageError(
                    f"a {capability.value} has no function {name}; there are {', '.join(known)}",
                    remedy=run_help(),
                )
            if not isinstance(arguments, dict):
                raise UsageError(f"the arguments of {function} are a JSON object", remedy=run_help())
            method = getattr(_KINDS[capability], function)
            calls.append(Call(function, arguments_of(method, cast("dict[str, object]", arguments))))
    return tuple(calls)


def parse_inbound(text: str) -> tuple[QueuedMessage, ...]:
    """Messages that a listener is to have received, from JSON: an object, or an array of objects. ``content`` is all that a
    message needs.

    :raises UsageError: it is something else.
    """
    value = _json(text)
    objects = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple(_message(each, index) for index, each in enumerate(objects, 1))


def _message(value: object, number: int) -> QueuedMessage:
    if not isinstance(value, dict):
        raise UsageError('a message is a JSON object, such as \'{"content": "hi"}\'', remedy=run_help())
    given = cast("dict[str, object]", value)
    sender = given.get("sender", "somebody")
    usual = {
        "id": str(number),
        "sender": sender,
        "reply_target": sender,
        "channel": "plugin",
        "channel_alias": BINDING,
        "timestamp": time.time_ns() // 1_000_000,
    }
    return cast("QueuedMessage", value_of(QueuedMessage, usual | given, "message"))


def run_calls(
    package: AdmittedPackage,
    capability: Capability,
    calls: Sequence[Call],
    sandbox: Sandbox,
    *,
    config: Mapping[str, str] | None = None,
    inbound: Sequence[QueuedMessage] = (),
    limits: Limits | None = None,
    reach: Reach | None = None,
) -> WarmReport:
    """Load a package's channel or memory and make the calls, one after the other, until one fails.

    :param config: values as an operator stores them: texts as they are, everything else as JSON text.
    :param inbound: messages that wait in the host's queue when the first call comes.
    :param reach: what it may connect to; nothing when left out.
    :raises ConfigInvalid: the configuration does not fit the schema.
    :raises UsageError: there is configuration, and the package declares none.
    :raises InboundRefused: there are more messages than the queue takes.
    :raises ZeroclawError: the component does not load, or refuses to start.
    """
    identity = InstanceIdentity(package.name, capability, BINDING)
    scope = InstanceScope.admit(identity, package.manifest)
    network = TrialNetwork(reach or Reach())
    services, log = trial_services(package, scope, config, network)
    for message in inbound:
        services.inbound.put(identity, message)
    kind = ChannelPlugin if capability is Capability.CHANNEL else MemoryPlugin
    plugin = kind.load(sandbox, package, scope, services, limits or Limits())
    flags = plugin.metadata.capabilities if isinstance(plugin, ChannelPlugin) else plugin.capabilities
    unclaimed = _flags(capability) - flags
    try:
        reports = anyio.run(_make, plugin, calls, unclaimed)
    finally:
        plugin.close()
    return WarmReport(plugin.name, tuple(sorted(flags)), tuple(reports), tuple(log.records), network.refusals)


async def _make(
    plugin: ChannelPlugin | MemoryPlugin, calls: Sequence[Call], unclaimed: frozenset[str]
) -> list[CallReport]:
    reports: list[CallReport] = []
    call_site = CallSite({"caller": "zeroclaw-plugin run"})
    for call in calls:
        started = time.perf_counter()
        result: object = None
        failure: ZeroclawError | None = None
        try:
            result = await getattr(plugin, call.function)(**call.arguments, call_site=call_site)
        except ZeroclawError as error:
            failure = error
        milliseconds = (time.perf_counter() - started) * 1000
        default = _flag(call.function) in unclaimed
        reports.append(CallReport(call.function, result, failure, default, milliseconds))
        if failure is not None:
            break
    return reports


def _flag(function: str) -> str:
    """The capability flag of an optional function."""
    return "webhook-ingress" if "webhook" in function else function.replace("_", "-")


def _flags(capability: Capability) -> frozenset[str]:
    word = capability.value
    read = contract().interface(f"zeroclaw:plugin/{word}").functions[f"get-{word}-capabilities"]
    assert isinstance(read.result, FlagsType)
    return frozenset(read.result.labels)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"that is not JSON: {error}", remedy=run_help()) from error
