"""The services one plugin instance is lent."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """

    config: ConfigResolver
    log: LogSink
    state: StateStore = field(default_factory=NoState)
    inbound: Inbound = field(default_factory=InboundQueues)
