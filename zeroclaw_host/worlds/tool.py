"""A plugin's tool: a new guest for every call (PLG-030, PLG-105)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self, cast

from zeroclaw_host.errors import GuestFailure, UsageError
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.compiling.compile import Progress
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.instance import PluginInstance
from zeroclaw_host.worlds.kinds import Tool, ToolResult
from zeroclaw_host.worlds.loading import link_package
from zeroclaw_host.worlds.surface import http_of

CONFIG_MEMBER: Final = "__config"
"""The member of the arguments that carries public configuration. The host's alone: a caller's is removed."""

_INTERFACE: Final = "zeroclaw:plugin/tool"


@dataclass(frozen=True, slots=True)
class ToolMetadata:
    """What a tool says about itself, read once when it is loaded."""

    name: str
    description: str
    parameters_schema: Mapping[str, object]


class ToolPlugin(Tool):
    """One tool instance of one package."""

    def __init__(
        self,
        sandbox: Sandbox,
        linked: LinkedComponent,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        metadata: ToolMetadata,
    ) -> None:
        self._sandbox = sandbox
        self._linked = linked
        self._scope = scope
        self._services = services
        self._limits = limits
        self._metadata = metadata

    @classmethod
    def load(
        cls,
        sandbox: Sandbox,
        package: AdmittedPackage,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        *,
        progress: Progress | None = None,
    ) -> Self:
        """Link the package's component, resolve its configuration once, and read the tool's metadata.

        :param scope: a tool instance of that package.
        :param progress: told the seconds spent while the component is compiled for the first time.
        :raises ConfigInvalid: the instance's configuration does not satisfy the package's schema.
        :raises ComponentMismatch: the component does not fit the tool world.
        :raises PluginError: the guest failed while it was asked for its metadata.
        :raises GuestFailure: its parameters schema is no JSON object.
        """
        linked = link_package(sandbox, package, scope, progress=progress)
        frame = CallFrame(scope=scope, services=services, limits=limits, http=http_of(scope, services))
        metadata = sandbox.threads.run(frame, lambda: _read_metadata(sandbox, linked, frame))
        return cls(sandbox, linked, scope, services, limits, metadata)

    @property
    def name(self) -> str:
        """See :attr:`Tool.name`."""
        return self._metadata.name

    @property
    def description(self) -> str:
        """See :attr:`Tool.description`."""
        return self._metadata.description

    @property
    def parameters_schema(self) -> Mapping[str, object]:
        """See :attr:`Tool.parameters_schema`."""
        return self._metadata.parameters_schema

    @property
    def scope(self) -> InstanceScope:
        """The instance this tool is, and what it may do."""
        return self._scope

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        """Run the tool once, on a guest thread. Cancelling the task ends the guest at the next epoch tick.

        :raises ConfigInvalid: the configuration does not satisfy the schema; no guest code was loaded.
        :raises UsageError: the arguments are no JSON object.
        :raises GuestFailure: the guest answered with an error.
        :raises PluginError: the call ended without an answer; the subclass says why.
        """
        frame = self._frame(call_site)
        return await self._sandbox.threads.run_async(frame, lambda: self._call(frame, arguments))

    def execute_sync(
        self,
        arguments: Mapping[str, object],
        *,
        call_site: CallSite | None = None,
        meter: Callable[[int], None] | None = None,
    ) -> ToolResult:
        """The same for callers without an event loop; blocks this thread while a guest thread works.

        :param meter: told the units of fuel that the call used, however it ended.
        """
        frame = self._frame(call_site)
        return self._sandbox.threads.run(frame, lambda: self._call(frame, arguments, meter))

    def _frame(self, call_site: CallSite | None) -> CallFrame:
        return CallFrame(
            scope=self._scope,
            services=self._services,
            limits=self._limits,
            phase=Phase.TOOL_EXECUTE,
            call_site=call_site,
            http=http_of(self._scope, self._services),
        )

    def _call(
        self,
        frame: CallFrame,
        arguments: Mapping[str, object],
        meter: Callable[[int], None] | None = None,
    ) -> ToolResult:
        text = _encode(frame, arguments)
        with PluginInstance(self._sandbox, self._linked, frame, interface=_INTERFACE) as instance:
            try:
                answer = instance.call(frame, "execute", text)
            finally:
                if meter is not None:
                    meter(frame.limits.call_fuel - instance.fuel_left())
        return _result(answer)


def _read_metadata(sandbox: Sandbox, linked: LinkedComponent, frame: CallFrame) -> ToolMetadata:
    frame.config()
    with PluginInstance(sandbox, linked, frame, interface=_INTERFACE) as instance:
        ask = instance.asker(frame)
        name, description, schema = (
            cast("str", ask(function)) for function in ("name", "description", "parameters-schema")
        )
    if not name:
        raise GuestFailure("the plugin's tool has no name")
    return ToolMetadata(name, description, _json_object(schema))


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


def _json_object(text: str) -> Mapping[str, object]:
    try:
        found: object = json.loads(text, parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode()  # an escape may hide what no text can hold
    except (ValueError, RecursionError) as error:
        raise GuestFailure("the plugin's parameters schema is not valid JSON") from error
    if not isinstance(found, dict):
        raise GuestFailure("the plugin's parameters schema is not a JSON object")
    return cast("Mapping[str, object]", found)


def _encode(frame: CallFrame, arguments: Mapping[str, object]) -> str:
    """The arguments as the guest gets them, with the host's configuration and nobody else's."""
    if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - they come from a model
        raise UsageError("a tool's arguments are a JSON object")
    members = {name: value for name, value in arguments.items() if name != CONFIG_MEMBER}
    public = frame.config().public
    if public and frame.scope.grants_permission(Permission.CONFIG_READ):
        members[CONFIG_MEMBER] = dict(public)
    try:
        text = json.dumps(members, ensure_ascii=False, allow_nan=False)
        text.encode()  # a model's escapes may make what no text can hold
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError("a tool's arguments are JSON values only") from error


def _result(answer: object) -> ToolResult:
    match answer:
        case Ok({"success": bool() as success, "output": str() as output, "error": str() | None as error}):
            return ToolResult(success, output, error)
        case Err(str() as message):
            raise GuestFailure(message or "the plugin answered with an error without a text")
        case _:
            raise GuestFailure("the plugin's answer is not what the contract says")
