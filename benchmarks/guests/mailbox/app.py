"""A channel that does next to nothing, so that what is measured is the way there and back."""

from zeroclaw_sdk.guest import Channel, InboundMessage, SendMessage, inbound


class Mailbox(Channel):
    """Keeps the last message that was sent, and hands on what comes in."""

    name = "mailbox"

    def __init__(self) -> None:
        self.last: SendMessage | None = None

    def send(self, message: SendMessage) -> None:
        self.last = message

    def poll_message(self) -> InboundMessage | None:
        return inbound.poll()
