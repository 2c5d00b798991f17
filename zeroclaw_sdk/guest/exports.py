"""What a built component exports, made from the author's module.

``zeroclaw-plugin build`` generates the entry module that calls :func:`export_tool`; an author never does. It runs once,
while the component is built, so every mistake in a definition ends the build and not a call.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import Any

from zeroclaw_sdk.guest import log
from zeroclaw_sdk.guest.faults import DefinitionInvalid, describe, remember_sources
from zeroclaw_sdk.guest.host import install_host
from zeroclaw_sdk.guest.tool import Tool, ToolDefinition
from zeroclaw_sdk.guest.wit import WitHost, encodable


def find_tool(module: ModuleType) -> type[Tool]:
    """The one tool class of a module.

    :raises DefinitionInvalid: there is none, or more than one.
    """
    classes = {
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Tool) and each is not Tool
    }
    leaves = [
        each
        for each in classes
        if not any(other is not each and issubclass(other, each) for other in classes)
    ]
    match leaves:
        case [tool]:
            return tool
        case []:
            raise DefinitionInvalid(f"{module.__name__} defines no subclass of Tool")
        case _:
            names = ", ".join(sorted(each.__qualname__ for each in leaves))
            raise DefinitionInvalid(f"{module.__name__} must define exactly one tool; it has {names}")


def export_tool(
    module: ModuleType, *, name: str, version: str, config_schema: Mapping[str, Any] | None
) -> tuple[type, type]:
    """The classes that componentize-py looks for: ``PluginInfo`` and ``Tool``.

    :param name, version: the manifest's; they become the plugin's word about itself.
    :param config_schema: the manifest's, compared with the author's config class.
    :raises DefinitionInvalid: the module cannot be turned into exports.
    """
    definition = ToolDefinition(find_tool(module))
    if definition.config is not None and (problems := definition.config.compare(config_schema)):
        raise DefinitionInvalid("; ".join(problems))
    root = str(PurePath(str(module.__file__)).parent)
    remember_sources(root, sys.modules)
    install_host(WitHost())
    return _plugin_info(name, version), _tool(definition, root)


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
