"""What a plugin is written with. It runs inside the sandbox and needs the standard library only.

from zeroclaw_sdk.guest import Tool

class Hello(Tool):
    name = "hello"
    description = "Greets somebody."

    def run(self, name: str) -> str:
        return f"Hello, {name}."

Beside :class:`Tool` there are :class:`Channel` and :class:`Memory`.
"""

from zeroclaw_sdk.guest import config, inbound, log, secrets, state
from zeroclaw_sdk.guest.channel import Channel
from zeroclaw_sdk.guest.config import SECRET, Secret
from zeroclaw_sdk.guest.entries import (
    CONVERSATION,
    CORE,
    DAILY,
    ExportFilter,
    MemoryCategory,
    MemoryEntry,
    ProceduralMessage,
)
from zeroclaw_sdk.guest.faults import CallError, ToolError
from zeroclaw_sdk.guest.host import ConfigError, SecretError, StateEntry, StateError
from zeroclaw_sdk.guest.memory import Memory
from zeroclaw_sdk.guest.messages import (
    ALWAYS_APPROVE,
    APPROVE,
    DENY,
    ApprovalRequest,
    ApprovalResponse,
    InboundMessage,
    MediaAttachment,
    SendMessage,
    WebhookBadRequest,
    WebhookRequest,
    WebhookUnauthorized,
)
from zeroclaw_sdk.guest.shapes import Param
from zeroclaw_sdk.guest.tool import Tool

__all__ = [
    "ALWAYS_APPROVE",
    "APPROVE",
    "CONVERSATION",
    "CORE",
    "DAILY",
    "DENY",
    "SECRET",
    "ApprovalRequest",
    "ApprovalResponse",
    "CallError",
    "Channel",
    "ConfigError",
    "ExportFilter",
    "InboundMessage",
    "MediaAttachment",
    "Memory",
    "MemoryCategory",
    "MemoryEntry",
    "Param",
    "ProceduralMessage",
    "Secret",
    "SecretError",
    "SendMessage",
    "StateEntry",
    "StateError",
    "Tool",
    "ToolError",
    "WebhookBadRequest",
    "WebhookRequest",
    "WebhookUnauthorized",
    "config",
    "inbound",
    "log",
    "secrets",
    "state",
]
