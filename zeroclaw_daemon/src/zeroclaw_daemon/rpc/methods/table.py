"""The method table: what there is to call, what it takes and answers, and which grant it needs.

It is data, so that dispatch, ``zeroclaw auth explain``, the documents and the tests all read the same rows. Who may use a
session, an agent or a configuration path is decided by the methods themselves, with :mod:`zeroclaw_daemon.authority`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zeroclaw_daemon.authority.rights import Grant
from zeroclaw_daemon.config.reach import path_reach
from zeroclaw_daemon.rpc.methods import approving, handshake, session, status
from zeroclaw_daemon.rpc.methods import config_models as config
from zeroclaw_daemon.rpc.methods import file_models as files
from zeroclaw_daemon.rpc.methods import session_reading as reading
from zeroclaw_daemon.rpc.models import Params, Result


@dataclass(frozen=True, slots=True)
class Signature:
    """One row. ``params`` None: the method takes none and ignores any. ``grant`` None: no right is needed.

    ``opens`` marks the method that is served before the handshake, because it is the handshake; ``beside`` one that runs
    beside the other calls of its connection. ``writes`` names the members that hold configuration paths which the caller
    must be allowed to write, ``below`` that the call writes everything below them as well; ``agent`` says that the call uses
    an agent, which the caller must be allowed to use, ``tools`` that tools may run in it; ``local`` that it is served to clients of
    this machine alone. ``judges`` says that a call whose parameters are right asks for its credential and its grant itself, in an
    order of its own; everywhere else that is done before the call.
    """

    name: str
    params: type[Params] | None
    result: type[Result]
    grant: Grant | None = None
    opens: bool = False
    beside: bool = False
    writes: tuple[str, ...] = ()
    below: bool = False
    agent: bool = False
    tools: bool = False
    local: bool = False
    judges: bool = False

    @property
    def members(self) -> Mapping[str, bool]:
        """The parameters as the documents spell them, and whether each is required."""
        return self.params.members() if self.params is not None else {}

    def written(self, path: str) -> tuple[str, ...]:
        """The configuration paths a caller must be allowed to write, whose call names this one."""
        return path_reach(path) if self.below else (path,)


_SYSTEM_READ: Final = Grant("system", "read")
_SESSIONS_CREATE: Final = Grant("sessions", "create")
_SESSIONS_READ: Final = Grant("sessions", "read")
_SESSIONS_UPDATE: Final = Grant("sessions", "update")
_SESSIONS_EXECUTE: Final = Grant("sessions", "execute")
_SESSIONS_DELETE: Final = Grant("sessions", "delete")
_CONFIG_CREATE: Final = Grant("config", "create")
_CONFIG_READ: Final = Grant("config", "read")
_CONFIG_UPDATE: Final = Grant("config", "update")
_CONFIG_DELETE: Final = Grant("config", "delete")
_FILES_CREATE: Final = Grant("files", "create")

_ROWS: Final = (
    Signature("initialize", handshake.InitializeParams, handshake.InitializeResult, opens=True),
    Signature("status", None, status.StatusResult, _SYSTEM_READ),
    Signature("session/new", session.NewParams, session.NewResult, _SESSIONS_CREATE, agent=True),
    Signature(
        "session/prompt",
        session.PromptParams,
        session.PromptResult,
        _SESSIONS_EXECUTE,
        beside=True,
        agent=True,
        tools=True,
    ),
    Signature("session/approve", approving.ApproveParams, approving.ApproveResult, _SESSIONS_UPDATE),
    Signature("session/cancel", session.SessionParams, session.CancelResult, _SESSIONS_UPDATE),
    Signature("session/close", session.SessionParams, session.CloseResult, _SESSIONS_UPDATE),
    Signature("session/kill", session.SessionParams, session.KillResult, _SESSIONS_DELETE),
    Signature("session/delete", session.SessionParams, session.DeleteResult, _SESSIONS_DELETE),
    Signature("session/state", session.SessionParams, session.StateResult, _SESSIONS_READ),
    Signature("session/messages", reading.MessagesParams, reading.MessagesResult, _SESSIONS_READ),
    Signature("session/list", reading.ListParams, reading.ListResult, _SESSIONS_READ),
    Signature("session/list-acp", None, reading.ListResult, _SESSIONS_READ),
    Signature(
        "session/configure", session.ConfigureParams, session.ConfigureResult, _SESSIONS_UPDATE, agent=True
    ),
    Signature("config/get", config.GetParams, config.WholeResult, _CONFIG_READ),
    Signature("config/list", config.ListParams, config.ListResult, _CONFIG_READ),
    Signature("config/set", config.SetParams, config.SetResult, _CONFIG_UPDATE, writes=("prop",)),
    Signature(
        "config/set-many", config.SetManyParams, config.SetManyResult, _CONFIG_UPDATE, writes=("sets.prop",)
    ),
    Signature("config/delete", config.DeleteParams, config.DeleteResult, _CONFIG_DELETE, writes=("prop",)),
    Signature("config/validate", None, config.ValidateResult, _CONFIG_UPDATE),
    Signature("config/reload", None, config.ReloadResult, _CONFIG_UPDATE),
    Signature("config/map-keys", config.MapParams, config.MapKeysResult, _CONFIG_READ),
    Signature(
        "config/map-key-create",
        config.MapKeyParams,
        config.MapKeyCreateResult,
        _CONFIG_CREATE,
        writes=("path.key",),
    ),
    Signature(
        "config/map-key-delete",
        config.MapKeyParams,
        config.MapKeyDeleteResult,
        _CONFIG_DELETE,
        writes=("path.key",),
        below=True,
    ),
    Signature(
        "config/map-key-rename",
        config.MapKeyRenameParams,
        config.MapKeyRenameResult,
        _CONFIG_UPDATE,
        writes=("path.from", "path.to"),
        below=True,
    ),
    Signature("file/attach", files.AttachParams, files.AttachResult, _FILES_CREATE, agent=True),
    Signature(
        "file/upload/begin", files.BeginParams, files.BeginResult, _FILES_CREATE, agent=True, local=True
    ),
    Signature("file/upload/chunk", files.ChunkParams, files.ChunkResult, _FILES_CREATE, local=True),
    Signature(
        "file/upload/commit",
        files.CommitParams,
        files.FileEntry,
        _FILES_CREATE,
        agent=True,
        local=True,
        judges=True,
    ),
)

TABLE: Final[Mapping[str, Signature]] = {row.name: row for row in _ROWS}
"""Every method by its name."""
