"""A channel that behaves in every way a test asks for: the content of a message says how."""

from dataclasses import dataclass
from hashlib import sha256

from zeroclaw_sdk.guest import (
    APPROVE,
    SECRET,
    ApprovalRequest,
    ApprovalResponse,
    CallError,
    Channel,
    InboundMessage,
    MediaAttachment,
    Secret,
    SendMessage,
    WebhookBadRequest,
    WebhookRequest,
    WebhookUnauthorized,
    inbound,
    log,
    secrets,
    state,
)
from zeroclaw_sdk.guest.host import current_host
from zeroclaw_sdk.guest.network import looks
from zeroclaw_sdk.guest.wit import WitHost


@dataclass
class Config:
    prefix: str = "> "
    token: Secret = SECRET


class Relay(Channel):
    name = "relay"
    config: Config

    def __init__(self) -> None:
        self.sent = 0
        self.answers: list[InboundMessage | object] = []

    def configure(self) -> None:
        if self.config.prefix == "refuse":
            raise CallError("not with this prefix")

    def send(self, message: SendMessage) -> None:
        self.sent += 1
        how, _, detail = message.content.partition(" ")
        match how:
            case "count":
                self.answer(str(self.sent))
            case "config":
                self.answer(f"{self.config.prefix}{self.config.token.get()}")
            case "keep":
                self.config = Config()
            case "secret":
                secrets.get(detail)
            case "remember":
                entry = state.get("kept")
                revision = state.put("kept", detail.encode(), entry and entry.revision)
                self.answer(f"{revision}")
            case "recollect":
                self.answer(state.get("kept").value.decode())
            case "forget":
                state.delete("kept", state.get("kept").revision)
            case "state":
                state.put(
                    detail, b"x" * (2**16 + 1) if detail == "large" else b"x", 7 if detail == "late" else None
                )
            case "revision":
                state.put("kept", b"", int(detail))
            case "attached":
                found = message.attachments[0]
                answer = InboundMessage(
                    "1", "a", "a", sha256(found.data).hexdigest(), 0, attachments=message.attachments
                )
                self.answers.append(
                    answer if detail == "back" else self.text(f"{len(found.data)} {answer.content}")
                )
            case "make":
                self.answers.append(
                    InboundMessage(
                        "1", "a", "a", "", 0, attachments=(MediaAttachment("f", b"x" * int(detail)),)
                    )
                )
            case "wrong":
                self.answers.append(
                    {"number": 7, "text": self.text(7), "time": InboundMessage("1", "a", "a", "", -1)}[detail]
                )
            case "look":
                network = current_host().network
                for _ in zip(range(int(detail)), looks(network, None), strict=False):
                    pass
                self.answer(str(network.looked))
            case "refuse":
                raise CallError("not today")
            case "raise":
                raise LookupError("no such room")
            case "exit":
                raise SystemExit(3)
            case "foreign":
                WitHost()._secrets.get("nothing")
            case "spin":
                while True:
                    pass
            case "late":
                self.answers.append(
                    {"refuse": CallError("empty"), "raise": LookupError("lost"), "exit": SystemExit(3)}[
                        detail
                    ]
                )
            case _:
                log.info(message.content, action=log.Action.SEND)

    def text(self, text: str) -> InboundMessage:
        return InboundMessage(id=str(self.sent), sender="ada", reply_target="ada", content=text, timestamp=1)

    def answer(self, text: str) -> None:
        self.answers.append(self.text(text))

    def poll_message(self) -> InboundMessage | None:
        if self.answers:
            found = self.answers.pop(0)
            if isinstance(found, BaseException):
                raise found
            return found
        return inbound.poll()

    def health_check(self) -> bool:
        if self.sent > 100:
            raise RuntimeError("tired")
        return inbound.pending() < 2

    def self_handle(self) -> str:
        return "@relay"

    def multi_message_delay_ms(self) -> int:
        return 20

    def request_approval(self, recipient: str, request: ApprovalRequest) -> ApprovalResponse | None:
        match recipient:
            case "nobody":
                return None
            case "boss":
                return ApprovalResponse.deny_with_edit(f"not {request.tool_name}")
            case _:
                return APPROVE

    def request_choice(self, question: str, choices: tuple[str, ...], timeout_secs: int) -> str | None:
        return choices[-1] if choices else None

    def send_draft(self, message: SendMessage) -> str:
        return "draft"

    def update_draft(self, recipient: str, message_id: str, text: str) -> None:
        self.answer(f"{message_id}: {text}")

    def webhook_path(self) -> str:
        return "relay"

    def parse_webhook(self, request: WebhookRequest) -> list[InboundMessage] | str:
        match request.header("x-token"):
            case None:
                raise WebhookUnauthorized("who are you?")
            case "challenge":
                return request.body.decode()
            case "bad":
                raise WebhookBadRequest("what is this?")
            case _:
                return [self.text(request.query)]
