"""Finding the daemon of an installation, and connecting to it (RPC-228)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from zeroclaw_daemon.client.daemon import Approver, DaemonClient, Hearer, open_client
from zeroclaw_daemon.client.questions import Answerer
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.rpc.transport.unix import connect

TOKEN_VARIABLE: Final = "ZEROCLAW_AUTH_TOKEN"
"""Holds the paired token that a client shows to the daemon. An argument would stand in the process list."""


@asynccontextmanager
async def open_daemon(
    paths: Paths | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    approve: Approver | None = None,
    answer: Answerer | None = None,
    hear: Hearer | None = None,
) -> AsyncGenerator[DaemonClient]:
    """A client of the daemon of this installation, introduced with the paired token of ``ZEROCLAW_AUTH_TOKEN`` where one is
    set. See :func:`~zeroclaw_daemon.client.daemon.open_client`.

    :param paths: the places of the installation; left out, those that the environment says.
    :raises DaemonUnreachable: nothing listens there.
    :raises RemoteError: the daemon refused.
    """
    places = paths or Paths.resolve(None, environ)
    transport = await connect(Path(places.endpoint))
    token = environ.get(TOKEN_VARIABLE, "").strip() or None
    async with open_client(transport, token=token, approve=approve, answer=answer, hear=hear) as client:
        yield client
