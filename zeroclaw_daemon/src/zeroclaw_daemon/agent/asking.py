"""Asking the person behind a conversation, as a turn does it. Who that is, and how they are reached, is the session's business."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from zeroclaw_daemon.agent.events import Approval
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import Kind, ZeroclawError


class CannotAsk(ZeroclawError):
    """Nobody can be asked: the client is gone, or said that it takes no questions (RPC-087)."""

    code = "client_cannot_be_asked"
    kind = Kind.UNAVAILABLE


class AnswerUnusable(ZeroclawError):
    """The client answered, but not with anything that is an answer (RPC-252)."""

    code = "answer_unusable"
    kind = Kind.INVALID


class QuestionFailed(ZeroclawError):
    """The client answered a question with an error, or went while it was asked (RPC-092)."""

    code = "question_failed"
    kind = Kind.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Consent:
    """Whether a tool may run; ``refusal`` is what the model is told where it may not."""

    approval: Approval
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The person answered. ``content`` is None where the answer holds nothing (RPC-091)."""

    content: JsonValue


class Unanswered(StrEnum):
    """The person gave no answer, which is no fault (D-33)."""

    DECLINED = "decline"
    CANCELLED = "cancel"
    SILENT = "silent"


Answer: TypeAlias = Answered | Unanswered


class Interlocutor(Protocol):
    """The person behind a conversation."""

    async def consent(self, tool: str, arguments: JsonValue, seconds: int) -> Consent:
        """Whether a tool may run with these arguments. Never raises for what a person or client does.

        :param seconds: how long to wait; then it may not.
        """
        ...

    async def ask(self, message: str, schema: JsonValue, seconds: int) -> Answer:
        """The answer to a question.

        :param schema: the JSON Schema of the answer: an object.
        :param seconds: how long to wait; then there is none.
        :raises CannotAsk: there is nobody to ask.
        :raises QuestionFailed: the question came to nothing on the client's side.
        :raises AnswerUnusable: what came back is no answer.
        """
        ...


class Nobody:
    """Where there is no one to ask."""

    async def consent(self, tool: str, arguments: JsonValue, seconds: int) -> Consent:
        """No."""
        return Consent(Approval.UNANSWERED, "nobody can be asked whether this tool may run")

    async def ask(self, message: str, schema: JsonValue, seconds: int) -> Answer:
        """Cannot be done."""
        raise CannotAsk("there is no client that can be asked")
