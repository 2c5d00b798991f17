"""``session/*``: conversations, and the turns that are streamed while they run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field, model_validator

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.agent.providers.base import ModelChoice
from zeroclaw_daemon.attachments.index import AttachmentNotFound
from zeroclaw_daemon.rpc.access import SessionAccess
from zeroclaw_daemon.rpc.audience import ClientAudience
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.methods.file_models import MAX_FILES
from zeroclaw_daemon.rpc.models import Id, Name, Params, PathText, Result
from zeroclaw_daemon.rpc.updates import fitting, members, tell, trimmed_before
from zeroclaw_daemon.sessions.errors import SessionNotFound
from zeroclaw_daemon.sessions.lifecycle import SessionLifecycle
from zeroclaw_daemon.sessions.live import ChatMode, LiveSession, LiveSessions
from zeroclaw_daemon.sessions.opening import Claim, Opening, SessionOpener
from zeroclaw_daemon.sessions.ticket import Cause, Outcome, SessionEvent, Sink, TurnEnded
from zeroclaw_daemon.sessions.turns import TurnRunner
from zeroclaw_daemon.strict_json import JsonValue


class SessionParams(Params):
    """A session by its id."""

    session_id: Id


class NewParams(Params):
    """What session to open (RPC-060, RPC-240)."""

    agent_alias: Annotated[Id, Field(description="Whom to talk to.")]
    session_id: Annotated[
        Id | None,
        Field(description="Which one is meant, or what a new one is to be called; left out, one is made up."),
    ] = None
    cwd: Annotated[
        PathText | None, Field(description="The directory it works in; left out, the agent's workspace.")
    ] = None
    chat_mode: Annotated[ChatMode, Field(strict=False)] = ChatMode.CHAT
    interaction_surface: Annotated[
        Name | None,
        Field(description="For `acp` alone: the kind of client that can go on with it; left out, any can."),
    ] = None
    keep_siblings: Annotated[
        bool | None, Field(description="Whether the client's other idle sessions of the same mode stay live.")
    ] = None

    @model_validator(mode="after")
    def _surface_belongs_to_acp(self) -> NewParams:
        if self.interaction_surface is not None and self.chat_mode is not ChatMode.ACP:
            raise ValueError("interactionSurface is for the mode acp")
        return self


class NewResult(Result):
    """The session, open."""

    session_id: str
    agent_alias: str
    message_count: int
    workspace_dir: str


class PromptAttachment(Params):
    """A file that the session was sent: an entry as ``file/attach`` and ``file/upload/commit`` answer it. Only what it is known by
    counts; its marker is the session's.
    """

    camel: ClassVar[bool] = False

    ref_id: Id


class PromptParams(SessionParams):
    """What the user says, and the files it is about. ``client_turn_generation`` comes back in ``turn_complete``."""

    prompt: Annotated[str, Field(description="Not blank, unless there are attachments.")]
    client_turn_generation: Annotated[
        int | None,
        Field(ge=0, lt=2**64, description="A number of the client's own, to tell its turns apart."),
    ] = None
    attachments: Annotated[
        list[PromptAttachment] | None,
        Field(
            max_length=MAX_FILES, description="Entries as `file/attach` and `file/upload/commit` answer them."
        ),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> PromptParams:
        if not self.prompt.strip() and not self.attachments:
            raise ValueError("a prompt must not be blank")
        return self


class PromptResult(Result):
    """A turn that is over, for one of two reasons: ``end_turn`` or ``cancelled`` (D-02)."""

    session_id: str
    stop_reason: str
    content: str


class CancelResult(Result):
    """The running turn was told to stop."""

    session_id: str
    cancelled: bool


class CloseResult(Result):
    """The session is live no more."""

    session_id: str
    closed: bool


class KillResult(Result):
    """Nothing goes on in the session any more; ``killed`` is false where that was so before."""

    session_id: str
    killed: bool


class DeleteResult(Result):
    """The session is forgotten."""

    session_id: str
    deleted: bool


class StateResult(Result):
    """What a session is doing. ``plan`` is the agent's, where it has made one."""

    session_id: str
    state: str
    turn_id: str | None = None
    turn_started_at: str | None = None
    plan: list[dict[str, Any]] | None = None


class OverridesParams(Params):
    """What a session wants in place of its agent's settings; a member that is null is taken back."""

    model: Annotated[Id | None, Field(description="The model to ask for.")] = None
    model_provider: Annotated[Id | None, Field(description="As in `agents.<alias>.provider`.")] = None
    temperature: Annotated[float | None, Field(ge=0, le=2, allow_inf_nan=False)] = None


class ConfigureParams(SessionParams):
    """A session, and what is to be different in it from the next turn on."""

    overrides: OverridesParams


class Overrides(Result):
    """What is different in a session now."""

    model: str | None = None
    model_provider: str | None = None
    temperature: float | None = None


class ConfigureResult(Result):
    """Everything that is different in the session, from earlier calls too."""

    session_id: str
    overrides: Overrides


class SessionMethods:
    """The methods ``session/*``."""

    def __init__(
        self,
        sessions: LiveSessions,
        turns: TurnRunner,
        agents: AgentDirectory,
        access: SessionAccess,
        *,
        opener: SessionOpener,
        lifecycle: SessionLifecycle,
    ) -> None:
        self._sessions = sessions
        self._access = access
        self._turns = turns
        self._agents = agents
        self._opener = opener
        self._lifecycle = lifecycle

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves them."""
        return {
            "session/new": self.new,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
            "session/close": self.close,
            "session/kill": self.kill,
            "session/delete": self.delete,
            "session/state": self.state,
            "session/configure": self.configure,
        }

    async def new(self, caller: Caller, params: NewParams) -> NewResult:
        """Open a session, the live one of that id again, or one that was kept. The caller is the one that is asked from now on.

        What the model has forgotten of it, and its plan, are told before the answer.
        """
        self._access.require_agent(caller, params.agent_alias)
        opened = await self._opener.open(
            Opening(
                agent_alias=params.agent_alias,
                client_id=caller.client_id,
                mode=params.chat_mode,
                session_id=params.session_id,
                workspace=params.cwd,
                surface=params.interaction_surface,
                owner=self._access.owner(caller),
                keep_siblings=params.keep_siblings or False,
                audience=partial(ClientAudience, caller),
                env=self._access.environment(caller),
            )
        )
        session = opened.session
        if opened.trimmed:
            told = trimmed_before(session.history, session.shown)
            await tell(caller.link, {"sessionId": session.id, **told})
        if session.plan:
            await tell(caller.link, {"sessionId": session.id, "type": "plan", "entries": session.plan})
        return NewResult(
            session_id=session.id,
            agent_alias=session.agent_alias,
            message_count=session.shown,
            workspace_dir=session.workspace,
        )

    async def prompt(self, caller: Caller, params: PromptParams) -> PromptResult:
        """Take a turn; its events go to the caller alone, its end too, and then it is answered (RPC-121, RPC-130).

        A session that is not live is taken up again, if it was kept (RPC-146).
        """
        if params.attachments and self._sessions.find(params.session_id) is None:
            await self._opener.require_kept(params.session_id, self._access.owner(caller))
        if self._sessions.find(params.session_id) is not None:
            self._access.require_turn(caller, params.session_id)
        ticket = self._turns.start(
            params.session_id,
            self._worded(params),
            _updates(caller, params),
            claim=Claim(
                allows=partial(self._access.require_use, caller),
                scope=self._access.owner(caller),
                client_id=caller.client_id,
                audience=partial(ClientAudience, caller),
                env=self._access.environment(caller),
            ),
            allows_tool=self._access.tools(caller),
        )
        with caller.link.at_hang_up(lambda: ticket.cancel(Cause.CONNECTION_CLOSED)):
            ended = await ticket.ended()
        return PromptResult(
            session_id=params.session_id,
            stop_reason="cancelled" if ended.outcome is Outcome.CANCELLED else "end_turn",
            content=fitting(ended.content),
        )

    def _worded(self, params: PromptParams) -> str:
        """What the model is told: the prompt, and below it the markers of the files that it is about.

        :raises AttachmentNotFound: the session does not know one of them.
        """
        said = [params.prompt] if params.prompt.strip() else []
        session = self._sessions.find(params.session_id)
        for index, named in enumerate(params.attachments or ()):
            known = session.attachments.find(named.ref_id) if session is not None else None
            if known is None:
                raise AttachmentNotFound(index)
            said.append(known.marker)
        return "\n".join(said)

    async def cancel(self, caller: Caller, params: SessionParams) -> CancelResult:
        """Tell the running turn to stop, and do not wait for it (RPC-242)."""
        self._access.require(caller, params.session_id)
        self._turns.cancel(params.session_id)
        return CancelResult(session_id=params.session_id, cancelled=True)

    async def close(self, caller: Caller, params: SessionParams) -> CloseResult:
        """End the session's life in memory; what was kept of it stays (RPC-152)."""
        self._access.require(caller, params.session_id)
        await self._lifecycle.close(params.session_id)
        return CloseResult(session_id=params.session_id, closed=True)

    async def kill(self, caller: Caller, params: SessionParams) -> KillResult:
        """End the session for good; what was kept of it can be read (RPC-153)."""
        killed = await self._lifecycle.kill(params.session_id, self._access.owner(caller))
        return KillResult(session_id=params.session_id, killed=killed)

    async def delete(self, caller: Caller, params: SessionParams) -> DeleteResult:
        """Forget the session and everything that was kept of it (RPC-154, RPC-155)."""
        await self._lifecycle.delete(params.session_id, self._access.owner(caller))
        return DeleteResult(session_id=params.session_id, deleted=True)

    async def state(self, caller: Caller, params: SessionParams) -> StateResult:
        """Whether a turn runs or waits, and which one runs (RPC-065)."""
        self._access.require(caller, params.session_id)
        session = self._sessions.get(params.session_id)
        return _state(session)

    async def configure(self, caller: Caller, params: ConfigureParams) -> ConfigureResult:
        """Have a live session talk to another model from its next turn on. Nothing is written anywhere (RPC-245)."""
        self._access.require_turn(caller, params.session_id)
        session = self._sessions.get(params.session_id)
        wanted = _merged(session.choice, params.overrides)
        await self._agents.agent(session.agent_alias, wanted)
        if not self._sessions.is_live(session):
            raise SessionNotFound
        # What another call set meanwhile stays, as far as this one does not name it.
        choice = session.choice = _merged(session.choice, params.overrides)
        return ConfigureResult(
            session_id=session.id,
            overrides=Overrides(
                model=choice.model, model_provider=choice.provider, temperature=choice.temperature
            ),
        )


def _merged(choice: ModelChoice, given: OverridesParams) -> ModelChoice:
    """The choice with what is given; another provider without a model has its own one."""
    named = given.model_fields_set
    provider = given.model_provider if "model_provider" in named else choice.provider
    kept = choice.model if provider == choice.provider else None
    return ModelChoice(
        provider=provider,
        model=given.model if "model" in named else kept,
        temperature=given.temperature if "temperature" in named else choice.temperature,
    )


def _state(session: LiveSession) -> StateResult:
    first = session.prompts[0] if session.prompts else None
    return StateResult(
        session_id=session.id,
        state="running" if session.busy else "idle",
        turn_id=first.turn_id if first is not None else None,
        turn_started_at=first.began.isoformat() if first is not None and first.began is not None else None,
        plan=_entries(session.plan),
    )


def _entries(plan: JsonValue) -> list[dict[str, Any]] | None:
    """The plan of a session, None where there is none."""
    if not isinstance(plan, list) or not plan:
        return None
    return [entry for entry in cast("list[JsonValue]", plan) if isinstance(entry, dict)]


def _updates(caller: Caller, params: PromptParams) -> Sink:
    async def send(event: SessionEvent) -> None:
        update: dict[str, JsonValue] = {"sessionId": params.session_id, **members(event)}
        if isinstance(event, TurnEnded) and params.client_turn_generation is not None:
            update["clientTurnGeneration"] = params.client_turn_generation
        await tell(caller.link, update)

    return send
