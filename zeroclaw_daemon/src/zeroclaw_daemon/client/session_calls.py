"""``session/*``, apart from the prompt, which is streamed (:mod:`zeroclaw_daemon.client.turn`)."""

from __future__ import annotations

from zeroclaw_daemon.client.calls import Calls, read
from zeroclaw_daemon.client.questions import Verdict
from zeroclaw_daemon.rpc.methods import approving, session, session_reading
from zeroclaw_daemon.sessions.live import ChatMode
from zeroclaw_daemon.strict_json import JsonValue


class SessionCalls(Calls):
    """Conversations."""

    async def new_session(
        self,
        agent_alias: str,
        *,
        session_id: str | None = None,
        chat_mode: ChatMode = ChatMode.ACP,
        cwd: str | None = None,
        interaction_surface: str | None = None,
        keep_siblings: bool | None = None,
    ) -> session.NewResult:
        """Open a session, or go on with the one of that id (RPC-060). Unlike the daemon's, the default mode is ``acp``, in
        which a conversation outlives its daemon (D-30).
        """
        params = {
            "agentAlias": agent_alias,
            "sessionId": session_id,
            "chatMode": chat_mode.value,
            "cwd": cwd,
            "interactionSurface": interaction_surface,
            "keepSiblings": keep_siblings,
        }
        return await self.ask("session/new", params, session.NewResult)

    async def cancel(self, session_id: str) -> session.CancelResult:
        """Tell the running turn to stop (RPC-242)."""
        return await self.ask("session/cancel", {"sessionId": session_id}, session.CancelResult)

    async def approve(self, session_id: str, request_id: str, verdict: Verdict) -> approving.ApproveResult:
        """Say what becomes of a tool call that needs consent (RPC-243)."""
        params = {
            "sessionId": session_id,
            "requestId": request_id,
            "decision": verdict.decision.value,
            "replacement": verdict.replacement,
        }
        return await self.ask("session/approve", params, approving.ApproveResult)

    async def close_session(self, session_id: str) -> session.CloseResult:
        """End the session's life in memory; what is stored of it stays."""
        return await self.ask("session/close", {"sessionId": session_id}, session.CloseResult)

    async def kill_session(self, session_id: str) -> session.KillResult:
        """End a session for good; what was said in it can still be read."""
        return await self.ask("session/kill", {"sessionId": session_id}, session.KillResult)

    async def delete_session(self, session_id: str) -> session.DeleteResult:
        """Delete a session and all that was said in it."""
        return await self.ask("session/delete", {"sessionId": session_id}, session.DeleteResult)

    async def session_state(self, session_id: str) -> session.StateResult:
        """Whether a turn runs or waits (RPC-065)."""
        return await self.ask("session/state", {"sessionId": session_id}, session.StateResult)

    async def messages(
        self, session_id: str, *, limit: int | None = None, before_index: int | None = None
    ) -> session_reading.MessagesResult:
        """A page of a session's transcript, the newest one unless ``before_index`` names another (RPC-244)."""
        params = {"sessionId": session_id, "limit": limit, "beforeIndex": before_index}
        return await self.ask("session/messages", params, session_reading.MessagesResult)

    async def messages_page(
        self, session_id: str, cursor: str | None = None, *, limit: int | None = None
    ) -> session_reading.MessagesResult:
        """A page of the transcript of an ``acp`` session: the newest one, or the one whose cursor an earlier page named."""
        params: dict[str, JsonValue] = {"sessionId": session_id, "cursor": cursor}
        if limit is not None:
            params["limit"] = limit
        answer = await self.call("session/messages", params)
        return read("session/messages", answer, session_reading.MessagesResult)

    async def list_sessions(
        self, query: str | None = None, *, limit: int | None = None
    ) -> session_reading.ListResult:
        """The chats that were kept; with a query, those in which its words were said."""
        params = {"query": query, "limit": limit}
        return await self.ask("session/list", params, session_reading.ListResult)

    async def list_acp_sessions(self) -> session_reading.ListResult:
        """The ``acp`` sessions that were kept and not killed, the latest activity first."""
        return await self.ask("session/list-acp", {}, session_reading.ListResult)

    async def configure_session(
        self, session_id: str, overrides: dict[str, str | float | None]
    ) -> session.ConfigureResult:
        """Have the session talk to another model from its next turn on. A member that is None is taken back.

        :param overrides: any of ``model``, ``model_provider`` and ``temperature``.
        """
        params = {"sessionId": session_id, "overrides": overrides}
        return await self.ask("session/configure", params, session.ConfigureResult)
