"""A way to exchange messages with people, whoever provides it."""
# ruff: noqa: B027 - most of what a channel can do is optional, and its default is to do nothing

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from zeroclaw_host.services.logging import CallSite

DEFAULT_MULTI_MESSAGE_DELAY_MS: Final = 800
"""Milliseconds between the parts of a long answer: about as fast as a person sends them."""


@dataclass(frozen=True, slots=True)
class MediaAttachment:
    """A file that goes with a message. It crosses to a plugin by value (PLG-115)."""

    file_name: str
    data: bytes = field(repr=False)
    mime_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """A message from the outside.

    :param reply_target: the recipient of an answer.
    :param channel: the kind of endpoint it came through, in the host's own words, whatever a plugin says.
    :param channel_alias: the binding it came through, likewise.
    :param timestamp: milliseconds since the Unix epoch.
    """

    id: str
    sender: str
    reply_target: str
    content: str
    channel: str
    channel_alias: str | None = None
    timestamp: int
    thread_ts: str | None = None
    interruption_scope_id: str | None = None
    attachments: tuple[MediaAttachment, ...] = ()
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage:
    """A message to the outside."""

    content: str
    recipient: str
    subject: str | None = None
    thread_ts: str | None = None
    attachments: tuple[MediaAttachment, ...] = ()
    in_reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A tool call that waits for a person's consent.

    :param raw_arguments: the arguments as JSON, for a channel that shows them in its own way.
    """

    tool_name: str
    arguments_summary: str
    raw_arguments: str | None = field(default=None, repr=False)


class ApprovalDecision(Enum):
    """What a person decided."""

    APPROVE = "approve"
    """This once."""
    DENY = "deny"
    """Not this time."""
    ALWAYS_APPROVE = "always-approve"
    """This and every further call of the tool."""
    DENY_WITH_EDIT = "deny-with-edit"
    """Not as asked; the answer says what to do instead."""


@dataclass(frozen=True, slots=True)
class ApprovalResponse:
    """A person's answer to an :class:`ApprovalRequest`.

    :param edit: what to do instead, with :attr:`ApprovalDecision.DENY_WITH_EDIT` alone.
    """

    decision: ApprovalDecision
    edit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A request to a channel's webhook. Query, headers and body can hold credentials, so they do not appear in ``repr``."""

    method: str
    query: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class WebhookMessages:
    """The request brought messages, or none."""

    messages: tuple[InboundMessage, ...]


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """The request asks for an answer, such as the challenge of a handshake."""

    text: str


class WebhookFault(Enum):
    """Why a request is not accepted; the value is the status to answer it with."""

    UNAUTHORIZED = 401
    """It does not prove where it comes from."""
    BAD_REQUEST = 400
    """It makes no sense."""


@dataclass(frozen=True, slots=True)
class WebhookRejection:
    """The request is not accepted.

    :param reason: the channel's own words, for the operator's log and not for the sender.
    """

    fault: WebhookFault
    reason: str


WebhookOutcome = WebhookMessages | WebhookReply | WebhookRejection


class Channel(ABC):
    """A way to exchange messages with people.

    What a channel need not do has a default here (PLG-035), so that its users ask no channel what it can. Every method may
    raise :class:`~zeroclaw_host.errors.ZeroclawError`: nothing is known about what it should have done.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What agents list it as."""

    @abstractmethod
    async def send(self, message: SendMessage, *, call_site: CallSite | None = None) -> None:
        """Send a message."""

    @abstractmethod
    async def poll_message(self, *, call_site: CallSite | None = None) -> InboundMessage | None:
        """The next message, or None while there is none. A message is given once."""

    async def health_check(self, *, call_site: CallSite | None = None) -> bool:
        """Whether it works. True, unless the channel knows better."""
        return True

    async def aclose(self) -> None:
        """Let go of everything; the channel is not used again. May be called twice."""

    # --- who it is ------------------------------------------------------------------------------------------------------

    @property
    def self_handle(self) -> str | None:
        """The name under which it writes itself, if there is one."""
        return None

    @property
    def self_addressed_mention(self) -> str | None:
        """How people address it in a group, if there is a way."""
        return None

    def drop_self_message(self, message: InboundMessage) -> bool:
        """Whether a message is the channel's own coming back, and to be passed over."""
        return False

    # --- signs of life --------------------------------------------------------------------------------------------------

    async def start_typing(self, recipient: str, *, call_site: CallSite | None = None) -> None:
        """Show the recipient that an answer is being written."""

    async def stop_typing(self, recipient: str, *, call_site: CallSite | None = None) -> None:
        """Show it no longer."""

    # --- answers that grow ----------------------------------------------------------------------------------------------

    @property
    def multi_message_delay_ms(self) -> int:
        """Milliseconds between the parts of an answer that is sent in several messages."""
        return DEFAULT_MULTI_MESSAGE_DELAY_MS

    @property
    def supports_multi_message_streaming(self) -> bool:
        """Whether an answer may be sent in several messages while it is written."""
        return False

    async def supports_draft_updates(self, *, call_site: CallSite | None = None) -> bool:
        """Whether a message can be sent early and changed while its answer is written."""
        return False

    async def send_draft(self, message: SendMessage, *, call_site: CallSite | None = None) -> str | None:
        """Send a message that will change; its identifier, or None when there is no such thing."""
        return None

    async def update_draft(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """Replace the text of a draft."""

    async def update_draft_progress(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """Show in a draft what is being done."""

    async def finalize_draft(
        self, recipient: str, message_id: str, text: str, *, call_site: CallSite | None = None
    ) -> None:
        """Give a draft its last text."""

    async def cancel_draft(
        self, recipient: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """Take a draft back."""

    # --- what happens to messages ---------------------------------------------------------------------------------------

    async def add_reaction(
        self, channel_id: str, message_id: str, emoji: str, *, call_site: CallSite | None = None
    ) -> None:
        """React to a message."""

    async def remove_reaction(
        self, channel_id: str, message_id: str, emoji: str, *, call_site: CallSite | None = None
    ) -> None:
        """Take a reaction back."""

    async def pin_message(
        self, channel_id: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """Pin a message."""

    async def unpin_message(
        self, channel_id: str, message_id: str, *, call_site: CallSite | None = None
    ) -> None:
        """Unpin it."""

    async def redact_message(
        self,
        channel_id: str,
        message_id: str,
        reason: str | None = None,
        *,
        call_site: CallSite | None = None,
    ) -> None:
        """Remove a message."""

    # --- questions ------------------------------------------------------------------------------------------------------

    async def request_approval(
        self, recipient: str, request: ApprovalRequest, *, call_site: CallSite | None = None
    ) -> ApprovalResponse | None:
        """Ask a person about a tool call; None when the channel has no way to, or nobody answered."""
        return None

    async def request_choice(
        self,
        question: str,
        choices: Sequence[str],
        timeout_seconds: int,
        *,
        call_site: CallSite | None = None,
    ) -> str | None:
        """Let a person choose; None when the channel has no way to, or nobody answered."""
        return None

    async def supports_free_form_ask(self, *, call_site: CallSite | None = None) -> bool:
        """Whether a person can be asked a question that is answered in words."""
        return True

    # --- webhooks -------------------------------------------------------------------------------------------------------

    async def webhook_path(self, *, call_site: CallSite | None = None) -> str | None:
        """The last segment of the path of the channel's webhook; None when it wants none."""
        return None

    async def parse_webhook(
        self, request: WebhookRequest, *, call_site: CallSite | None = None
    ) -> WebhookOutcome:
        """What a request to the webhook means."""
        return WebhookRejection(WebhookFault.BAD_REQUEST, "this channel takes no webhooks")
