"""The whole configuration file as one type: every key, its type, its default and what it is for.

Values are strict (a text is no number) and unknown keys are errors. A :class:`Config` is immutable: a new revision of the
file is a new object. Texts that are secret are :class:`~pydantic.SecretStr`, so that no ``repr`` and no error shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Annotated, Final, Literal, cast

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from zeroclaw_daemon.config import names
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_daemon.config.plugin_schema import Plugins
from zeroclaw_daemon.config.section import FilePath, Kept, Reference, RuleBroken, Section

SCHEMA_VERSION: Final = 1
"""The version of the file's layout that this program reads and writes (D-39)."""

Approval = Literal["auto", "ask", "deny"]
ProviderKind = Literal["echo", "openai", "anthropic"]
Resource = Literal[
    "system", "sessions", "memory", "cron", "config", "agents", "cost", "skills", "personality", "logs", "tui", "files",
    "locales", "quickstart", "channels", "providers", "models", "peer_groups", "plugins", "tools", "sops",
]  # fmt: skip
Verb = Literal["create", "read", "update", "delete", "execute"]

BUILT_IN_PROVIDER: Final = "echo"
"""The provider every installation has: deterministic and offline (D-19)."""

MOVED: Final = {"plugins.security.nat64_prefixes": "security.nat64_prefixes"}
"""Keys that stood somewhere else before, by their former path. They are unknown there, and told their new place."""

_REFERENCE: Final = re.compile(r" \((?:[A-Z]+-\d+(?:, )?)+\)")
"""How a docstring names the requirements behind it."""

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
"""What a browser sends as the origin of a page."""

_WEEK_SECONDS: Final = 7 * 24 * 3600
_PRINCIPAL_ID_CHARACTERS: Final = 256


class Agent(Section):
    """``[agents.<alias>]``: who answers a prompt (D-41)."""

    enabled: bool = Field(default=True, description="Whether sessions may use this agent.")
    provider: Annotated[str, Reference("providers.models")] = Field(
        default=BUILT_IN_PROVIDER,
        description="The model provider: `echo`, or `<kind>.<alias>` of `providers.models`.",
    )
    model: str | None = Field(default=None, description="The model to ask for. Unset: the provider's own.")
    system_prompt: str = Field(default="", description="What the model is told before every conversation.")
    tools: tuple[str, ...] = Field(
        default=("*",), description="The tools this agent may use, by name; `*` means all."
    )
    channels: tuple[str, ...] = Field(
        default=(), description="The channels this agent answers on, as `plugin.<alias>`."
    )
    approval: Approval | None = Field(
        default=None,
        description="What happens before a tool runs: nothing (auto), a question (ask), a refusal (deny). Unset: a question "
        "before `bash`, nothing before others.",
    )
    max_steps: int = Field(default=25, ge=1, description="Model calls in one turn.")
    workspace: FilePath | None = Field(
        default=None,
        description="The agent's directory. Unset: `agents/<alias>/workspace` in the configuration directory.",
    )
    max_context_tokens: int = Field(
        default=32_000,
        ge=0,
        description="The estimated size a conversation is reduced to; 0 means never.",
    )
    approval_timeout_secs: int = Field(
        default=120,
        ge=1,
        le=_WEEK_SECONDS,
        description="Seconds a question whether a tool may run waits for its answer. Then the tool is not run.",
    )
    ask_timeout_secs: int = Field(
        default=300,
        ge=1,
        le=_WEEK_SECONDS,
        description="Seconds a question of `ask_user` or `poll` waits for its answer. Then there is none.",
    )


class ModelProvider(Section):
    """``[providers.models.<kind>.<alias>]``: one model endpoint (D-41)."""

    uri: str | None = Field(default=None, description="The endpoint's base address. Unset: that of the kind.")
    model: str | None = Field(default=None, description="The model to ask for.")
    api_key: SecretStr | None = Field(default=None, description="The endpoint's key.")
    timeout_secs: int = Field(
        default=120, ge=1, description="Seconds without an answer until a request fails."
    )
    context_window: int | None = Field(
        default=None, ge=1, description="Tokens the model can hold, where known."
    )


Alias = Annotated[str, AfterValidator(names.alias)]


def _bound_alias(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    """A hand-written alias that no command would write costs its own channel, not the file (PLG-211, PLG-278)."""
    try:
        return handler(value)
    except ValidationError:
        notices: object = cast("Mapping[str, object]", info.context or {}).get("notices")
        if not isinstance(value, str) or not isinstance(notices, list):
            raise
        cast("list[str]", notices).append(
            f"{value!a} cannot name a channel: a name here is {names.ALIAS_RULE}; rename or delete the table "
            f"[channels.plugin.{written_key(value)}]"
        )
        return value


BoundAlias = Annotated[str, AfterValidator(names.alias), WrapValidator(_bound_alias)]
"""What a command may write is an :data:`Alias`; what is found in a file is read all the same."""
AgentAlias = Annotated[str, AfterValidator(names.agent_alias)]
PrincipalName = Annotated[str, AfterValidator(names.principal)]


class Providers(Section):
    """``[providers]``: where models are."""

    models: Mapping[ProviderKind, Mapping[Alias, ModelProvider]] = Field(
        default_factory=dict[ProviderKind, Mapping[str, ModelProvider]],
        description="Model endpoints by kind and name.",
    )

    def names(self) -> tuple[str, ...]:
        """What an agent's ``provider`` may say: the built-in one, then each endpoint as ``<kind>.<alias>``."""
        return (
            BUILT_IN_PROVIDER,
            *(f"{kind}.{alias}" for kind, aliases in self.models.items() for alias in aliases),
        )


class Security(Section):
    """``[security]``: who the local machine's users are to the daemon, and what is a private address on this network."""

    trust_daemon_uid: bool = Field(
        default=True, description="Whether the daemon's own user has full rights on the socket."
    )
    nat64_prefixes: tuple[str, ...] = Field(
        default=(),
        description="NAT64 prefixes of this network (`<ipv6>/<length>`), so that the IPv4 addresses embedded in theirs are "
        "judged. A malformed one has every connection of every plugin refused.",
    )


class Secrets(Section):
    """``[secrets]``: how secrets lie in this file."""

    encrypt: bool = Field(
        default=True,
        description="Whether a secret is sealed with the installation's key when it is written. False leaves it as plain "
        "text.",
    )


class Rpc(Section):
    """``[rpc]``: the local endpoint."""

    max_local_connections: int = Field(
        default=512, ge=1, description="Connections open at once. Read when the daemon starts."
    )


class PluginChannel(Section):
    """``[channels.plugin.<alias>]``: a channel that a package provides."""

    package: str = Field(min_length=1, description="The package that provides the channel.")
    enabled: bool = Field(default=True, description="Whether the channel may run.")


class Channels(Section):
    """``[channels]``: where messages come from."""

    plugin: Mapping[BoundAlias, PluginChannel] = Field(
        default_factory=dict[str, PluginChannel], description="Channels of plugins by name."
    )


class Memory(Section):
    """``[memory]``: what agents remember."""

    backend: str = Field(default="sqlite", description="`sqlite`, or `plugin:<package>`.")


def _listening_address(text: str) -> str:
    if text != "localhost":
        try:
            ip_address(text)
        except ValueError:
            raise ValueError("the gateway listens on an IP address, or on localhost") from None
    return text


def _origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise ValueError("an origin is scheme://host, or scheme://host:port, in lower case")
    return text


class Gateway(Section):
    """``[gateway]``: the way in for other machines, off by default (D-35)."""

    enabled: bool = Field(default=False, description="Whether the gateway listens.")
    host: Annotated[str, AfterValidator(_listening_address)] = Field(
        default="127.0.0.1",
        description="The address it listens on. Without a certificate it must be one of this machine alone.",
    )
    port: int = Field(default=42_617, ge=0, le=65_535, description="The port it listens on.")
    certificate: FilePath | None = Field(default=None, description="Path of the certificate chain, as PEM.")
    private_key: FilePath | None = Field(default=None, description="Path of the certificate's key, as PEM.")
    allowed_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = Field(
        default=(),
        description="Origins of web pages that may connect, as browsers write them (`https://panel.example`). No other page may.",
    )
    max_connections: int = Field(
        default=64, ge=1, description="Connections open at once. Read when the daemon starts."
    )

    @property
    def loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return self.host == "localhost" or ip_address(self.host).is_loopback


class User(Section):
    """``[users.<name>]``: a person the daemon knows by the operating system's user number."""

    uid: int = Field(ge=0, le=2**32 - 1, description="The user number.")
    permission_profiles: tuple[str, ...] = Field(
        min_length=1, description="The profiles whose rights add up."
    )
    principal_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=_PRINCIPAL_ID_CHARACTERS,
        description="The name in records, another one for every user. Unset: the user's name.",
    )


class PermissionProfile(Section):
    """``[permission_profiles.<name>]``: a set of rights. An empty list means nothing."""

    admin: bool = Field(default=False, description="Every right there is.")
    allowed_agents: tuple[str, ...] = Field(default=(), description="Agents that may be used; `*` means all.")
    config_write_paths: tuple[str, ...] = Field(
        default=(), description="Configuration paths that may be written."
    )
    allowed_tools: tuple[str, ...] = Field(default=(), description="Tools that may run; `*` means all.")
    grants: Mapping[Resource, tuple[Verb, ...]] = Field(
        default_factory=dict[Resource, tuple[Verb, ...]], description="Verbs by resource."
    )


class Config(Section):
    """The file."""

    schema_version: Annotated[int, Kept()] = Field(
        default=SCHEMA_VERSION, ge=0, le=SCHEMA_VERSION, description="The version of the file's layout."
    )
    plugins: Plugins = Field(default_factory=Plugins, description="The plugin host.")
    agents: Mapping[AgentAlias, Agent] = Field(
        default_factory=dict[str, Agent], description="Agents by name."
    )
    providers: Providers = Field(default_factory=Providers, description="Where models are.")
    security: Security = Field(
        default_factory=Security, description="Who local users are, and which addresses are private."
    )
    secrets: Secrets = Field(default_factory=Secrets, description="How secrets lie in this file.")
    rpc: Rpc = Field(default_factory=Rpc, description="The local endpoint.")
    channels: Channels = Field(default_factory=Channels, description="Where messages come from.")
    memory: Memory = Field(default_factory=Memory, description="What agents remember.")
    gateway: Gateway = Field(default_factory=Gateway, description="The HTTP side.")
    users: Mapping[PrincipalName, User] = Field(
        default_factory=dict[str, User], description="Known users by name."
    )
    permission_profiles: Mapping[PrincipalName, PermissionProfile] = Field(
        default_factory=dict[str, PermissionProfile], description="Sets of rights by name."
    )

    @model_validator(mode="after")
    def _users_are_distinct_and_complete(self) -> Config:
        """Who acts is one person, and what a person may is written down (RPC-248)."""
        owner_of: dict[int | str, str] = {}
        for name, user in self.users.items():
            for field, identity in (("uid", user.uid), ("principal_id", user.principal_id or name)):
                other = owner_of.setdefault(identity, name)
                if other != name:
                    raise RuleBroken(
                        ("users", name, field), f"the users {other} and {name} have the same {field}"
                    )
            for profile in user.permission_profiles:
                if profile not in self.permission_profiles:
                    raise RuleBroken(
                        ("users", name, "permission_profiles"),
                        f"there is no permission profile {profile}{_known(self.permission_profiles)}",
                    )
        return self

    @model_validator(mode="after")
    def _a_gateway_is_not_read_on_its_way(self) -> Config:
        """Plain text stays on this machine (D-35). Off, the gateway may be configured in any order."""
        gateway = self.gateway
        secured = gateway.certificate is not None and gateway.private_key is not None
        if gateway.enabled and not secured and not gateway.loopback:
            raise RuleBroken(
                ("gateway", "host"),
                "other machines are served over TLS alone: set gateway.certificate and gateway.private_key first, "
                "or let the gateway listen on 127.0.0.1",
            )
        return self

    @model_validator(mode="after")
    def _agents_have_providers(self) -> Config:
        known = self.providers.names()
        for name, agent in self.agents.items():
            if agent.provider not in known:
                raise RuleBroken(
                    ("agents", name, "provider"),
                    f"there is no provider {agent.provider}{_known(known)}",
                )
        return self


def _known(names_there: Iterable[str]) -> str:
    return f"; there is {', '.join(names_there) or 'none'}"


def json_schema() -> dict[str, object]:
    """The file's JSON Schema, for editors. Rules between values are not in it; secrets are ``writeOnly``."""
    schema = Config.model_json_schema()
    for section in schema["$defs"].values():
        # A section is described by its docstring, which also says what only its developers look up.
        section["description"] = _REFERENCE.sub("", section["description"]).replace("``", "`")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "ZeroClaw configuration",
    }
