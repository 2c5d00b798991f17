"""``config/*``: reading and writing the configuration.

A write takes the road of every write (:class:`~zeroclaw_daemon.config.store.ConfigStore`), in a worker thread: the caller is
judged, the lock is taken, the caller is judged again by the file under the lock, then everything is staged, validated,
prepared and saved in one step. A write that was begun is finished, or has no effect, whether or not its caller still listens.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from zeroclaw_daemon.authority.principal import Authority, Forbidden, Principal
from zeroclaw_daemon.config import map_keys
from zeroclaw_daemon.config.coercion import PropertyValueInvalid
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.network import findings
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid, ConfigFileInvalid, Problem
from zeroclaw_daemon.config.properties import (
    Property,
    as_json,
    find_value,
    get_property,
    list_properties,
)
from zeroclaw_daemon.config.reach import key_path, key_reach
from zeroclaw_daemon.config.shape import Value, ValueKind
from zeroclaw_daemon.config.store import ConfigStore, Prepare
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.access import principal_of
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.methods import config_models as models
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.errors import ZeroclawError

MAX_WRITERS: Final = 4
"""Writes that are begun at once. They take turns anyway; those that wait must not hold the threads that turns need."""

MAX_READERS: Final = 4
"""Reads at once. A long file takes long to read through, which must hold up neither other calls nor turns."""

Reload = Callable[[], Awaitable[Mapping[str, JsonValue]]]
"""Makes the activation plan again; the members of the answer."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ConfigMethods:
    """The methods ``config/*``.

    :param prepare: makes what the rest of the daemon needs of a candidate, and returns the step that installs it (RPC-084).
    :param reload: makes the activation plan again; without it ``config/reload`` is not served.
    """

    def __init__(
        self,
        store: ConfigStore,
        authority: Authority,
        *,
        prepare: Prepare | None = None,
        reload: Reload | None = None,
    ) -> None:
        self._store = store
        self._authority = authority
        self._prepare = prepare
        self._reload = reload
        self._writers = anyio.CapacityLimiter(MAX_WRITERS)
        self._readers = anyio.CapacityLimiter(MAX_READERS)

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves them."""
        served: dict[str, Handler] = {
            "config/get": self.get,
            "config/list": self.list,
            "config/set": self.set,
            "config/set-many": self.set_many,
            "config/delete": self.delete,
            "config/validate": self.validate,
            "config/map-keys": self.map_keys,
            "config/map-key-create": self.map_key_create,
            "config/map-key-delete": self.map_key_delete,
            "config/map-key-rename": self.map_key_rename,
        }
        if self._reload is not None:
            served["config/reload"] = self.reload
        return served

    # Reading.

    async def get(self, caller: Caller, params: models.GetParams) -> models.ValueResult | models.WholeResult:
        """One property as a person reads it, or everything as an object. No secret is ever shown (RPC-245)."""

        def read() -> models.ValueResult | models.WholeResult:
            config = self._store.current().config
            if params.prop is None:
                return models.WholeResult.model_validate(as_json(config, defaults=True))
            return models.ValueResult(prop=params.prop, value=get_property(config, params.prop).shown)

        return await self._read(read)

    async def list(self, caller: Caller, params: models.ListParams) -> models.ListResult:
        """Every property there is now; each can be got and set by its path (RPC-245)."""

        def read() -> models.ListResult:
            snapshot = self._store.current()
            found = [_listed(each, snapshot) for each in list_properties(snapshot.config, params.prefix)]
            if params.prefix and not found:
                find_value(params.prefix, snapshot.config)
            return models.ListResult(entries=found)

        return await self._read(read)

    async def map_keys(self, caller: Caller, params: models.MapParams) -> models.MapKeysResult:
        """The keys of a map now (D-50)."""

        def read() -> models.MapKeysResult:
            keys = map_keys.keys(self._store.current().config, params.path)
            return models.MapKeysResult(path=params.path, keys=list(keys))

        return await self._read(read)

    async def validate(self, caller: Caller, params: None) -> models.ValidateResult:
        """Whether the file as it is on disk can be used; reads it, changes nothing."""

        def read() -> tuple[Sequence[Problem], Sequence[str]]:
            snapshot = self._store.read()
            return snapshot.problems, [finding.message for finding in findings(snapshot.config)]

        try:
            problems, found = await self._read(read)
        except ConfigFileInvalid as error:
            problems, found = error.problems, ()
        notices = list(found) or None
        if not problems:
            return models.ValidateResult(valid=True, notices=notices)
        told = [str(problem) for problem in problems]
        return models.ValidateResult(valid=False, error=told[0], problems=told, notices=notices)

    async def _read(self, read: Callable[[], T]) -> T:
        """What a read finds, in a worker thread."""
        return await anyio.to_thread.run_sync(read, limiter=self._readers)

    # Writing.

    async def set(self, caller: Caller, params: models.SetParams) -> models.SetResult:
        """Set one property."""

        def change(draft: Draft) -> None:
            _assign(draft, params.prop, params.value)
            if params.comment is not None:
                draft.comment(params.prop, params.comment)

        await self._write(caller, "update", [params.prop], change)
        return models.SetResult(prop=params.prop)

    async def set_many(self, caller: Caller, params: models.SetManyParams) -> models.SetManyResult:
        """Set several properties, all or none (RPC-067 … RPC-085)."""
        paths = [entry.prop for entry in params.sets]

        def change(draft: Draft) -> None:
            for index, entry in enumerate(params.sets):
                try:
                    _assign(draft, entry.prop, entry.value)
                except ZeroclawError as error:
                    _point_at(error, index)
                    raise

        try:
            await self._write(caller, "update", paths, change, batch=True)
        except ConfigCandidateInvalid as error:
            if (index := _blamed(error, paths)) is not None:
                _point_at(error, index)
            raise
        return models.SetManyResult(props=paths)

    async def delete(self, caller: Caller, params: models.DeleteParams) -> models.DeleteResult:
        """Take one property out of the file, so that its default counts."""
        there = False

        def change(draft: Draft) -> None:
            nonlocal there
            there = draft.unset(params.prop)

        await self._write(caller, "delete", [params.prop], change)
        return models.DeleteResult(prop=params.prop, deleted=there)

    async def map_key_create(self, caller: Caller, params: models.MapKeyParams) -> models.MapKeyCreateResult:
        """Make a key of a map, with nothing below it (D-50)."""
        await self._write(
            caller,
            "create",
            [key_path(params.path, params.key)],
            lambda draft: draft.create_key(params.path, params.key),
        )
        return models.MapKeyCreateResult(path=params.path, key=params.key)

    async def map_key_delete(self, caller: Caller, params: models.MapKeyParams) -> models.MapKeyDeleteResult:
        """Take a key of a map out of the file with everything below it (D-50)."""
        await self._write(
            caller,
            "delete",
            key_reach(params.path, params.key),
            lambda draft: draft.delete_key(params.path, params.key),
        )
        return models.MapKeyDeleteResult(path=params.path, key=params.key)

    async def map_key_rename(
        self, caller: Caller, params: models.MapKeyRenameParams
    ) -> models.MapKeyRenameResult:
        """Give a key of a map another name; everything below it, its comments and its place stay (D-50)."""
        paths = [*key_reach(params.path, params.old), *key_reach(params.path, params.new)]
        await self._write(
            caller, "update", paths, lambda draft: draft.rename_key(params.path, params.old, params.new)
        )
        return models.MapKeyRenameResult(path=params.path, old=params.old, new=params.new)

    async def reload(self, caller: Caller, params: None) -> models.ReloadResult:
        """Make the activation plan again and rebuild what changed (D-36)."""
        assert self._reload is not None
        return models.ReloadResult.model_validate(await self._reload())

    async def _write(
        self,
        caller: Caller,
        verb: str,
        paths: Sequence[str],
        change: Callable[[Draft], None],
        *,
        batch: bool = False,
    ) -> None:
        principal = principal_of(caller)
        self._require(principal, verb, paths, None, batch=batch)
        commit = partial(
            self._store.commit,
            change,
            authorise=lambda snapshot: self._require(principal, verb, paths, snapshot, batch=batch),
            prepare=self._prepare,
        )
        snapshot = await anyio.to_thread.run_sync(commit, limiter=self._writers)
        record(
            logger, logging.INFO, "the configuration was written",
            action="config_written", category="audit",
            peer=caller.link.peer.label, principal=principal.id, paths=list(paths), revision=snapshot.revision,
        )  # fmt: skip

    def _require(
        self, principal: Principal, verb: str, paths: Sequence[str], snapshot: Snapshot | None, *, batch: bool
    ) -> None:
        """Let a write pass, by the snapshot or by what is in force. Only a batch is told an index (RPC-081)."""
        try:
            self._authority.require_config_paths(
                principal, verb, paths, config=None if snapshot is None else snapshot.config
            )
        except Forbidden as error:
            if not batch:
                error.details = {key: each for key, each in error.details.items() if key != "index"}
            raise


def _assign(draft: Draft, prop: str, value: JsonValue) -> None:
    find_value(prop, draft.snapshot.config)  # suggests what there is in this file, too
    row = map_keys.row_named_by(prop)
    if row is not None and row.key != value:
        # It would become another path, which nobody was asked about.
        raise PropertyValueInvalid(
            f"{prop}: config/map-key-rename gives a row another name", details={"property": prop}
        )
    draft.set(prop, value)


def _point_at(error: ZeroclawError, index: int) -> None:
    """Have an error say which entry of a batch it is about (RPC-078)."""
    error.details = {**error.details, "index": index}


def _blamed(error: ConfigCandidateInvalid, paths: Sequence[str]) -> int | None:
    """The entry whose own value a candidate is refused for, if there is one: of several for one property the last counts.
    What breaks a rule together with other properties is no single entry's fault.
    """
    at_fault = {problem.property for problem in error.problems}
    indexes = [
        index for index, path in enumerate(paths) if path in at_fault and path not in paths[index + 1 :]
    ]
    return min(indexes, default=None)


def _listed(found: Property, snapshot: Snapshot) -> models.ListedProperty:
    secret = found.type.kind is ValueKind.SECRET
    section = found.path.rpartition(".")[0]
    return models.ListedProperty(
        path=found.path,
        category=found.path.partition(".")[0],
        section=section,
        kind=found.type.kind.value,
        type_hint=_hint(found.type),
        value=None if secret else found.value,
        populated=found.populated,
        is_secret=secret,
        is_env_overridden=found.path in snapshot.overridden,
        enum_variants=list(found.type.choices) or None,
        description=found.type.description,
    )


def _hint(value: Value) -> str:
    """The type in a few words."""
    words = " | ".join(value.choices) if value.kind is ValueKind.ENUM else value.kind.value
    return f"{words}, optional" if value.optional else words
