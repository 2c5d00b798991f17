"""The client that a session is bound to, asked over its connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.agent.asking import QuestionFailed
from zeroclaw_daemon.agent.events import ApprovalRequested
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.errors import ConnectionLost, FrameTooLarge, RemoteError
from zeroclaw_daemon.rpc.updates import members, tell
from zeroclaw_daemon.strict_json import JsonValue

ELICIT: Final = "elicitation/create"
"""The request that asks the person at the client a question."""


@dataclass(frozen=True, slots=True)
class ClientAudience:
    """One session's client: an :class:`~zeroclaw_daemon.sessions.asking.Audience`."""

    caller: Caller
    session_id: str

    @property
    def gone(self) -> bool:
        """Whether it has hung up."""
        return self.caller.link.hung_up

    @property
    def takes_questions(self) -> bool:
        """Whether it said that it takes forms, or said nothing at all of what it takes (D-40)."""
        return self.caller.takes_questions

    def at_hang_up(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """See :meth:`zeroclaw_daemon.rpc.caller.Link.at_hang_up`."""
        return self.caller.link.at_hang_up(call)

    async def show(self, request: ApprovalRequested) -> None:
        """Show a tool that waits for consent (RPC-128)."""
        await tell(self.caller.link, {"sessionId": self.session_id, **members(request)})

    async def elicit(self, message: str, schema: JsonValue) -> JsonValue:
        """Ask with a form (RPC-087).

        :raises QuestionFailed: the client answered with an error, or went, or the question does not fit in a line.
        """
        params = {"sessionId": self.session_id, "message": message, "mode": "form", "requestedSchema": schema}
        try:
            return await self.caller.link.request(ELICIT, params)
        except RemoteError as error:
            # Not chained: what the client says of it is for no log (RPC-119).
            code = error.error.code
            raise QuestionFailed(f"the client answered the question with an error ({code})") from None
        except FrameTooLarge as error:
            raise QuestionFailed("the question does not fit in a line of the protocol") from error
        except ConnectionLost as error:
            raise QuestionFailed("the client went while it was asked") from error
