"""Stand-ins for what a test cannot have: name servers, and the clockwork of a configuration. For embedders' tests too."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from zeroclaw_host.egress.failures import ResolutionFailed
from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.instance import InstanceIdentity

Answer = Iterable[str] | Callable[[], Iterable[str]]


class ScriptedResolver:
    """A resolver with a script: each host's answers, in order, the last of which is given from then on.

    A host that is not in the script does not exist. An answer that is a function is called, on the lookup's thread, and may
    block or raise.
    """

    def __init__(self, script: Mapping[str, Sequence[Answer]]) -> None:
        self.asked: list[str] = []
        """Every host that was asked for, in order."""
        self._script = {host: list(answers) for host, answers in script.items()}
        self._lock = threading.Lock()

    def resolve(self, host: str) -> Sequence[Address]:
        """See :meth:`~zeroclaw_host.egress.resolving.Resolver.resolve`."""
        with self._lock:
            self.asked.append(host)
            answers = self._script.get(host)
            if not answers:
                raise ResolutionFailed("there is no such host")
            answer = answers[0] if len(answers) == 1 else answers.pop(0)
        texts = answer() if callable(answer) else answer
        return [ipaddress.ip_address(text) for text in texts]


class SettablePolicies:
    """A policy source that a test sets. An instance it was not told of has no row, which grants nothing."""

    def __init__(self, policies: Mapping[InstanceIdentity, EgressPolicy] | None = None) -> None:
        self._policies: dict[InstanceIdentity, EgressPolicy | Exception] = dict(policies or {})

    def set(self, identity: InstanceIdentity, policy: EgressPolicy | Exception) -> None:
        """From here on this is in force; an exception is raised in its place."""
        self._policies[identity] = policy

    def policy(self, identity: InstanceIdentity) -> EgressPolicy:
        """See :meth:`~zeroclaw_host.egress.policy.PolicySource.policy`."""
        found = self._policies.get(identity, EgressPolicy.of([]))
        if isinstance(found, Exception):
            raise found
        return found
