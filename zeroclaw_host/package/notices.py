"""What an operator should be told about a package that is acceptable all the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zeroclaw_host.errors import Remedy


class NoticeCode(StrEnum):
    """Every notice there is."""

    SIGNATURE_MODE_UNKNOWN = "signature_mode_unknown"
    """The configured signature mode is no known word, so the strictest one is in force."""
    PACKAGE_UNSIGNED = "package_unsigned"
    """Permissive mode let an unsigned package pass."""
    PUBLISHER_UNTRUSTED = "publisher_untrusted"
    """Permissive mode let a package of an untrusted publisher pass."""
    SIGNATURE_INVALID = "signature_invalid"
    """Permissive mode let a package pass whose signature does not fit its manifest."""
    CAPABILITY_RESERVED = "capability_reserved"
    """The package asks for a capability that the host accepts and does not run."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One warning, as a value. Whoever talks to a person renders it."""

    code: NoticeCode
    message: str
    remedy: Remedy | None = None
