"""The daemon, as a program in Python meets it: one typed method a method, prompts as streams, questions as callbacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from zeroclaw_daemon.client.calls import read
from zeroclaw_daemon.client.config_calls import ConfigCalls
from zeroclaw_daemon.client.file_calls import FileCalls
from zeroclaw_daemon.client.questions import Answerer, Dismissed, Verdict, read_question
from zeroclaw_daemon.client.session_calls import SessionCalls
from zeroclaw_daemon.client.turn import Turn
from zeroclaw_daemon.client.updates import (
    ApprovalRequest,
    ToolResult,
    TurnComplete,
    Update,
    VerdictRefused,
    read_update,
)
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_daemon.leaves import unwrapped
from zeroclaw_daemon.rpc.audience import ELICIT
from zeroclaw_daemon.rpc.client import Client, Notification, connected
from zeroclaw_daemon.rpc.errors import ConnectionLost, RemoteError
from zeroclaw_daemon.rpc.methods.file_models import FileEntry
from zeroclaw_daemon.rpc.methods.handshake import InitializeResult
from zeroclaw_daemon.rpc.methods.session import PromptResult
from zeroclaw_daemon.rpc.methods.status import StatusResult
from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_daemon.rpc.updates import UPDATE
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import ZeroclawError

Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Verdict]]
"""Asks a person about one tool call. It is cancelled when nobody waits for the answer any more."""
Hearer: TypeAlias = Callable[[Update], None]


class DaemonClient(SessionCalls, ConfigCalls, FileCalls):
    """An introduced connection to a daemon. Entered with :func:`open_client`."""

    def __init__(
        self,
        peer: Client,
        tasks: TaskGroup,
        *,
        approve: Approver | None,
        hear: Hearer | None,
        clock: Clock,
        asks: bool = False,
    ) -> None:
        self._peer = peer
        self._tasks = tasks
        self._approver = approve
        self._hear = hear
        self._clock = clock
        self._asks = asks
        self._turns: dict[str, list[Turn]] = defaultdict(list)
        self._asking: dict[str, set[anyio.CancelScope]] = defaultdict(set)
        self._generation = 0
        self.introduced: InitializeResult | None = None
        """What the daemon said of itself."""

    @property
    def peer(self) -> Client:
        """The connection without types."""
        return self._peer

    async def call(self, method: str, params: Mapping[str, JsonValue] | None = None) -> JsonValue:
        """Call any method; its result as JSON.

        :raises RemoteError: the daemon answered with an error.
        :raises ConnectionLost: the daemon is gone.
        """
        return await self._peer.call(method, params)

    async def initialize(self, *, token: str | None = None, provider: str | None = None) -> InitializeResult:
        """Introduce this client; :func:`open_client` does it. Later, it replaces whom the client acts for (RPC-046); whether a
        person can be asked stays as it was said there.

        :raises RemoteError: the daemon refused; what was agreed on before stays.
        :raises ConnectionLost: the daemon is gone.
        """
        capabilities: dict[str, JsonValue] = {"elicitation": {"form": {}}} if self._asks else {}
        params: dict[str, JsonValue] = {"clientCapabilities": capabilities}
        if token is not None:
            params["authToken"] = token
        if provider is not None:
            params["authProvider"] = provider
        self.introduced = read("initialize", await self._peer.initialize(params), InitializeResult)
        return self.introduced

    async def status(self) -> StatusResult:
        """How the daemon is (RPC-066)."""
        return await self.ask("status", {}, StatusResult)

    def prompt(self, session_id: str, prompt: str, *, attachments: Sequence[FileEntry] = ()) -> Turn:
        """Say something in a session. It is sent at once; iterate over the turn for what comes of it.

        :param attachments: files that the session knows; with one, the prompt may be blank.
        """
        self._generation += 1
        turn = Turn(session_id, self._generation, self.cancel)
        self._turns[session_id].append(turn)
        params: dict[str, JsonValue] = {
            "sessionId": session_id,
            "prompt": prompt,
            "clientTurnGeneration": turn.generation,
        }
        if attachments:
            params["attachments"] = [file.to_json() for file in attachments]
        self._tasks.start_soon(self._take_turn, turn, params)
        return turn

    async def _take_turn(self, turn: Turn, params: dict[str, JsonValue]) -> None:
        outcome: PromptResult | ZeroclawError = ConnectionLost(
            "the client was closed in the middle of a turn"
        )
        try:
            outcome = await self.ask("session/prompt", params, PromptResult)
        except ZeroclawError as error:
            outcome = error
        finally:
            self._forget(turn)
            turn.end(outcome)

    # What the daemon says and asks.

    def heard(self, notification: Notification) -> None:
        """Give an update to the turn it belongs to; whatever belongs to none, to whoever hears."""
        if notification.method != UPDATE or (update := read_update(notification.params)) is None:
            return
        turn = self._turn_of(update)
        if isinstance(update, TurnComplete) and turn is not None:
            self._forget(turn)
        elif isinstance(update, (ToolResult, TurnComplete)):
            self._withdraw(update.session_id)  # Whatever asked has gone on, or ended.
        self._tell(turn, update)
        if isinstance(update, ApprovalRequest) and self._approver is not None:
            self._tasks.start_soon(self._approve, self._approver, update)

    def _turn_of(self, update: Update) -> Turn | None:
        """Prompts of one session are answered in their order; the end of one says which it is."""
        turns = self._turns.get(update.session_id, ())
        ended = update.client_turn_generation if isinstance(update, TurnComplete) else None
        return next((turn for turn in turns if ended is None or turn.generation == ended), None)

    def _forget(self, turn: Turn) -> None:
        """Nothing more comes of a turn; if it was the one that ran, nobody waits for what it asked. One that waited behind it,
        and is over without having run, asked nothing.
        """
        turns = self._turns.get(turn.session_id, [])
        if turn not in turns:
            return
        if turn is turns[0]:
            self._withdraw(turn.session_id)
        turns.remove(turn)
        if not turns:
            del self._turns[turn.session_id]

    def _tell(self, turn: Turn | None, update: Update) -> None:
        if turn is not None:
            turn.take(update)
        elif self._hear is not None:
            self._hear(update)

    async def _approve(self, approver: Approver, request: ApprovalRequest) -> None:
        with self._asked_in(request.session_id), self._clock.move_on_after(request.timeout_secs):
            verdict = await approver(request)
            try:
                await self.approve(request.session_id, request.request_id, verdict)
            except ConnectionLost:
                pass  # which whoever waits for the turn hears
            except ZeroclawError as error:
                reason = error.reason if isinstance(error, RemoteError) else error.code
                if reason != "session_not_found":  # it ended meanwhile, and what waited in it
                    refused = _refused(request, reason, error.message)
                    self._tell(self._turn_of(refused), refused)

    @contextmanager
    def _asked_in(self, session_id: str) -> Generator[None]:
        """A block in which a person is asked; it is left when what asked has gone on, or is gone with its daemon."""
        with anyio.CancelScope() as scope, self._peer.at_hang_up(scope.cancel):
            self._asking[session_id].add(scope)
            try:
                yield
            finally:
                scopes = self._asking[session_id]
                scopes.discard(scope)
                if not scopes:
                    del self._asking[session_id]

    def _withdraw(self, session_id: str) -> None:
        for scope in tuple(self._asking.get(session_id, ())):
            scope.cancel()

    async def elicit(self, answerer: Answerer, params: JsonValue) -> JsonValue:
        """Answer one question of the daemon."""
        question = read_question(params)
        with self._asked_in(question.session_id or ""):
            return (await answerer(question)).to_json()
        return Dismissed().to_json()


def _refused(request: ApprovalRequest, reason: str | None, message: str) -> VerdictRefused:
    said = {
        "sessionId": request.session_id,
        "type": "verdict_refused",
        "requestId": request.request_id,
        "reason": reason,
        "message": message,
    }
    return VerdictRefused.model_validate({**said, "params": said})


@asynccontextmanager
async def open_client(
    transport: Transport,
    *,
    token: str | None = None,
    provider: str | None = None,
    approve: Approver | None = None,
    answer: Answerer | None = None,
    hear: Hearer | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[DaemonClient]:
    """A client on this transport, introduced; the connection is closed when the block is left.

    :param token: a paired token; without one, the daemon goes by the user at this end.
    :param approve: asks about tool calls that need consent; left out, the requests are only shown among the updates. A decision
        that the daemon does not take is a :class:`.VerdictRefused` among them.
    :param answer: asks a person; left out, the daemon is told that nobody can be asked (D-40).
    :param hear: is given the updates that belong to no turn of this client.
    :raises RemoteError: the daemon refused.
    :raises ConnectionLost: the daemon went away.
    """
    clients: list[DaemonClient] = []

    async def elicit(params: JsonValue) -> JsonValue:
        assert answer is not None
        return await clients[0].elicit(answer, params)

    answers = {ELICIT: elicit} if answer is not None else {}
    with unwrapped():
        async with (
            connected(transport, clock=clock, answers=answers) as peer,
            anyio.create_task_group() as tasks,
        ):
            client = DaemonClient(
                peer, tasks, approve=approve, hear=hear, clock=clock or SystemClock(), asks=answer is not None
            )
            clients.append(client)
            with peer.hearing(client.heard):
                try:
                    await client.initialize(token=token, provider=provider)
                    yield client
                finally:
                    tasks.cancel_scope.cancel()
