"""Which errors a method answers with.

The tests of the daemon fail where a method answers with another one, so what a client reads here is all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zeroclaw_daemon.agent.directory import AgentNotFound
from zeroclaw_daemon.agent.providers.base import ProviderError, ProviderNotFound
from zeroclaw_daemon.attachments.folder import UploadsFolderUnsafe
from zeroclaw_daemon.attachments.index import AttachmentNotFound
from zeroclaw_daemon.attachments.local_file import PathRefused
from zeroclaw_daemon.authority.principal import AuthenticationFailed, Forbidden
from zeroclaw_daemon.config.coercion import PropertyValueInvalid
from zeroclaw_daemon.config.map_keys import MapKeyExists, MapKeyNotFound
from zeroclaw_daemon.config.migration import ConfigOutdated, ConfigTooNew
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid, ConfigFileInvalid, ConfigSyntaxInvalid
from zeroclaw_daemon.config.properties import UnknownProperty
from zeroclaw_daemon.config.saving import ConfigBusy
from zeroclaw_daemon.rpc.errors import (
    AnswerTooLarge,
    ConflictingSpelling,
    InitializeRequired,
    InvalidParams,
    ProtocolMismatch,
)
from zeroclaw_daemon.rpc.methods.table import Signature
from zeroclaw_daemon.sessions.errors import (
    NoActiveTurn,
    SessionAmbiguous,
    SessionBusy,
    SessionLimit,
    SessionMismatch,
    SessionNotFound,
    TurnFailed,
)
from zeroclaw_daemon.sessions.store.file import SessionsUnavailable
from zeroclaw_daemon.sessions.store.records import SessionKilled, SurfaceUnsupported
from zeroclaw_daemon.uploads import errors as uploads
from zeroclaw_host.errors import StorageError, UsageError, ZeroclawError
from zeroclaw_host.services.sealing import KeyUnavailable

Failure = type[ZeroclawError]

_WRITES_CONFIG: Final[tuple[Failure, ...]] = (
    UnknownProperty, PropertyValueInvalid, ConfigCandidateInvalid, ConfigFileInvalid, ConfigSyntaxInvalid, ConfigOutdated,
    ConfigTooNew, ConfigBusy, KeyUnavailable, StorageError,
)  # fmt: skip
_KEEPS: Final[tuple[Failure, ...]] = (SessionNotFound, SessionAmbiguous, SessionsUnavailable)
_TAKES_FILES: Final[tuple[Failure, ...]] = (SessionNotFound, uploads.FilenameTooLong, uploads.FileTooLarge)
_STORES_FILES: Final[tuple[Failure, ...]] = (
    SessionNotFound,
    AgentNotFound,
    UploadsFolderUnsafe,
    ConfigBusy,
    StorageError,
)

_OWN: Final[Mapping[str, tuple[Failure, ...]]] = {
    "initialize": (AuthenticationFailed, ProtocolMismatch),
    "session/new": (
        AgentNotFound, SessionKilled, SessionMismatch, SessionLimit, SessionBusy, SessionsUnavailable, UsageError,
        ProviderNotFound, ProviderError, StorageError,
    ),
    "session/prompt": (
        SessionNotFound, SessionKilled, SurfaceUnsupported, SessionAmbiguous, SessionBusy, SessionLimit, AttachmentNotFound,
        AgentNotFound, TurnFailed, SessionsUnavailable,
    ),
    "session/cancel": (SessionNotFound, NoActiveTurn),
    "session/close": (SessionNotFound, SessionBusy),
    "session/kill": (*_KEEPS, SessionBusy),
    "session/delete": (*_KEEPS, SessionBusy),
    "session/state": (SessionNotFound, AnswerTooLarge),
    "session/configure": (SessionNotFound, AgentNotFound, ProviderNotFound, ProviderError),
    "session/messages": (*_KEEPS, AnswerTooLarge),
    "session/list": (SessionsUnavailable, UsageError),
    "session/list-acp": (SessionsUnavailable,),
    "config/get": (UnknownProperty, AnswerTooLarge),
    "config/list": (UnknownProperty, AnswerTooLarge),
    "config/set": _WRITES_CONFIG,
    "config/set-many": _WRITES_CONFIG,
    "config/delete": _WRITES_CONFIG,
    "config/reload": (ConfigFileInvalid, ConfigSyntaxInvalid, ConfigOutdated, ConfigTooNew, StorageError),
    "config/map-keys": (UnknownProperty, AnswerTooLarge),
    "config/map-key-create": (*_WRITES_CONFIG, MapKeyExists),
    "config/map-key-delete": (*_WRITES_CONFIG, MapKeyNotFound),
    "config/map-key-rename": (*_WRITES_CONFIG, MapKeyExists, MapKeyNotFound),
    "file/attach": (
        *_TAKES_FILES, *_STORES_FILES, uploads.AttachTooLarge, uploads.Base64Invalid, PathRefused,
    ),
    "file/upload/begin": (
        *_TAKES_FILES, uploads.DigestInvalid, uploads.UploadLimit, uploads.UploadBudgetSpent, AgentNotFound,
    ),
    "file/upload/chunk": (
        uploads.UploadUnknown, uploads.Base64Invalid, uploads.ChunkEmpty, uploads.ChunkTooLarge, uploads.ChunkLeavesGap,
        uploads.ChunkPastEnd, uploads.ChunkDiffers,
    ),
    "file/upload/commit": (
        *_STORES_FILES, uploads.UploadUnknown, uploads.UploadIncomplete, uploads.UploadDigestMismatch,
        AuthenticationFailed,
    ),
}  # fmt: skip


def failures_of(row: Signature) -> tuple[Failure, ...]:
    """The errors of a method: those of the gate and of its parameters, then its own."""
    gate = () if row.opens else (InitializeRequired, AuthenticationFailed, Forbidden)
    shape = (InvalidParams, ConflictingSpelling) if row.params is not None else ()
    return tuple(dict.fromkeys((*gate, *shape, *_OWN.get(row.name, ()))))
