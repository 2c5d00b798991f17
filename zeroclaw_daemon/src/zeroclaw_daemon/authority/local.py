"""The authority of a daemon without a roster of users: whoever started it owns it."""

from __future__ import annotations

from typing import Final

from zeroclaw_daemon.authority.principal import (
    AuthenticationFailed,
    Evidence,
    Forbidden,
    Grant,
    Principal,
)

SHARED_OPERATOR: Final = Principal("shared-operator", "shared_operator", admin=True)
"""Everybody who acts with the daemon's own user id."""


class LocalOwnerAuthority:
    """The daemon's own user id is the shared operator; every other one, root included, is nobody (RPC-044, RPC-052).

    :param uid: the user id of the daemon.
    """

    def __init__(self, uid: int) -> None:
        self._uid = uid

    @property
    def methods(self) -> tuple[str, ...]:
        """Only what the operating system says about the peer."""
        return ("peercred",)

    async def authenticate(self, evidence: Evidence) -> Principal:
        """The shared operator, if the peer runs as the daemon's user."""
        if evidence.token is not None:
            raise AuthenticationFailed("this daemon has paired no tokens")
        if evidence.credential is None or evidence.credential.uid != self._uid:
            raise AuthenticationFailed("only the user who runs this daemon may use it")
        return SHARED_OPERATOR

    def require(self, principal: Principal, grant: Grant) -> None:
        """Everything is allowed to the shared operator."""
        if not principal.admin:
            raise Forbidden(f"the grant {grant} is needed", details={"grant": str(grant)})
