"""Whose session is whose. An administrator and the shared operator see every session; everybody else only their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zeroclaw_daemon.authority.principal import Authority, Forbidden, Principal, not_owned
from zeroclaw_daemon.authority.rights import ToolUse, decide
from zeroclaw_daemon.rpc.caller import Caller
from zeroclaw_daemon.rpc.errors import InitializeRequired
from zeroclaw_daemon.rpc.transport.base import Peer
from zeroclaw_daemon.sessions.live import LiveSessions


class SessionAccess:
    """Judges, at every call anew, which sessions a caller may use."""

    def __init__(self, sessions: LiveSessions, authority: Authority) -> None:
        self._sessions = sessions
        self._authority = authority

    def owner(self, caller: Caller) -> str | None:
        """Whom a session belongs to that this caller makes: None for whoever sees every session."""
        principal = principal_of(caller)
        return None if self._authority.rights(principal).admin else principal.id

    def environment(self, caller: Caller) -> Mapping[str, str]:
        """What this caller may have forwarded of its environment now, whatever it might when it did."""
        return caller.env if may_forward(caller.link.peer, principal_of(caller), self._authority) else {}

    def visible(self, caller: Caller) -> list[str]:
        """The ids of the live sessions that the caller may know of, oldest first."""
        owner = self.owner(caller)
        return [session.id for session in self._sessions.all() if owner is None or session.owner == owner]

    def require(self, caller: Caller, session_id: str) -> None:
        """Let a caller use the session of this id.

        A session that does not exist is refused to a limited caller like one of somebody else, so that it learns nothing
        of others. Whoever sees every session passes: what does not exist is not found later, by another error.

        :raises Forbidden: the session is not the caller's.
        """
        owner = self.owner(caller)
        session = self._sessions.find(session_id)
        if owner is not None and (session is None or session.owner != owner):
            raise not_owned()

    def require_turn(self, caller: Caller, session_id: str) -> None:
        """Let a caller have the session's agent take a turn.

        :raises Forbidden: the session is not the caller's, or its agent is not allowed to the caller.
        """
        self.require(caller, session_id)
        session = self._sessions.find(session_id)
        if session is not None:
            self._authority.require_agent(principal_of(caller), session.agent_alias)

    def require_use(self, caller: Caller, owner: str | None, alias: str) -> None:
        """Let a caller have a turn in a session of this owner and agent, live or about to be.

        :raises Forbidden: the session is not the caller's, or its agent is not allowed to the caller.
        """
        scope = self.owner(caller)
        if scope is not None and owner != scope:
            raise not_owned()
        self._authority.require_agent(principal_of(caller), alias)

    def require_agent(self, caller: Caller, alias: str) -> None:
        """Let a caller use an agent.

        :raises Forbidden: it may not, whether or not there is such an agent.
        """
        self._authority.require_agent(principal_of(caller), alias)

    def require_consent(self, caller: Caller, tool: str, scope: str | None) -> None:
        """Let a caller have a tool run that waits for consent in a turn of this scope.

        :raises Forbidden: the turn is somebody else's, though the session may be the caller's own, or it may not use the tool.
        """
        own = self.owner(caller)
        if own is not None and own != scope:
            raise Forbidden("the turn is somebody else's", details={"rule": "turn_not_owned"})
        decision = decide(self._authority.rights(principal_of(caller)), ToolUse(tool))
        if not decision.allowed:
            raise Forbidden(
                f"the tool {tool} may not run", details={"rule": decision.rule.kind.value, "tool": tool}
            )

    def tools(self, caller: Caller) -> Callable[[str], bool]:
        """Which tools a turn that the caller asks for now may use. It goes on with these, whatever is withdrawn while it
        runs (RPC-239).
        """
        rights = self._authority.rights(principal_of(caller))
        return lambda name: decide(rights, ToolUse(name)).allowed


def principal_of(caller: Caller) -> Principal:
    """Whom the caller acts for.

    :raises InitializeRequired: nobody yet.
    """
    if caller.principal is None:
        raise InitializeRequired
    return caller.principal


def may_forward(peer: Peer, principal: Principal, authority: Authority) -> bool:
    """Whether a caller's environment is kept for its commands: they have the rights of the daemon's user, so it has to be an
    administrator, and one of this machine (RPC-247).
    """
    return peer.local and authority.rights(principal).admin
