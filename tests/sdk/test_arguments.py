"""JSON as the arguments of the host's functions, and as calls of a channel or memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import StorageError, UsageError
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.state import StateFault
from zeroclaw_host.worlds.kinds import (
    ApprovalDecision,
    ExportFilter,
    MediaAttachment,
    Memory,
    MemoryCategory,
    ProceduralMessage,
    SendMessage,
)
from zeroclaw_sdk.arguments import arguments_of, value_of
from zeroclaw_sdk.run_warm import functions_of, parse_calls, parse_inbound
from zeroclaw_sdk.trial import TrialState


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (str | None, None, None),
        (str | None, "a", "a"),
        (float, 1, 1.0),
        (bool, True, True),
        (Sequence[str], ["a"], ("a",)),
        (tuple[tuple[str, str], ...], [["a", "b"]], (("a", "b"),)),
        (bytes, "ä", "ä".encode()),
        (bytes, {"base64": base64.b64encode(b"\0").decode()}, b"\0"),
        (MemoryCategory, "core", MemoryCategory.CORE),
        (MemoryCategory, "tea", MemoryCategory("tea", custom=True)),
        (ApprovalDecision, "deny", ApprovalDecision.DENY),
        (ExportFilter, {"session-id": "s"}, ExportFilter(session_id="s")),
        (
            SendMessage,
            {"content": "a", "recipient": "b", "attachments": [{"file_name": "f", "data": "x"}]},
            SendMessage(content="a", recipient="b", attachments=(MediaAttachment("f", b"x"),)),
        ),
    ],
)
def test_json_becomes_the_hosts_own_values(kind: object, value: object, expected: object):
    assert value_of(kind, value, "x") == expected


def test_bytes_can_be_those_of_a_file(tmp_path: Path):
    path = tmp_path / "picture"
    path.write_bytes(b"\0\1")
    assert value_of(bytes, {"file": str(path)}, "x") == b"\0\1"
    with pytest.raises(StorageError):
        value_of(bytes, {"file": str(tmp_path / "other")}, "x")


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (str, 1, "x: expected a text"),
        (int, True, "x: expected a whole number"),
        (int, 1.5, "x: expected a whole number"),
        (float, "1", "x: expected a number"),
        (bool, 1, "x: expected true or false"),
        (Sequence[str], "ab", "x: expected an array"),
        (Sequence[str], ["a", 1], r"x\[1\]: expected a text"),
        (tuple[str, str], ["a"], "x: expected an array of 2"),
        (bytes, {"base64": "ä"}, "x: "),
        (bytes, {"base64": "a"}, "x: "),
        (bytes, {"file": "\0"}, "x: "),
        (bytes, "\ud800", "x: "),
        (bytes, 7, "x: expected a text, "),
        (ApprovalDecision, "perhaps", "x: expected one of approve, deny"),
        (ExportFilter, [], "x: expected an object"),
        (ProceduralMessage, {"role": "user"}, "x: content is missing"),
        (ProceduralMessage, {"role": "a", "content": "b", "more": 1}, "x: more is unknown; there are role, "),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(kind: object, value: object, said: str):
    with pytest.raises(UsageError, match=said):
        value_of(kind, value, "x")


def test_a_functions_parameters_are_its_own_and_not_the_hosts():
    assert arguments_of(Memory.recall, {"query": "q", "limit": 1}) == {"query": "q", "limit": 1}
    with pytest.raises(UsageError, match="call_site is unknown; there are query, limit, session_id"):
        arguments_of(Memory.recall, {"query": "q", "limit": 1, "call_site": None})


def test_calls_are_an_object_or_an_array_of_them():
    text = '[{"forget": {"key": "a"}, "count": {}}, {"purge-namespace": {"namespace": "n"}}]'
    calls = parse_calls(text, Capability.MEMORY)
    assert [(each.function, each.arguments) for each in calls] == [
        ("forget", {"key": "a"}),
        ("count", {}),
        ("purge_namespace", {"namespace": "n"}),
    ]
    assert parse_calls("{}", Capability.CHANNEL) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("1", "calls are JSON objects"),
        ("[[]]", "calls are JSON objects"),
        ('{"aclose": {}}', "a memory has no function aclose; there are store_entry, "),
        ('{"_ask": {}}', "no function _ask"),
        ('{"count": []}', "the arguments of count are a JSON object"),
    ],
)
def test_what_is_no_call_is_said(text: str, said: str):
    with pytest.raises(UsageError, match=said):
        parse_calls(text, Capability.MEMORY)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from([*functions_of(Capability.CHANNEL), "message", "content", "x"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_calls_or_a_usage_error(value: object):
    text = json.dumps(value)
    for capability in (Capability.CHANNEL, Capability.MEMORY):
        with suppress(UsageError, StorageError):
            parse_calls(text, capability)
    with suppress(UsageError):
        parse_inbound(text)


def test_a_message_for_the_queue_needs_its_content_alone():
    [first, second] = parse_inbound('[{"content": "a"}, {"content": "b", "sender": "ada", "timestamp": 5}]')
    assert (first.id, first.sender, first.reply_target, first.content) == ("1", "somebody", "somebody", "a")
    assert (second.id, second.sender, second.reply_target, second.timestamp) == ("2", "ada", "ada", 5)
    for text in ("[1]", '{"sender": "ada"}', '{"content": "a", "timestamp": -1}'):
        with pytest.raises(UsageError):
            parse_inbound(text)


def test_state_of_a_trial_is_that_of_one_instance():
    from zeroclaw_host.instance import InstanceIdentity

    kept = TrialState()
    one, other = (InstanceIdentity(name, Capability.TOOL, "x") for name in "ab")
    assert kept.put(one, "k", b"1", None) == 1
    assert kept.get(other, "k") is None
    found = kept.get(one, "k")
    assert found is not None
    assert (found.value, found.revision) == (b"1", 1)
    for attempt in (
        lambda: kept.put(one, "k", b"", None),
        lambda: kept.delete(one, "k", 7),
        lambda: kept.get(one, ""),
    ):
        with pytest.raises(StateFault):
            attempt()
    kept.delete(one, "k", 1)
    assert kept.get(one, "k") is None
