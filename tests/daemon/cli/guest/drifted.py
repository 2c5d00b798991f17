"""A tool that is built against a contract which is not quite this host's."""

from wit_world import exports
from wit_world.exports.tool import ToolResult
from wit_world.imports import logging


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "drifted"

    def plugin_version(self):
        return "1.0.0"


class Tool(exports.Tool):
    def name(self):
        return "drifted"

    def description(self):
        return "Was built elsewhere."

    def parameters_schema(self):
        return "{}"

    def execute(self, args):
        event = logging.PluginEvent("execute", logging.PluginAction.NOTE, None, None, None, args)
        logging.log_record(logging.LogLevel.INFO, event)
        return ToolResult(True, args, None)
