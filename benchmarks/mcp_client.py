"""A tool of an MCP server as an agent without this host would call it: one session, kept open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from benchmarks.plugin import SOURCES

_SERVER = Path(__file__).with_name("mcp_server.py")

Call = Callable[[Mapping[str, object]], str]
"""Calls the tool with arguments and returns its text."""


@contextmanager
def warm_tool(name: str) -> Generator[Call]:
    """A tool of the server, called through a session that lasts as long as the block."""
    server = StdioServerParameters(
        # -P, because modules beside the server have names of the standard library.
        command=sys.executable,
        args=["-P", str(_SERVER)],
        env={"PYTHONPATH": str(SOURCES["redact"])},
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:

        async def ask(arguments: Mapping[str, object]) -> str:
            result = await client.call_tool(name, dict(arguments))
            return cast("TextContent", result.content[0]).text

        yield lambda arguments: portal.call(ask, arguments)
