"""The function of ``redact`` as a tool of an MCP server on standard input and output. Runs with the plugin's code on its path."""

from __future__ import annotations

from masking import mask
from mcp.server import MCPServer

server = MCPServer("redact")


@server.tool()
def redact(text: str) -> str:
    """Masks what must not be shown in a text."""
    masked, _ = mask(text, "[redacted]", emails=True, literals=[])
    return masked


if __name__ == "__main__":
    server.run(transport="stdio")
