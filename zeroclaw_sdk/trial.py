"""What a plugin is lent while its author tries it: configuration as given, a state and a queue in
memory, a kept log, and the network that the author allows."""

from __future__ import annotations

from collections.abc import Mapping

from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import SchemaConfigResolver
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.state import Remaining, StateEntry, StateFault, no_deadline
from zeroclaw_sdk.guest.host import RecordingHost, StateError
from zeroclaw_sdk.trial_network import TrialNetwork


def trial_services(
    package: AdmittedPackage,
    scope: InstanceScope,
    config: Mapping[str, str] | None,
    network: TrialNetwork,
) -> tuple[InstanceServices, MemoryLogSink]:
    """The services of one trial, and the log among them.

    :param config: values as an operator stores them: texts as they are, everything else as JSON text.
    :raises ConfigInvalid: the configuration does not fit the schema.
    :raises UsageError: there is configuration, and the package declares none.
    """
    values = dict(config or {})
    if values and package.config_schema is None:
        raise UsageError(f"{package.name} declares no configuration", remedy=run_help())
    resolver = SchemaConfigResolver(lambda _: package.config_schema, lambda _: values)
    resolver.resolve(scope)  # before anything is compiled
    log = MemoryLogSink()
    services = InstanceServices(config=resolver, log=log, state=TrialState(), network=network.dialer)
    return services, log


class TrialState:
    """Durable state that ends with the trial: what :class:`~zeroclaw_sdk.guest.host.RecordingHost` keeps, for each instance."""

    def __init__(self) -> None:
        self._kept: dict[InstanceIdentity, RecordingHost] = {}

    def get(
        self, instance: InstanceIdentity, key: str, *, remaining: Remaining = no_deadline
    ) -> StateEntry | None:
        """See :meth:`StateStore.get`."""
        try:
            found = self._of(instance).state_get(key)
        except StateError as error:
            raise StateFault(error.word) from None
        return None if found is None else StateEntry(found.value, found.revision)

    def put(
        self,
        instance: InstanceIdentity,
        key: str,
        value: bytes,
        expected_revision: int | None,
        *,
        remaining: Remaining = no_deadline,
    ) -> int:
        """See :meth:`StateStore.put`."""
        try:
            return self._of(instance).state_put(key, value, expected_revision)
        except StateError as error:
            raise StateFault(error.word) from None

    def delete(
        self,
        instance: InstanceIdentity,
        key: str,
        expected_revision: int,
        *,
        remaining: Remaining = no_deadline,
    ) -> None:
        """See :meth:`StateStore.delete`."""
        try:
            self._of(instance).state_delete(key, expected_revision)
        except StateError as error:
            raise StateFault(error.word) from None

    def _of(self, instance: InstanceIdentity) -> RecordingHost:
        return self._kept.setdefault(instance, RecordingHost())


def run_help() -> Remedy:
    """Where a mistake in the words of ``run`` is explained."""
    return Remedy(RemedyAction.RUN_HELP, {"command": "run"})
