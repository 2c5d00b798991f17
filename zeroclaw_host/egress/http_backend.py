"""The dialer as the network of an HTTP client (httpcore).

One backend serves one request: it connects once, to the request's host and port, and to nothing else the client may come
to want. Which error of the network authority ended it is kept in :attr:`PinnedBackend.error`, since the client's own
errors say less.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

from zeroclaw_host.egress.anchors import client_context
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.dialer import Dialer
from zeroclaw_host.egress.failures import (
    ConnectionBroken,
    ConnectionClosed,
    DialCancelled,
    TimeIsUp,
    TlsFailed,
)
from zeroclaw_host.egress.hosts import parse_request_host
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.egress.tls import MaterialSource, no_material
from zeroclaw_host.errors import ZeroclawError


class PinnedBackend(httpcore.NetworkBackend):
    """A network with one destination. Give it to a connection pool of its own, without proxy and without retries.

    :param deadline: over the whole exchange. The client's own timeouts count besides.
    :param connect_seconds: for the policy, the lookup, the connection and TLS together; the deadline's when left out.
    """

    def __init__(
        self,
        dialer: Dialer,
        request: EgressRequest,
        deadline: Deadline,
        *,
        connect_seconds: float | None = None,
        material: MaterialSource = no_material,
    ) -> None:
        self.error: ZeroclawError | None = None
        """The first error of the network authority, behind whatever the client raised."""
        self.connection: Connection | None = None
        """What was opened. Closing it ends the exchange, from any thread."""
        self._dialer = dialer
        self._request = request
        self._deadline = deadline
        self._connect_seconds = connect_seconds
        self._material = material

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Open the request's connection, TLS included. What the client wants must be what was asked for.

        :raises httpcore.ConnectError: the network authority said no, or it failed.
        :raises httpcore.ConnectTimeout: the time was over.
        """
        wanted = (parse_request_host(host), port)
        if (
            wanted != (parse_request_host(self._request.host), self._request.port)
            or self.connection is not None
        ):
            raise httpcore.ConnectError("this network has one destination, for one connection")
        seconds = [limit for limit in (timeout, self._connect_seconds) if limit is not None]
        deadline = self._deadline.sooner(min(seconds)) if seconds else self._deadline
        try:
            self.connection = self._dialer.open(self._request, deadline, material=self._material)
        except TimeIsUp as error:
            self.error = error
            raise httpcore.ConnectTimeout(error.message) from error
        except ZeroclawError as error:
            self.error = error
            raise httpcore.ConnectError(error.message) from error
        return _PinnedStream(self, self.connection, self._deadline)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        """Refused."""
        raise httpcore.ConnectError("this network has no local sockets")


class _PinnedStream(httpcore.NetworkStream):
    """A connection as the client reads and writes it."""

    def __init__(self, backend: PinnedBackend, connection: Connection, deadline: Deadline) -> None:
        self._backend = backend
        self._connection = connection
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._connection.receive(max_bytes, self._until(timeout))
        except TimeIsUp as error:
            raise self._kept(error, httpcore.ReadTimeout) from error
        except (ConnectionBroken, ConnectionClosed, DialCancelled) as error:
            raise self._kept(error, httpcore.ReadError) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._connection.send(buffer, self._until(timeout))
        except TimeIsUp as error:
            raise self._kept(error, httpcore.WriteTimeout) from error
        except (ConnectionBroken, ConnectionClosed, DialCancelled) as error:
            raise self._kept(error, httpcore.WriteError) from error

    def close(self) -> None:
        self._connection.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Nothing is left to do: the dialer speaks TLS with its own context, for the name that was authorised."""
        if not self._connection.secured:
            error = TlsFailed("the request was not authorised as one under TLS")
            self.close()
            raise self._kept(error, httpcore.ConnectError)
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._connection.readable_now()
        return None

    def _until(self, seconds: float | None) -> Deadline:
        return self._deadline if seconds is None else self._deadline.sooner(seconds)

    def _kept(self, error: ZeroclawError, wrapped: type[Exception]) -> Exception:
        if self._backend.error is None:
            self._backend.error = error
        return wrapped(error.message)


def pinned_pool(backend: PinnedBackend) -> httpcore.ConnectionPool:
    """A client for the backend's one request: HTTP/1.1, no proxy, no retries, no connection kept for another request.

    Closing it closes the connection.
    """
    return httpcore.ConnectionPool(
        ssl_context=client_context(),  # never used, and cheaper than the client's own
        max_connections=1,
        max_keepalive_connections=0,
        http1=True,
        http2=False,
        retries=0,
        network_backend=backend,
    )
