"""The services one plugin instance is lent."""

from __future__ import annotations

from dataclasses import dataclass, field

from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.records import StandardEgressLog
from zeroclaw_host.egress.source import EgressRow, EgressSettings, RowPolicies
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.config import ConfigResolver
from zeroclaw_host.services.inbound import Inbound, InboundQueues
from zeroclaw_host.services.logging import LogSink
from zeroclaw_host.services.state import NoState, StateStore


@dataclass(frozen=True, slots=True)
class InstanceServices:
    """What stands behind the imports of one instance. Plain protocols, so that an embedder can bring its own (PLG-168).

    No configuration is kept here: ``config`` is asked at each call of a plugin that may read one, and what it answers is let go
    when the call ends. A program with values of its own gives an object with one method::

        class Settings:
            def resolve(self, scope: InstanceScope) -> ResolvedConfig:
                schema = scope.manifest.config_schema
                compiled = None if schema is None else ConfigSchema.compile(schema)
                return resolve_config(scope, compiled, lambda: my_texts_of(scope.identity))

        PluginHost(plugins, cache, services=InstanceServices(config=Settings(), log=my_log))

    :class:`~zeroclaw_host.services.config.MemoryConfigResolver` is one over a dictionary.

    ``network`` makes every connection of an instance, whichever transport asks for it, and refuses all of them when left out:
    ``Dialer(RowPolicies(read), log)`` grants what ``read`` says (PLG-178).
    """

    config: ConfigResolver
    log: LogSink
    state: StateStore = field(default_factory=NoState)
    inbound: Inbound = field(default_factory=InboundQueues)
    network: Dialer = field(
        default_factory=lambda: Dialer(RowPolicies(_nothing_granted), StandardEgressLog())
    )


def _nothing_granted(identity: InstanceIdentity) -> tuple[EgressSettings, EgressRow | None]:
    return EgressSettings(), None
