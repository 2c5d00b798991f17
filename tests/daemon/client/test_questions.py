"""What the daemon asks of a person, and how it is answered."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.client import (
    Accepted,
    ApprovalRequest,
    ConnectionLost,
    Decision,
    Declined,
    Question,
    RemoteError,
    Update,
    Verdict,
    VerdictRefused,
)
from zeroclaw_daemon.client.questions import Choice, FieldKind, FormField, read_question
from zeroclaw_daemon.client.updates import read_update
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.framing import MAX_FRAME_BYTES

SCHEMA = {
    "type": "object",
    "properties": {
        "choice": {"type": "string", "title": "Which?", "oneOf": [{"const": "choice-0", "title": "Tea"}]},
        "choices": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}, {"title": "no value"}]},
        },
        "amount": {"type": "integer"},
        "sure": {"type": "boolean"},
        "size": {"enum": ["s", "m"]},
        "words": {"type": "string", "description": "In your words"},
    },
    "required": ["choice"],
}
REQUEST = {"requestId": "r", "toolName": "bash", "argumentsSummary": "{}", "timeoutSecs": 120}


def test_a_form_is_read_field_by_field() -> None:
    question = read_question({"sessionId": "s", "message": "Well?", "requestedSchema": SCHEMA})
    assert (question.session_id, question.message) == ("s", "Well?")
    assert question.fields == (
        FormField("choice", "Which?", FieldKind.CHOICE, True, (Choice("choice-0", "Tea"),)),
        FormField("choices", "", FieldKind.CHOICES, False, (Choice("a", "A"), Choice("b", "b")), 1, 2),
        FormField("amount", "", FieldKind.INTEGER, False),
        FormField("sure", "", FieldKind.BOOLEAN, False),
        FormField("size", "", FieldKind.CHOICE, False, (Choice("s", "s"), Choice("m", "m"))),
        FormField("words", "In your words", FieldKind.TEXT, False),
    )


def test_a_question_without_a_form_is_answered_in_words() -> None:
    assert read_question({"message": "Well?"}) == Question(
        None, "Well?", (FormField("answer", "", FieldKind.TEXT),)
    )


WORDS = [
    "type",
    "properties",
    "required",
    "items",
    "oneOf",
    "anyOf",
    "enum",
    "const",
    "title",
    "minItems",
    "sessionId",
    "message",
    "requestedSchema",
    "text",
    "toolCallId",
    "name",
    "x",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_a_daemon_sends_is_read_as_something(value: Any) -> None:
    assert read_question(value).fields
    read = read_update(value)
    assert (read is None) != (isinstance(value, dict) and isinstance(value.get("sessionId"), str))


@pytest.mark.anyio
@pytest.mark.req("RPC-251")
async def test_questions_are_answered_and_other_requests_refused(meet) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Accepted:
        asked.append(question)
        return Accepted({"answer": "yes"})

    async with meet(answer=answer) as (_, daemon):
        params = {"sessionId": "s", "message": "Well?"}
        await daemon.send({"method": "elicitation/create", "params": params, "id": "zc-out-0"})
        assert await daemon.receive() == {
            "jsonrpc": "2.0",
            "id": "zc-out-0",
            "result": {"action": "accept", "content": {"answer": "yes"}},
        }
        assert [question.message for question in asked] == ["Well?"]
        await daemon.send({"method": "tools/run", "params": {}, "id": "zc-out-1"})
        refused = await daemon.receive()
        assert (refused["id"], refused["error"]["code"]) == ("zc-out-1", -32601)


@pytest.mark.anyio
async def test_without_anybody_to_ask_the_daemon_is_told_so(meet) -> None:
    async with meet() as (client, daemon), anyio.create_task_group() as tasks:
        tasks.start_soon(client.initialize)
        assert (await daemon.introduce())["clientCapabilities"] == {}
        await daemon.send({"method": "elicitation/create", "params": {"message": "?"}, "id": 1})
        assert (await daemon.receive())["error"]["code"] == -32601


@pytest.mark.anyio
async def test_with_somebody_to_ask_the_daemon_is_told_that_too(meet) -> None:
    async def answer(question: Question) -> Declined:
        return Declined()

    async with meet(answer=answer) as (client, daemon), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.initialize(token="secret"))
        said = await daemon.introduce()
        assert said["clientCapabilities"] == {"elicitation": {"form": {}}}
        assert said["authToken"] == "secret"


@pytest.mark.anyio
@pytest.mark.req("RPC-251")
async def test_while_a_person_thinks_everything_else_goes_on(meet) -> None:
    thinking, decided = anyio.Event(), anyio.Event()

    async def answer(question: Question) -> Declined:
        thinking.set()
        await decided.wait()
        return Declined()

    async with meet(answer=answer) as (client, daemon), anyio.create_task_group() as tasks:
        await daemon.send({"method": "elicitation/create", "params": {"message": "?"}, "id": "zc-out-1"})
        await thinking.wait()
        state: list[Any] = []

        async def ask() -> None:
            state.append(await client.session_state("s"))

        tasks.start_soon(ask)
        request = await daemon.asked("session/state")
        await daemon.answer(request, {"sessionId": "s", "state": "running"})
        await daemon.settle()
        assert state[0].state == "running"
        decided.set()
        assert (await daemon.receive())["result"] == {"action": "decline"}


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["tool_result", "turn_complete"])
async def test_a_question_that_nobody_waits_for_any_more_is_taken_back(meet, end: str) -> None:
    thinking, gone = anyio.Event(), anyio.Event()

    async def answer(question: Question) -> Declined:
        thinking.set()
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        return Declined()

    async with meet(answer=answer) as (_, daemon):
        params = {"sessionId": "s", "message": "?"}
        await daemon.send({"method": "elicitation/create", "params": params, "id": 1})
        await thinking.wait()
        await daemon.update("other", "turn_complete", outcome="completed")
        await daemon.settle()
        assert not gone.is_set()
        await daemon.update("s", end, outcome="completed", toolCallId="t", name="n", rawOutput="")
        assert (await daemon.receive())["result"] == {"action": "cancel"}
        assert gone.is_set()


@pytest.mark.anyio
async def test_an_approval_is_asked_for_and_said(meet) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Verdict:
        asked.append(request)
        return Verdict(Decision.REJECT_WITH_EDIT, "ls instead")

    async with meet(approve=approve) as (client, daemon):
        turn = client.prompt("s", "hi")
        prompt = await daemon.asked("session/prompt")
        await daemon.update("s", "approval_request", **REQUEST)
        said = await daemon.asked("session/approve")
        assert said["params"] == {
            "sessionId": "s", "requestId": "r", "decision": "reject_with_edit", "replacement": "ls instead",
        }  # fmt: skip
        await daemon.answer(said, {"sessionId": "s", "requestId": "r", "acknowledged": True})
        await daemon.answer(prompt, {"sessionId": "s", "stopReason": "end_turn", "content": ""})
        await turn.finished()
        assert [request.tool_name for request in asked] == ["bash"]


@pytest.mark.anyio
async def test_an_approval_is_not_asked_for_longer_than_the_tool_waits(meet) -> None:
    clock = ManualClock()
    thinking, gone = anyio.Event(), anyio.Event()

    async def approve(request: ApprovalRequest) -> Verdict:
        thinking.set()
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        return Verdict(Decision.ALLOW_ONCE)

    async with meet(approve=approve, clock=clock) as (_, daemon):
        await daemon.update("s", "approval_request", **REQUEST)
        await thinking.wait()
        clock.advance(119)
        await daemon.settle()
        assert not gone.is_set()
        clock.advance(1)
        with anyio.fail_after(60):
            await gone.wait()
        await daemon.settle()  # nothing was said to the daemon


async def allow(request: ApprovalRequest) -> Verdict:
    return Verdict(Decision.ALLOW_ONCE)


@pytest.mark.anyio
async def test_a_decision_that_comes_when_its_session_has_ended_is_no_fault(meet) -> None:
    async with meet(approve=allow) as (_, daemon):
        await daemon.update("s", "approval_request", **REQUEST)
        said = await daemon.asked("session/approve")
        await daemon.refuse(said, -32000, "gone", reason="session_not_found")
        await daemon.settle()


@pytest.mark.anyio
@pytest.mark.parametrize("own", [True, False], ids=["of a turn", "of no turn"])
async def test_a_decision_that_is_refused_is_told_and_everything_goes_on(meet, own: bool) -> None:
    heard: list[Update] = []
    async with meet(approve=allow, hear=heard.append) as (client, daemon):
        turn = client.prompt("s" if own else "other", "hi")
        prompt = await daemon.asked("session/prompt")
        await daemon.update("s", "approval_request", **REQUEST)
        said = await daemon.asked("session/approve")
        await daemon.refuse(said, -32012, "the tool bash may not run", reason="forbidden")
        await daemon.answer(prompt, {"sessionId": "s", "stopReason": "end_turn", "content": ""})
        with anyio.fail_after(60):
            updates = [update async for update in turn]
        _, refused = updates if own else heard
        assert isinstance(refused, VerdictRefused)
        assert (refused.session_id, refused.request_id) == ("s", "r")
        assert (refused.reason, refused.message) == ("forbidden", "the tool bash may not run")
        assert refused.params == {
            "sessionId": "s", "type": "verdict_refused", "requestId": "r",
            "reason": "forbidden", "message": "the tool bash may not run",
        }  # fmt: skip
        assert (heard if own else updates) == []


@pytest.mark.anyio
async def test_a_decision_that_fits_in_no_line_is_told_too(meet) -> None:
    async def approve(request: ApprovalRequest) -> Verdict:
        return Verdict(Decision.REJECT_WITH_EDIT, "x" * MAX_FRAME_BYTES)

    heard: list[Update] = []
    async with meet(approve=approve, hear=heard.append) as (_, daemon):
        await daemon.update("s", "approval_request", **REQUEST)
        await daemon.settle()
        refused = heard[1]
        assert isinstance(refused, VerdictRefused)
        assert refused.reason == "frame_too_large"


class Thinking:
    """A person who thinks for ever, about whatever is asked."""

    def __init__(self) -> None:
        self.begun, self.gone = anyio.Event(), anyio.Event()

    async def __call__(self, asked: object) -> Any:
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.gone.set()


@pytest.mark.anyio
@pytest.mark.parametrize("told", [True, False], ids=["told of its end", "refused alone"])
async def test_a_prompt_that_was_refused_takes_no_question_of_the_running_one_back(meet, told: bool) -> None:
    person = Thinking()
    async with meet(approve=person) as (client, daemon):
        client.prompt("s", "one")
        first = await daemon.asked("session/prompt")
        await daemon.update("s", "approval_request", **REQUEST)
        await person.begun.wait()
        second = client.prompt("s", "two")
        request = await daemon.asked("session/prompt")
        if told:
            await daemon.update("s", "turn_complete", outcome="failed", clientTurnGeneration=2)
        await daemon.refuse(request, -32002, "busy", reason="session_busy")
        with pytest.raises(RemoteError), anyio.fail_after(60):
            await second.finished()
        await daemon.settle()
        assert not person.gone.is_set()
        await daemon.update("s", "turn_complete", outcome="cancelled", clientTurnGeneration=1)
        await daemon.settle()
        assert person.gone.is_set()
        await daemon.answer(first, {"sessionId": "s", "stopReason": "cancelled", "content": ""})


@pytest.mark.anyio
async def test_the_end_of_one_turn_takes_no_question_of_the_next_back(meet) -> None:
    person = Thinking()
    async with meet(approve=person) as (client, daemon):
        turns = [client.prompt("s", "one"), client.prompt("s", "two")]
        first, second = [await daemon.asked("session/prompt") for _ in turns]
        await daemon.update("s", "turn_complete", outcome="completed", clientTurnGeneration=1)
        await daemon.update("s", "approval_request", **REQUEST)
        await person.begun.wait()
        await daemon.answer(first, {"sessionId": "s", "stopReason": "end_turn", "content": ""})
        with anyio.fail_after(60):
            await turns[0].finished()
        await daemon.settle()
        assert not person.gone.is_set()
        await daemon.refuse(second, -32603, "failed", reason="turn_failed")
        with anyio.fail_after(60):
            await person.gone.wait()


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["question", "approval"])
async def test_nobody_is_asked_any_more_by_a_daemon_that_is_gone(meet, what: str) -> None:
    person = Thinking()
    async with meet(approve=person, answer=person) as (client, daemon):
        if what == "question":
            params = {"sessionId": "s", "message": "?"}
            await daemon.send({"method": "elicitation/create", "params": params, "id": 1})
        else:
            await daemon.update("s", "approval_request", **REQUEST)
        await person.begun.wait()
        daemon.hang_up()
        with anyio.fail_after(60):
            await person.gone.wait()
            await client.peer.ended()


@pytest.mark.anyio
async def test_a_daemon_that_goes_before_it_hears_a_decision_is_missed_by_whoever_calls_it(meet) -> None:
    heard: list[Update] = []
    async with meet(approve=allow, hear=heard.append) as (client, daemon):
        turn = client.prompt("s", "hi")
        await daemon.asked("session/prompt")
        await daemon.update("s", "approval_request", **REQUEST)
        await daemon.asked("session/approve")
        daemon.hang_up()
        assert isinstance(await anext(turn), ApprovalRequest)
        with pytest.raises(ConnectionLost), anyio.fail_after(60):
            await anext(turn)
    assert heard == []


@pytest.mark.anyio
async def test_a_question_is_dropped_when_the_daemon_goes(meet) -> None:
    thinking = anyio.Event()

    async def answer(question: Question) -> Declined:
        thinking.set()
        await anyio.sleep_forever()
        return Declined()

    async with meet(answer=answer) as (client, daemon):
        await daemon.send({"method": "elicitation/create", "params": {"message": "?"}, "id": 1})
        await thinking.wait()
        daemon.hang_up()
        with pytest.raises(ConnectionLost), anyio.fail_after(60):
            await client.status()
