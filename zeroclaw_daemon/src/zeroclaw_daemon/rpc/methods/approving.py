"""``session/approve``: the answer to a tool that waits for consent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field, model_validator

from zeroclaw_daemon.rpc.access import SessionAccess
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.methods.session import SessionParams
from zeroclaw_daemon.rpc.models import Id, Result
from zeroclaw_daemon.sessions.asking import Decision
from zeroclaw_daemon.sessions.live import LiveSessions
from zeroclaw_daemon.strict_json import JsonValue


class ApproveParams(SessionParams):
    """What is decided. ``replacement`` is what is wanted instead, with ``reject_with_edit`` alone (RPC-243)."""

    request_id: Annotated[Id, Field(description="As the `approval_request` has it.")]
    decision: Annotated[Decision, Field(strict=False)]
    replacement: Annotated[
        JsonValue, Field(repr=False, description="What the model is told to do instead.")
    ] = None

    @model_validator(mode="after")
    def _an_edit_says_what_is_wanted(self) -> ApproveParams:
        if (self.decision is Decision.REJECT_WITH_EDIT) != (self.replacement is not None):
            raise ValueError("replacement is for the decision reject_with_edit, which needs it")
        return self


class ApproveResult(Result):
    """Whether the decision counts: a request that nothing waits for any more is not acknowledged."""

    session_id: str
    request_id: str
    acknowledged: bool


class ApprovalMethods:
    """The method ``session/approve``."""

    def __init__(self, sessions: LiveSessions, access: SessionAccess) -> None:
        self._sessions = sessions
        self._access = access

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves it."""
        return {"session/approve": self.approve}

    async def approve(self, caller: Caller, params: ApproveParams) -> ApproveResult:
        """Decide on a tool that waits in this very session. Whoever is too late hears so, and it is no error. To have something run
        takes the right to the tool, and in a turn of somebody else an administrator; to reject it does not.
        """
        self._access.require(caller, params.session_id)
        session = self._sessions.find(params.session_id)
        acknowledged = session is not None and session.asking.resolve(
            params.request_id,
            params.decision,
            params.replacement,
            judge=partial(self._access.require_consent, caller),
        )
        return ApproveResult(
            session_id=params.session_id, request_id=params.request_id, acknowledged=acknowledged
        )
