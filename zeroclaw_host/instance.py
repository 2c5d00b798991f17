"""Who a plugin instance is, and what it may do.

An instance is logical: one package in one capability under one binding. Its identity comes from the host alone; version,
digest, publisher and everything a guest says about itself are not part of it (PLG-131, PLG-138).
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Final

from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.package.manifest import Capability, Manifest, Permission

KEY_PREFIX: Final = "zpi1_"
"""Version one of the encoding of an identity."""


class IdentityInvalid(ZeroclawError):
    """A text is no instance key, or a binding is empty or holds control characters."""

    code = "instance_identity_invalid"
    kind = Kind.INVALID


class GrantNotRequested(ZeroclawError):
    """A grant names a permission that the package's manifest does not request."""

    code = "grant_not_requested"
    kind = Kind.REFUSED


@dataclass(frozen=True, slots=True, order=True)
class InstanceIdentity:
    """One package in one capability under one binding. Sorts by package, capability, binding."""

    package: str
    capability: Capability
    binding: str

    def __post_init__(self) -> None:
        if not self.binding or any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in self.binding):
            raise IdentityInvalid("an instance's binding must be non-empty text without control characters")
        if any(0xD800 <= ord(c) < 0xE000 for c in self.package + self.binding):
            raise IdentityInvalid("an instance's package and binding must be text that UTF-8 can hold")

    @classmethod
    def default_tool(cls, package: str) -> InstanceIdentity:
        """The identity of a package's default tool binding, which is the package name (PLG-131)."""
        return cls(package, Capability.TOOL, package)

    @classmethod
    def parse(cls, key: str) -> InstanceIdentity:
        """The identity behind a ``zpi1_`` key.

        :raises IdentityInvalid: the text is not exactly what :attr:`key` would print.
        """
        if not key.startswith(KEY_PREFIX):
            raise IdentityInvalid(f"an instance key starts with {KEY_PREFIX}")
        text = key[len(KEY_PREFIX) :]
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            parts: object = json.loads(raw)
        except (binascii.Error, ValueError, RecursionError) as error:
            raise IdentityInvalid("the instance key does not decode") from error
        match parts:
            case [str() as package, str() as capability, str() as binding]:
                pass
            case _:
                raise IdentityInvalid("the instance key does not hold three texts")
        try:
            known = Capability(capability)
        except ValueError as error:
            raise IdentityInvalid("the instance key names an unknown capability") from error
        identity = cls(package, known, binding)
        if identity.key != key:
            raise IdentityInvalid("the instance key is not in its canonical form")
        return identity

    @property
    def encoded(self) -> bytes:
        """The compact JSON array that every derived name starts from."""
        parts = [self.package, self.capability.value, self.binding]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()

    @property
    def key(self) -> str:
        """The versioned key under which configuration and grants of this instance live (PLG-130, PLG-131)."""
        return KEY_PREFIX + base64.urlsafe_b64encode(self.encoded).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class InstanceScope:
    """One admitted instance together with the permissions in force for it.

    The host grants every permission a manifest requests (PLG-005). The grants are nevertheless a set of their own, so
    that an embedder can withhold some (PLG-151).
    """

    identity: InstanceIdentity
    manifest: Manifest
    grants: frozenset[Permission]

    @classmethod
    def admit(
        cls, identity: InstanceIdentity, manifest: Manifest, *, grants: frozenset[Permission] | None = None
    ) -> InstanceScope:
        """The scope of an instance of this package.

        :param grants: the permissions in force; all that the manifest requests when left out.
        :raises GrantNotRequested: a grant goes beyond the manifest.
        :raises IdentityInvalid: the identity names another package, or a capability the package does not have.
        """
        requested = frozenset(manifest.permissions)
        effective = requested if grants is None else grants
        if extra := effective - requested:
            names = ", ".join(sorted(permission.value for permission in extra))
            raise GrantNotRequested(f"package {manifest.name} does not request {names}")
        if identity.package != manifest.name or identity.capability not in manifest.capabilities:
            raise IdentityInvalid(
                f"package {manifest.name} has no {identity.capability.value} instance of that name"
            )
        return cls(identity, manifest, effective)

    def grants_permission(self, permission: Permission) -> bool:
        """Whether this permission is in force."""
        return permission in self.grants
