"""The services one plugin instance is lent."""

from __future__ import annotations

from dataclasses import dataclass, field

from zeroclaw_host.services.config import ConfigResolver
from zeroclaw_host.services.inbound import Inbound, InboundQueues
from zeroclaw_host.services.logging import LogSink
from zeroclaw_host.services.state import NoState, StateStore


@dataclass(frozen=True, slots=True)
class InstanceServices:
    """What stands behind the imports of one instance. Plain protocols, so that an embedder can bring its own."""

    config: ConfigResolver
    log: LogSink
    state: StateStore = field(default_factory=NoState)
    inbound: Inbound = field(default_factory=InboundQueues)
