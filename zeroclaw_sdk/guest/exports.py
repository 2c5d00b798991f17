"""What a built component exports, made from the author's module.

``zeroclaw-plugin build`` generates the entry module that calls :func:`export_plugin`; an author never does. It runs once,
while the component is built, so every mistake in a definition ends the build and not a call.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, TypeVar

from zeroclaw_sdk.guest import log
from zeroclaw_sdk.guest.channel import Channel, ChannelDefinition
from zeroclaw_sdk.guest.config import ConfigClass
from zeroclaw_sdk.guest.crossing import case_class
from zeroclaw_sdk.guest.faults import CallError, DefinitionInvalid, GuestFault, describe, remember_sources
from zeroclaw_sdk.guest.functions import Definition, Fault, Function
from zeroclaw_sdk.guest.host import current_host, install_host
from zeroclaw_sdk.guest.imported import encodable
from zeroclaw_sdk.guest.memory import Memory, MemoryDefinition
from zeroclaw_sdk.guest.messages import WebhookRejected, WebhookUnauthorized
from zeroclaw_sdk.guest.tool import Tool, ToolDefinition
from zeroclaw_sdk.guest.wit import WitHost

T = TypeVar("T")


def find_class(module: ModuleType, base: type[T]) -> type[T]:
    """The one class of a module that is a plugin of this kind.

    :raises DefinitionInvalid: there is none, or more than one.
    """
    kind = base.__name__
    classes = {
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, base) and each is not base
    }
    leaves = [
        each
        for each in classes
        if not any(other is not each and issubclass(other, each) for other in classes)
    ]
    match leaves:
        case [found]:
            return found
        case []:
            raise DefinitionInvalid(f"{module.__name__} defines no subclass of {kind}")
        case _:
            names = ", ".join(sorted(each.__qualname__ for each in leaves))
            raise DefinitionInvalid(
                f"{module.__name__} must define exactly one {kind.lower()}; it has {names}"
            )


def export_plugin(
    module: ModuleType,
    *,
    name: str,
    version: str,
    capabilities: Sequence[str],
    config_schema: Mapping[str, Any] | None,
) -> dict[str, type]:
    """The classes that componentize-py looks for in the entry module, by name.

    :param name, version: the manifest's; they become the plugin's word about itself.
    :param capabilities: the manifest's that run code.
    :param config_schema: the manifest's, compared with the author's config class.
    :raises DefinitionInvalid: the module cannot be turned into exports.
    """
    root = str(PurePath(str(module.__file__)).parent)
    exports: dict[str, type] = {"PluginInfo": _plugin_info(name, version)}
    for capability in capabilities:
        exports[capability.capitalize()] = _export(capability, module, root, config_schema)
    remember_sources(root, sys.modules)
    install_host(WitHost())
    return exports


def _export(capability: str, module: ModuleType, root: str, config_schema: Mapping[str, Any] | None) -> type:
    match capability:
        case "tool":
            tool = ToolDefinition(find_class(module, Tool))
            _compare_config(tool.config, config_schema)
            return _tool(tool, root)
        case "channel":
            channel = ChannelDefinition(find_class(module, Channel))
            _compare_config(channel.config, config_schema)
            return _warm(channel, capability, root)
        case "memory":
            return _warm(MemoryDefinition(find_class(module, Memory)), capability, root)
        case _:
            raise DefinitionInvalid(f"a {capability} is nothing that is built from code")


def _compare_config(config: ConfigClass | None, schema: Mapping[str, Any] | None) -> None:
    if config is not None and (problems := config.compare(schema)):
        raise DefinitionInvalid("; ".join(problems))


def _plugin_info(name: str, version: str) -> type:
    class PluginInfo:
        def plugin_name(self) -> str:
            return name

        def plugin_version(self) -> str:
            return version

    return PluginInfo


def _tool(definition: ToolDefinition, root: str) -> type:
    schema = json.dumps(definition.parameters_schema)
    result: Any = import_module("wit_world.exports.tool").ToolResult
    err: Any = import_module("componentize_py_types").Err

    class ToolExports:
        def name(self) -> str:
            return definition.name

        def description(self) -> str:
            return definition.description

        def parameters_schema(self) -> str:
            return schema

        def execute(self, args: str) -> object:
            try:
                outcome = definition.call(args)
                return result(outcome.success, encodable(outcome.output), _optional(outcome.error))
            except BaseException as error:  # noqa: BLE001  # whatever leaves an export aborts the guest wordlessly
                text = encodable(describe(error, root))
                log.error(
                    text, action=log.Action.FAIL, outcome=log.Outcome.FAILURE, function=definition.function
                )
            raise err(text)

    return ToolExports


def _optional(text: str | None) -> str | None:
    return None if text is None else encodable(text)


def _warm(definition: Definition, interface: str, root: str) -> type:
    """The exports of a kind whose one instance answers all calls."""
    wit: Any = import_module(f"wit_world.exports.{interface}")
    generated: Any = getattr(wit, f"{interface.capitalize()}Capabilities")
    capabilities = generated(0)
    for flag in definition.flags:
        capabilities |= generated[flag.upper().replace("-", "_")]
    members: dict[str, Callable[..., object]] = {
        "name": _answering(definition.name),
        f"get_{interface}_capabilities": _answering(capabilities),
    } | {each: _answering(False) for each in _NEVER_ASKED}
    for each in definition.functions.values():
        members[each.name] = _function(definition, each, wit, root)
    return type(f"{interface.capitalize()}Exports", (), members)


_NEVER_ASKED: Final = ("drop_self_message", "supports_multi_message_streaming")
"""Functions that a channel has to export and the host never calls: it compares senders itself, and streams by drafts."""


def _answering(value: object) -> Callable[..., object]:
    def answer(_self: object, *_: object) -> object:
        return value

    return answer


def _function(definition: Definition, function: Function, wit: Any, root: str) -> Callable[..., object]:
    """One export: converts both ways, and lets no exception out that the generated code cannot report."""
    err: Any = import_module("componentize_py_types").Err
    label = f"{definition.cls.__qualname__}.{function.name}"
    crossings = tuple(function.parameters.values())
    fault = function.mark.fault

    def call(_self: object, *arguments: object) -> object:
        # The instance lives on from call to call, and each has a budget of its own.
        current_host().network.looked = 0
        try:
            given = [crossing.inward(each) for crossing, each in zip(crossings, arguments, strict=True)]
            return function.result.outward(definition.call(function.name, *given), wit)
        except BaseException as error:  # what the generated code cannot pass on aborts the guest wordlessly
            if fault is Fault.WEBHOOK and isinstance(error, WebhookRejected):
                word = "unauthorized" if isinstance(error, WebhookUnauthorized) else "bad-request"
                answer = case_class(wit, "WebhookRejection", word)(encodable(str(error)))
            elif fault is Fault.NONE and isinstance(error, CallError):
                _report(error, root, label)
                return None
            elif fault in (Fault.ANSWER, Fault.FALSE):
                answer = _report(error, root, label)
                if fault is Fault.FALSE:
                    return False
            elif isinstance(error, Exception) and not isinstance(error, err):
                raise  # the host reads type, message and traceback off the interpreter's last words
            else:
                raise GuestFault(encodable(describe(error, root))) from None
        raise err(answer)

    return call


def _report(error: BaseException, root: str, label: str) -> str:
    """Write what a function failed with to the log; the same text for an answer."""
    if isinstance(error, CallError):
        text = encodable(str(error) or type(error).__name__)
        log.warn(text, action=log.Action.REJECT, outcome=log.Outcome.FAILURE, function=label)
    else:
        text = encodable(describe(error, root))
        log.error(text, action=log.Action.FAIL, outcome=log.Outcome.FAILURE, function=label)
    return text
