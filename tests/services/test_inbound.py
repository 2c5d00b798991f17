"""Messages that wait for a channel: in order, bounded, each taken once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind, UsageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.inbound import (
    MAX_BYTES,
    MAX_MESSAGES,
    InboundQueues,
    InboundRefused,
    MessageTooLarge,
    QueuedMessage,
)

OPS = InstanceIdentity("chat", Capability.CHANNEL, "ops")
OTHER = InstanceIdentity("chat", Capability.CHANNEL, "other")


def message(content: str = "", number: int = 0, **more: object) -> QueuedMessage:
    """A message whose only text is its content."""
    return QueuedMessage(
        id="", sender="", reply_target="", content=content, channel="", timestamp=number, **more  # type: ignore[arg-type]
    )  # fmt: skip


@given(st.lists(st.one_of(st.integers(0, 100), st.none()), max_size=60))
def test_messages_come_out_in_the_order_in_which_they_went_in_each_once(steps):
    queues, expected = InboundQueues(), list[int]()
    for step in steps:
        if step is None:
            found = queues.poll(OPS)
            assert (None if found is None else found.timestamp) == (expected.pop(0) if expected else None)
        else:
            queues.put(OPS, message(number=step))
            expected.append(step)
        assert queues.pending(OPS) == len(expected)


def test_each_instance_has_a_queue_of_its_own():
    queues = InboundQueues()
    queues.put(OPS, message("for ops"))
    assert (queues.poll(OTHER), queues.pending(OTHER), queues.pending(OPS)) == (None, 0, 1)


def test_a_queue_takes_as_many_messages_as_allowed_and_refuses_the_newest():
    queues = InboundQueues()
    for number in range(MAX_MESSAGES):
        queues.put(OPS, message(number=number))
    with pytest.raises(InboundRefused) as caught:
        queues.put(OPS, message(number=MAX_MESSAGES))
    assert caught.value.kind is Kind.UNAVAILABLE, "the sender may try again"
    assert caught.value.details == {"waiting": MAX_MESSAGES, "waiting_bytes": 0}
    assert (queues.pending(OPS), queues.refused(OPS), queues.refused(OTHER)) == (MAX_MESSAGES, 1, 0)
    first = queues.poll(OPS)
    assert first is not None
    assert first.timestamp == 0
    queues.put(OPS, message(number=MAX_MESSAGES))


def test_a_queue_takes_as_many_bytes_as_allowed():
    queues = InboundQueues()
    half = "é" * (MAX_BYTES // 4)
    queues.put(OPS, message(half))
    queues.put(OPS, message(half))
    with pytest.raises(InboundRefused):
        queues.put(OPS, message("x"))
    queues.poll(OPS)
    queues.put(OPS, message(half))
    assert queues.refused(OPS) == 1


def test_every_text_of_a_message_counts():
    sized = QueuedMessage(
        id="1", sender="22", reply_target="333", content="4444", channel="55555", channel_alias="666666",
        timestamp=9, thread_ts="7777777", interruption_scope_id="88888888", subject="999999999",
    )  # fmt: skip
    assert sized.size == sum(range(1, 10))


def test_a_message_larger_than_any_queue_is_refused_for_good():
    queues = InboundQueues(max_bytes=10)
    queues.put(OPS, message("ten bytes."))
    queues.poll(OPS)
    with pytest.raises(MessageTooLarge) as caught:
        queues.put(OPS, message("eleven byte"))
    assert caught.value.details == {"bytes": 11, "maximum": 10}
    assert queues.pending(OPS) == 0


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_timestamp_that_no_guest_can_be_given_is_refused_at_the_door(number):
    with pytest.raises(UsageError, match="64 bits"):
        message(number=number)
    assert message(number=2**64 - 1).timestamp == 2**64 - 1


@pytest.mark.parametrize("field", ["content", "subject"])
def test_a_text_that_is_none_is_refused_at_the_door(field):
    with pytest.raises(UsageError, match="UTF-8"):
        QueuedMessage(
            **{"id": "", "sender": "", "reply_target": "", "content": "", "channel": "", "timestamp": 0, field: "\udc80"}  # type: ignore[arg-type]
        )  # fmt: skip


def test_threads_that_put_and_take_at_once_lose_and_double_nothing():
    queues = InboundQueues(max_messages=10_000)

    def put(worker: int) -> None:
        for number in range(500):
            queues.put(OPS, message(number=worker * 500 + number))

    def take() -> list[int]:
        taken = list[int]()
        while len(taken) < 1000:
            found = queues.poll(OPS)
            if found is not None:
                taken.append(found.timestamp)
        return taken

    with ThreadPoolExecutor(6) as pool:
        takers = [pool.submit(take) for _ in range(2)]
        for worker in range(4):
            pool.submit(put, worker)
        taken = [number for each in takers for number in each.result(30)]
    assert sorted(taken) == list(range(2000))
