"""The one step in which a file becomes part of a session (RPC-202 … RPC-212).

In this order, while the sessions' lock is held and, from the second on, the policy and the paired tokens are held still: the
session is the one that the file was meant for; the caller's credential; ``files:create``; the session is the caller's; its
agent may be used; then the file is written; then the session knows it. A file that was begun to be written is finished,
whether or not its sender still listens.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_daemon.agent.directory import AgentDirectory
from zeroclaw_daemon.attachments.content import SentFile
from zeroclaw_daemon.attachments.folder import FolderSteps, UploadsFolder
from zeroclaw_daemon.attachments.index import Attachment
from zeroclaw_daemon.authority.principal import Authority, Forbidden, Principal, not_owned
from zeroclaw_daemon.authority.rights import Grant
from zeroclaw_daemon.records import record
from zeroclaw_daemon.sessions.live import LiveSessions
from zeroclaw_daemon.uploads.binding import Binding

CREATE_FILES: Final = Grant("files", "create")
"""What it takes to send files."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placed:
    """A file that a session knows, and whether it knew it before."""

    attachment: Attachment
    deduplicated: bool


class FilePlacer:
    """Places files, one after the other.

    :param steps: the steps of storing one.
    """

    def __init__(
        self,
        sessions: LiveSessions,
        authority: Authority,
        agents: AgentDirectory,
        *,
        steps: FolderSteps | None = None,
    ) -> None:
        self._sessions = sessions
        self._authority = authority
        self._agents = agents
        self._steps = steps
        # A thread of its own, so that guests which hold all the others do not hold up the sessions' lock.
        self._threads = anyio.CapacityLimiter(1)

    async def place(
        self, principal: Principal, binding: Binding, file: SentFile, *, path: str | None = None
    ) -> Placed:
        """Store a file for a session, and have the session know it.

        :param path: where the file was read, if the principal named it by a path of this machine.
        :raises SessionNotFound: the session is no longer the one that the file was meant for.
        :raises AuthenticationFailed: the principal is nobody any more.
        :raises Forbidden: it has no right to send files, to this session, to this agent or from that path.
        :raises AgentNotFound: the agent is gone.
        :raises ConfigBusy: what decides is being written for too long.
        :raises UploadsFolderUnsafe: there is a link where the folder should be.
        :raises StorageError: the file cannot be stored.
        """
        async with self._sessions.lock:
            session = binding.same(self._sessions)
            known = session.attachments.find(file.ref_id)
            # Once the thread has begun, its end is waited for even by who is cancelled, and nothing comes between it and the index.
            stored = await anyio.to_thread.run_sync(
                self._store, principal, binding, file, known, path, limiter=self._threads
            )
            session.attachments.keep(stored)
        record(
            logger, logging.INFO, "a file was stored",
            action="file_stored", category="audit",
            principal=principal.id, session=session.id, size=stored.size, known=known is not None,
        )  # fmt: skip
        return Placed(stored, known is not None)

    def require_sender(self, principal: Principal) -> None:
        """Let a principal send files at all.

        :raises AuthenticationFailed, Forbidden: it may not.
        """
        self._authority.require(principal, CREATE_FILES)

    def require_readable(self, principal: Principal, binding: Binding, path: str) -> None:
        """Let a principal send what lies under this path. Whoever is limited may send what the session's agent can read: what
        is in its workspace. Blocks.

        :raises Forbidden: the path is outside.
        """
        if self._authority.rights(principal).admin:
            return
        workspace = Path(self._agents.workspace(binding.agent_alias)).resolve()
        if not Path(path).is_relative_to(workspace):
            raise Forbidden(
                "the path is outside the workspace of the agent", details={"rule": "path_outside_workspace"}
            )

    def _store(
        self,
        principal: Principal,
        binding: Binding,
        file: SentFile,
        known: Attachment | None,
        path: str | None,
    ) -> Attachment:
        with self._authority.held(principal):
            self._authorise(principal, binding)
            if path is not None:
                self.require_readable(principal, binding, path)
            workspace = self._agents.workspace(binding.agent_alias)
            if known is None:
                place = UploadsFolder(workspace).path(file.stored_name)
                known = Attachment(file.ref_id, file.marker(place), workspace, place, len(file.content))
            UploadsFolder(known.workspace, self._steps).store(known.name, file.content)
            return known

    def _authorise(self, principal: Principal, binding: Binding) -> None:
        self.require_sender(principal)
        if binding.owner != principal.id and not self._authority.rights(principal).admin:
            raise not_owned()
        self._authority.require_agent(principal, binding.agent_alias)
