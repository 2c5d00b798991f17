"""{{name}}: a channel that runs inside the sandbox."""

from dataclasses import dataclass

from zeroclaw_sdk.guest import (
    SECRET,
    CallError,
    Channel,
    InboundMessage,
    Secret,
    SecretError,
    SendMessage,
    inbound,
    log,
    state,
)


@dataclass
class Config:
    """What an operator sets. `config_schema` in the manifest says the same."""

    prefix: str = ""
    token: Secret = SECRET


class {{class_name}}(Channel):
    """Passes on what the host received, and writes what it sends to the log."""

    name = "{{function_name}}"
    config: Config

    def configure(self) -> None:
        """The place to refuse what cannot work. Nothing read here is kept."""
        if len(self.config.prefix) > 100:
            raise CallError("the prefix is too long")

    def send(self, message: SendMessage) -> None:
        """Deliver a message. A real channel talks to its service here."""
        config = self.config  # asked for at each call, because the operator may change it
        try:
            token = config.token.get()
        except SecretError as error:
            raise CallError(f"set the token first: {error.word}") from error
        log.info(
            f"{config.prefix}{message.content}",
            action=log.Action.SEND,
            attrs={"to": message.recipient, "number": self.number(), "token length": len(token)},
        )

    def poll_message(self) -> InboundMessage | None:
        """The next message. The host's own listener puts them into the queue."""
        return inbound.poll()

    def number(self) -> int:
        """How many messages were sent so far, by this instance and those before it."""
        entry = state.get("sent")
        sent = int(entry.value) + 1 if entry else 1
        state.put("sent", str(sent).encode(), entry.revision if entry else None)
        return sent
