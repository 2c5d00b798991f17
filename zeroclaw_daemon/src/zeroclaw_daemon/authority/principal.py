"""Who is calling, and whether they may."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from zeroclaw_daemon.authority.rights import Grant, Rights
from zeroclaw_daemon.authority.tokens import PairedToken
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.errors import Kind, ZeroclawError


class AuthenticationFailed(ZeroclawError):
    """Nobody this daemon knows is calling (RPC-052)."""

    code = "authentication_failed"
    kind = Kind.REFUSED


class Forbidden(ZeroclawError):
    """The caller is known and may not do this. ``details`` holds ``rule``, the word for what decided, and ``grant``, or
    ``agent``, or ``path`` and, in a batch, its zero-based ``index``.
    """

    code = "forbidden"
    kind = Kind.REFUSED


def not_owned() -> Forbidden:
    """The refusal of a session that is somebody else's or is not there, in the same words, so that it says nothing of which."""
    return Forbidden("there is no such session of yours", details={"rule": "session_not_owned"})


@dataclass(frozen=True, slots=True)
class PeerCredential:
    """What the operating system says about the process at the other end of a local connection."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a caller shows of itself when it introduces itself. A token, where there is one, decides alone.

    ``local`` says that the connection never left this machine; what the system says of a peer counts only then.
    """

    credential: PeerCredential | None
    token: str | None = None
    provider: str | None = None
    local: bool = False

    def __repr__(self) -> str:
        return f"Evidence(credential={self.credential!r}, provider={self.provider!r}, local={self.local!r})"


@dataclass(frozen=True, slots=True)
class Proof:
    """What proved a principal; it is looked at again at every request. Never a token's text.

    Without ``token``, the peer's user number; None where a local peer has none, as on Windows.
    """

    uid: int | None = None
    token: PairedToken | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a connection acts for. What it may do is not part of it: :meth:`Authority.rights` says what holds now."""

    id: str
    provider: str
    proof: Proof = field(default=Proof(), repr=False)


class Authority(Protocol):
    """Decides. Asked at every call, so that a right that was withdrawn is gone at once (RPC-239).

    Every method but :meth:`authenticate` raises :class:`AuthenticationFailed` where the principal is nobody any more: its
    user is gone or has no grant left, its token was unpaired. ``config`` is the configuration to judge by; left out, the
    one in force. All but :meth:`authenticate` may be called from any thread.
    """

    @property
    def methods(self) -> tuple[str, ...]:
        """The ways to authenticate that a client may use."""
        ...

    async def authenticate(self, evidence: Evidence) -> Principal:
        """Whom this evidence proves.

        :raises AuthenticationFailed: it proves nobody.
        """
        ...

    def require(self, principal: Principal, grant: Grant, *, config: Config | None = None) -> None:
        """Let this pass.

        :raises Forbidden: the principal does not have the grant now.
        """
        ...

    def require_config_paths(
        self, principal: Principal, verb: str, paths: Sequence[str], *, config: Config | None = None
    ) -> None:
        """Let a change of the configuration pass: the grant ``config:<verb>``, and every path.

        :raises Forbidden: the grant is missing, or a path is not allowed; ``details`` holds the first such ``path`` and
            its ``index`` in ``paths``.
        """
        ...

    def require_agent(self, principal: Principal, alias: str, *, config: Config | None = None) -> None:
        """Let this agent be used.

        :raises Forbidden: the principal may not use it.
        """
        ...

    def allows_tool(self, principal: Principal, name: str, *, config: Config | None = None) -> bool:
        """Whether this tool may run for the principal."""
        ...

    def rights(self, principal: Principal, *, config: Config | None = None) -> Rights:
        """What the principal may do. One that is no administrator sees only what is its own."""
        ...

    def held(self, principal: Principal) -> AbstractContextManager[None]:
        """Keep everything that decides about this principal as it is while a block runs: the policy in force and, where a token
        proves it, the paired tokens (RPC-211). A change waits for the block's end. For a moment, and never on the event loop:
        it blocks, and whoever wants to write the configuration or the tokens waits meanwhile.

        :raises ConfigBusy: the tokens or the configuration are being written for too long.
        :raises StorageError: the lock file of the tokens cannot be opened.
        """
        ...
