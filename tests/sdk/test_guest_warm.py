"""Channel and memory classes: the flags they set, what crosses the boundary, what their definitions must have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.contract import FlagsType, RecordType, VariantType, contract
from zeroclaw_sdk.guest import (
    CORE,
    SECRET,
    ApprovalResponse,
    CallError,
    Channel,
    ConfigError,
    InboundMessage,
    MediaAttachment,
    Memory,
    MemoryCategory,
    MemoryEntry,
    Secret,
    SecretError,
    SendMessage,
    StateError,
    Tool,
    WebhookRequest,
    config,
    entries,
    inbound,
    messages,
    secrets,
    state,
)
from zeroclaw_sdk.guest.channel import ChannelDefinition
from zeroclaw_sdk.guest.config import ConfigInvalid
from zeroclaw_sdk.guest.crossing import case_name, crossing_of
from zeroclaw_sdk.guest.exports import find_class
from zeroclaw_sdk.guest.faults import AnswerInvalid, DefinitionInvalid
from zeroclaw_sdk.guest.functions import functions_of
from zeroclaw_sdk.guest.host import RecordingHost, use_host
from zeroclaw_sdk.guest.memory import MemoryDefinition
from zeroclaw_sdk.testing import capabilities, channel, memory


class Bare(Channel):
    name = "bare"

    def send(self, message):
        self.last = message

    def poll_message(self):
        return inbound.poll()


class Least(Memory):
    name = "least"

    def __init__(self):
        self.kept = {}

    def store_with_agent(self, key, content, category, session_id, namespace, importance, agent_id):
        self.kept[key] = MemoryEntry(key, key, content, category, "", session_id, agent_id=agent_id)

    def recall(self, query, limit, session_id, since, until):
        return list(self.kept.values())[:limit]

    def get(self, key):
        return self.kept.get(key)

    def list_entries(self, category, session_id):
        return tuple(self.kept.values())

    def forget(self, key):
        return self.kept.pop(key, None) is not None


BASES = [(Channel, "channel"), (Memory, "memory")]
NEVER_ASKED = {"drop-self-message", "supports-multi-message-streaming"}


def flags(interface: str) -> set[str]:
    read = contract().interface(f"zeroclaw:plugin/{interface}").functions[f"get-{interface}-capabilities"]
    assert isinstance(read.result, FlagsType)
    return set(read.result.labels)


@pytest.mark.parametrize(("base", "interface"), BASES)
def test_a_base_class_declares_what_the_contract_does(base: type, interface: str):
    declared = functions_of(base)
    functions = contract().interface(f"zeroclaw:plugin/{interface}").functions
    answered = {"name", f"get-{interface}-capabilities"} | NEVER_ASKED
    assert {name.replace("_", "-") for name in declared} == functions.keys() - answered
    for name, function in declared.items():
        params = [param.replace("-", "_") for param, _ in functions[name.replace("_", "-")].params]
        assert list(function.parameters) == params
    assert {flag for each in declared.values() for flag in each.mark.flags} == flags(interface) - NEVER_ASKED


@pytest.mark.parametrize(("module", "interface"), [(messages, "channel"), (entries, "memory")])
def test_the_guests_values_have_the_contracts_fields_and_cases(module: ModuleType, interface: str):
    """By way of the functions' types: each record and variant there has a class of its name here."""
    seen = 0
    for function in contract().interface(f"zeroclaw:plugin/{interface}").functions.values():
        for kind in [kind for _, kind in function.params] + [function.result]:
            match kind:
                case RecordType(members):
                    seen += 1
                    wanted = [name.replace("-", "_") for name, _ in members]
                    assert any(
                        sorted(wanted) == sorted(each.name for each in fields(cls))
                        for cls in vars(module).values()
                        if inspect.isclass(cls) and hasattr(cls, "__dataclass_fields__")
                    ), wanted
                case VariantType(cases):
                    seen += 1
                    wanted = {name: payload is not None for name, payload in cases}
                    assert wanted == {"all": False, "some": True} or any(
                        dict(cls.CASES) == wanted for cls in vars(module).values() if hasattr(cls, "CASES")
                    ), wanted
                case _:
                    pass
    assert seen > 2


@pytest.mark.parametrize(
    ("base", "least", "interface"), [(Channel, Bare, "channel"), (Memory, Least, "memory")]
)
def test_a_method_that_is_defined_is_a_flag_that_is_set(base: type, least: type, interface: str):
    assert capabilities(least) == frozenset()
    for name, function in functions_of(base).items():
        members: dict[str, Any] = {name: getattr(base, name)} if function.mark.flags else {}
        members = {key: lambda self, *_, was=value: was(self, *_) for key, value in members.items()}
        if function.mark.flags == ("webhook-ingress",):
            members = {
                "webhook_path": lambda self: "x",
                "parse_webhook": lambda self, request: "x",
            }
        assert capabilities(type("More", (least,), members)) == set(function.mark.flags)


def test_the_host_hears_of_drafts_when_they_can_be_changed():
    class Drafts(Bare):
        def update_draft(self, recipient, message_id, text):
            pass

    with channel(Drafts) as (it, _), channel(Bare) as (bare, _):
        assert (it.supports_draft_updates(), bare.supports_draft_updates()) == (True, False)
    assert capabilities(Drafts) == {"update-draft", "supports-draft-updates"}


def broken(base: type = Bare, **members: object) -> type:
    return type("Broken", (base,), members)


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (broken(name=7), 'Broken: set `name = "..."` on the class'),
        (broken(name=""), 'Broken: set `name = "..."` on the class'),
        (type("Broken", (Channel,), {"name": "x"}), "Broken: define `send`"),
        (type("Broken", (Memory,), {"name": "x"}), "Broken: define `recall`"),
        (
            type("Broken", (Channel,), {"name": "x", "sendd": lambda self, message: None}),
            "define `send`; did you mean that by `sendd`",
        ),
        (
            broken(add_reactions=lambda self: None),
            "add_reactions is never called by the host: write `add_reaction`",
        ),
        (
            type("Further", (broken(helth_check=lambda self: True),), {}),
            "helth_check .* write `health_check`",
        ),
        (broken(send=None), "Broken.send must be a method"),
        (broken(send=lambda self: None), r"Broken.send must take \(self, message\)"),
        (broken(poll_message=lambda self, more: None), "Broken.poll_message must take nothing but self"),
        (broken(webhook_path=lambda self: None), "define `parse_webhook` too, or neither"),
        (broken(parse_webhook=lambda self, request: ""), "define `webhook_path` too, or neither"),
        (broken(__annotations__={"config": int}), "config must be annotated with a dataclass"),
        (broken(Least, __annotations__={"config": Any}), "a memory plugin has no configuration"),
    ],
)
def test_a_mistake_in_a_class_is_one_sentence(cls: type, said: str):
    with pytest.raises(DefinitionInvalid, match=said):
        (ChannelDefinition if issubclass(cls, Channel) else MemoryDefinition)(cls)


def test_a_name_like_one_of_the_contracts_is_ones_own_beside_it_or_behind_an_underscore():
    mine = {"configured": lambda self: True, "configure": lambda self: None, "_health_checks": lambda self: 1}
    assert "configured" not in ChannelDefinition(broken(**mine)).defined


def test_neither_tasks_nor_generators_can_answer():
    class Waits(Bare):
        async def send(self, message):
            pass

    class Yields(Bare):
        def poll_message(self):
            yield None

    for cls in (Waits, Yields):
        with pytest.raises(DefinitionInvalid, match="plain function"):
            ChannelDefinition(cls)


@pytest.mark.parametrize("base", [Channel, Memory, Tool])
def test_the_one_class_of_each_kind_is_found(base: type):
    module = ModuleType("app")
    with pytest.raises(DefinitionInvalid, match=f"app defines no subclass of {base.__name__}"):
        find_class(module, base)
    module.Base = base
    module.First = first = type("First", (base,), {})
    module.Second = second = type("Second", (first,), {})
    assert find_class(module, base) is second
    module.Other = type("Other", (base,), {})
    with pytest.raises(DefinitionInvalid, match="exactly one"):
        find_class(module, base)


# --- values -----------------------------------------------------------------------------------------------------------


def generated(name: str) -> Callable[..., SimpleNamespace]:
    """Stands for a class that componentize-py generates."""
    return type(
        name,
        (SimpleNamespace,),
        {"__init__": lambda self, *a, **k: vars(self).update(k, **({"value": a[0]} if a else {}))},
    )


WIT = SimpleNamespace(
    **{
        name: generated(name) for name in ("InboundMessage", "MediaAttachment", "MemoryEntry", "ExportFilter")
    },
    **{
        case_name(cls.__name__, word): generated(case_name(cls.__name__, word))
        for cls in (MemoryCategory, ApprovalResponse)
        for word in cls.CASES
    },
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
optional = st.none() | text
categories = st.sampled_from([CORE, MemoryCategory("daily")]) | st.builds(MemoryCategory.custom, text)
samples = st.one_of(
    st.builds(
        InboundMessage,
        text,
        text,
        text,
        text,
        st.integers(0, 2**64 - 1),
        text,
        optional,
        attachments=st.lists(st.builds(MediaAttachment, text, st.binary(max_size=9), optional)).map(tuple),
    ),
    st.builds(
        MemoryEntry,
        text,
        text,
        text,
        categories,
        text,
        optional,
        st.none() | st.floats(allow_nan=False),
        text,
    ),
    categories,
    st.just(ApprovalResponse.deny_with_edit("x")),
)


@given(samples)
def test_a_value_that_goes_out_and_comes_in_is_the_same(value: object):
    crossing = crossing_of(type(value), "")
    assert crossing.inward(crossing.outward(crossing.check(value, "x"), WIT)) == value


@pytest.mark.parametrize(
    ("kind", "value", "checked"),
    [
        (str, "half \ud800", "half ?"),
        (bytes, bytearray(b"x"), b"x"),
        (bytes, memoryview(b"xy")[1:], b"y"),
        (float, 3, 3.0),
        (Sequence[int], [0, 2**64 - 1], (0, 2**64 - 1)),
        (tuple[tuple[str, str], ...], [("a", "b")], (("a", "b"),)),
        (str | None, None, None),
        (MemoryCategory, MemoryCategory.custom("\ud800"), MemoryCategory.custom("?")),
    ],
)
def test_what_can_be_understood_is(kind: object, value: object, checked: object):
    assert crossing_of(kind, "").check(value, "x") == checked


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (str, None, "x: expected a text, got NoneType"),
        (str | None, 1, "x: expected a text, got int"),
        (bytes, "x", "x: expected bytes, got str"),
        (int, True, "x: expected a whole number from 0 to 2^64-1"),
        (int, -1, "x: expected a whole number from 0 to 2^64-1"),
        (int, 2**64, "x: expected a whole number from 0 to 2^64-1"),
        (int, 1.0, "x: expected a whole number from 0 to 2^64-1, got float"),
        (float, "1", "x: expected a number, got str"),
        (float, True, "x: expected a number, got bool"),
        (float, 10**400, "x: expected a number"),
        (bool, 1, "x: expected True or False, got int"),
        (None, 0, "x: expected None, got int"),
        (Sequence[str], "ab", "x: expected a list, got str"),
        (Sequence[str], ["a", 1], "x[1]: expected a text, got int"),
        (tuple[str, str], ("a",), "x: expected a tuple of 2"),
        (MemoryCategory, "core", "x: expected MemoryCategory, got str"),
        (InboundMessage, "hi", "x: expected InboundMessage, got str"),
        (
            InboundMessage,
            InboundMessage("", "", "", "", 0, attachments=(MediaAttachment("", 7),)),
            "x.attachments[0].data: expected bytes, got int",
        ),
    ],
)
def test_what_has_no_place_in_the_contract_is_named_by_its_place(kind: object, value: object, said: str):
    with pytest.raises(AnswerInvalid) as raised:
        crossing_of(kind, "").check(value, "x")
    assert str(raised.value) == said


def test_a_type_without_a_place_in_the_contract_is_no_annotation():
    with pytest.raises(DefinitionInvalid, match=r"x: .*set.* has no place"):
        crossing_of(set[str], "x")


@pytest.mark.parametrize(
    ("case", "words"),
    [("recipes", None), ("custom", None), ("core", "x"), ("custom", 7)],
)
def test_a_case_that_there_is_not_cannot_be_made(case: str, words: Any):
    with pytest.raises(ValueError, match="MemoryCategory"):
        MemoryCategory(case, words)


def test_a_category_reads_as_its_name():
    assert (str(CORE), str(MemoryCategory.custom("core")), MemoryCategory.custom("core") == CORE) == (
        "core",
        "core",
        False,
    )


# --- a channel as plain Python ----------------------------------------------------------------------------------------


@dataclass
class Config:
    room: str = "hall"
    token: Secret = SECRET


class Configured(Bare):
    config: Config

    def configure(self):
        if not self.config.room:
            raise CallError("which room?")

    def send(self, message):
        if self.config.token.get() != message.content:
            raise CallError(self.config.room)

    def health_check(self):
        return "yes"


@pytest.mark.req("PLG-114")
def test_each_look_at_the_configuration_is_a_question_to_the_host():
    with channel(Configured, config={"room": "hall"}, secrets={"token": "a"}) as (it, host):
        it.send(SendMessage("a", "ada"))
        host.secrets = {"token": "b"}
        host.configuration = {"room": "attic"}
        with pytest.raises(CallError, match="attic"):
            it.send(SendMessage("a", "ada"))
        assert it.config is not it.config
        with pytest.raises(AttributeError, match="not kept"):
            it.config = Config()
        host.configuration = {"room": 7}
        with pytest.raises(ConfigInvalid, match="expected a string"):
            it.send(SendMessage("a", "ada"))


def test_what_was_not_declared_cannot_be_looked_at():
    with channel(Bare) as (it, _), pytest.raises(AttributeError, match="annotate `config"):
        _ = it.config


def test_a_channel_that_cannot_be_configured_is_not_handed_out():
    with pytest.raises(CallError, match="which room"), channel(Configured, config={"room": ""}):
        raise AssertionError("not reached")


def test_arguments_and_results_are_checked_as_in_the_sandbox():
    with channel(Configured) as (it, _):
        with pytest.raises(AnswerInvalid, match="health_check returned: expected True or False, got str"):
            it.health_check()
        with pytest.raises(AnswerInvalid, match="send: message: expected SendMessage, got str"):
            it.send("hello")
        with pytest.raises(TypeError):
            it.send()
    with channel(Bare) as (it, _):
        it.send(message=SendMessage("a", "ada"))
        assert it.last.content == "a"
        it.last = None
        assert it.last is None


@pytest.mark.parametrize("answer", ["hello", [], [InboundMessage("1", "a", "a", "", 0)]])
def test_a_webhook_is_answered_by_a_text_or_by_messages(answer: object):
    class Hook(Bare):
        def webhook_path(self):
            return "hook"

        def parse_webhook(self, request):
            return None if request.method == "PUT" else answer

    with channel(Hook) as (it, _):
        found = it.parse_webhook(WebhookRequest("POST", "", (), b""))
        assert found == (answer if isinstance(answer, str) else tuple(answer))
        with pytest.raises(AnswerInvalid, match="a text or a list of InboundMessage"):
            it.parse_webhook(WebhookRequest("PUT", "", (), b""))


def test_a_header_is_found_in_any_spelling():
    request = WebhookRequest("GET", "", (("X-Token", "a"), ("x-token", "b")), b"")
    assert (request.header("x-tOKEN"), request.header("other")) == ("a", None)


def test_messages_wait_their_turn():
    waiting = [InboundMessage(each, "a", "a", "", 0) for each in "12"]
    with channel(Bare, inbound=waiting) as (it, _):
        assert inbound.pending() == 2
        assert [it.poll_message(), it.poll_message(), it.poll_message()] == [*waiting, None]


def test_state_is_written_by_its_revisions():
    with channel(Bare, state={"old": b"1"}):
        assert state.get("old") == state.StateEntry(b"1", 1)
        assert state.put("new", bytearray(b"2")) == 2
        assert state.put("new", b"3", 2) == 3
        for attempt, word in [
            (lambda: state.put("new", b""), "conflict"),
            (lambda: state.put("none", b"", 1), "conflict"),
            (lambda: state.delete("new", 2), "conflict"),
            (lambda: state.delete("none", 1), "not-found"),
            (lambda: state.get("no key"), "invalid-key"),
            (lambda: state.get("k" * 129), "invalid-key"),
            (lambda: state.put("large", b"x" * (64 * 1024 + 1)), "quota-exceeded"),
        ]:
            with pytest.raises(StateError) as raised:
                attempt()
            assert raised.value.word == word
        assert state.put("large", b"x" * 64 * 1024) == 4
        state.delete("new", 3)
        assert state.get("new") is None
        assert state.put("new", b"") == 5
        with pytest.raises(TypeError, match="a value is bytes, not str"):
            state.put("text", "x")


# --- a memory as plain Python -----------------------------------------------------------------------------------------


def test_five_methods_answer_for_all_that_is_always_asked():
    with memory(Least) as (it, _):
        it.store_entry("a", "tea", CORE, "s")
        it.store_with_agent("b", "milk", CORE, None, None, None, "me")
        assert (it.count(), it.health_check()) == (2, True)
        assert [each.key for each in it.recall_for_agents(["me"], "", 1, None, None, None)] == ["b"]
        assert [each.key for each in it.recall_for_agents(None, "", 1, None, None, None)] == ["a"]
        assert [each.key for each in it.recall_for_agents([], "", 5, None, None, None)] == ["a", "b"]
        assert it.forget_for_agent("b", "you") is False
        assert it.forget_for_agent("b", "me") is True
        assert it.forget_for_agent("c", "me") is False
        assert it.get("a").session_id == "s"


@pytest.mark.req("PLG-118")
def test_a_memory_has_the_log_and_nothing_else():
    with memory(Least):
        for attempt, error in [
            (lambda: secrets.get("x"), SecretError),
            (lambda: config.get(), ConfigError),
            (lambda: state.get("x"), StateError),
        ]:
            with pytest.raises(error) as raised:
                attempt()
            assert raised.value.word == "unavailable"
        assert inbound.poll() is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConfigError("unavailable"),
            "configuration: unavailable (a tool gets it with each call, as `self.config`, when its class names",
        ),
        (
            ConfigError("access-denied"),
            "configuration: access-denied (the manifest does not request the permission",
        ),
        (SecretError("token", "unavailable"), "secret token: unavailable (a tool is served"),
        (SecretError("token", "not-found"), "secret token: not-found"),
        (StateError("k", "access-denied"), "state k: access-denied (the manifest does not request"),
        (StateError("k", "conflict"), "state k: conflict"),
    ],
)
def test_a_hosts_word_is_explained_where_it_alone_does_not_say_what_to_do(error: Exception, said: str):
    assert str(error).startswith(said)


def test_a_recording_host_shows_no_secret():
    host = RecordingHost(secrets={"token": "hunter2"})
    assert "hunter2" not in repr(host)
    with use_host(host):
        assert secrets.get("token") == "hunter2"
