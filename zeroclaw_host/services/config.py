"""An instance's configuration as the host resolved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zeroclaw_host.instance import InstanceScope


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """One validated revision of one instance's configuration, split into its public part and its secrets.

    ``host_only`` names secrets that the host keeps to itself (they serve TLS profiles). Neither secrets nor their
    names appear in ``repr``.
    """

    scope: InstanceScope = field(repr=False)
    public: Mapping[str, object] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)
    host_only: frozenset[str] = field(default=frozenset(), repr=False)


class ConfigResolver(Protocol):
    """Finds an instance's configuration. Called at most once in a call frame (PLG-169)."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        """The current configuration of this instance.

        :raises ConfigInvalid: the stored values do not satisfy the package's schema.
        """
        ...
