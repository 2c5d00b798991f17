"""``zeroclaw:plugin/inbound``: messages a listener of the host received for this channel.

Answered in every frame, unlike the other services: a channel may look for messages while it is started. Whoever has used
up the frame's budget finds nothing, and the queue is as it was (PLG-024).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.services.inbound import QueuedMessage

_FIELDS: Final = {field.name: field.name.replace("_", "-") for field in fields(QueuedMessage)}
"""The contract's names of a message's fields."""


def _poll(frame: CallFrame) -> dict[str, object] | None:
    message = frame.services.inbound.poll(frame.scope.identity)
    if message is None:
        return None
    return {wit: getattr(message, name) for name, wit in _FIELDS.items()}


def _pending(frame: CallFrame) -> int:
    return frame.services.inbound.pending(frame.scope.identity)


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/inbound",
    HostFunction("inbound-poll", _poll, charged=True, exhausted=None),
    HostFunction("inbound-pending", _pending, charged=True, exhausted=0),
)
