"""Asking whoever a session is bound to, with both sides of every race."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.asking import Answered, CannotAsk, Consent, Unanswered
from zeroclaw_daemon.agent.events import Approval, ApprovalRequested
from zeroclaw_daemon.authority.principal import Forbidden
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.sessions.asking import MAX_SUMMARY, Asking, Decision, summary
from zeroclaw_host.visible import is_plain

pytestmark = pytest.mark.anyio

SECONDS = 120


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(eq=False)
class Client:
    """An audience that shows nothing to anybody. A public fake of a connection."""

    takes_questions: bool = True
    gone: bool = False
    shown: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])
    on_show: Callable[[ApprovalRequested], object] = lambda _: None
    calls: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    answer: anyio.Event = field(default_factory=anyio.Event)

    def hang_up(self) -> None:
        self.gone = True
        for call in tuple(self.calls):
            call()

    @contextmanager
    def at_hang_up(self, call: Callable[[], None]) -> Generator[None]:
        if self.gone:
            call()
        self.calls.append(call)
        try:
            yield
        finally:
            self.calls.remove(call)

    async def show(self, request: ApprovalRequested) -> None:
        self.shown.append(request)
        self.on_show(request)

    async def elicit(self, message: str, schema: Any) -> Any:
        await self.answer.wait()
        return {"action": "accept", "content": {"answer": message}}


ALLOWED = Consent(Approval.ALLOWED)


def anybody(tool: str, scope: str | None) -> None:
    """Judges that a decision counts."""


async def consent(asking: Asking, tool: str = "t") -> Consent:
    with anyio.fail_after(60):
        return await asking.consent(tool, {}, SECONDS)


def bound(client: Client, clock: ManualClock | None = None) -> Asking:
    asking = Asking(clock or ManualClock())
    asking.audience = client
    return asking


async def test_the_first_decision_counts() -> None:
    client = Client()
    asking = bound(client)
    told: list[bool] = []

    def decide(request: ApprovalRequested) -> None:
        told.append(asking.resolve(request.request_id, Decision.REJECT, judge=anybody))
        told.append(asking.resolve(request.request_id, Decision.ALLOW_ONCE, judge=anybody))

    client.on_show = decide
    assert (await consent(asking)).approval is Approval.REFUSED
    assert told == [True, False]
    assert not asking.resolve(client.shown[0].request_id, Decision.ALLOW_ONCE, judge=anybody)


async def test_a_decision_that_was_acknowledged_counts_though_the_time_is_up_at_that_moment() -> None:
    clock, client = ManualClock(), Client()
    asking = bound(client, clock)
    for early in (True, False):
        told: list[bool] = []

        def decide(request: ApprovalRequested, early: bool = early, told: list[bool] = told) -> None:
            if not early:
                clock.advance(SECONDS)
            told.append(asking.resolve(request.request_id, Decision.ALLOW_ONCE, judge=anybody))
            if early:
                clock.advance(SECONDS)

        client.on_show = decide
        assert await consent(asking) == ALLOWED
        assert told == [True]


async def test_a_decision_counts_though_its_client_goes_at_that_moment() -> None:
    client = Client()
    asking = bound(client)

    def decide(request: ApprovalRequested) -> None:
        client.hang_up()
        assert asking.resolve(request.request_id, Decision.ALLOW_ONCE, judge=anybody)

    client.on_show = decide
    assert await consent(asking) == ALLOWED


async def test_without_a_client_nothing_is_waited_for() -> None:
    clock = ManualClock()
    nobody, went = Asking(clock), bound(Client(gone=True), clock)
    for asking in (nobody, went):
        assert (await consent(asking)).approval is Approval.UNANSWERED
        with pytest.raises(CannotAsk):
            await asking.ask("?", {}, SECONDS)
    assert clock.waits == 0


async def test_a_client_that_goes_while_it_is_shown_the_request_is_not_waited_for() -> None:
    client = Client()
    client.on_show = lambda _: client.hang_up()
    found = await consent(bound(client))
    assert found == Consent(Approval.UNANSWERED, "the tool was not run: nobody is there who could allow it")


async def test_a_session_that_changes_hands_twice_is_decided_by_whom_it_belongs_to_last() -> None:
    clients = [Client(), Client(), Client()]
    asking = bound(clients[0])

    def next_hands(index: int) -> Callable[[ApprovalRequested], None]:
        def pass_on(_: ApprovalRequested) -> None:
            asking.audience = clients[index + 1]

        return pass_on

    clients[0].on_show, clients[1].on_show = next_hands(0), next_hands(1)
    clients[2].on_show = lambda request: asking.resolve(
        request.request_id, Decision.ALLOW_ONCE, judge=anybody
    )
    assert await consent(asking) == ALLOWED
    requests = [client.shown for client in clients]
    assert [len(shown) for shown in requests] == [1, 1, 1]
    assert len({shown[0].request_id for shown in requests}) == 1


async def test_a_client_that_is_bound_again_is_not_shown_the_same_twice() -> None:
    client = Client()
    asking = bound(client)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consent, asking)
        while not client.shown:
            await anyio.lowlevel.checkpoint()
        for another in (client, Client()):
            asking.audience = another
            asking.audience = client
            await anyio.wait_all_tasks_blocked()
        assert len(client.shown) == 1
        assert asking.resolve(client.shown[0].request_id, Decision.REJECT_ONCE, judge=anybody)


async def test_what_is_allowed_for_good_is_one_tool_of_one_session() -> None:
    client = Client()
    asking, other = bound(client), bound(client)
    client.on_show = lambda request: asking.resolve(request.request_id, Decision.ALLOW_ALWAYS, judge=anybody)
    for _ in range(2):
        assert await consent(asking) == ALLOWED
    assert len(client.shown) == 1
    client.on_show = lambda _: client.hang_up()
    assert (await consent(asking, "another")).approval is Approval.UNANSWERED
    client.gone = False
    assert (await consent(other)).approval is Approval.UNANSWERED
    # Where nobody is left to be asked, what was allowed for good still is.
    assert await consent(asking) == ALLOWED


async def test_a_cancelled_wait_leaves_nothing_to_decide() -> None:
    client = Client()
    asking = bound(client)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consent, asking)
        while not client.shown:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert not asking.resolve(client.shown[0].request_id, Decision.ALLOW_ALWAYS, judge=anybody)
    assert client.calls == []


@pytest.mark.parametrize("answered", [True, False])
async def test_an_answer_counts_until_its_time_is_up(answered: bool) -> None:
    clock, client = ManualClock(), Client()
    asking = bound(client, clock)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await asking.ask("why", {}, 10))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        clock.advance(9.999)
        if answered:
            client.answer.set()
            await anyio.wait_all_tasks_blocked()
        clock.advance(0.001)
    assert answers == [Answered({"answer": "why"}) if answered else Unanswered.SILENT]
    assert clock.waits == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LONG = st.text(min_size=1, max_size=4).map(lambda text: text * (MAX_SUMMARY // 2))


@given(arguments=JSON | LONG)
def test_a_summary_is_one_bounded_line_that_moves_no_terminal(arguments: Any) -> None:
    shown = summary(arguments)
    assert len(shown) <= MAX_SUMMARY
    assert is_plain(shown)


def test_a_summary_at_its_bound_is_whole() -> None:
    assert summary("x" * MAX_SUMMARY) == "x" * MAX_SUMMARY
    cut = summary("x" * (MAX_SUMMARY + 1))
    assert len(cut) == MAX_SUMMARY
    assert cut.endswith("x… [cut: 2001 characters in all]")


async def test_who_joins_in_a_turn_of_somebody_who_may_do_more_is_bound_when_it_is_over() -> None:
    one, other, late = Client(), Client(), Client()
    asking = bound(one)
    asking.begin(None, None)
    asking.join(other, "user:ada")
    assert asking.audience is one
    asking.end()
    assert asking.audience is other
    # In a turn of its own, and between turns, it is bound at once, and so is whoever sees every session.
    asking.begin("user:ada", one)
    for client, scope in ((other, "user:ada"), (late, None)):
        asking.join(client, scope)
        assert asking.audience is client
    asking.end()
    assert asking.audience is late
    # One that is gone by then is not bound, nor one after which somebody else has joined.
    for gone, last in ((True, None), (False, late)):
        asking.begin(None, one)
        asking.join(other, "user:ada")
        other.gone = gone
        if last is not None:
            asking.join(last, None)
        asking.end()
        assert asking.audience is (last or one)


@pytest.mark.req("RPC-243")
async def test_a_decision_that_is_judged_wrong_decides_nothing() -> None:
    client = Client()
    asking = bound(client)
    asking.begin("user:ada", None)
    judged: list[tuple[str, str | None]] = []

    def judge(tool: str, scope: str | None) -> None:
        judged.append((tool, scope))
        raise Forbidden("no")

    def decide(request: ApprovalRequested) -> None:
        for decision in (Decision.ALLOW_ONCE, Decision.ALLOW_ALWAYS, Decision.REJECT_WITH_EDIT):
            with pytest.raises(Forbidden):
                asking.resolve(request.request_id, decision, judge=judge)
        for decision in (Decision.REJECT, Decision.REJECT_ONCE):
            told.append(asking.resolve(request.request_id, decision, judge=judge))

    told: list[bool] = []
    client.on_show = decide
    assert (await consent(asking)).approval is Approval.REFUSED
    assert judged == [("t", "user:ada")] * 3
    assert told == [True, False]
