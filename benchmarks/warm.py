"""A small call of a channel and of a memory, whose guests stay, beside a warm tool of an MCP server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from benchmarks.harness import Measurement, alternate
from benchmarks.mcp_client import warm_tool
from benchmarks.plugin import admitted, compiled_sandbox, scope_of, services_of
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import MemoryCategory, SendMessage
from zeroclaw_host.worlds.memory import MemoryPlugin

GOAL = 0.5
ROUNDS = 200

MESSAGE = SendMessage(content="hello", recipient="ada")
MCP = "MCP over stdio, a small argument, kept warm"


def measure() -> Iterator[Measurement]:
    """Sending and polling, remembering and recalling, each beside the same server."""
    mailbox, notebook = admitted("mailbox"), admitted("notebook")
    with compiled_sandbox(mailbox, notebook) as sandbox, warm_tool("redact") as mcp:
        channel = ChannelPlugin.load(
            sandbox, mailbox, scope_of(mailbox, Capability.CHANNEL), services_of(mailbox), Limits()
        )
        memory = MemoryPlugin.load(
            sandbox, notebook, scope_of(notebook, Capability.MEMORY), services_of(notebook), Limits()
        )
        keys = count()

        async def remember(it: MemoryPlugin) -> None:
            await it.store_entry(f"key {next(keys) % 10}", "a word or two", MemoryCategory.CORE)

        subjects = {
            "channel, send": lambda: channel.run_sync(lambda it: it.send(MESSAGE)),
            "channel, poll with nothing waiting": lambda: channel.run_sync(lambda it: it.poll_message()),
            "memory, store": lambda: memory.run_sync(remember),
            "memory, get": lambda: memory.run_sync(lambda it: it.get("key 1")),
            MCP: lambda: mcp({"text": "hello"}),
        }
        medians = alternate(subjects, rounds=ROUNDS)
        channel.close()
        memory.close()
    bound = medians[MCP] * GOAL
    yield Measurement(
        "a call of a warm guest, small argument",
        medians,
        f"each ≤ {GOAL}× a warm MCP call",
        all(median <= bound for name, median in medians.items() if name != MCP),
        compared=False,
    )
