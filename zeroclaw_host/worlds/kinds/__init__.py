"""The kinds of thing an agent uses, whoever provides them.

A tool of a plugin and a tool built into a host program are the same kind: the agent loop, the approvals and the stored
record of a call see no difference (PLG-027). So it is with channels and memories.
"""

from zeroclaw_host.worlds.kinds.channel import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResponse,
    Channel,
    InboundMessage,
    MediaAttachment,
    SendMessage,
    WebhookFault,
    WebhookMessages,
    WebhookOutcome,
    WebhookRejection,
    WebhookReply,
    WebhookRequest,
)
from zeroclaw_host.worlds.kinds.memory import (
    ExportFilter,
    Memory,
    MemoryCategory,
    MemoryEntry,
    MemoryUnsupported,
    ProceduralMessage,
)
from zeroclaw_host.worlds.kinds.tool import Tool, ToolResult

__all__ = [
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalResponse",
    "Channel",
    "ExportFilter",
    "InboundMessage",
    "MediaAttachment",
    "Memory",
    "MemoryCategory",
    "MemoryEntry",
    "MemoryUnsupported",
    "ProceduralMessage",
    "SendMessage",
    "Tool",
    "ToolResult",
    "WebhookFault",
    "WebhookMessages",
    "WebhookOutcome",
    "WebhookRejection",
    "WebhookReply",
    "WebhookRequest",
]
