"""Messages that a listener of the host received for this channel.

They wait in a queue of the host, which outlives the plugin's instance. A message is handed out once.
"""

from __future__ import annotations

from zeroclaw_sdk.guest.host import current_host
from zeroclaw_sdk.guest.messages import InboundMessage


def poll() -> InboundMessage | None:
    """Take the oldest message; None when there is none."""
    return current_host().inbound_poll()


def pending() -> int:
    """How many messages are waiting."""
    return current_host().inbound_pending()
