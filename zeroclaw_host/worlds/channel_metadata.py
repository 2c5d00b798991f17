"""How a channel's guest is started, and what it says about itself then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.sandbox.frame import Phase
from zeroclaw_host.worlds.channel_values import answered
from zeroclaw_host.worlds.instance import Ask
from zeroclaw_host.worlds.kinds.channel import DEFAULT_MULTI_MESSAGE_DELAY_MS


@dataclass(frozen=True, slots=True)
class ChannelMetadata:
    """What a channel says about itself: asked once of each instance, and the same in all of them (PLG-033, PLG-170)."""

    capabilities: frozenset[str]
    self_handle: str | None
    self_addressed_mention: str | None
    multi_message_delay_ms: int


def configure(ask: Ask) -> None:
    """Let a new instance read its configuration.

    :raises GuestFailure: it refused it.
    """
    try:
        answered(ask("configure", phase=Phase.CHANNEL_SERVICE))
    except GuestFailure as error:
        raise GuestFailure(f"the plugin cannot be configured: {error.message}") from error


def configure_and_read(ask: Ask) -> ChannelMetadata:
    """The same, and then ask it what it is; what its flags do not name is not asked."""
    configure(ask)
    flags = cast("frozenset[str]", ask("get-channel-capabilities"))

    def told(name: str, default: object = None) -> object:
        return ask(name) if name in flags else default

    return ChannelMetadata(
        capabilities=flags,
        self_handle=cast("str | None", told("self-handle")),
        self_addressed_mention=cast("str | None", told("self-addressed-mention")),
        multi_message_delay_ms=cast("int", told("multi-message-delay-ms", DEFAULT_MULTI_MESSAGE_DELAY_MS)),
    )
