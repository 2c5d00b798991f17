"""A typed client of the daemon, for programs in Python; the commands and the tests use it too.

::

    async with open_daemon() as client:
        session = await client.new_session("assistant")
        async for update in (turn := client.prompt(session.session_id, "hello")):
            if isinstance(update, AnswerChunk):
                print(update.text, end="")
        print(turn.result.stop_reason)

An error of the daemon is a :class:`RemoteError` with its ``code`` and ``reason``; a daemon that is gone is a
:class:`ConnectionLost`, at once, for everything that was asked and not answered (RPC-251). A call that does not fit in a line of
the protocol is a :class:`FrameTooLarge`; it is not sent, and everything else goes on.
"""

from __future__ import annotations

from zeroclaw_daemon.client.calls import UnexpectedAnswer
from zeroclaw_daemon.client.daemon import DaemonClient, open_client
from zeroclaw_daemon.client.opening import open_daemon
from zeroclaw_daemon.client.questions import Accepted, Declined, Dismissed, Question, Verdict
from zeroclaw_daemon.client.turn import Turn
from zeroclaw_daemon.client.updates import (
    AnswerChunk,
    ApprovalRequest,
    ContextUsage,
    HistoryTrimmed,
    OtherUpdate,
    PlanChanged,
    ThoughtChunk,
    ToolCall,
    ToolResult,
    TurnComplete,
    Update,
    VerdictRefused,
)
from zeroclaw_daemon.rpc.errors import ConnectionLost, FrameTooLarge, RemoteError
from zeroclaw_daemon.sessions.asking import Decision

__all__ = [
    "Accepted",
    "AnswerChunk",
    "ApprovalRequest",
    "ConnectionLost",
    "ContextUsage",
    "DaemonClient",
    "Decision",
    "Declined",
    "Dismissed",
    "FrameTooLarge",
    "HistoryTrimmed",
    "OtherUpdate",
    "PlanChanged",
    "Question",
    "RemoteError",
    "ThoughtChunk",
    "ToolCall",
    "ToolResult",
    "Turn",
    "TurnComplete",
    "UnexpectedAnswer",
    "Update",
    "Verdict",
    "VerdictRefused",
    "open_client",
    "open_daemon",
]
