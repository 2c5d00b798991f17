"""Close frames: RFC 6455's numbers on the wire, names in the interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from websockets.frames import CloseCode

from zeroclaw_host.imports.websocket.refusal import Refused

CODES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "normal": CloseCode.NORMAL_CLOSURE,
        "going-away": CloseCode.GOING_AWAY,
        "protocol-error": CloseCode.PROTOCOL_ERROR,
        "unsupported-data": CloseCode.UNSUPPORTED_DATA,
        "invalid-payload": CloseCode.INVALID_DATA,
        "policy-violation": CloseCode.POLICY_VIOLATION,
        "message-too-big": CloseCode.MESSAGE_TOO_BIG,
        "mandatory-extension": CloseCode.MANDATORY_EXTENSION,
        "internal-error": CloseCode.INTERNAL_ERROR,
        "service-restart": CloseCode.SERVICE_RESTART,
        "try-again-later": CloseCode.TRY_AGAIN_LATER,
    }
)
"""The number of each name. ``other`` carries any other one."""

_NAMES: Final = {number: name for name, number in CODES.items()}

MAX_REASON_BYTES: Final = 123
"""A control frame's 125 bytes without the code."""

_FREE: Final = range(3000, 5000)
"""Numbers that libraries, frameworks and applications give out themselves."""


@dataclass(frozen=True, slots=True)
class CloseFrame:
    """A close frame that has a code. ``reason`` is empty where there is none."""

    code: int
    reason: str

    @classmethod
    def read(cls, record: Mapping[str, object]) -> CloseFrame:
        """Read a ``close-frame`` record that is to be sent.

        :raises Refused: ``invalid-close``: the code may not be sent, or the reason is too long.
        """
        name, number = cast("tuple[str, int | None]", record["code"])
        code = CODES[name] if number is None else number
        reason = cast("str", record["reason"])
        if code not in _NAMES and code not in _FREE:
            raise Refused("invalid-close")
        if len(reason) > MAX_REASON_BYTES or len(reason.encode()) > MAX_REASON_BYTES:
            raise Refused("invalid-close")
        return cls(code, reason)

    def record(self) -> dict[str, object]:
        """The interface's ``close-frame`` record."""
        name = _NAMES.get(self.code)
        return {"code": ("other", self.code) if name is None else (name, None), "reason": self.reason}
