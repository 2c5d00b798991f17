"""An end to a whole HTTP transfer, however its bytes come.

A timeout bounds one read, and a peer that sends a byte now and then never trips it, neither in a body nor in a header. So
the connection itself is ended when the time is over; whoever reads it then sees the peer gone.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

_CONNECTED: Final = "connection.connect_tcp.complete"


class HangUp:
    """Ends every connection of a transfer after some seconds. A context manager around the transfer.

    :meth:`trace` belongs into the ``trace`` extension of the transfer's first request; redirects inherit it.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        """Whether the time ran out."""
        self._connections: list[socket.socket] = []
        self._changing = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._changing:
            while self._connections:
                self._connections.pop().close()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by the HTTP library of every step it takes."""
        if event != _CONNECTED:
            return
        with self._changing:
            # A second handle of the same connection: TLS takes the first one over.
            self._connections.append(info["return_value"].get_extra_info("socket").dup())
            if self.over:
                self._shut_down()

    def _end(self) -> None:
        with self._changing:
            self.over = True
            self._shut_down()

    def _shut_down(self) -> None:
        for connection in self._connections:
            with suppress(OSError):  # the peer may be gone already
                connection.shutdown(socket.SHUT_RDWR)
