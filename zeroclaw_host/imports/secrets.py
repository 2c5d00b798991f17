"""``zeroclaw:plugin/secrets``: the secret properties of the instance's own configuration (PLG-006)."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.values import Err, Ok

_ACCESS_DENIED: Final = Err("access-denied")
_NOT_FOUND: Final = Err("not-found")
_UNAVAILABLE: Final = Err("unavailable")


def _get(frame: CallFrame, name: str) -> Ok | Err:
    if not frame.serves:
        return _UNAVAILABLE
    if not frame.scope.grants_permission(Permission.CONFIG_READ):
        return _ACCESS_DENIED
    try:
        config = frame.config()
    except ConfigInvalid:
        return _UNAVAILABLE
    if name in config.host_only:
        return _ACCESS_DENIED
    secret = config.secrets.get(name)
    return _NOT_FOUND if secret is None else Ok(secret)


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/secrets", HostFunction("get", _get, charged=True, exhausted=_UNAVAILABLE)
)
