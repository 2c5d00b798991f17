"""Finding a daemon, and connecting to it: the one of this installation (RPC-228), or one of another machine (D-35)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from zeroclaw_daemon.client.daemon import Approver, DaemonClient, Hearer, open_client
from zeroclaw_daemon.client.questions import Answerer
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.rpc.transport.absent import GatewayNotInstalled
from zeroclaw_daemon.rpc.transport.base import Transport
from zeroclaw_daemon.rpc.transport.unix import connect

TOKEN_VARIABLE: Final = "ZEROCLAW_AUTH_TOKEN"
"""Holds the paired token that a client shows to the daemon. An argument would stand in the process list."""
GATEWAY_VARIABLE: Final = "ZEROCLAW_GATEWAY"
"""Holds the address of the gateway of the daemon that is meant, where that is not the one of this installation."""
AUTHORITY_VARIABLE: Final = "ZEROCLAW_GATEWAY_CA"
"""Holds the path of a PEM file with the certificates to trust there, where those of the system are not meant."""


@asynccontextmanager
async def open_daemon(
    paths: Paths | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    approve: Approver | None = None,
    answer: Answerer | None = None,
    hear: Hearer | None = None,
) -> AsyncGenerator[DaemonClient]:
    """A client of the daemon of this installation, or of the one whose gateway ``ZEROCLAW_GATEWAY`` names; introduced with the
    paired token of ``ZEROCLAW_AUTH_TOKEN`` where one is set. See :func:`~zeroclaw_daemon.client.daemon.open_client`.

    :param paths: the places of the installation; left out, those that the environment says.
    :raises DaemonUnreachable: nothing listens there.
    :raises ZeroclawError: the gateway cannot be reached or is not trusted; see :func:`.dialing.connect`.
    :raises RemoteError: the daemon refused.
    """
    url = environ.get(GATEWAY_VARIABLE, "").strip()
    if url:
        transport: Transport = await _dialed(url, environ)
    else:
        transport = await connect(Path((paths or Paths.resolve(None, environ)).endpoint))
    token = environ.get(TOKEN_VARIABLE, "").strip() or None
    async with open_client(transport, token=token, approve=approve, answer=answer, hear=hear) as client:
        yield client


async def _dialed(url: str, environ: Mapping[str, str]) -> Transport:
    try:
        from zeroclaw_daemon.rpc.transport import dialing
    except ImportError as error:
        raise GatewayNotInstalled(error.name or "a library") from error
    authority = environ.get(AUTHORITY_VARIABLE, "").strip()
    try:
        return await dialing.connect(url, authority=Path(authority) if authority else None)
    except dialing.GatewayAddressInvalid as error:
        words = f"{GATEWAY_VARIABLE}: {error.message}"
        raise dialing.GatewayAddressInvalid(words, details=error.details) from None
