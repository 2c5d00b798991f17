"""The tools that come with the daemon (D-31). They are tools like those of plugins: the same kind, the same way to run."""

from __future__ import annotations

from typing import Final

from zeroclaw_daemon.agent.built_in.bash import Bash
from zeroclaw_daemon.agent.built_in.planning import Plan
from zeroclaw_daemon.agent.built_in.questions import AskUser, Poll
from zeroclaw_host.worlds.kinds import Tool

BUILT_IN_TOOLS: Final[tuple[Tool, ...]] = (AskUser(), Bash(), Plan(), Poll())
"""All of them, by name."""
