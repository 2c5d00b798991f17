"""How ``wasi:http`` ends a guest that broke one of its rules, or holds more than the host keeps for it."""

from __future__ import annotations

from zeroclaw_host.errors import GuestTrap, Kind, PluginError
from zeroclaw_host.sandbox.holdings import MAX_HELD_BYTES


class TooLarge(PluginError):
    """A guest made fields that are larger than the host keeps, or has it keep too much in all."""

    code = "plugin_limit"
    kind = Kind.LIMIT


def too_much_held() -> TooLarge:
    """The end of a guest that has the host keep more than :data:`MAX_HELD_BYTES` for it."""
    return TooLarge(
        f"the plugin has the host keep more than {MAX_HELD_BYTES} bytes of HTTP messages at once",
        details={"limit": "held HTTP bytes", "maximum": MAX_HELD_BYTES},
    )


def broken_rule(rule: str) -> GuestTrap:
    """The end of a guest that broke a rule of the standard whose breach is a trap."""
    return GuestTrap(f"the plugin broke a rule of wasi:http: {rule}", details={"trap": rule})
