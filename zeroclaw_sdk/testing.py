"""Calling a plugin as plain Python, for its author's tests.

    answer = call(Redact, {"text": "mail ada@example.org"}, config={"replacement": "*"})
    assert answer.output == "mail *"

    with channel(Relay, config={"prefix": "> "}) as (relay, host):
        relay.send(SendMessage("hello", recipient="ada"))
        assert host.records[-1].message == "> hello"

    with memory(Notebook) as (notebook, host):
        notebook.store_entry("tea", "green", CORE, None)
        assert notebook.recall("green", 5, None, None, None)[0].key == "tea"

    network = FakeNetwork(http=[reply("GET", "https://api.example.com/now", json={"degrees": 7})])
    assert call(Weather, {"city": "Oslo"}, network=network).output == "7 degrees"
    assert network.requests[0].headers["authorization"] == "Bearer key"

Arguments, results and configuration take the same way as in the sandbox: they are checked, converted and reported on alike.
What a component adds (limits, the host's own checks) is what ``zeroclaw-plugin run`` shows.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from zeroclaw_sdk.fake_network import (
    Closed,
    Ended,
    Failure,
    FakeNetwork,
    FakeSocket,
    FakeWebSocket,
    Nothing,
    Reply,
    Route,
    SentRequest,
    Unscripted,
    deny,
    fail,
    reply,
)
from zeroclaw_sdk.guest.channel import Channel, ChannelDefinition
from zeroclaw_sdk.guest.functions import Definition
from zeroclaw_sdk.guest.host import LogEvent, RecordingHost, StateEntry, use_host
from zeroclaw_sdk.guest.memory import Memory, MemoryDefinition
from zeroclaw_sdk.guest.messages import InboundMessage
from zeroclaw_sdk.guest.tool import CONFIG_MEMBER, Tool, ToolDefinition

__all__ = [
    "Answer",
    "Closed",
    "Ended",
    "Failure",
    "FakeNetwork",
    "FakeSocket",
    "FakeWebSocket",
    "LogEvent",
    "Nothing",
    "RecordingHost",
    "Reply",
    "Route",
    "SentRequest",
    "Unscripted",
    "call",
    "capabilities",
    "channel",
    "deny",
    "fail",
    "memory",
    "parameters_schema",
    "reply",
]

C = TypeVar("C", bound=Channel)
M = TypeVar("M", bound=Memory)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call ended with, and what the plugin logged and requested meanwhile."""

    success: bool
    output: str
    error: str | None
    logs: tuple[LogEvent, ...]
    requests: tuple[SentRequest, ...] = ()


def call(
    tool: type[Tool],
    arguments: Mapping[str, object],
    *,
    config: Mapping[str, object] | None = None,
    secrets: Mapping[str, str] | None = None,
    state: dict[str, StateEntry] | None = None,
    http: Iterable[Route] | Callable[[SentRequest], Reply | Failure] = (),
    network: FakeNetwork | None = None,
) -> Answer:
    """Call a tool once.

    :param arguments: the arguments object, as JSON values.
    :param config: the public configuration, as JSON values.
    :param secrets: secret properties by name.
    :param state: what the plugin has stored. The call changes it; give it to the next call as well.
    :param http: what is requested, and what comes back (:func:`reply`, :func:`fail`, :func:`deny`, or a function).
    :param network: a whole network, in the place of ``http``; give it to several calls to let them share it.
    :raises DefinitionInvalid: the class cannot be turned into a tool.
    :raises Exception: whatever the tool raised, apart from ToolError, which is an answer.
    """
    there = FakeNetwork(http) if network is None else network
    before = len(there.requests)
    host = RecordingHost(secrets=dict(secrets or {}), state={} if state is None else state, network=there)
    whole = dict(arguments) | ({CONFIG_MEMBER: dict(config)} if config else {})
    with use_host(host):
        outcome = ToolDefinition(tool).call(json.dumps(whole))
    requests = tuple(there.requests[before:])
    return Answer(outcome.success, outcome.output, outcome.error, tuple(host.records), requests)


def parameters_schema(tool: type[Tool]) -> Mapping[str, object]:
    """The JSON Schema that the model sees for this tool."""
    return ToolDefinition(tool).parameters_schema


@contextmanager
def channel(
    cls: type[C],
    *,
    config: Mapping[str, object] | None = None,
    secrets: Mapping[str, str] | None = None,
    inbound: Iterable[InboundMessage] = (),
    state: Mapping[str, bytes] | None = None,
    network: FakeNetwork | None = None,
) -> Generator[tuple[C, RecordingHost]]:
    """A configured channel and the host it talks to, for the time of the block.

    What the host has can be looked at and changed at any time: ``host.records``, ``host.configuration``, ``host.secrets``,
    ``host.inbound``, ``host.state``. The first is the log; a test that changes the second or third tries a rotation.

    :param config: the public configuration, as JSON values.
    :param secrets: secret properties by name.
    :param inbound: messages that the host received before.
    :param state: values that an earlier instance left.
    :param network: what it can connect to; nothing when left out.
    :raises DefinitionInvalid: the class cannot be turned into a channel.
    :raises AnswerInvalid: from a call, whose result or argument has no place in the contract.
    :raises Exception: whatever ``configure``, or later a call, raised.
    """
    host = RecordingHost(
        secrets=dict(secrets or {}),
        configuration=dict(config or {}),
        inbound=deque(inbound),
        network=network or FakeNetwork(),
    )
    for key, value in (state or {}).items():
        host.state_put(key, value, None)
    definition = ChannelDefinition(cls)
    with use_host(host):
        definition.call("configure")
        yield cast("C", _Checked(definition)), host


@contextmanager
def memory(cls: type[M]) -> Generator[tuple[M, RecordingHost]]:
    """An empty memory and the host it talks to, for the time of the block. That host has nothing but a log.

    :raises DefinitionInvalid: the class cannot be turned into a memory.
    :raises AnswerInvalid: from a call, whose result or argument has no place in the contract.
    :raises Exception: whatever a call raised.
    """
    host = RecordingHost(serves=False)
    with use_host(host):
        yield cast("M", _Checked(MemoryDefinition(cls))), host


def capabilities(plugin: type[Channel] | type[Memory]) -> frozenset[str]:
    """The flags the host will see: what of the optional functions the class defines, in the contract's words."""
    if issubclass(plugin, Channel):
        return ChannelDefinition(plugin).flags
    return MemoryDefinition(plugin).flags


class _Checked:
    """Stands for a plugin's instance. Functions of the contract are called as a host calls them; all else is the instance's."""

    def __init__(self, definition: Definition) -> None:
        object.__setattr__(self, "_definition", definition)

    def __getattr__(self, name: str) -> Any:
        definition: Definition = object.__getattribute__(self, "_definition")
        if name not in definition.functions:
            return getattr(definition.instance, name)
        return _checked(definition, name)

    def __setattr__(self, name: str, value: object) -> None:
        definition: Definition = object.__getattribute__(self, "_definition")
        setattr(definition.instance, name, value)


def _checked(definition: Definition, name: str) -> Callable[..., Any]:
    function = definition.functions[name]
    signature = inspect.Signature(
        [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in function.parameters]
    )

    def call_checked(*arguments: object, **named: object) -> Any:
        given = signature.bind(*arguments, **named).arguments
        checked = [
            crossing.check(given[each], f"{name}: {each}") for each, crossing in function.parameters.items()
        ]
        return definition.call(name, *checked)

    return call_checked
