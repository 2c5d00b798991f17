"""Tests of the plugin as plain Python; no sandbox is needed for them."""

import pytest
from app import {{class_name}}

from zeroclaw_sdk.guest import CallError, InboundMessage, SendMessage
from zeroclaw_sdk.testing import channel

HELLO = SendMessage("hello", recipient="ada")


def test_what_is_sent_carries_the_prefix_and_is_counted():
    with channel({{class_name}}, config={"prefix": "> "}, secrets={"token": "t"}, state={"sent": b"41"}) as (it, host):
        it.send(HELLO)
        assert host.records[-1].message == "> hello"
        assert '"number": 42' in host.records[-1].attrs


def test_a_changed_configuration_counts_from_the_next_call_on():
    with channel({{class_name}}, config={"prefix": "> "}, secrets={"token": "t"}) as (it, host):
        host.configuration["prefix"] = "- "
        it.send(HELLO)
        assert host.records[-1].message == "- hello"


def test_without_its_token_it_says_what_is_missing():
    with channel({{class_name}}) as (it, _):
        with pytest.raises(CallError, match="set the token first"):
            it.send(HELLO)


def test_received_messages_are_passed_on_in_order():
    received = [
        InboundMessage(id=each, sender="ada", reply_target="ada", content=each, timestamp=0)
        for each in ("one", "two")
    ]
    with channel({{class_name}}, inbound=received) as (it, _):
        assert [it.poll_message().content, it.poll_message().content, it.poll_message()] == ["one", "two", None]
