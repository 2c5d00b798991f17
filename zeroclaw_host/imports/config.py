"""``zeroclaw:plugin/config``: the public part of the channel's own configuration, as one JSON object (PLG-006).

Within a frame it is the same revision that ``secrets`` answers from (PLG-113).
"""

from __future__ import annotations

import json
from typing import Final

from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.sandbox.values import Err, Ok

_UNAVAILABLE: Final = Err("unavailable")


def _get(frame: CallFrame) -> Ok | Err:
    if not frame.serves:
        return _UNAVAILABLE
    if not frame.scope.grants_permission(Permission.CONFIG_READ):
        return Err("access-denied")
    try:
        public = frame.config().public
    except ConfigInvalid:
        return _UNAVAILABLE
    return Ok(json.dumps(dict(public), ensure_ascii=False))


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/config", HostFunction("get", _get, charged=True, exhausted=_UNAVAILABLE)
)
