"""A channel that begins a response in one call and reads on in the next ones."""

from collections.abc import Iterator

from zeroclaw_sdk.guest import Channel, InboundMessage, SendMessage, http


class LongPoll(Channel):
    """Sending begins a response; each poll gives what came since."""

    name = "longpoll"

    def __init__(self) -> None:
        self.pieces: Iterator[bytes] = iter(())

    def send(self, message: SendMessage) -> None:
        self.pieces = iter(http.get(message.content))

    def poll_message(self) -> InboundMessage | None:
        piece = next(self.pieces, None)
        if piece is None:
            return None
        return InboundMessage(id="1", sender="peer", reply_target="peer", content=piece.decode(), timestamp=0)
