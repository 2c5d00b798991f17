"""The tool ``bash``: one command of a shell in the session's working directory (D-31)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, cast

from zeroclaw_daemon.agent.approval_policy import Reach
from zeroclaw_daemon.agent.built_in.base import BuiltIn
from zeroclaw_daemon.agent.built_in.shell import Ended, run
from zeroclaw_daemon.agent.providers.base import ToolSpec
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_host.worlds.kinds import ToolResult

DEFAULT_SECONDS: Final = 120
MAX_SECONDS: Final = 600
MAX_COMMAND_CHARACTERS: Final = 100_000

_INHERITED: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "XDG_RUNTIME_DIR"}
)
"""What a command gets of the daemon's own environment, besides ``LC_*``. The rest may hold secrets of the configuration."""


class Bash(BuiltIn):
    """Runs a command with the rights of the daemon's user."""

    spec = ToolSpec(
        name="bash",
        description=(
            "Run a command with bash in the working directory of the session, and read what it prints. It has no input, and what it "
            "leaves running in the background is ended with it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "maxLength": MAX_COMMAND_CHARACTERS},
                "timeout_secs": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_SECONDS,
                    "description": f"Seconds after which the command is ended. Left out: {DEFAULT_SECONDS}.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    )
    reach = Reach.SYSTEM

    async def perform(self, arguments: Mapping[str, object], site: TurnSite) -> ToolResult:
        """Run it.

        :raises ShellUnavailable: no shell could be started.
        """
        around = site.surroundings
        seconds = int(cast("int", arguments.get("timeout_secs", DEFAULT_SECONDS)))
        ended = await run(
            cast("str", arguments["command"]),
            directory=around.workspace,
            environment={**inherited(os.environ), **around.environment},
            seconds=seconds,
            clock=around.clock,
        )
        return _result(ended, seconds)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the daemon's environment that commands see."""
    return {name: value for name, value in environ.items() if name in _INHERITED or name.startswith("LC_")}


def _result(ended: Ended, seconds: int) -> ToolResult:
    if ended.status is None:
        return ToolResult(False, ended.output, f"the command was ended after {seconds} seconds")
    if ended.status < 0:
        return ToolResult(False, ended.output, f"the command was ended by signal {-ended.status}")
    if ended.status:
        return ToolResult(False, ended.output, f"the command ended with status {ended.status}")
    return ToolResult(True, ended.output)
