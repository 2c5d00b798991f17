"""A channel's values on both sides of the boundary: the host's dataclasses and the contract's records and variants.

What comes from a guest has the contract's types, so the casts here state facts that were checked when it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.worlds.kinds.channel import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResponse,
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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a channel's messages come from, as the host knows it and no plugin decides.

    :param kind: of the endpoint: ``plugin``, or the built-in channel that a package mirrors.
    :param alias: the binding.
    """

    kind: str
    alias: str


def answered(value: object) -> object:
    """The ``ok`` payload of a guest's result.

    :raises GuestFailure: the guest answered with an error.
    """
    match value:
        case Ok(found):
            return found
        case Err(str() as message):
            raise GuestFailure(message or "the plugin answered with an error without a text")
        case _:
            raise GuestFailure("the plugin's answer is not what the contract says")


def send_message(message: SendMessage) -> dict[str, object]:
    """The contract's ``send-message``."""
    return {
        "content": message.content,
        "recipient": message.recipient,
        "subject": message.subject,
        "thread-ts": message.thread_ts,
        "attachments": [
            {"file-name": found.file_name, "data": found.data, "mime-type": found.mime_type}
            for found in message.attachments
        ],
        "in-reply-to": message.in_reply_to,
    }


def inbound_message(value: object, endpoint: Endpoint) -> InboundMessage:
    """A guest's ``inbound-message``, with the host's own word on where it came from."""
    record = cast("Mapping[str, Any]", value)
    return InboundMessage(
        id=record["id"],
        sender=record["sender"],
        reply_target=record["reply-target"],
        content=record["content"],
        channel=endpoint.kind,
        channel_alias=endpoint.alias,
        timestamp=record["timestamp"],
        thread_ts=record["thread-ts"],
        interruption_scope_id=record["interruption-scope-id"],
        attachments=tuple(
            MediaAttachment(found["file-name"], found["data"], found["mime-type"])
            for found in record["attachments"]
        ),
        subject=record["subject"],
    )


def approval_request(request: ApprovalRequest) -> dict[str, object]:
    """The contract's ``approval-request``."""
    return {
        "tool-name": request.tool_name,
        "arguments-summary": request.arguments_summary,
        "raw-arguments": request.raw_arguments,
    }


def approval_response(value: object) -> ApprovalResponse | None:
    """A guest's ``option<approval-response>``."""
    if value is None:
        return None
    case, edit = cast("tuple[str, str | None]", value)
    return ApprovalResponse(ApprovalDecision(case), edit)


def webhook_request(request: WebhookRequest) -> dict[str, object]:
    """The contract's ``webhook-request``."""
    return {
        "method": request.method,
        "query": request.query,
        "headers": list(request.headers),
        "body": request.body,
    }


def webhook_outcome(value: object, endpoint: Endpoint) -> WebhookOutcome:
    """A guest's ``result<webhook-response, webhook-rejection>``."""
    case, content = cast("tuple[str, Any]", cast("Ok | Err", value).value)
    if isinstance(value, Err):
        return WebhookRejection(_FAULTS[case], content)
    if case == "reply":
        return WebhookReply(content)
    return WebhookMessages(tuple(inbound_message(each, endpoint) for each in content))


_FAULTS: Final[Mapping[str, WebhookFault]] = {
    "unauthorized": WebhookFault.UNAUTHORIZED,
    "bad-request": WebhookFault.BAD_REQUEST,
}
