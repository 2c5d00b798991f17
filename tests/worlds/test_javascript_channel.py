"""A channel from another toolchain: every kind of value of the channel world, there and back (PLG-025, PLG-031)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
from plugin_parts import Clock, Config, manifest_text, scope_of

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.inbound import InboundQueues, QueuedMessage
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResponse,
    MediaAttachment,
    SendMessage,
    WebhookFault,
    WebhookMessages,
    WebhookRejection,
    WebhookReply,
    WebhookRequest,
)

pytestmark = [pytest.mark.slow, pytest.mark.req("PLG-025")]

HELLO = SendMessage(content="hello", recipient="room")


class Reader:
    """The package, in memory."""

    origin = "memory"

    def __init__(self, component: bytes) -> None:
        self._component = component

    def read_manifest(self) -> bytes:
        return manifest_text(Capability.CHANNEL, ["config_read"]).encode()

    def read_component(self, wasm_path: str) -> bytes:
        return self._component

    def read_skills(self) -> None:
        raise AssertionError("the package has none")


@pytest.fixture
def log() -> MemoryLogSink:
    return MemoryLogSink()


@pytest.fixture
def config() -> Config:
    return Config({"greeting": "ahoy"}, {"token": "hush"})


@pytest.fixture
def load(sandbox, javascript_channel, config, log) -> Iterator[Callable[[], ChannelPlugin]]:
    loaded: list[ChannelPlugin] = []
    package = admit(Reader(javascript_channel), SignaturePolicy.of(SignatureMode.DISABLED))  # type: ignore[arg-type]

    def make() -> ChannelPlugin:
        services = InstanceServices(config=config, log=log, inbound=InboundQueues())
        scope = scope_of(Capability.CHANNEL, "config_read")
        loaded.append(ChannelPlugin.load(sandbox, package, scope, services, Limits(), clock=Clock()))
        return loaded[-1]

    yield make
    for channel in loaded:
        channel.close()


def run(call: Callable[[], Awaitable[object]]) -> object:
    async def main() -> object:
        return await call()

    return anyio.run(main)


def test_it_says_what_it_is(load):
    channel = load()
    assert channel.metadata.capabilities == {
        "health-check",
        "self-handle",
        "multi-message-delay-ms",
        "send-draft",
        "redact-message",
        "request-approval",
        "request-choice",
        "webhook-ingress",
    }
    assert (channel.self_handle, channel.self_addressed_mention) == ("@parrot", None)
    assert channel.multi_message_delay_ms == 250
    assert run(channel.health_check) is True
    assert run(channel.webhook_path) == "parrot"


def test_a_configuration_it_refuses_refuses_the_channel(load, config):
    config.public = {}
    with pytest.raises(GuestFailure, match="say how to greet"):
        load()


@pytest.mark.req("PLG-031", "PLG-115")
def test_messages_with_files_come_back_as_they_went_and_the_guest_is_the_same(load, log):
    channel = load()
    files = (MediaAttachment("a.bin", bytes(range(256)) * 400, "x/y"), MediaAttachment("ü.txt", b"", None))
    sent = SendMessage(content="see ✓ 😀", recipient="room", thread_ts="t", attachments=files)
    run(lambda: channel.send(sent))
    run(lambda: channel.send(HELLO))
    first = run(channel.poll_message)
    assert first is not None
    assert (first.content, first.reply_target, first.timestamp) == ("see ✓ 😀", "room", 2**40)
    assert (first.thread_ts, first.subject, first.attachments) == ("t", None, files)
    assert (first.channel, first.channel_alias) == ("plugin", "ops")
    second = run(channel.poll_message)
    assert second is not None
    assert (second.content, second.thread_ts, second.attachments) == ("hello", None, ())
    assert run(channel.poll_message) is None
    assert [record.message for record in log.records] == ["1: 2", "2: 0"]


def test_an_error_is_an_error_and_the_guest_stays(load):
    channel = load()
    run(lambda: channel.send(HELLO))
    with pytest.raises(GuestFailure, match="no wires today"):
        run(lambda: channel.send(SendMessage(content="fail", recipient="room")))
    received = run(channel.poll_message)
    assert received is not None
    assert (received.id, channel.rebuilds) == ("2", 0)


def test_what_the_host_queued_reaches_it(load):
    channel = load()
    queued = QueuedMessage(
        id="7", sender="ann", reply_target="room", content="hello", channel="x", timestamp=2**41, subject="s"
    )
    channel.enqueue(queued)
    received = run(channel.poll_message)
    assert received is not None
    assert (received.id, received.sender, received.content) == ("7", "ann", "ahoy, hello")
    assert (received.timestamp, received.subject, received.thread_ts) == (2**41, "s", None)


def test_options_and_variants_keep_their_cases(load):
    channel = load()

    def approval(tool: str, raw: str | None = None) -> object:
        request = ApprovalRequest(tool_name=tool, arguments_summary="all", raw_arguments=raw)
        return run(lambda: channel.request_approval("room", request))

    assert approval("unknown") is None
    assert approval("redact") == ApprovalResponse(ApprovalDecision.DENY)
    assert approval("redact", "{}") == ApprovalResponse(ApprovalDecision.DENY_WITH_EDIT, "room: redact {}")
    assert run(lambda: channel.send_draft(HELLO)) == "draft of hello"
    assert run(lambda: channel.send_draft(SendMessage(content="none", recipient="room"))) is None
    assert run(lambda: channel.request_choice("which?", ("a", "b"), 1)) == "b"
    assert run(lambda: channel.request_choice("which?", ("a", "b"), 2)) is None
    for reason, told in (("spam", "room 1 spam"), (None, "room 1 without a reason")):
        with pytest.raises(GuestFailure, match=told):
            run(lambda: channel.redact_message("room", "1", reason))  # noqa: B023 - called at once


def test_webhooks_become_messages_replies_and_rejections(load):
    channel = load()

    def hook(query: str = "", body: bytes = b"", *headers: tuple[str, str]) -> object:
        request = WebhookRequest(method="POST", query=query, headers=headers, body=body)
        return run(lambda: channel.parse_webhook(request))

    assert hook("q=1") == WebhookRejection(WebhookFault.UNAUTHORIZED, "POST q=1")
    token = ("x-token", "hush")
    assert hook("challenge", b"", ("a", "b"), token) == WebhookReply("challenge")
    found = hook("", b"hi", token)
    assert isinstance(found, WebhookMessages)
    assert [(each.id, each.content, each.subject) for each in found.messages] == [
        ("1", "hi", None),
        ("2", "hi", "again"),
    ]
