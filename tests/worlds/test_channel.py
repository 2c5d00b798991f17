"""A plugin's channel: how it starts, what it is asked and what not, what it answers, and how it comes back."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from channel_guests import asking, counting, echoing, everything, flags, hooked, silent
from plugin_parts import PATIENCE, Clock, Config, Waiting, manifest_text, scope_of

from zeroclaw_host.errors import ConfigInvalid, GuestFailure, GuestTrap, PluginUnavailable, UsageError
from zeroclaw_host.host import PluginHost
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.inbound import InboundQueues, QueuedMessage
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.channel_metadata import ChannelMetadata
from zeroclaw_host.worlds.channel_values import Endpoint, approval_response, webhook_outcome
from zeroclaw_host.worlds.instance import PluginInstance
from zeroclaw_host.worlds.kinds import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResponse,
    Channel,
    InboundMessage,
    MediaAttachment,
    SendMessage,
    WebhookFault,
    WebhookMessages,
    WebhookRejection,
    WebhookReply,
    WebhookRequest,
)
from zeroclaw_host.worlds.metadata import MetadataChanged

HELLO = SendMessage(content="hello", recipient="room")
ANY = InboundMessage(id="1", sender="ann", reply_target="r", content="c", channel="x", timestamp=0)
REQUEST = WebhookRequest(method="POST", headers=(("x-token", "s3cret"),), body=b"{}")
APPROVAL = ApprovalRequest(tool_name="redact", arguments_summary="one file")


class Reader:
    """A package in memory."""

    origin = "memory"

    def __init__(self, manifest: str, component: bytes) -> None:
        self._manifest, self._component = manifest.encode(), component

    def read_manifest(self) -> bytes:
        return self._manifest

    def read_component(self, wasm_path: str) -> bytes:
        return self._component

    def read_skills(self) -> None:
        raise AssertionError("the package has none")


def package_of(component: bytes, *permissions: str) -> AdmittedPackage:
    manifest = manifest_text(Capability.CHANNEL, permissions)
    return admit(Reader(manifest, component), SignaturePolicy.of(SignatureMode.DISABLED))  # type: ignore[arg-type]


@pytest.fixture
def config() -> Config:
    return Config({"greeting": "hi"}, {"token": "1"})


@pytest.fixture
def queues() -> InboundQueues:
    return InboundQueues()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load(sandbox, config, queues, clock) -> Iterator[Callable[..., ChannelPlugin]]:
    """Loads a component as the channel ``ops``; closed when the test is over."""
    loaded: list[ChannelPlugin] = []

    def make(component: bytes, *permissions: str, limits: Limits | None = None, **more: str) -> ChannelPlugin:
        package = package_of(component, *permissions)
        services = InstanceServices(config=config, log=MemoryLogSink(), inbound=queues)
        scope = scope_of(Capability.CHANNEL, *permissions)
        channel = ChannelPlugin.load(
            sandbox, package, scope, services, limits or Limits(), clock=clock, **more
        )  # type: ignore[arg-type]
        loaded.append(channel)
        return channel

    yield make
    for channel in loaded:
        channel.close()


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, Phase]]:
    """Every call of a guest's export, in order, with the phase of its frame."""
    found: list[tuple[str, Phase]] = []
    call = PluginInstance.call

    def noted(self, frame, function, *arguments):
        found.append((function, frame.phase))
        return call(self, frame, function, *arguments)

    monkeypatch.setattr(PluginInstance, "call", noted)
    return found


@pytest.fixture
def says(monkeypatch) -> Callable[..., None]:
    """Makes a channel be as if its guest had said this about itself."""

    def change(channel: ChannelPlugin, claims: set[str], handle: str | None = None) -> None:
        told = ChannelMetadata(frozenset(claims), handle, None, 800)
        monkeypatch.setattr(channel._metadata, "_known", told)

    return change


def run(make: Callable[[], Awaitable[object]]) -> object:
    async def main() -> object:
        return await make()

    return anyio.run(main)


# --- loading ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-027")
def test_a_plugins_channel_is_a_channel(load):
    channel = load(silent())
    assert isinstance(channel, Channel)
    assert channel.name == "plugin.ops"
    assert load(silent(), endpoint="telegram").name == "telegram.ops"


@pytest.mark.req("PLG-031", "PLG-033")
def test_a_guest_is_configured_first_and_then_asked_once_what_it_is(load, asked):
    load(everything())
    assert asked == [
        ("configure", Phase.CHANNEL_SERVICE),
        ("get-channel-capabilities", Phase.STANDARD),
        ("self-handle", Phase.STANDARD),
        ("self-addressed-mention", Phase.STANDARD),
        ("multi-message-delay-ms", Phase.STANDARD),
    ]


@pytest.mark.req("PLG-033")
def test_the_flags_are_read_exactly_once_whatever_is_done_afterwards(load):
    channel = load(counting())
    for _ in range(20):
        with pytest.raises(GuestFailure):
            channel.run_sync(lambda it: it.send(HELLO))
    assert run(channel.health_check) is True, "the guest says so while it was asked once"
    with pytest.raises(GuestTrap):
        run(lambda: channel.start_typing("room"))
    assert run(channel.health_check) is True, "and so does the one that came after it"


def test_the_configuration_is_resolved_before_any_guest_code_runs(load, config, asked):
    config.failing = True
    with pytest.raises(ConfigInvalid):
        load(everything(), "config_read")
    assert (asked, config.asked) == ([], 1)


def test_a_guest_that_refuses_its_configuration_is_not_loaded(load, config):
    config.public = {}
    with pytest.raises(GuestFailure, match="cannot be configured: too short"):
        load(asking(), "config_read")


def test_a_guest_that_traps_while_it_is_started_is_not_loaded(load):
    with pytest.raises(GuestTrap):
        load(everything(bodies={"channel.self-handle": "unreachable"}))


@pytest.mark.req("PLG-031")
def test_services_answer_in_configure_and_not_while_it_is_asked_what_it_is(load):
    # The guest ends itself if the configuration answers when its flags are read.
    assert load(asking(), "config_read").self_handle == '{"greeting": "hi"}'


# --- flags --------------------------------------------------------------------------------------------------------------

OPTIONAL: dict[str, tuple[Callable[[Channel], Awaitable[object]], object]] = {
    "health-check": (lambda channel: channel.health_check(), True),
    "start-typing": (lambda channel: channel.start_typing("room"), None),
    "stop-typing": (lambda channel: channel.stop_typing("room"), None),
    "supports-draft-updates": (lambda channel: channel.supports_draft_updates(), False),
    "send-draft": (lambda channel: channel.send_draft(HELLO), None),
    "update-draft": (lambda channel: channel.update_draft("room", "1", "text"), None),
    "update-draft-progress": (lambda channel: channel.update_draft_progress("room", "1", "text"), None),
    "finalize-draft": (lambda channel: channel.finalize_draft("room", "1", "text"), None),
    "cancel-draft": (lambda channel: channel.cancel_draft("room", "1"), None),
    "add-reaction": (lambda channel: channel.add_reaction("room", "1", "+1"), None),
    "remove-reaction": (lambda channel: channel.remove_reaction("room", "1", "+1"), None),
    "pin-message": (lambda channel: channel.pin_message("room", "1"), None),
    "unpin-message": (lambda channel: channel.unpin_message("room", "1"), None),
    "redact-message": (lambda channel: channel.redact_message("room", "1", "spam"), None),
    "request-approval": (lambda channel: channel.request_approval("room", APPROVAL), None),
    "request-choice": (lambda channel: channel.request_choice("which?", ["a", "b"], 60), None),
    "supports-free-form-ask": (lambda channel: channel.supports_free_form_ask(), True),
    "webhook-ingress": (lambda channel: channel.webhook_path(), None),
}
"""Every optional function of a channel that is called, with what it answers without its flag (PLG-035)."""

NEVER_CALLED = {"drop-self-message", "supports-multi-message-streaming"}
READ_AT_LOAD = {"self-handle", "self-addressed-mention", "multi-message-delay-ms"}


def test_every_flag_of_the_contract_is_in_these_tables():
    assert set(flags()) == set(OPTIONAL) | NEVER_CALLED | READ_AT_LOAD


@pytest.mark.req("PLG-034", "PLG-035")
@pytest.mark.parametrize("flag", OPTIONAL)
def test_without_its_flag_a_function_has_its_default_and_is_never_called(flag, load, asked):
    channel = load(silent())
    call, default = OPTIONAL[flag]
    del asked[:]
    assert run(lambda: call(channel)) == default
    assert (asked, channel.rebuilds) == ([], 0)


@pytest.mark.req("PLG-034", "PLG-035")
def test_without_flags_a_channel_is_nobody_and_sends_its_parts_a_little_apart(load):
    channel = load(silent())
    assert (channel.self_handle, channel.self_addressed_mention) == (None, None)
    assert channel.multi_message_delay_ms == 800
    assert channel.supports_multi_message_streaming is False
    assert channel.drop_self_message(ANY) is False
    refused = run(lambda: channel.parse_webhook(REQUEST))
    assert isinstance(refused, WebhookRejection)
    assert refused.fault is WebhookFault.BAD_REQUEST


@pytest.mark.req("PLG-034")
@pytest.mark.parametrize("flag", OPTIONAL)
def test_its_own_flag_and_no_other_makes_the_host_call_a_function(flag, load, asked, says):
    channel = load(silent())
    call, default = OPTIONAL[flag]
    del asked[:]
    says(channel, set(flags()) - {flag})
    assert run(lambda: call(channel)) == default
    assert asked == []
    says(channel, {flag})
    with pytest.raises(GuestTrap):
        run(lambda: call(channel))
    exported = "webhook-path" if flag == "webhook-ingress" else flag
    assert asked == [(exported, Phase.CHANNEL_SERVICE)]


@pytest.mark.req("PLG-035")
def test_streaming_in_several_messages_is_never_claimed_and_never_asked_about(load):
    channel = load(everything())
    assert "supports-multi-message-streaming" in channel.metadata.capabilities
    assert channel.supports_multi_message_streaming is False
    assert channel.rebuilds == 0


@pytest.mark.parametrize(
    ("handle", "sender", "own"),
    [
        ("@Bot", "bot", True),
        ("bot", "@BOT", True),
        ("bot", "bot2", False),
        ("@@bot", "@bot", False),
        ("STRASSE", "straße", True),
        ("", "", False),
        ("@", "@", False),
        (None, "", False),
    ],
)
def test_the_host_itself_sees_whether_a_message_is_the_channels_own(handle, sender, own, load, says):
    channel = load(silent())
    says(channel, {"drop-self-message", "self-handle"}, handle)
    message = InboundMessage(id="1", sender=sender, reply_target="", content="", channel="", timestamp=0)
    assert channel.drop_self_message(message) is own
    assert channel.rebuilds == 0, "the guest's own function is a trap"


def test_without_the_flag_no_message_is_passed_over(load, says):
    channel = load(silent())
    says(channel, set(flags()) - {"drop-self-message"}, "bot")
    message = InboundMessage(id="1", sender="bot", reply_target="", content="", channel="", timestamp=0)
    assert channel.self_handle == "bot"
    assert channel.drop_self_message(message) is False


# --- what comes back ----------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-025", "PLG-031")
def test_everything_a_guest_answers_arrives_as_what_it_is(load):
    channel = load(everything())

    async def main() -> list[object]:
        return [
            await channel.health_check(),
            await channel.supports_draft_updates(),
            await channel.send_draft(HELLO),
            await channel.request_choice("which?", ("a", "b"), 60),
            await channel.request_approval("room", APPROVAL),
            await channel.supports_free_form_ask(),
            await channel.webhook_path(),
            channel.self_handle,
            channel.self_addressed_mention,
            channel.multi_message_delay_ms,
            await channel.send(HELLO),
            await channel.redact_message("room", "1"),
        ]

    assert anyio.run(main) == [
        False, True, "draft-1", "b", ApprovalResponse(ApprovalDecision.DENY_WITH_EDIT, "less"), False, "hook", "bot", "<@bot>", 250, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        (None, None),
        (("approve", None), ApprovalResponse(ApprovalDecision.APPROVE)),
        (("deny", None), ApprovalResponse(ApprovalDecision.DENY)),
        (("always-approve", None), ApprovalResponse(ApprovalDecision.ALWAYS_APPROVE)),
        (("deny-with-edit", "less"), ApprovalResponse(ApprovalDecision.DENY_WITH_EDIT, "less")),
    ],
)
def test_every_answer_to_a_request_for_approval_is_understood(answer, response):
    assert approval_response(answer) == response


@pytest.mark.req("PLG-115")
def test_a_message_with_megabytes_crosses_whole_and_the_host_says_where_it_came_from(load):
    channel = load(echoing())
    data = bytes(range(256)) * 9000
    sent = SendMessage(
        content="see ✓", recipient="room", attachments=(MediaAttachment("a.bin", data, "x/y"),)
    )
    channel.run_sync(lambda it: it.send(sent))
    received = channel.run_sync(lambda it: it.poll_message())
    assert received is not None
    assert received.attachments == sent.attachments
    assert (received.content, received.timestamp) == ("see ✓", 2**40)
    assert (received.channel, received.channel_alias) == ("plugin", "ops"), "the guest said: forged"
    assert run(channel.poll_message) == received


def test_no_message_is_none(load):
    assert run(load(everything()).poll_message) is None


def test_what_is_no_text_is_refused_before_the_guest_sees_it(load):
    channel = load(everything())
    with pytest.raises(UsageError):
        channel.run_sync(lambda it: it.send(SendMessage(content="half \ud800", recipient="room")))
    with pytest.raises(UsageError):
        run(lambda: channel.request_choice("which?", ["a"], -1))
    assert channel.rebuilds == 0
    channel.run_sync(lambda it: it.send(HELLO))


# --- webhooks -----------------------------------------------------------------------------------------------------------


def test_every_webhook_request_has_an_instance_of_its_own_freshly_configured(load, asked):
    channel = load(hooked())
    del asked[:]
    replies = [run(lambda: channel.parse_webhook(REQUEST)) for _ in range(3)]
    assert replies == [WebhookReply("configured 1, parsed 1")] * 3
    assert asked == [("configure", Phase.CHANNEL_SERVICE), ("parse-webhook", Phase.CHANNEL_SERVICE)] * 3
    assert run(channel.health_check) is True, "the channel's own instance has parsed nothing"
    assert channel.rebuilds == 0


def test_every_method_serves_a_thread_without_an_event_loop_too(load, asked):
    channel = load(hooked())
    del asked[:]
    assert channel.run_sync(lambda it: it.parse_webhook(REQUEST)) == WebhookReply("configured 1, parsed 1")
    assert channel.run_sync(lambda it: it.health_check()) is True
    assert channel.run_sync(lambda it: it.supports_free_form_ask()) is True
    assert run(channel.health_check) is True, "the channel itself is as it was"


MESSAGE = {
    "id": "1",
    "sender": "ann",
    "reply-target": "room",
    "content": "hello",
    "channel": "liar",
    "channel-alias": None,
    "timestamp": 7,
    "thread-ts": "t",
    "interruption-scope-id": "i",
    "attachments": [{"file-name": "f", "data": b"\0\1", "mime-type": None}],
    "subject": "s",
}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Ok(("messages", [])), WebhookMessages(())),
        (
            Ok(("messages", [MESSAGE])),
            WebhookMessages(
                (
                    InboundMessage(
                        id="1",
                        sender="ann",
                        reply_target="room",
                        content="hello",
                        channel="plugin",
                        channel_alias="ops",
                        timestamp=7,
                        thread_ts="t",
                        interruption_scope_id="i",
                        attachments=(MediaAttachment("f", b"\0\1"),),
                        subject="s",
                    ),
                )
            ),
        ),
        (Ok(("reply", "pong")), WebhookReply("pong")),
        (Err(("unauthorized", "no token")), WebhookRejection(WebhookFault.UNAUTHORIZED, "no token")),
        (Err(("bad-request", "no JSON")), WebhookRejection(WebhookFault.BAD_REQUEST, "no JSON")),
    ],
)
def test_every_outcome_of_a_webhook_request_is_understood(answer, outcome):
    assert webhook_outcome(answer, Endpoint("plugin", "ops")) == outcome


def test_a_guests_outcome_of_a_webhook_request_arrives(load):
    outcome = run(lambda: load(everything()).parse_webhook(REQUEST))
    assert outcome == WebhookRejection(WebhookFault.UNAUTHORIZED, "no token")


def test_a_webhook_request_that_ends_its_instance_leaves_the_channels_alone(load):
    channel = load(everything(bodies={"channel.parse-webhook": "unreachable"}))
    with pytest.raises(GuestTrap):
        run(lambda: channel.parse_webhook(REQUEST))
    channel.run_sync(lambda it: it.send(HELLO))
    assert channel.rebuilds == 0


def test_a_webhook_request_that_is_no_text_is_refused(load):
    request = WebhookRequest(method="GET", query="a=\udcff")
    with pytest.raises(UsageError, match="parse-webhook"):
        run(lambda: load(everything()).parse_webhook(request))


def test_a_webhook_request_does_not_show_what_may_be_a_credential():
    assert "s3cret" not in repr(REQUEST)


# --- failure and return -------------------------------------------------------------------------------------------------


@pytest.mark.req("PAINS-6", "PLG-109")
def test_after_a_trap_the_next_call_works_on_a_new_instance_and_is_counted(load):
    channel = load(counting())
    for answer in ("1", "2"):
        with pytest.raises(GuestFailure, match=answer):
            channel.run_sync(lambda it: it.send(HELLO))
    assert channel.rebuilds == 0, "an error the guest answers with keeps it"
    with pytest.raises(GuestTrap):
        run(lambda: channel.start_typing("room"))
    with pytest.raises(GuestFailure, match="1"):
        channel.run_sync(lambda it: it.send(HELLO))
    assert channel.rebuilds == 1


@pytest.mark.req("PLG-031", "PLG-106")
def test_calls_that_come_at_once_are_served_in_their_order(load):
    channel = load(counting())
    answers = list[str]()

    async def send() -> None:
        try:
            await channel.send(HELLO)
        except GuestFailure as error:
            answers.append(error.message)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(9):
                tasks.start_soon(send)

    anyio.run(main)
    assert answers == list("123456789")


@pytest.mark.req("PLG-033", "PLG-170")
def test_a_rebuilt_guest_that_says_something_else_about_itself_is_refused(load, config, clock):
    channel = load(asking(), "config_read")
    config.public = {"greeting": "other"}
    assert channel.self_handle == '{"greeting": "hi"}', "not seen until the lifecycle is rebuilt"
    with pytest.raises(GuestTrap):
        run(lambda: channel.start_typing("room"))
    with pytest.raises(MetadataChanged) as caught:
        run(lambda: channel.request_choice("which?", [], 1))
    assert caught.value.details == {"changed": ("self_handle",)}
    config.public = {"greeting": "hi"}
    assert run(lambda: channel.request_choice("which?", [], 1)) == "1"
    assert channel.rebuilds == 2


@pytest.mark.req("PLG-113")
def test_one_call_sees_one_revision_of_configuration_and_secrets_and_the_next_one_the_next(load, config):
    channel = load(asking(), "config_read")
    resolve = type(config).resolve
    revision = 0

    def changing(scope):
        nonlocal revision
        revision += 1
        config.public, config.secrets = {"greeting": f"revision {revision}"}, {"token": str(revision)}
        return resolve(config, scope)

    config.resolve = changing  # type: ignore[method-assign]
    # The guest ends itself unless both are of one revision.
    assert [run(lambda: channel.request_choice("which?", [], 1)) for _ in range(3)] == ["1", "2", "3"]


def queued(number: int) -> QueuedMessage:
    return QueuedMessage(
        id=str(number), sender="ann", reply_target="r", content="c", channel="irc", timestamp=number
    )


@pytest.mark.req("PLG-031")
def test_messages_that_wait_survive_the_instance_and_the_one_that_was_taken_does_not(load, queues):
    channel = load(asking(), "config_read")
    for number in range(3):
        channel.enqueue(queued(number))
    with pytest.raises(GuestTrap):
        run(lambda: channel.stop_typing("room"))
    assert queues.pending(channel.scope.identity) == 2
    assert [run(channel.health_check) for _ in range(3)] == [True, True, False]


def test_a_closed_channel_is_unavailable(load):
    channel = load(silent())
    run(channel.aclose)
    with pytest.raises(PluginUnavailable):
        channel.run_sync(lambda it: it.send(HELLO))
    assert run(channel.health_check) is True, "nobody needs the guest for that"


def test_a_task_that_is_being_cancelled_closes_its_channel_whole(load):
    channel = load(hooked())

    async def main() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await channel.aclose()

    anyio.run(main)
    assert not channel._warm.alive
    for call in (channel.poll_message, lambda: channel.parse_webhook(REQUEST)):
        with pytest.raises(PluginUnavailable):
            run(call)


def test_a_closed_channel_parses_no_webhook_requests(load):
    channel = load(hooked())
    channel.close()
    with pytest.raises(PluginUnavailable):
        run(lambda: channel.parse_webhook(REQUEST))


def test_closing_a_channel_ends_the_parsing_of_a_webhook_request(load, monkeypatch):
    limits = Limits(call_fuel=10**15)
    channel = load(
        everything(bodies={"channel.parse-webhook": "(loop $on (br $on)) unreachable"}), limits=limits
    )
    call, begun = PluginInstance.call, threading.Event()

    def noted(self, frame, function, *arguments):
        if function == "parse-webhook":
            begun.set()
        return call(self, frame, function, *arguments)

    monkeypatch.setattr(PluginInstance, "call", noted)
    waiting = Waiting(lambda: run(lambda: channel.parse_webhook(REQUEST)))
    assert begun.wait(PATIENCE)
    channel.close()
    with pytest.raises(PluginUnavailable):
        waiting.join()


def test_webhook_requests_are_parsed_one_after_the_other(load, monkeypatch):
    channel = load(hooked())
    inside = most = 0
    begin, close = PluginInstance.__init__, PluginInstance.close

    def counted(self, *arguments, **named):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        begin(self, *arguments, **named)

    def left(self):
        nonlocal inside
        inside -= 1
        close(self)

    monkeypatch.setattr(PluginInstance, "__init__", counted)
    monkeypatch.setattr(PluginInstance, "close", left)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(channel.parse_webhook, REQUEST)

    anyio.run(main)
    assert (inside, most) == (0, 1)


# --- from the host ------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-117")
def test_a_host_loads_the_channel_of_an_installed_package_and_closes_it_with_itself(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "manifest.toml").write_text(manifest_text(Capability.CHANNEL), encoding="utf-8")
    (source / "forged.wasm").write_bytes(echoing())
    cache = Path(__file__).parents[2] / ".cache" / "compiled"
    with PluginHost(tmp_path / "plugins", cache) as host:
        host.install(str(source))
        channel = host.load_channel(host.discover().get("forged"), "ops")
        assert channel.scope.identity.binding == "ops"
        channel.run_sync(lambda it: it.send(HELLO))
        received = run(channel.poll_message)
        assert isinstance(received, InboundMessage)
        assert received.content == "hello"
    assert not channel._warm.alive
    with pytest.raises(PluginUnavailable):
        channel.run_sync(lambda it: it.send(HELLO))
