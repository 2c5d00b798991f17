"""The whole configuration file as one type: every key, its type, its default and what it is for.

Values are strict (a text is no number) and unknown keys are errors. A :class:`Config` is immutable: a new revision of the
file is a new object. Texts that are secret are :class:`~pydantic.SecretStr`, so that no ``repr`` and no error shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from zeroclaw_daemon.config import names
from zeroclaw_host.instance import KEY_PREFIX
from zeroclaw_host.sandbox.compiling.compile_limits import BACKGROUND_PATIENCE, MEMORY_PER_BYTE, CompileLimits
from zeroclaw_host.sandbox.compiling.shelf import DEFAULT_CACHE_BYTES
from zeroclaw_host.sandbox.limits import Limits

SCHEMA_VERSION: Final = 1
"""The version of the file's layout that this program reads and writes (D-39)."""

SignatureModeName = Literal["disabled", "permissive", "strict"]
Approval = Literal["auto", "ask", "deny"]
ProviderKind = Literal["echo", "openai", "anthropic"]
Resource = Literal[
    "system", "sessions", "memory", "cron", "config", "agents", "cost", "skills", "personality", "logs", "tui", "files",
    "locales", "quickstart", "channels", "providers", "models", "peer_groups", "plugins", "tools", "sops",
]  # fmt: skip
Verb = Literal["create", "read", "update", "delete", "execute"]

BUILT_IN_PROVIDER: Final = "echo"
"""The provider every installation has: deterministic and offline (D-19)."""

_BOUNDS: Final = Limits()
_COMPILING: Final = CompileLimits()
_MEBIBYTE: Final = 1024**2
_MOST_MEBIBYTES: Final = 1024**2
_MOST_COMPILING_SECONDS: Final = 7 * 24 * 3600
"""Beyond a tebibyte and a week a bound is none, and what is reckoned with it may be more than the system counts."""


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def _signature_mode(value: object, info: ValidationInfo) -> object:
    """An unknown word is read as the strictest, and said aloud (PLG-121)."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word in get_args(SignatureModeName):
        return word
    notices: object = cast("Mapping[str, object]", info.context or {}).get("notices")
    if isinstance(notices, list):
        cast("list[str]", notices).append(
            f"plugins.security.signature_mode: {value!r} is none of disabled, permissive, strict; strict is in force"
        )
    return "strict"


class PluginSecurity(Section):
    """``[plugins.security]``: which packages may load, and what counts as a private address."""

    signature_mode: Annotated[SignatureModeName, BeforeValidator(_signature_mode)] = Field(
        default="disabled",
        description="What an unsigned, untrusted or invalid signature means: nothing (disabled), a warning "
        "(permissive) or a refusal (strict). An unknown word is read as strict.",
    )
    trusted_publisher_keys: tuple[str, ...] = Field(
        default=(),
        description="Ed25519 public keys, in hexadecimal, of the publishers whose packages are trusted.",
    )
    nat64_prefixes: tuple[str, ...] = Field(
        default=(),
        description="NAT64 prefixes of this network (`<ipv6>/<length>`), so that embedded addresses are judged.",
    )


class PluginLimits(Section):
    """``[plugins.limits]``: the bounds of every guest. None may be zero (PLG-021)."""

    call_fuel: int = Field(default=_BOUNDS.call_fuel, ge=1, description="Units of guest work in one call.")
    call_timeout_ms: int = Field(
        default=_BOUNDS.call_timeout_ms, ge=1, description="Milliseconds one call may take, waiting included."
    )
    max_memory_mb: int = Field(
        default=_BOUNDS.max_memory_mb, ge=1, description="Mebibytes of linear memory of a guest."
    )
    max_table_elements: int = Field(
        default=_BOUNDS.max_table_elements, ge=1, description="Elements of a guest's table."
    )
    max_instances: int = Field(
        default=_BOUNDS.max_instances, ge=1, description="Core instances in one guest."
    )
    max_connections_per_instance: int = Field(
        default=_BOUNDS.max_connections_per_instance,
        ge=1,
        description="Outbound connections one plugin instance may hold at once, over all its calls.",
    )

    def as_limits(self) -> Limits:
        """The same numbers as the sandbox takes them."""
        return Limits(**self.model_dump())


class PluginCompile(Section):
    """``[plugins.compile]``: what compiling a plugin may use, and what is kept of it."""

    memory_mb: int = Field(
        default=_COMPILING.memory_bytes // _MEBIBYTE,
        ge=256,
        le=_MOST_MEBIBYTES,
        description="Mebibytes of memory the compiler may take. A component of more than 16 MiB may take "
        f"{MEMORY_PER_BYTE} more for each further one.",
    )
    timeout_secs: int = Field(
        default=round(_COMPILING.seconds),
        ge=1,
        le=_MOST_COMPILING_SECONDS,
        description="Seconds compiling may take. A component of more than 16 MiB may take more, in proportion, and "
        f"one that is compiled in the background {BACKGROUND_PATIENCE} times as long.",
    )
    share_core_modules: bool = Field(
        default=True,
        description="Compile what plugins have in common, as Python plugins have Python, once for all of them. Each is "
        "usable at once, and compiled as a whole in the background while a daemon runs.",
    )
    cache_max_mb: int = Field(
        default=DEFAULT_CACHE_BYTES // _MEBIBYTE,
        ge=0,
        le=_MOST_MEBIBYTES,
        description="Mebibytes of compiled plugins kept on disk. Whatever is not in use goes when there are more, the "
        "least recently used first.",
    )

    @property
    def cache_max_bytes(self) -> int:
        """The bound of the cache, in bytes."""
        return self.cache_max_mb * _MEBIBYTE

    def as_limits(self) -> CompileLimits:
        """The same numbers as the sandbox takes them."""
        return CompileLimits(memory_bytes=self.memory_mb * _MEBIBYTE, seconds=self.timeout_secs)


class TlsProfile(Section):
    """One named way of trusting and presenting certificates."""

    name: str = Field(description="The name a plugin asks for.")
    hosts: tuple[str, ...] = Field(min_length=1, description="The granted hosts this profile serves.")
    system_roots: bool = Field(default=True, description="Trust the certificate authorities of the system.")
    custom_ca_secret: str | None = Field(
        default=None, description="The secret that holds further authorities, as PEM."
    )
    client_certificate_secret: str | None = Field(
        default=None, description="The secret that holds a client certificate."
    )
    client_private_key_secret: str | None = Field(
        default=None, description="The secret that holds that certificate's key."
    )


class PluginEntry(Section):
    """One ``[[plugins.entries]]`` row: what the operator keeps for one plugin instance (PLG-130)."""

    name: str = Field(min_length=1, description=f"The instance's key, which starts with `{KEY_PREFIX}`.")
    config: Mapping[str, SecretStr] = Field(
        default_factory=dict[str, SecretStr],
        description="The instance's configuration: one text a property, as the package's schema reads it.",
    )
    egress_hosts: tuple[str, ...] = Field(
        default=(), description="The hosts this instance may reach. Empty means no network."
    )
    egress_allow_private: tuple[str, ...] = Field(
        default=(), description="The granted hosts that may have private addresses."
    )
    tls_profiles: tuple[TlsProfile, ...] = Field(default=(), description="TLS profiles of this instance.")

    @property
    def legacy(self) -> bool:
        """Whether the row has a pre-1.0 key; nothing consults such a row (PLG-171)."""
        return not self.name.startswith(KEY_PREFIX)


class Plugins(Section):
    """``[plugins]``: the plugin host. Off unless turned on (PLG-348, PLG-349)."""

    enabled: bool = Field(default=False, description="Run plugin code at all.")
    auto_discover: bool = Field(
        default=False,
        description="Give agents the tools and skills of every installed package. Needs `plugins.enabled`.",
    )
    plugins_dir: str | None = Field(
        default=None,
        description="Where packages are installed. Unset: `plugins` in the configuration directory.",
    )
    registry_url: str | None = Field(
        default=None, description="The registry to install from: an http(s) or file URL, or a path."
    )
    max_active_instances: int = Field(
        default=50, ge=1, description="Plugin instances that may be active at once."
    )
    security: PluginSecurity = Field(default_factory=PluginSecurity, description="Which packages may load.")
    limits: PluginLimits = Field(default_factory=PluginLimits, description="The bounds of every guest.")
    compile: PluginCompile = Field(
        default_factory=PluginCompile, description="What compiling a plugin may use, and what is kept of it."
    )
    entries: tuple[PluginEntry, ...] = Field(
        default=(), description="What is kept for single plugin instances."
    )

    @model_validator(mode="after")
    def _rows_are_distinct(self) -> Plugins:
        seen: set[str] = set()
        for row in self.entries:
            if row.name in seen:
                raise ValueError(f"two rows of plugins.entries are named {row.name}")
            seen.add(row.name)
        return self

    def entry(self, key: str) -> PluginEntry | None:
        """The row of the instance with this key."""
        return next((row for row in self.entries if row.name == key), None)


class Agent(Section):
    """``[agents.<alias>]``: who answers a prompt (D-41)."""

    enabled: bool = Field(default=True, description="Whether sessions may use this agent.")
    provider: str = Field(
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
    approval: Approval = Field(
        default="auto",
        description="What happens before a tool runs: nothing (auto), a question (ask), a refusal (deny).",
    )
    max_steps: int = Field(default=25, ge=1, description="Model calls in one turn.")
    workspace: str | None = Field(
        default=None,
        description="The agent's directory. Unset: `agents/<alias>/workspace` in the configuration directory.",
    )
    max_context_tokens: int = Field(
        default=32_000,
        ge=0,
        description="The estimated size a conversation is reduced to; 0 means never.",
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
AgentAlias = Annotated[str, AfterValidator(names.agent_alias)]
PrincipalName = Annotated[str, AfterValidator(names.principal)]


class Providers(Section):
    """``[providers]``: where models are."""

    models: Mapping[ProviderKind, Mapping[Alias, ModelProvider]] = Field(
        default_factory=dict[ProviderKind, Mapping[str, ModelProvider]],
        description="Model endpoints by kind and name.",
    )


class Security(Section):
    """``[security]``: who the local machine's users are to the daemon."""

    trust_daemon_uid: bool = Field(
        default=True, description="Whether the daemon's own user has full rights on the socket."
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

    plugin: Mapping[Alias, PluginChannel] = Field(
        default_factory=dict[str, PluginChannel], description="Channels of plugins by name."
    )


class Memory(Section):
    """``[memory]``: what agents remember."""

    backend: str = Field(default="sqlite", description="`sqlite`, or `plugin:<package>`.")


class Gateway(Section):
    """``[gateway]``: the HTTP side, off by default (D-35)."""

    enabled: bool = Field(default=False, description="Whether the gateway listens.")
    host: str = Field(default="127.0.0.1", description="The address it listens on.")
    port: int = Field(default=42_617, ge=0, le=65_535, description="The port it listens on.")
    certificate: str | None = Field(default=None, description="Path of the certificate chain, as PEM.")
    private_key: str | None = Field(default=None, description="Path of the certificate's key, as PEM.")


class User(Section):
    """``[users.<name>]``: a person the daemon knows by the operating system's user number."""

    uid: int = Field(ge=0, le=2**32 - 1, description="The user number.")
    permission_profiles: tuple[str, ...] = Field(
        min_length=1, description="The profiles whose rights add up."
    )
    principal_id: str | None = Field(default=None, description="The name in records. Unset: the user's name.")


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

    schema_version: int = Field(
        default=SCHEMA_VERSION, ge=0, le=SCHEMA_VERSION, description="The version of the file's layout."
    )
    plugins: Plugins = Field(default_factory=Plugins, description="The plugin host.")
    agents: Mapping[AgentAlias, Agent] = Field(
        default_factory=dict[str, Agent], description="Agents by name."
    )
    providers: Providers = Field(default_factory=Providers, description="Where models are.")
    security: Security = Field(default_factory=Security, description="Who local users are.")
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
        owner_of: dict[int, str] = {}
        for name, user in self.users.items():
            if user.uid in owner_of:
                raise ValueError(f"users {owner_of[user.uid]} and {name} have the same uid")
            owner_of[user.uid] = name
            for profile in user.permission_profiles:
                if profile not in self.permission_profiles:
                    raise ValueError(
                        f"user {name} names the permission profile {profile}, which does not exist"
                    )
        return self

    @model_validator(mode="after")
    def _agents_have_providers(self) -> Config:
        for name, agent in self.agents.items():
            kind, _, alias = agent.provider.partition(".")
            known = {str(k): v for k, v in self.providers.models.items()}
            if agent.provider != BUILT_IN_PROVIDER and alias not in known.get(kind, {}):
                raise ValueError(f"agent {name} names the provider {agent.provider}, which does not exist")
        return self
