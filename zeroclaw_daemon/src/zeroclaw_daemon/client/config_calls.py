"""``config/*``: the daemon's configuration, and what is wrong with it (RPC-067, RPC-245, D-50)."""

from __future__ import annotations

from collections.abc import Iterable

from zeroclaw_daemon.client.calls import Calls, read
from zeroclaw_daemon.rpc.methods import config_models as models
from zeroclaw_daemon.strict_json import JsonValue


class ConfigCalls(Calls):
    """The configuration."""

    async def config(self) -> models.WholeResult:
        """All of the configuration in force, secrets masked."""
        return await self.ask("config/get", {}, models.WholeResult)

    async def config_get(self, prop: str) -> models.ValueResult:
        """One property, as a person reads it."""
        return await self.ask("config/get", {"prop": prop}, models.ValueResult)

    async def config_list(self, prefix: str = "") -> models.ListResult:
        """Every property at or below a prefix."""
        return await self.ask("config/list", {"prefix": prefix}, models.ListResult)

    async def config_set(
        self, prop: str, value: JsonValue, *, comment: str | None = None
    ) -> models.SetResult:
        """Set one property; None unsets it where that may be."""
        params: dict[str, JsonValue] = {"prop": prop, "value": value}
        if comment is not None:
            params["comment"] = comment
        return read("config/set", await self.call("config/set", params), models.SetResult)

    async def config_set_many(self, sets: Iterable[tuple[str, JsonValue]]) -> models.SetManyResult:
        """Set several properties, all of them or none."""
        entries = [{"prop": prop, "value": value} for prop, value in sets]
        return await self.ask("config/set-many", {"sets": entries}, models.SetManyResult)

    async def config_delete(self, prop: str) -> models.DeleteResult:
        """Take a property out of the file."""
        return await self.ask("config/delete", {"prop": prop}, models.DeleteResult)

    async def config_validate(self) -> models.ValidateResult:
        """Whether the file on disk can be used."""
        return await self.ask("config/validate", {}, models.ValidateResult)

    async def config_reload(self) -> models.ReloadResult:
        """Have the daemon decide again which plugin instances run (D-36)."""
        return await self.ask("config/reload", {}, models.ReloadResult)

    async def map_keys(self, path: str) -> models.MapKeysResult:
        """The keys of a table whose keys an operator chooses."""
        return await self.ask("config/map-keys", {"path": path}, models.MapKeysResult)

    async def map_key_create(self, path: str, key: str) -> models.MapKeyCreateResult:
        """Make a key, with nothing below it."""
        params = {"path": path, "key": key}
        return await self.ask("config/map-key-create", params, models.MapKeyCreateResult)

    async def map_key_delete(self, path: str, key: str) -> models.MapKeyDeleteResult:
        """Take a key out, with everything below it."""
        params = {"path": path, "key": key}
        return await self.ask("config/map-key-delete", params, models.MapKeyDeleteResult)

    async def map_key_rename(self, path: str, old: str, new: str) -> models.MapKeyRenameResult:
        """Give a key another name."""
        params = {"path": path, "from": old, "to": new}
        return await self.ask("config/map-key-rename", params, models.MapKeyRenameResult)
