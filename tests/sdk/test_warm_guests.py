"""Channels and memories written in Python, built, and called as a host calls them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import GuestFailure, GuestTrap, MemoryLimit, OutOfFuel, PluginUnavailable
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.limits import MAX_LIST_ELEMENTS, Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import SchemaConfigResolver
from zeroclaw_host.services.inbound import QueuedMessage
from zeroclaw_host.services.logging import CallSite, MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResponse,
    ExportFilter,
    InboundMessage,
    MediaAttachment,
    MemoryCategory,
    MemoryEntry,
    ProceduralMessage,
    SendMessage,
    WebhookFault,
    WebhookMessages,
    WebhookRejection,
    WebhookReply,
    WebhookRequest,
)
from zeroclaw_host.worlds.memory import MemoryPlugin
from zeroclaw_sdk.trial import TrialState


class World:
    """A plugin's instance and all that a host has of it."""

    def __init__(self, plugin: Any, identity: InstanceIdentity, services: InstanceServices) -> None:
        self.plugin = plugin
        self.identity = identity
        self.services = services
        self.config: dict[str, str] = {}

    @property
    def log(self) -> MemoryLogSink:
        assert isinstance(self.services.log, MemoryLogSink)
        return self.services.log


class ChannelWorld(World):
    plugin: ChannelPlugin

    def send(self, content: str, *attachments: MediaAttachment) -> None:
        self.plugin.run_sync(
            lambda it: it.send(SendMessage(content=content, recipient="ada", attachments=attachments))
        )

    def answer(self, content: str, *attachments: MediaAttachment) -> InboundMessage:
        """What the plugin says to a message."""
        self.send(content, *attachments)
        found = self.plugin.run_sync(lambda it: it.poll_message())
        assert found is not None
        return found


class MemoryWorld(World):
    plugin: MemoryPlugin

    def recall(self, query: str) -> list[MemoryEntry]:
        return list(self.plugin.run_sync(lambda it: it.recall(query, 10)))

    def store(self, key: str, content: str = "c") -> None:
        self.plugin.run_sync(lambda it: it.store_entry(key, content, MemoryCategory.CORE))


@pytest.fixture(scope="module")
def load(built_plugin: Callable[[str], Path], sandbox: Sandbox) -> Iterator[Callable[..., Any]]:
    """Loads a plugin under ``plugins/``."""
    with ExitStack() as opened:

        def make(name: str, limits: Limits, config: dict[str, str]) -> World:
            package = admit(DirectoryReader(built_plugin(name)), SignaturePolicy())
            [capability] = package.manifest.capabilities
            identity = InstanceIdentity(name, capability, "main")
            scope = InstanceScope.admit(identity, package.manifest)
            services = InstanceServices(
                config=SchemaConfigResolver(lambda _: package.config_schema, lambda _: config),
                log=MemoryLogSink(),
                state=TrialState(),
            )
            channel = capability is Capability.CHANNEL
            kind = ChannelPlugin if channel else MemoryPlugin
            plugin = kind.load(sandbox, package, scope, services, limits)
            opened.callback(plugin.close)
            found = (ChannelWorld if channel else MemoryWorld)(plugin, identity, services)
            found.config = config
            return found

        yield make


@pytest.fixture
def relay(load: Callable[..., ChannelWorld]) -> ChannelWorld:
    return load("relay", Limits(), {"token": "t0"})


@pytest.fixture
def notes(load: Callable[..., MemoryWorld]) -> MemoryWorld:
    return load("notes", Limits(), {})


class TestChannel:
    @pytest.mark.req("PLG-031")
    def test_one_instance_remembers_from_call_to_call(self, relay: ChannelWorld):
        assert [relay.answer("count").content for _ in range(3)] == ["1", "2", "3"]
        assert relay.plugin.rebuilds == 0

    @pytest.mark.req("PLG-024")
    def test_each_call_has_looks_of_its_own(self, relay: ChannelWorld):
        """What earlier calls looked does not slow a later one down: its budget is whole."""
        assert [relay.answer("look 3").content for _ in range(2)] == ["3", "3"]

    def test_flags_are_what_the_class_defines(self, relay: ChannelWorld):
        assert relay.plugin.metadata.capabilities == {
            "health-check",
            "self-handle",
            "multi-message-delay-ms",
            "request-approval",
            "request-choice",
            "send-draft",
            "update-draft",
            "supports-draft-updates",
            "webhook-ingress",
        }
        assert (relay.plugin.self_handle, relay.plugin.multi_message_delay_ms) == ("@relay", 20)

    @pytest.mark.req("PLG-114")
    def test_a_rotated_configuration_and_secret_count_from_the_next_call_on(self, relay: ChannelWorld):
        assert relay.answer("config").content == "> t0"
        relay.config |= {"prefix": "- ", "token": "t1"}
        assert relay.answer("config").content == "- t1"

    @pytest.mark.req("PLG-114")
    def test_configuration_cannot_be_kept_on_the_instance(self, relay: ChannelWorld):
        with pytest.raises(GuestFailure, match="config is not kept"):
            relay.send("keep")

    @pytest.mark.req("PLG-115")
    @pytest.mark.parametrize("size", [0, 1, 65_537, 5_000_000])
    def test_an_attachment_of_several_megabytes_arrives_identical(self, relay: ChannelWorld, size: int):
        data = random.Random(size).randbytes(size)
        answer = relay.answer("attached", MediaAttachment("picture", data, "image/png"))
        assert answer.content == f"{size} {sha256(data).hexdigest()}"

    @pytest.mark.req("PLG-115")
    def test_an_attachment_comes_back_identical(self, relay: ChannelWorld):
        data = random.Random(0).randbytes(2_000_000)
        attachment = MediaAttachment("picture", data, "image/png")
        answer = relay.answer("attached back", attachment, MediaAttachment("empty", b""))
        assert answer.attachments == (attachment, MediaAttachment("empty", b""))

    @pytest.mark.req("PLG-115")
    def test_a_list_over_the_engines_own_bound_is_an_error_that_names_the_bound(self, relay: ChannelWorld):
        [whole] = relay.answer(f"make {MAX_LIST_ELEMENTS}").attachments
        assert len(whole.data) == MAX_LIST_ELEMENTS
        relay.send(f"make {MAX_LIST_ELEMENTS + 10_000}")
        with pytest.raises(MemoryLimit, match=str(MAX_LIST_ELEMENTS)) as raised:
            relay.plugin.run_sync(lambda it: it.poll_message())
        assert raised.value.details["maximum"] == MAX_LIST_ELEMENTS
        assert relay.answer("count").content == "1"

    def test_state_outlives_the_instance_and_conflicts_are_told(self, relay: ChannelWorld):
        assert relay.answer("remember tea").content == "1"
        assert relay.answer("remember milk").content == "2"
        with pytest.raises(OutOfFuel):
            relay.send("spin")
        assert relay.answer("recollect").content == "milk"
        relay.send("forget")
        relay.send("state free")
        for detail, word in [
            ("free", "conflict"),
            ("late", "conflict"),
            ("no key", "invalid-key"),
            ("large", "quota-exceeded"),
        ]:
            with pytest.raises(GuestFailure, match=f"StateError: state {detail}: {word}"):
                relay.send(f"state {detail}")
        for revision in ("-1", str(2**64)):
            with pytest.raises(GuestFailure, match="ValueError: a revision is"):
                relay.send(f"revision {revision}")

    def test_messages_of_the_host_are_passed_on(self, relay: ChannelWorld):
        for number in range(2):
            relay.services.inbound.put(
                relay.identity,
                QueuedMessage(
                    id=str(number),
                    sender="ada",
                    reply_target="room",
                    content="hi",
                    channel="x",
                    timestamp=5,
                    thread_ts="t",
                    interruption_scope_id="i",
                    subject="s",
                ),
            )
        found = relay.plugin.run_sync(lambda it: it.poll_message())
        assert found == InboundMessage(
            id="0",
            sender="ada",
            reply_target="room",
            content="hi",
            channel="plugin",
            channel_alias="main",
            timestamp=5,
            thread_ts="t",
            interruption_scope_id="i",
            subject="s",
        )

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("refuse", "not today"),
            ("raise", "LookupError: no such room\n  app.py:"),
            ("exit", "SystemExit: 3"),
            ("foreign", "Err: SecretError.NOT_FOUND"),
            ("secret nothing", "SecretError: secret nothing: not-found"),
        ],
    )
    def test_what_goes_wrong_is_the_answer_and_the_instance_stays(
        self, relay: ChannelWorld, content: str, said: str
    ):
        with pytest.raises(GuestFailure) as raised:
            relay.send(content)
        assert raised.value.message.startswith(said) or f".{said}" in raised.value.message
        assert (relay.answer("count").content, relay.plugin.rebuilds) == ("2", 0)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("late raise", "LookupError: lost"),
            ("late exit", "SystemExit: 3"),
            ("wrong number", "poll_message returned: expected InboundMessage, got int"),
            ("wrong text", "poll_message returned.content: expected a text, got int"),
            ("wrong time", "poll_message returned.timestamp: expected a whole number from 0 to 2^64-1"),
        ],
    )
    def test_what_a_function_without_error_result_meets_ends_the_instance_but_not_without_a_word(
        self, relay: ChannelWorld, content: str, said: str
    ):
        relay.send(content)
        with pytest.raises(GuestTrap) as raised:
            relay.plugin.run_sync(lambda it: it.poll_message())
        assert said in raised.value.message
        assert (relay.answer("count").content, relay.plugin.rebuilds) == ("1", 1)

    def test_a_refusal_of_a_function_without_error_result_is_none_and_a_record(self, relay: ChannelWorld):
        relay.send("late refuse")
        assert relay.plugin.run_sync(lambda it: it.poll_message()) is None
        [record] = relay.log.records
        assert (record.level, record.function, record.message) == ("warn", "Relay.poll_message", "empty")

    def test_a_configuration_that_is_refused_keeps_the_channel_from_loading(self, load: Callable[..., Any]):
        with pytest.raises(GuestFailure, match="not with this prefix"):
            load("relay", Limits(), {"prefix": "refuse"})


@pytest.fixture
def run_async() -> Callable[[Any], Any]:
    """What a coroutine function returns, in an event loop of its own."""
    import anyio

    return anyio.run


class TestChannelQuestions:
    def test_questions_drafts_and_webhooks_cross_the_boundary(
        self, relay: ChannelWorld, run_async: Callable[[Any], Any]
    ):
        channel = relay.plugin
        request = ApprovalRequest(tool_name="rm", arguments_summary="all", raw_arguments="{}")
        draft = SendMessage(content="a", recipient="ada", subject="s", thread_ts="t", in_reply_to="m")

        async def ask() -> list[object]:
            return [
                await channel.request_approval("nobody", request),
                await channel.request_approval("boss", request),
                await channel.request_approval("ada", request),
                await channel.request_choice("which?", ["a", "b"], 5),
                await channel.request_choice("which?", [], 5),
                await channel.supports_draft_updates(),
                await channel.send_draft(draft),
                await channel.update_draft("ada", "draft", "more"),
                await channel.webhook_path(),
                await channel.parse_webhook(WebhookRequest(method="GET")),
                await channel.parse_webhook(
                    WebhookRequest(method="POST", headers=(("X-Token", "challenge"),), body="ä".encode())
                ),
                await channel.parse_webhook(WebhookRequest(method="POST", headers=(("x-token", "bad"),))),
            ]

        assert run_async(ask) == [
            None,
            ApprovalResponse(ApprovalDecision.DENY_WITH_EDIT, "not rm"),
            ApprovalResponse(ApprovalDecision.APPROVE),
            "b",
            None,
            True,
            "draft",
            None,
            "relay",
            WebhookRejection(WebhookFault.UNAUTHORIZED, "who are you?"),
            WebhookReply("ä"),
            WebhookRejection(WebhookFault.BAD_REQUEST, "what is this?"),
        ]
        message = channel.run_sync(lambda it: it.poll_message())
        assert message is not None
        assert message.content == "draft: more"

        async def receive() -> object:
            return await channel.parse_webhook(
                WebhookRequest(method="POST", query="q=1", headers=(("x-token", "t"),))
            )

        found = run_async(receive)
        assert isinstance(found, WebhookMessages)
        assert [each.content for each in found.messages] == ["q=1"]

    def test_an_ailing_channel_says_no_to_the_question_for_its_health(
        self, relay: ChannelWorld, run_async: Callable[[Any], Any]
    ):
        assert run_async(relay.plugin.health_check)
        for _ in range(101):
            relay.send("x")
        assert not run_async(relay.plugin.health_check)
        assert relay.log.records[-1].message.startswith("RuntimeError: tired")


class TestMemory:
    @pytest.mark.req("PLG-032")
    def test_a_stored_entry_is_recalled_by_a_later_call(self, notes: MemoryWorld):
        category = MemoryCategory("recipes", custom=True)
        memory = notes.plugin
        memory.run_sync(
            lambda it: it.store_with_agent(
                "tea", "green", category, session_id="s", namespace="n", importance=0.5, agent_id="a"
            )
        )
        [found] = notes.recall("green")
        assert found == MemoryEntry(
            id="n0",
            key="tea",
            content="green",
            category=category,
            timestamp="2026-01-01T00:00:00Z",
            session_id="s",
            namespace="n",
            importance=0.5,
            agent_id="a",
        )
        assert memory.run_sync(lambda it: it.get("tea")) == found
        assert memory.run_sync(lambda it: it.get_for_agent("tea", "b")) is None
        assert memory.run_sync(lambda it: it.recall_for_agents(["a", "b"], "green", 5)) == [found]
        assert memory.run_sync(lambda it: it.recall_for_agents(["b"], "green", 5)) == []
        assert memory.run_sync(lambda it: it.recall_for_agents(None, "green", 5)) == [found]
        assert memory.run_sync(lambda it: it.recall_namespaced("n", "green", 5)) == [found]
        assert memory.run_sync(lambda it: it.list_entries(category)) == [found]
        assert memory.run_sync(lambda it: it.list_entries(MemoryCategory.CORE)) == []
        assert memory.run_sync(lambda it: it.export_entries(ExportFilter(session_id="s"))) == [found]
        assert memory.run_sync(lambda it: it.forget_for_agent("tea", "b")) is False
        assert memory.run_sync(lambda it: it.count()) == 1
        assert memory.run_sync(lambda it: it.purge_namespace("n")) == 1
        assert memory.run_sync(lambda it: it.forget("tea")) is False

    def test_flags_are_what_the_class_defines(self, notes: MemoryWorld):
        assert notes.plugin.capabilities == {"purge-namespace", "store-procedural", "export-entries"}

    def test_it_learns_from_messages(self, notes: MemoryWorld):
        messages = [ProceduralMessage("user", "boil", "ada"), ProceduralMessage("tool", "boiled")]
        notes.plugin.run_sync(lambda it: it.store_procedural(messages, session_id="s"))
        assert [each.key for each in notes.recall("boil")] == ["ada", "tool"]

    @pytest.mark.req("PLG-028")
    def test_its_records_say_for_whom_it_was_called(self, notes: MemoryWorld):
        site = CallSite({"agent": "scout"})
        notes.plugin.run_sync(lambda it: it.store_entry("k", "c", MemoryCategory.CORE, call_site=site))
        [record] = notes.log.records
        assert (record.message, record.call_site, record.instance) == ("stored", site, notes.identity)

    @pytest.mark.req("PLG-118")
    def test_it_has_the_log_and_nothing_else(self, notes: MemoryWorld):
        assert [each.content.partition(" (")[0] for each in notes.recall("services")] == [
            "secret token: unavailable",
            "configuration: unavailable",
            "state a: unavailable",
            "0 None",
        ]

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("raise", "LookupError: no index\n  app.py:"),
            ("wrong", "AnswerInvalid: Notes.recall returned[0]: expected MemoryEntry, got str"),
            ("recurse", "RecursionError: "),
            ("memory", "MemoryError"),
        ],
    )
    def test_what_goes_wrong_is_the_answer_and_nothing_is_lost(
        self, notes: MemoryWorld, query: str, said: str
    ):
        notes.store("k")
        with pytest.raises(GuestFailure) as raised:
            notes.recall(query)
        assert raised.value.message.startswith(said)
        assert [each.key for each in notes.recall("c")] == ["k"]

    def test_a_refusal_carries_no_lines(self, notes: MemoryWorld):
        with pytest.raises(GuestFailure, match=r"^an entry needs a key$"):
            notes.store("")

    def test_an_ailing_memory_says_no_to_the_question_for_its_health(self, notes: MemoryWorld):
        assert notes.plugin.run_sync(lambda it: it.health_check())
        for key in "abc":
            notes.store(key)
        assert not notes.plugin.run_sync(lambda it: it.health_check())

    @pytest.mark.req("PLG-107", "PLG-111", "PLG-112")
    def test_it_is_lost_with_its_entries_and_comes_back_empty(self, load: Callable[..., MemoryWorld]):
        notes = load("notes", Limits(call_fuel=200_000_000), {})
        notes.store("k")
        with pytest.raises(OutOfFuel):
            notes.recall("spin")
        for _ in range(3):
            with pytest.raises(PluginUnavailable, match="plugin instance is unavailable"):
                notes.recall("c")
        notes.plugin.run_sync(lambda it: it.rebuild())
        assert notes.recall("c") == []
