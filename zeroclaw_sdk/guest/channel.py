"""The base class of a channel plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

from zeroclaw_sdk.guest.config import ConfigClass, LiveConfig, config_class
from zeroclaw_sdk.guest.crossing import Crossing, case_class, crossing_of
from zeroclaw_sdk.guest.faults import AnswerInvalid, DefinitionInvalid
from zeroclaw_sdk.guest.functions import Definition, Fault, function
from zeroclaw_sdk.guest.messages import (
    ApprovalRequest,
    ApprovalResponse,
    InboundMessage,
    SendMessage,
    WebhookRequest,
)


class _WebhookAnswer:
    """A text is the body to answer with; a list holds the messages that the request brought."""

    noun = "a text or a list of InboundMessage"

    def __init__(self) -> None:
        self._text: Crossing = crossing_of(str, "")
        self._messages: Crossing = crossing_of(Sequence[InboundMessage], "")

    def check(self, value: object, where: str) -> Any:
        if isinstance(value, str):
            return self._text.check(value, where)
        if isinstance(value, list | tuple):
            return self._messages.check(cast("object", value), where)
        raise AnswerInvalid(f"{where}: expected {self.noun}")

    def outward(self, value: Any, wit: Any) -> object:
        word, way = ("reply", self._text) if isinstance(value, str) else ("messages", self._messages)
        return case_class(wit, "WebhookResponse", word)(way.outward(value, wit))

    def inward(self, value: Any) -> object:
        raise NotImplementedError("only a plugin answers a webhook")


class Channel:
    """A messaging channel. A plugin defines one subclass::

        class Relay(Channel):
            name = "relay"
            config: Config

            def send(self, message: SendMessage) -> None:
                post(self.config.room, message.content)

            def poll_message(self) -> InboundMessage | None:
                return inbound.poll()

    One instance answers all calls, one at a time, and keeps what it remembers from call to call. It is gone after a call
    that ran past its limits, and a new one takes its place at the next call: what has to outlast that belongs into
    :mod:`zeroclaw_sdk.guest.state`.

    Whatever else a plugin's class defines of the methods below, the host uses; what it does not define, the host never
    asks for, and does without. Raise :class:`~zeroclaw_sdk.guest.CallError` for a failure that the caller should read.

    A subclass that annotates ``config`` with a dataclass finds its configuration there. Every look at ``self.config`` asks
    the host, so a changed value counts from the next look on; it cannot be kept on the instance by assignment (PLG-114).
    """

    name: ClassVar[str] = ""
    """What the channel is called."""
    config: Any = LiveConfig()

    @function()
    def configure(self) -> None:
        """Called once, before everything else. A failure keeps the channel from starting."""

    @function(required=True)
    def send(self, message: SendMessage) -> None:
        """Deliver a message."""
        raise NotImplementedError

    @function(required=True, fault=Fault.NONE)
    def poll_message(self) -> InboundMessage | None:
        """The next message, or None. The host asks again and again; waiting here keeps :meth:`send` waiting too.

        A ``CallError`` is written to the log and counts as None. After any other exception the host starts a new
        instance, because it is not told otherwise that something went wrong.
        """
        raise NotImplementedError

    @function("health-check", fault=Fault.FALSE)
    def health_check(self) -> bool:
        """Whether the channel works. An exception counts as no."""
        return True

    @function("self-handle", fault=Fault.END)
    def self_handle(self) -> str | None:
        """The plugin's own name among the senders, whose messages the host drops. Asked once, after :meth:`configure`,
        when configuration and secrets do not answer."""
        return None

    @function("self-addressed-mention", fault=Fault.END)
    def self_addressed_mention(self) -> str | None:
        """How somebody addresses the plugin in a text. Asked once, like :meth:`self_handle`."""
        return None

    @function("start-typing")
    def start_typing(self, recipient: str) -> None:
        """Show that an answer is being written."""

    @function("stop-typing")
    def stop_typing(self, recipient: str) -> None:
        """Show it no longer."""

    @function("supports-draft-updates", fault=Fault.END)
    def supports_draft_updates(self) -> bool:
        """Whether a message that was sent can be changed while it grows: yes for a class that defines
        :meth:`update_draft`."""
        return type(self).update_draft is not Channel.update_draft

    @function("multi-message-delay-ms", fault=Fault.END)
    def multi_message_delay_ms(self) -> int:
        """Milliseconds between two messages of one answer. Asked once, like :meth:`self_handle`."""
        return 800

    @function("send-draft")
    def send_draft(self, message: SendMessage) -> str | None:
        """Send the beginning of a message; the id under which it will be changed, or None."""
        return None

    @function("update-draft", "supports-draft-updates")
    def update_draft(self, recipient: str, message_id: str, text: str) -> None:
        """Change a draft's text."""

    @function("update-draft-progress")
    def update_draft_progress(self, recipient: str, message_id: str, text: str) -> None:
        """Show in a draft what is being done."""

    @function("finalize-draft")
    def finalize_draft(self, recipient: str, message_id: str, text: str) -> None:
        """Give a draft its last text."""

    @function("cancel-draft")
    def cancel_draft(self, recipient: str, message_id: str) -> None:
        """Take a draft away."""

    @function("add-reaction")
    def add_reaction(self, channel_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction to a message."""

    @function("remove-reaction")
    def remove_reaction(self, channel_id: str, message_id: str, emoji: str) -> None:
        """Take a reaction away."""

    @function("pin-message")
    def pin_message(self, channel_id: str, message_id: str) -> None:
        """Pin a message."""

    @function("unpin-message")
    def unpin_message(self, channel_id: str, message_id: str) -> None:
        """Unpin a message."""

    @function("redact-message")
    def redact_message(self, channel_id: str, message_id: str, reason: str | None) -> None:
        """Delete a message that was sent."""

    @function("request-approval")
    def request_approval(self, recipient: str, request: ApprovalRequest) -> ApprovalResponse | None:
        """Ask a person about a tool call; None when there is no way to ask."""
        return None

    @function("request-choice")
    def request_choice(self, question: str, choices: Sequence[str], timeout_secs: int) -> str | None:
        """Ask a person to choose; None when nothing was chosen."""
        return None

    @function("supports-free-form-ask", fault=Fault.END)
    def supports_free_form_ask(self) -> bool:
        """Whether a question can be answered in the person's own words."""
        return True

    @function("webhook-ingress", fault=Fault.END)
    def webhook_path(self) -> str | None:
        """The segment of the path under which the host takes requests for this channel. Goes with
        :meth:`parse_webhook`."""
        return None

    @function("webhook-ingress", fault=Fault.WEBHOOK)
    def parse_webhook(
        self, request: WebhookRequest
    ) -> Annotated[Sequence[InboundMessage] | str, _WebhookAnswer()]:
        """The messages that a request brought, or a text to answer it with.

        An instance of its own, freshly configured, answers each request.

        :raises WebhookUnauthorized: the request does not prove where it comes from.
        :raises WebhookBadRequest: it makes no sense.
        """
        raise NotImplementedError


_TOGETHER = ("webhook_path", "parse_webhook")


class ChannelDefinition(Definition):
    """Everything there is to know about a channel class, derived once.

    :raises DefinitionInvalid: as for :class:`Definition`; also where one of two functions that belong together is missing.
    """

    def __init__(self, cls: type[Channel]) -> None:
        super().__init__(Channel, cls)
        missing = [each for each in _TOGETHER if each not in self.defined]
        if len(missing) == 1:
            raise DefinitionInvalid(f"{cls.__qualname__}: define `{missing[0]}` too, or neither of both")
        self.config: ConfigClass | None = config_class(cls)
