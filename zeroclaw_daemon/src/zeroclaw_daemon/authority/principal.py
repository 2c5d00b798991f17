"""Who is calling, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from zeroclaw_host.errors import Kind, ZeroclawError


class AuthenticationFailed(ZeroclawError):
    """Nobody this daemon knows is calling (RPC-052)."""

    code = "authentication_failed"
    kind = Kind.REFUSED


class Forbidden(ZeroclawError):
    """The caller is known and may not do this. ``details`` holds ``grant``."""

    code = "forbidden"
    kind = Kind.REFUSED


@dataclass(frozen=True, slots=True)
class PeerCredential:
    """What the operating system says about the process at the other end of a local connection."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a caller shows of itself when it introduces itself. A token, where there is one, decides alone."""

    credential: PeerCredential | None
    token: str | None = None
    provider: str | None = None

    def __repr__(self) -> str:
        return f"Evidence(credential={self.credential!r}, provider={self.provider!r})"


@dataclass(frozen=True, slots=True)
class Grant:
    """A right to do one thing with one kind of resource, such as ``sessions:create``."""

    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.resource}:{self.verb}"


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a connection acts for. ``admin`` may do everything, and owns nothing in particular."""

    id: str
    provider: str
    admin: bool


class Authority(Protocol):
    """Decides. Asked at every call, so that a right that was withdrawn is gone at once (RPC-239)."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The ways to authenticate that a client may use."""
        ...

    async def authenticate(self, evidence: Evidence) -> Principal:
        """Whom this evidence proves.

        :raises AuthenticationFailed: it proves nobody.
        """
        ...

    def require(self, principal: Principal, grant: Grant) -> None:
        """Let this pass.

        :raises Forbidden: the principal does not have the grant now.
        :raises AuthenticationFailed: the principal is nobody any more.
        """
        ...
