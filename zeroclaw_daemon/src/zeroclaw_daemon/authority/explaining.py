"""Why a user may or may not call a method: the questions the daemon would ask, answered from a configuration. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeroclaw_daemon.authority.policy import Policy
from zeroclaw_daemon.authority.rights import (
    OPERATOR_RIGHTS,
    RUN_TOOLS,
    SHARED_OPERATOR,
    AgentUse,
    ConfigWrite,
    Decision,
    Grant,
    Question,
    Rights,
    Rule,
    RuleKind,
    ToolUse,
    decide,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One question and what decided it. ``question`` is None where the method asks for nothing."""

    question: Question | None
    decision: Decision


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything a call is judged by, in the order it is judged. ``rights`` is what the user has in all."""

    user: str
    principal_id: str
    answers: tuple[Answer, ...]
    rights: Rights

    @property
    def allowed(self) -> bool:
        """Whether the call passes."""
        return all(answer.decision.allowed for answer in self.answers)


def explain(
    policy: Policy,
    user: str,
    grant: Grant | None,
    *,
    paths: Sequence[str] = (),
    agent: str | None = None,
    tool: str | None = None,
) -> Explanation:
    """Answer for a user of the roster, or for the shared operator by its principal id.

    :param grant: what the method needs.
    :param paths: configuration paths that the call would write.
    :param agent: an agent that the call would use.
    :param tool: a tool that would run in the call.
    """
    principal, rights = _of(policy, user)
    asked: list[Question] = [grant] if grant is not None else []
    asked += [ConfigWrite(path) for path in paths]
    asked += [AgentUse(agent)] if agent is not None else []
    asked += [RUN_TOOLS, ToolUse(tool)] if tool is not None else []
    if rights.void is not None:
        return Explanation(user, principal, (Answer(grant, Decision(False, rights.void)),), rights)
    answers = [Answer(question, decide(rights, question)) for question in asked]
    if not answers:
        answers = [Answer(None, Decision(True, Rule(RuleKind.UNGATED)))]
    return Explanation(user, principal, tuple(answers), rights)


def _of(policy: Policy, user: str) -> tuple[str, Rights]:
    known = policy.users.get(user)
    if known is not None:
        return known.principal_id, known.rights
    if user != SHARED_OPERATOR:
        return "", Rights(blocked=Rule(RuleKind.NOBODY, "users", user))
    if not policy.trust_daemon_uid:
        return SHARED_OPERATOR, Rights(
            blocked=Rule(RuleKind.OPERATOR_DISTRUSTED, "security.trust_daemon_uid", "false")
        )
    return SHARED_OPERATOR, OPERATOR_RIGHTS
