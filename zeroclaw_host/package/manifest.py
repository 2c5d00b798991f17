"""``manifest.toml``: what a package says about itself.

:func:`parse_manifest` checks the shape only. Whether the signature is good, the configuration schema acceptable and the
component the declared one is judged later, in this order, by admission.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from zeroclaw_host.errors import ManifestError
from zeroclaw_host.package.hosts import HostsInvalid, parse_hosts
from zeroclaw_host.package.toml_source import Location, TomlSource, located_error, printable

MANIFEST_NAME: Final = "manifest.toml"
SKILLS_DIRECTORY: Final = "skills"
MAX_FAULTS_TOLD: Final = 10
"""A manifest can break rules thousands of times over; an error is for a person to read."""

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?")
_CHANNEL_ID: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


class Capability(StrEnum):
    """What a package is. Each capability that runs code selects the world its component must export (PLG-003)."""

    TOOL = "tool"
    CHANNEL = "channel"
    MEMORY = "memory"
    OBSERVER = "observer"
    """Reserved: accepted, without a world."""
    SKILL = "skill"
    """A bundle of Markdown, no code (PLG-004)."""


class Permission(StrEnum):
    """Which host services the guest may reach (PLG-005). The ``file_`` and ``memory_`` ones grant nothing (PLG-012)."""

    HTTP_CLIENT = "http_client"
    WEBSOCKET_CLIENT = "websocket_client"
    SOCKET_CLIENT = "socket_client"
    FILE_READ = "file_read"
    FILE_WRITE = "file_write"
    CONFIG_READ = "config_read"
    MEMORY_READ = "memory_read"
    MEMORY_WRITE = "memory_write"
    STATE_READ = "state_read"
    STATE_WRITE = "state_write"

    @classmethod
    def _missing_(cls, value: object) -> Permission | None:
        return cls.CONFIG_READ if value == "env_read" else None


def _fault(message: str, key: str | None = None) -> PydanticCustomError:
    """A broken rule; ``key`` says where, if the rule is about more than one value."""
    # The message is passed as an argument, because pydantic reads braces in a template.
    return PydanticCustomError("manifest", "{message}", {"message": message, "key": key})


def _matching(pattern: re.Pattern[str], rule: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise _fault(f"must be {rule}")
        return value

    return check


def _version(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise _fault("must be printable, non-empty text")
    return value


def _wasm_path(value: str) -> str:
    if not value:
        raise _fault("must not be empty")
    if "\\" in value or any(ord(char) < 0x20 or ord(char) == 0x7F for char in value):
        raise _fault("must use / between its parts and hold no control characters")
    if value.startswith("/") or _DRIVE.match(value):
        raise _fault("must be relative to the package")
    parts = PurePosixPath(value).parts
    if not parts or ".." in parts or value.endswith("/"):
        raise _fault("must name a file inside the package, without ..")
    # The package's other files live there; the component must not take their place.
    if parts == (MANIFEST_NAME,) or parts[0] == SKILLS_DIRECTORY:
        raise _fault(f"must not name {MANIFEST_NAME} or anything in {SKILLS_DIRECTORY}/")
    return "/".join(parts)


def _some(value: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not a constraint of the field: that counts the members that were right, and calls a list of wrong ones empty.
    if not value:
        raise _fault("must not be empty")
    return value


def _once(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(value))


def _member(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    def read(value: object) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(member.value for member in kind)
            shown = printable(value) if isinstance(value, str) else type(value).__name__
            raise _fault(f"{shown} is not one of {known}") from None

    return read


def _hosts(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(pattern.text for pattern in parse_hosts(value))
    except HostsInvalid as error:
        raise _fault(str(error)) from error


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=False)


class EgressDeclaration(_Table):
    """The destinations a package says it needs. A declaration grants nothing (PLG-173, PLG-174)."""

    hosts: Annotated[tuple[str, ...], AfterValidator(_hosts)] = ()


class Manifest(_Table):
    """The checked content of ``manifest.toml``. Keys this host does not know are ignored."""

    name: Annotated[
        str,
        AfterValidator(
            _matching(
                _NAME, "1 to 128 characters of a-z, 0-9, '.', '_', '-' that start and end with a-z or 0-9"
            )
        ),
    ]
    version: Annotated[str, AfterValidator(_version)]
    description: str | None = None
    author: str | None = None
    capabilities: Annotated[
        tuple[Annotated[Capability, BeforeValidator(_member(Capability))], ...],
        AfterValidator(_some),
        AfterValidator(_once),
    ]
    permissions: Annotated[
        tuple[Annotated[Permission, BeforeValidator(_member(Permission))], ...], AfterValidator(_once)
    ] = ()
    wasm_path: Annotated[str, AfterValidator(_wasm_path)] | None = None
    wasm_sha256: (
        Annotated[str, AfterValidator(_matching(_DIGEST, "64 hexadecimal digits, without a prefix"))] | None
    ) = None
    provides: (
        Annotated[str, AfterValidator(_matching(_CHANNEL_ID, "the snake_case id of a built-in channel"))]
        | None
    ) = None
    config_schema: Mapping[str, Any] | None = None
    signature: str | None = None
    publisher_key: str | None = None
    egress: EgressDeclaration = EgressDeclaration()

    @model_validator(mode="after")
    def _component(self) -> Manifest:
        if self.wasm_path is None:
            if not self.is_skill_only:
                raise _fault("is required, because a capability other than skill is code", "wasm_path")
            if self.wasm_sha256 is not None:
                raise _fault(
                    "is there without wasm_path, so nothing could be checked against it", "wasm_sha256"
                )
        return self

    @property
    def is_skill_only(self) -> bool:
        """Whether the package is a skill bundle and nothing else."""
        return self.capabilities == (Capability.SKILL,)

    def requests(self, permission: Permission) -> bool:
        """Whether the manifest asks for a permission."""
        return permission in self.permissions


def is_package_name(text: str) -> bool:
    """Whether a text can be the name of a package (PLG-014)."""
    return _NAME.fullmatch(text) is not None


def component_path(value: object) -> str | None:
    """What a manifest's ``wasm_path`` names inside its package; None when it can name nothing there."""
    try:
        return _wasm_path(value) if isinstance(value, str) else None
    except PydanticCustomError:
        return None


def parse_manifest(data: bytes, *, path: str = MANIFEST_NAME) -> Manifest:
    """Read a manifest and check its shape.

    :param path: how errors call the file.
    :raises ManifestError: with its faults, each with line and column (PLG-002, PLG-014).
    """
    return read_manifest(TomlSource.parse(data, path=path))


def read_manifest(source: TomlSource) -> Manifest:
    """Check the shape of a manifest that is already parsed.

    :raises ManifestError: with its faults, each with line and column.
    """
    try:
        return Manifest.model_validate(source.values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True, include_input=False)
        raise _manifest_error(source, details) from None


def _manifest_error(source: TomlSource, faults: Sequence[ErrorDetails]) -> ManifestError:
    ordered = sorted(faults, key=lambda fault: source.offset(_location(fault)))
    first, *others = (
        (source.position(_location(fault)), _sentence(fault)) for fault in ordered[:MAX_FAULTS_TOLD]
    )
    further = [f"; line {position.line}: {text}" for position, text in others]
    if len(ordered) > MAX_FAULTS_TOLD:
        further.append(f"; and {len(ordered) - MAX_FAULTS_TOLD} more")
    return located_error(ManifestError, source.path, first[0], first[1] + "".join(further))


def _location(fault: ErrorDetails) -> Location:
    key = fault.get("ctx", {}).get("key")
    return (key,) if key else tuple(fault["loc"])


_PLAIN_WORDS: Final = {
    "missing": "is required",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "mapping_type": "must be a table",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}


def _sentence(fault: ErrorDetails) -> str:
    words = _PLAIN_WORDS.get(fault["type"], fault["msg"])
    name = ".".join(str(part) for part in _location(fault) if isinstance(part, str))
    return f"{name}: {words}" if name else words
