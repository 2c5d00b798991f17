"""Typed configuration of a plugin instance.

An author declares it as a dataclass and names it in an annotation of the tool class::

    @dataclass
    class Config:
        replacement: str = "[masked]"
        api_key: Secret = SECRET

    class Redact(Tool):
        config: Config

Public properties are validated by the host against the manifest's ``config_schema``. A tool gets them with each call; a
channel asks for them with each look at ``self.config``. A :class:`Secret` field is a handle: its value is asked for when
:meth:`Secret.get` is called. Neither is ever kept (PLG-114).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NoReturn, cast

from zeroclaw_sdk.guest import secrets
from zeroclaw_sdk.guest.annotations import hints_of, is_dataclass_type, object_of
from zeroclaw_sdk.guest.faults import DefinitionInvalid
from zeroclaw_sdk.guest.host import ConfigError, current_host
from zeroclaw_sdk.guest.shapes import Bounded, Object, Shape

__all__ = [
    "SECRET",
    "ConfigClass",
    "ConfigError",
    "ConfigInvalid",
    "LiveConfig",
    "Secret",
    "config_class",
    "get",
]


def get() -> Mapping[str, object]:
    """The public configuration of a channel, as the host has it now: JSON values by name. A tool has ``self.config``.

    :raises ConfigError: its ``word`` says why: ``access-denied`` or ``unavailable``.
    """
    return cast("Mapping[str, object]", json.loads(current_host().config()))


@dataclasses.dataclass(frozen=True)
class Secret:
    """The handle of one secret property. In the manifest's schema the property carries ``x-secret = true``."""

    name: str = dataclasses.field(default="", repr=False)

    def get(self) -> str:
        """The secret's current value.

        :raises SecretError: it is not set, or may not be read here.
        """
        return secrets.get(self.name)


SECRET: Final = Secret()
"""What a secret field is set to where it is declared."""


class ConfigInvalid(Exception):
    """The host's configuration object does not fit the plugin's config class."""


@dataclasses.dataclass(frozen=True)
class ConfigClass:
    """A plugin's config dataclass, its secret fields set apart."""

    cls: type
    public: Object
    secret_names: frozenset[str]

    @classmethod
    def of(cls, config: type) -> ConfigClass:
        """Read a dataclass.

        :raises DefinitionInvalid: a field has no JSON form, or a secret field has no default.
        """
        hints = hints_of(config, config.__qualname__)
        names = frozenset(each.name for each in dataclasses.fields(config) if hints[each.name] is Secret)
        for each in dataclasses.fields(config):
            if each.name in names and each.default is dataclasses.MISSING:
                raise DefinitionInvalid(
                    f"{config.__qualname__}.{each.name}: write `{each.name}: Secret = SECRET`"
                )
        public = dataclasses.replace(object_of(config, leave_out=names), build=dict)
        return cls(config, public, names)

    def read(self, values: Mapping[str, object]) -> object:
        """An instance of the config class.

        :raises ConfigInvalid: a property is missing, unknown or of another type; never quotes a value.
        """
        problems: list[str] = []
        typed = self.public.read(dict(values), "config", problems)
        if problems:
            raise ConfigInvalid("; ".join(problems))
        return self.cls(
            **cast("dict[str, object]", typed), **{name: Secret(name) for name in self.secret_names}
        )

    def compare(self, schema: Mapping[str, Any] | None) -> list[str]:
        """Where the class and the manifest's ``config_schema`` disagree, as sentences."""
        if schema is None:
            return ["the plugin declares a config class, but the manifest has no config_schema"]
        declared = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
        known = {member.name: member for member in self.public.members}
        found: list[str] = []
        for name in sorted(known.keys() | self.secret_names):
            if name not in declared:
                found.append(f"{name}: a field of {self.cls.__qualname__}, but no property of config_schema")
            elif (name in self.secret_names) != bool(declared[name].get("x-secret")):
                found.append(f"{name}: Secret in the class and x-secret in config_schema go together")
            elif name in known and (problem := _type_difference(known[name].shape, declared[name])):
                found.append(f"{name}: {problem}")
        for name in sorted(declared.keys() - known.keys() - self.secret_names):
            found.append(f"{name}: a property of config_schema, but no field of {self.cls.__qualname__}")
        required = cast("list[str]", schema.get("required", []))
        for name, member in sorted(known.items()):
            if not member.optional and name in declared and name not in required:
                found.append(f"{name}: has no default, so config_schema must require it")
        return found


@cache
def config_class(cls: type) -> ConfigClass | None:
    """The config dataclass that a plugin's class names in an annotation, if it names one.

    :raises DefinitionInvalid: it names something else, or a dataclass with a field that has no JSON form.
    """
    config = hints_of(cls, cls.__qualname__).get("config", Any)
    if config is Any:
        return None
    if not is_dataclass_type(config):
        raise DefinitionInvalid(f"{cls.__qualname__}.config must be annotated with a dataclass")
    return ConfigClass.of(config)


class LiveConfig:
    """An attribute that is the configuration as the host has it at each look."""

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        known = config_class(owner)
        if known is None:
            raise AttributeError(
                f"{owner.__qualname__} has no configuration; annotate `config: YourDataclass`"
            )
        return known.read(get())

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(
            "config is not kept: the operator may change it between two calls; look where it is used"
        )


def _type_difference(shape: Shape, declared: Mapping[str, Any]) -> str | None:
    inner = shape.inner if isinstance(shape, Bounded) else shape
    ours, theirs = inner.schema().get("type"), declared.get("type")
    if ours is None or theirs is None or ours == theirs or (ours, theirs) == ("number", "integer"):
        return None
    return f"{ours} in the class, {theirs} in config_schema"
