"""What a channel is given and what it gives: messages, attachments, questions, requests to a webhook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from zeroclaw_sdk.guest.variant import Variant


@dataclass(frozen=True)
class MediaAttachment:
    """A file that goes with a message."""

    file_name: str
    data: bytes
    mime_type: str | None = None


@dataclass(frozen=True)
class InboundMessage:
    """A message from the outside.

    ``reply_target`` is the recipient of an answer, ``timestamp`` counts milliseconds since the Unix epoch. The host writes
    ``channel`` and ``channel_alias`` itself, whatever they say.
    """

    id: str
    sender: str
    reply_target: str
    content: str
    timestamp: int
    channel: str = ""
    channel_alias: str | None = None
    thread_ts: str | None = None
    interruption_scope_id: str | None = None
    attachments: tuple[MediaAttachment, ...] = ()
    subject: str | None = None


@dataclass(frozen=True)
class SendMessage:
    """A message to the outside."""

    content: str
    recipient: str
    subject: str | None = None
    thread_ts: str | None = None
    attachments: tuple[MediaAttachment, ...] = ()
    in_reply_to: str | None = None


@dataclass(frozen=True)
class ApprovalRequest:
    """A tool call that waits for a person's consent. ``raw_arguments`` is a JSON text."""

    tool_name: str
    arguments_summary: str
    raw_arguments: str | None = None


@dataclass(frozen=True)
class ApprovalResponse(Variant):
    """What a person said to an :class:`ApprovalRequest`."""

    CASES: ClassVar[Mapping[str, bool]] = {
        "approve": False,
        "deny": False,
        "always-approve": False,
        "deny-with-edit": True,
    }

    @classmethod
    def deny_with_edit(cls, text: str) -> ApprovalResponse:
        """Not as asked; ``text`` says what to do instead."""
        return cls("deny-with-edit", text)


APPROVE: Final = ApprovalResponse("approve")
"""This once."""
DENY: Final = ApprovalResponse("deny")
"""Not this time."""
ALWAYS_APPROVE: Final = ApprovalResponse("always-approve")
"""This and every further call of the tool."""


@dataclass(frozen=True)
class WebhookRequest:
    """A request that reached the channel's webhook. Its headers can hold credentials: keep them out of logs."""

    method: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of this name, in any spelling of its letters."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


class WebhookRejected(Exception):
    """A webhook's request is not accepted. Raise one of its subclasses in ``parse_webhook``."""


class WebhookUnauthorized(WebhookRejected):
    """The request does not prove where it comes from; it is answered with status 401."""


class WebhookBadRequest(WebhookRejected):
    """The request makes no sense; it is answered with status 400."""
