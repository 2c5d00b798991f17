"""What a channel's imports answer, phase by phase and to the end of the budget."""

from __future__ import annotations

import json

import pytest
from plugin_parts import Clock, Config, scope_of

from zeroclaw_host.imports import config, inbound, secrets
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS, CallFrame, Phase, entered
from zeroclaw_host.sandbox.gate import Gated
from zeroclaw_host.sandbox.interface import HostInterface
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.inbound import QueuedMessage
from zeroclaw_host.services.logging import MemoryLogSink

MESSAGE = QueuedMessage(
    id="1", sender="ann", reply_target="room", content="hello", channel="irc", channel_alias="ops",
    timestamp=2**40, thread_ts="t", interruption_scope_id="i", subject="s",
)  # fmt: skip


@pytest.fixture
def settings() -> Config:
    return Config({"greeting": "hi ✓"}, {"token": "s3cret"})


@pytest.fixture
def new_frame(settings):
    """Frames of one channel instance."""
    services = InstanceServices(config=settings, log=MemoryLogSink())

    def make(*permissions: str, phase: Phase = Phase.CHANNEL_SERVICE) -> CallFrame:
        scope = scope_of(Capability.CHANNEL, *permissions)
        return CallFrame(scope=scope, services=services, limits=Limits(), phase=phase, clock=Clock())

    return make


def ask(frame: CallFrame, interface: HostInterface, function: str, *arguments: object) -> object:
    """Call through the gate, as a guest does."""
    gated = Gated(interface.name, interface.functions[function])
    with entered(frame):
        worked, value = gated.pass_through(lambda frame: list(arguments), lambda frame, value: value)
    assert worked, frame.error
    return value


@pytest.mark.req("PLG-006", "PLG-031")
def test_config_gives_the_public_part_as_a_json_object(new_frame):
    answer = ask(new_frame("config_read"), config.INTERFACE, "get")
    assert isinstance(answer, Ok)
    assert json.loads(str(answer.value)) == {"greeting": "hi ✓"}


@pytest.mark.req("PLG-006")
def test_without_the_permission_config_is_denied_and_not_read(new_frame, settings):
    assert ask(new_frame(), config.INTERFACE, "get") == Err("access-denied")
    assert settings.asked == 0


def test_a_configuration_that_does_not_resolve_is_unavailable_and_tried_once_a_frame(new_frame, settings):
    settings.failing = True
    frame = new_frame("config_read")
    assert [ask(frame, config.INTERFACE, "get") for _ in range(3)] == [Err("unavailable")] * 3
    assert settings.asked == 1


@pytest.mark.parametrize("phase", [Phase.STANDARD, Phase.TOOL_EXECUTE])
def test_outside_its_own_calls_a_channel_has_no_configuration(phase, new_frame, settings):
    assert ask(new_frame("config_read", phase=phase), config.INTERFACE, "get") == Err("unavailable")
    assert settings.asked == 0


@pytest.mark.req("PLG-113")
def test_config_and_secrets_of_one_frame_are_of_one_revision(new_frame, settings):
    frame = new_frame("config_read")
    before = ask(frame, config.INTERFACE, "get")
    settings.public, settings.secrets = {"greeting": "changed"}, {"token": "rotated"}
    assert ask(frame, secrets.INTERFACE, "get", "token") == Ok("s3cret")
    assert ask(frame, config.INTERFACE, "get") == before
    following = new_frame("config_read")
    assert ask(following, secrets.INTERFACE, "get", "token") == Ok("rotated")
    assert ask(following, config.INTERFACE, "get") == Ok('{"greeting": "changed"}')


@pytest.mark.req("PLG-024")
def test_the_call_after_the_budget_finds_config_unavailable_and_the_next_frame_has_it_again(new_frame):
    frame = new_frame("config_read")
    answers = [ask(frame, config.INTERFACE, "get") for _ in range(MAX_HOST_CALLS)]
    assert all(isinstance(answer, Ok) for answer in answers)
    assert ask(frame, config.INTERFACE, "get") == Err("unavailable")
    assert isinstance(ask(new_frame("config_read"), config.INTERFACE, "get"), Ok)


# --- inbound ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-031")
@pytest.mark.parametrize("phase", [Phase.STANDARD, Phase.CHANNEL_SERVICE])
def test_a_message_is_taken_once_and_whole_in_every_frame(phase, new_frame):
    frame = new_frame(phase=phase)
    frame.services.inbound.put(frame.scope.identity, MESSAGE)
    assert ask(frame, inbound.INTERFACE, "inbound-pending") == 1
    assert ask(frame, inbound.INTERFACE, "inbound-poll") == {
        "id": "1",
        "sender": "ann",
        "reply-target": "room",
        "content": "hello",
        "channel": "irc",
        "channel-alias": "ops",
        "timestamp": 2**40,
        "thread-ts": "t",
        "interruption-scope-id": "i",
        "subject": "s",
    }
    assert ask(frame, inbound.INTERFACE, "inbound-poll") is None
    assert ask(frame, inbound.INTERFACE, "inbound-pending") == 0


@pytest.mark.req("PLG-024")
@pytest.mark.parametrize(("function", "answer"), [("inbound-poll", None), ("inbound-pending", 0)])
def test_after_the_budget_nothing_seems_to_wait_and_the_queue_is_untouched(function, answer, new_frame):
    frame = new_frame()
    queue, identity = frame.services.inbound, frame.scope.identity
    queue.put(identity, MESSAGE)
    for _ in range(MAX_HOST_CALLS):
        assert ask(frame, inbound.INTERFACE, "inbound-pending") == 1
    assert ask(frame, inbound.INTERFACE, function) == answer
    assert queue.pending(identity) == 1
    assert ask(new_frame(), inbound.INTERFACE, "inbound-poll") is not None


def test_another_instance_has_its_own_messages(new_frame):
    frame = new_frame()
    other = scope_of(Capability.CHANNEL, binding="other")
    frame.services.inbound.put(other.identity, MESSAGE)
    assert ask(frame, inbound.INTERFACE, "inbound-poll") is None
