"""What taking up a session costs in memory: not its whole transcript."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from chat_store_child import chat_store_at
from hypothesis import example, given
from hypothesis import strategies as st
from session_model import BEGAN, store_at

from zeroclaw_daemon.agent.context_budget import tokens_of
from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, ToolMessage, UserMessage
from zeroclaw_daemon.sessions.keeping import KeepsAcp, KeepsChats
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.facade import AcpSessions, ChatSessions
from zeroclaw_daemon.sessions.store.folding import ASSISTANT, TOOL, USER, Piece, messages_of, newest_turns
from zeroclaw_daemon.sessions.store.records import NewSession

LONG = 256 * 1024
TURNS = 24


def turn(store: AcpStore | ChatStore, number: int, said: str, context: list[UserMessage]) -> None:
    called = ToolCalled(f"c{number}", "bash", {"command": said})
    returned = ToolReturned(f"c{number}", "bash", "two files", True)
    store.begin("s", f"t{number}", said, BEGAN)
    if isinstance(store, AcpStore):
        for event in (MessageChunk(said), called, returned):
            store.append("s", f"t{number}", event)
        store.finish("s", f"t{number}", context)
    else:
        events = [(event, BEGAN) for event in (MessageChunk(said), called, returned)]
        store.finish("s", f"t{number}", events, context)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("at", [store_at, chat_store_at])
async def test_a_session_is_taken_up_without_its_transcript(
    tmp_path: Path, at: Callable[[Path], AcpStore | ChatStore]
) -> None:
    new = NewSession("s", "agent", "/work")
    with closing(at(tmp_path)) as store:
        keeper = (
            KeepsAcp(AcpSessions(store)) if isinstance(store, AcpStore) else KeepsChats(ChatSessions(store))
        )
        store.create(new)
        for number in range(TURNS):
            turn(store, number, "x" * LONG, [UserMessage("all of it, in short")])
        tracemalloc.start()
        try:
            seed = await keeper.take_up(new, None)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await anyio.lowlevel.checkpoint()
    assert seed.history == (UserMessage("all of it, in short"),)
    assert seed.call_ids == {f"c{number}" for number in range(TURNS)}
    assert peak < TURNS * LONG  # the prompts alone


@pytest.mark.req("RPC-144")
@pytest.mark.parametrize(
    ("make", "name"), [(AcpStore, "acp-sessions.db"), (ChatStore, "sessions.db")], ids=["acp", "chat"]
)
def test_without_a_snapshot_the_model_is_given_what_fits_and_the_client_is_told(
    tmp_path: Path, make: type[AcpStore | ChatStore], name: str
) -> None:
    given = [UserMessage("p" * 40), UserMessage("q" * 40)]

    def resumed(max_given: int) -> tuple[object, bool]:
        with closing(make(tmp_path / name, max_given=max_given)) as store:
            if store.find("s") is None:
                store.create(NewSession("s", "agent", "/work"))
                for prompt in given:
                    store.begin("s", "t", prompt.text, BEGAN)
                    store.recover("s")
            restored = store.resume("s")
            return restored.context, restored.session.trimmed

    cost = tokens_of(given)
    assert resumed(cost) == (tuple(given), False)
    assert resumed(cost - 1) == ((given[1],), True)


pieces = st.lists(
    st.one_of(
        st.builds(lambda text: Piece(USER, text, ""), st.text(max_size=9)),
        st.builds(lambda text: Piece(ASSISTANT, text, ""), st.text(max_size=9)),
        st.builds(
            lambda ids: Piece(ASSISTANT, "", "", [ToolCalled(each, "bash", {}) for each in ids]),
            st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
        ),
        st.builds(
            lambda each: Piece(TOOL, "", "", [], [ToolReturned(each, "bash", "done", True)]),
            st.sampled_from("abc"),
        ),
    ),
    max_size=12,
)


@example(
    kept=[
        Piece(ASSISTANT, "", "", [ToolCalled("c", "bash", {}), ToolCalled("a", "bash", {})]),
        Piece(TOOL, "", "", [], [ToolReturned("a", "bash", "done", True)]),
        Piece(TOOL, "", "", [], [ToolReturned("c", "bash", "done", True)]),
    ],
    budget=17,
)
@given(kept=pieces, budget=st.integers(0, 120))
def test_the_newest_whole_turns_that_fit_are_given(kept: list[Piece], budget: int) -> None:
    context, cut = newest_turns(reversed(kept), budget)
    assert cut is (tokens_of(messages_of(kept)) > budget)
    if cut:
        assert tokens_of(context) <= budget
        assert not context or isinstance(context[0], UserMessage)
    # The same from nothing less than all of it: what is given is the end of what would be.
    whole, _ = newest_turns(reversed(kept), 1_000_000)
    assert whole[len(whole) - len(context) :] == context
    calls = [call.id for each in context if isinstance(each, AssistantMessage) for call in each.tool_calls]
    results = [each.call_id for each in context if isinstance(each, ToolMessage)]
    assert sorted(calls) == sorted(results), "a call has its result, in whatever order those came"


def test_no_more_of_a_transcript_is_read_than_is_given() -> None:
    taken: list[str] = []

    def newest() -> Iterator[Piece]:
        for text in ("newest", "older", "oldest"):
            taken.append(text)
            yield Piece(USER, text, "")

    context, cut = newest_turns(newest(), tokens_of([UserMessage("newest")]))
    assert (context, cut, taken) == ((UserMessage("newest"),), True, ["newest", "older"])
