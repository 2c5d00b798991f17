"""``[plugins]``: the plugin host's part of the configuration file, and the rows of its instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, model_validator

from zeroclaw_daemon.config.section import FilePath, RuleBroken, Section
from zeroclaw_host.egress.policy import DEFAULT_MAX_CONNECTIONS, MAX_CONNECTIONS_LIMIT
from zeroclaw_host.instance import KEY_PREFIX
from zeroclaw_host.sandbox.compiling.compile_limits import BACKGROUND_PATIENCE, MEMORY_PER_BYTE, CompileLimits
from zeroclaw_host.sandbox.compiling.shelf import DEFAULT_CACHE_BYTES
from zeroclaw_host.sandbox.limits import MOST, Limits

SignatureModeName = Literal["disabled", "permissive", "strict"]

_BOUNDS: Final = Limits()
_COMPILING: Final = CompileLimits()
_MEBIBYTE: Final = 1024**2
_MOST_MEBIBYTES: Final = 1024**2
_MOST_COMPILING_SECONDS: Final = 7 * 24 * 3600
"""Beyond a tebibyte and a week a bound is none, and what is reckoned with it may be more than the system counts."""

_MOST_CONNECTIONS: Final = 100_000
"""More than one process has descriptors for."""


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
    """``[plugins.security]``: which packages may load."""

    signature_mode: Annotated[SignatureModeName, BeforeValidator(_signature_mode)] = Field(
        default="disabled",
        description="What an unsigned, untrusted or invalid signature means: nothing (disabled), a warning "
        "(permissive) or a refusal (strict). An unknown word is read as strict.",
    )
    trusted_publisher_keys: tuple[str, ...] = Field(
        default=(),
        description="Ed25519 public keys, in hexadecimal, of the publishers whose packages are trusted.",
    )


def _bound(name: str, description: str) -> Any:
    """A bound of every guest: the sandbox's own where nothing is said, never zero (PLG-021)."""
    return Field(default=getattr(_BOUNDS, name), ge=1, le=MOST[name], description=description)


class PluginLimits(Section):
    """``[plugins.limits]``: the bounds of every guest. None but the number of connections may be zero (PLG-021)."""

    call_fuel: int = _bound("call_fuel", "Units of guest work in one call.")
    call_timeout_ms: int = _bound("call_timeout_ms", "Milliseconds one call may take, waiting included.")
    max_memory_mb: int = _bound("max_memory_mb", "Mebibytes of linear memory of a guest.")
    max_table_elements: int = _bound("max_table_elements", "Elements of a guest's table.")
    max_instances: int = _bound("max_instances", "Core instances in one guest.")
    max_connections_per_instance: int = Field(
        default=DEFAULT_MAX_CONNECTIONS,
        ge=0,
        le=_MOST_CONNECTIONS,
        description="Outbound connections one plugin instance may hold at once, over all its calls. With 0, every "
        "connection of every plugin is refused.",
    )

    def as_limits(self) -> Limits:
        """The sandbox's own of them. Connections are counted by the network authority, at every request."""
        return Limits(**self.model_dump(exclude={MAX_CONNECTIONS_LIMIT}))


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

    @model_validator(mode="after")
    def _profiles_are_distinct(self) -> PluginEntry:
        seen: set[str] = set()
        for index, profile in enumerate(self.tls_profiles):
            if profile.name in seen:
                raise RuleBroken(
                    ("tls_profiles", index, "name"), f"another profile is named {profile.name} already"
                )
            seen.add(profile.name)
        return self

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
    plugins_dir: FilePath | None = Field(
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
        for index, row in enumerate(self.entries):
            if row.name in seen:
                raise RuleBroken(("entries", index, "name"), f"another row is named {row.name} already")
            seen.add(row.name)
        return self

    def entry(self, key: str) -> PluginEntry | None:
        """The row of the instance with this key."""
        return next((row for row in self.entries if row.name == key), None)
