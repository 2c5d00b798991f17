"""Whether a tool runs at once, is asked about, or does not run: the one place that decides it. Pure."""

from __future__ import annotations

from enum import StrEnum

from zeroclaw_host.worlds.kinds import Tool


class ApprovalPolicy(StrEnum):
    """What an agent's ``approval`` says (D-41)."""

    AUTO = "auto"
    """Every tool runs."""
    ASK = "ask"
    """A person is asked before every tool that does more than talk to them."""
    DENY = "deny"
    """No tool runs."""


class Reach(StrEnum):
    """How far a tool reaches."""

    CONVERSATION = "conversation"
    """It talks to the person and changes nothing: asking whether it may would be a question about a question."""
    TOOL = "tool"
    """What its package was granted."""
    SYSTEM = "system"
    """Whatever the daemon's user may do."""


def reach_of(tool: Tool) -> Reach:
    """How far a tool reaches; one that does not say so, as a plugin's does not, is a tool like every other."""
    reach = getattr(tool, "reach", Reach.TOOL)
    return reach if isinstance(reach, Reach) else Reach.TOOL


def required(policy: ApprovalPolicy | None, tool: Tool) -> ApprovalPolicy:
    """What happens before a tool runs: nothing, a question or a refusal.

    :param policy: None where the agent says nothing: then what reaches the whole system is asked about (D-31).
    """
    reach = reach_of(tool)
    match policy:
        case ApprovalPolicy.DENY:
            return ApprovalPolicy.DENY
        case ApprovalPolicy.ASK:
            asked = reach is not Reach.CONVERSATION
        case ApprovalPolicy.AUTO:
            asked = False
        case None:
            asked = reach is Reach.SYSTEM
    return ApprovalPolicy.ASK if asked else ApprovalPolicy.AUTO
