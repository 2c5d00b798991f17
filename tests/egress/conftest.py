"""What the tests of the network authority share: an instance, its requests, and the size of the destination table."""

from __future__ import annotations

from collections.abc import Callable

import destinations
import pytest

from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.instance import InstanceIdentity

IDENTITY = InstanceIdentity.default_tool("weather")


@pytest.fixture(scope="session")
def identity() -> InstanceIdentity:
    return IDENTITY


@pytest.fixture(scope="session")
def ask() -> Callable[..., EgressRequest]:
    """A request of the instance, over HTTPS unless something else is said."""

    def make(
        host: str,
        port: int = 443,
        *,
        transport: Transport = Transport.HTTP,
        tls: TlsMode = TlsMode.DIRECT,
        tls_profile: str | None = None,
        permitted: bool = True,
        identity: InstanceIdentity = IDENTITY,
    ) -> EgressRequest:
        return EgressRequest(
            identity=identity,
            transport=transport,
            host=host,
            port=port,
            tls=tls,
            tls_profile=tls_profile,
            permitted=permitted,
        )

    return make


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = len(destinations.TABLE)
    terminalreporter.write_line(
        f"destination table: {rows} hosts and addresses, {rows * len(destinations.Granted)} verdicts"
    )
