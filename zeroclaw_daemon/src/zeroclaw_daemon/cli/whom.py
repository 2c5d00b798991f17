"""Which conversation a command is about: a new one, a named one, or one that is gone on with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zeroclaw_daemon.rpc.errors import ConnectionLost, RemoteError
from zeroclaw_host.errors import Kind, UsageError, ZeroclawError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.client import DaemonClient
    from zeroclaw_daemon.rpc.methods.session import NewResult
    from zeroclaw_daemon.rpc.methods.session_reading import ListedSession

DEFAULT_AGENT = "assistant"
CLOSE_SECONDS = 10.0
"""How long a command waits for that at most: a turn that is cancelled has five seconds to end."""
LATEST = ""
"""In place of an id: the conversation that was spoken in last."""


class NothingToResume(ZeroclawError):
    """There is no conversation that could be gone on with."""

    code = "nothing_to_resume"
    kind = Kind.NOT_FOUND


async def open_conversation(
    client: DaemonClient, *, agent: str | None, session: str | None = None, resume: str | None = None
) -> NewResult:
    """Open the session that is meant. Ours are of the mode ``acp`` and without a surface (D-30).

    :param agent: whom to talk to; left out, the agent of the conversation that is gone on with, or the only one.
    :param session: the id of a conversation to begin or to go on with.
    :param resume: the id of a stored one, or :data:`LATEST`.
    :raises NothingToResume: there is none.
    :raises UsageError: nobody is named and several could be meant.
    """
    if resume is not None:
        session, agent = await _stored(client, resume, agent)
    return await client.new_session(agent or await only_agent(client), session_id=session, keep_siblings=True)


async def close_conversation(client: DaemonClient, session_id: str) -> None:
    """End its life in the daemon's memory, where it has one; what is stored stays. A command that Ctrl-C ends does it too. Of a
    daemon that is gone nothing is left to end, and whoever wanted something else of it has been told.
    """
    import anyio

    try:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            with suppress(ConnectionLost):
                await client.close_session(session_id)
    except RemoteError as error:
        # A turn that failed or was cut off has ended it already. Who may not end it leaves it to its idleness.
        if error.reason not in ("session_not_found", "forbidden"):
            raise


async def _stored(client: DaemonClient, wanted: str, agent: str | None) -> tuple[str, str | None]:
    """The id of a stored conversation, and its agent."""
    rows = (await client.list_acp_sessions()).sessions
    for row in rows:
        if wanted == row.session_id or (
            wanted == LATEST and agent in (None, row.agent_alias) and _was_spoken_in(row)
        ):
            return row.session_id, agent or row.agent_alias
    if wanted == LATEST:
        whose = f" with {visible(agent)}" if agent else ""
        raise NothingToResume(f"there is no conversation{whose} to go on with")
    raise NothingToResume(
        f"no conversation {visible(wanted)} can be gone on with; `zeroclaw sessions list` shows those that can",
        details={"session_id": wanted},
    )


def _was_spoken_in(row: ListedSession) -> bool:
    """Whether there is something to go on with. A first turn that was cut off counts for no message yet."""
    return row.message_count > 0 or row.last_activity != row.created_at


async def only_agent(client: DaemonClient) -> str:
    """The agent that is meant when none is named.

    :raises UsageError: there are several and none is the built-in one, or the caller may not know which there are.
    """
    try:
        told = (await client.status()).to_json()
    except RemoteError as error:
        if error.reason != "forbidden":
            raise
        raise UsageError(
            f"say whom to ask with --agent; this user may not be told who there is: {error.message}"
        ) from None
    agents: list[str] = told.get("agents", [DEFAULT_AGENT])
    if DEFAULT_AGENT in agents:
        return DEFAULT_AGENT
    if len(agents) == 1:
        return agents[0]
    raise UsageError(f"say whom to ask with --agent; there are {visible(', '.join(agents) or 'none')}")


def resumed(resume: bool, session: str | None, named: str | None) -> str | None:
    """What ``--resume [ID]`` and ``--session ID`` say together: what is to be gone on with, or None.

    :raises UsageError: they contradict each other.
    """
    if resume and session is not None:
        raise UsageError("--session names a conversation already; leave --resume out, or give it the id")
    if not resume and named is not None:
        raise UsageError(f"there is a word too many: {visible(named)}; an id goes with --resume or --session")
    return (named or LATEST) if resume else None
