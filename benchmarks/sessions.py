"""What durable sessions cost: a piece of an answer that is written before it is told, and a long session taken up again."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import Measurement
from zeroclaw_daemon.agent.events import MessageChunk
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, UserMessage
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.records import NewSession

MESSAGES = 10_000
RESUME_GOAL_MS = 200.0
APPEND_GOAL_MS = 2.0
"""A streamed chunk is to be with the client that long after the provider sent it."""
APPENDS = 1000
ROUNDS = 5
SAID = "a sentence of an ordinary length, as people and models say them. " * 3


def measure() -> Iterator[Measurement]:
    """A session of 10 000 messages, with and without a snapshot, and the chunks of one answer."""
    with tempfile.TemporaryDirectory() as scratch, closing(AcpStore(Path(scratch) / "acp.db")) as store:
        context: list[Message] = []
        for name in ("kept", "replayed"):
            store.create(NewSession(name, "agent", "/work"))
        for number in range(MESSAGES // 2):
            context += [UserMessage(SAID), AssistantMessage(SAID)]
            for name in ("kept", "replayed"):
                store.begin(name, str(number), SAID, datetime.now(UTC))
                store.append(name, str(number), MessageChunk(SAID))
            store.finish("kept", str(number), [] if number + 1 < MESSAGES // 2 else context)
            store.recover("replayed")
        found = {
            "from its snapshot": _median_ms(lambda: store.resume("kept")),
            "from its transcript": _median_ms(lambda: store.resume("replayed")),
            "what its client sees": _median_ms(lambda: store.entries("kept")),
        }
        assert len(store.resume("kept").context) == MESSAGES
        yield Measurement(
            f"A session of {MESSAGES} messages, taken up again, median",
            found,
            goal=f"< {RESUME_GOAL_MS:g} ms",
            met=max(found.values()) < RESUME_GOAL_MS,
        )
        store.begin("kept", "now", SAID, datetime.now(UTC))
        times = [_once_ms(lambda: store.append("kept", "now", MessageChunk("word "))) for _ in range(APPENDS)]
        yield Measurement(
            "A chunk of an answer, written before it is told, median",
            {"append": statistics.median(times)},
            goal=f"< {APPEND_GOAL_MS:g} ms",
            met=statistics.median(times) < APPEND_GOAL_MS,
        )


def _median_ms(work: Callable[[], object]) -> float:
    return statistics.median(_once_ms(work) for _ in range(ROUNDS))


def _once_ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
