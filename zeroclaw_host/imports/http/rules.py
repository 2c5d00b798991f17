"""How ``wasi:http`` ends a guest that broke one of its rules, or holds more than the host keeps for it."""

from __future__ import annotations

from zeroclaw_host.errors import GuestTrap, Kind, PluginError


class TooLarge(PluginError):
    """A guest made fields that are larger than the host keeps."""

    code = "plugin_limit"
    kind = Kind.LIMIT


def broken_rule(rule: str) -> GuestTrap:
    """The end of a guest that broke a rule of the standard whose breach is a trap."""
    return GuestTrap(f"the plugin broke a rule of wasi:http: {rule}", details={"trap": rule})
