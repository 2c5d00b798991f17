"""Secret properties of this instance's configuration.

Read a secret where it is used and do not keep it: the operator may replace it between two calls (PLG-114).
"""

from __future__ import annotations

from zeroclaw_sdk.guest.host import SecretError, current_host

__all__ = ["SecretError", "get"]


def get(name: str) -> str:
    """The secret property of this name.

    :raises SecretError: its ``word`` says why: ``access-denied``, ``not-found`` or ``unavailable``.
    """
    return current_host().secret(name)
