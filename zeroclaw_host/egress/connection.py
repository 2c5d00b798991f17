"""An open connection to a permitted address. Whatever becomes of it, its slot is given back once.

Every method may be called from any thread; one thread sends and one receives at a time. :meth:`Connection.close` from
another thread ends what they wait for.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from zeroclaw_host.egress.deadline import READABLE, WRITABLE, Deadline, Waker, wait_for_socket
from zeroclaw_host.egress.decision import Decision
from zeroclaw_host.egress.failures import (
    ConnectFailed,
    ConnectionBroken,
    ConnectionClosed,
    Stage,
    TlsBroken,
    TlsFailed,
)
from zeroclaw_host.egress.hosts import Address
from zeroclaw_host.egress.records import Usage
from zeroclaw_host.package.hosts import address_text

_PIECE: Final = 64 * 1024
"""Bytes handed to the system at once: no more than a socket's buffer takes, so that a deadline is looked at in between."""

T = TypeVar("T")


class Connection:
    """A stream of bytes to one address, in plaintext or under TLS. Made by the dialer alone.

    :param plain: a connected socket that does not block.
    :param server_name: the host's name, which the peer's certificate has to be for.
    :param context: the TLS context for :meth:`start_tls`; None where there is to be none.
    :param ended: told once, when all is closed: what it was used for, or None of one that was dropped unclosed.
    """

    def __init__(
        self,
        plain: socket.socket,
        *,
        decision: Decision,
        address: Address,
        server_name: str,
        context: ssl.SSLContext | None,
        ended: Callable[[Usage | None], object],
    ) -> None:
        self.decision = decision
        """What allowed it."""
        self.address = address
        """The address it goes to."""
        self._socket = plain
        self._server_name = server_name
        self._context = context
        self._ended = ended
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._io = threading.Lock()
        self.closing = Waker()
        """Fires when it is closed, on the thread that closes it."""
        self._users = 0
        self._closed = False
        self._secured = False
        self._receiving_waits = READABLE
        self._sending_waits = WRITABLE
        self._dropped = False
        self._sent = 0
        self._received = 0

    # --- blocking, until a deadline ---------------------------------------------------------------------------------

    def receive(self, limit: int, deadline: Deadline) -> bytes:
        """The next bytes, at least one and at most ``limit``; none when the peer sends no more.

        :raises TimeIsUp: the deadline passed.
        :raises DialCancelled: the deadline was cancelled.
        :raises ConnectionClosed: it was closed on this side.
        :raises ConnectionBroken: it failed, or the process has no descriptors left to wait with.
        """
        with self._using():
            data = self._repeat(lambda: self._socket.recv(limit), READABLE, Stage.RECEIVE, deadline)
        self._received += len(data)
        return data

    def send(self, data: bytes | memoryview, deadline: Deadline) -> None:
        """Send all the bytes: they are with the system when this returns. Raises as :meth:`receive`."""
        left = memoryview(data)
        with self._using():
            while left:
                piece = left[:_PIECE]
                count = self._repeat(
                    lambda piece=piece: self._socket.send(piece), WRITABLE, Stage.SEND, deadline
                )
                self._sent += count
                left = left[count:]

    def start_tls(self, deadline: Deadline) -> None:
        """Go on under TLS. A connection that cannot is closed: it never goes on in plaintext.

        :raises TlsFailed: the peer is not trusted, is another one, or does not speak TLS.
        :raises TimeIsUp: the deadline passed.
        :raises DialCancelled: the deadline was cancelled.
        :raises ConnectionClosed: it was closed on this side.
        """
        try:
            with self._using():
                self._secure(deadline)
        except BaseException:
            self.close()
            raise

    # --- without waiting, for a loop of the transport's own ---------------------------------------------------------

    def receive_now(self, limit: int) -> bytes | None:
        """As :meth:`receive`, of what is there; None when nothing is: wait for the descriptor to be readable, or writable
        where :attr:`receiving_sends`."""
        with self._using():
            data, self._receiving_waits = self._now(lambda: self._socket.recv(limit), READABLE)
        if data is not None:
            self._received += len(data)
        return data

    def send_now(self, data: bytes | memoryview) -> int:
        """Send as much as the system takes at once; how many bytes that were. When none: wait for the descriptor to be
        writable, or readable where :attr:`sending_receives`."""
        piece = memoryview(data)[:_PIECE]
        with self._using():
            sent, self._sending_waits = self._now(lambda: self._socket.send(piece), WRITABLE)
        count = sent or 0
        self._sent += count
        return count

    @property
    def receiving_sends(self) -> bool:
        """Whether :meth:`receive_now` gave nothing because TLS has to send first, such as its answer to a change of keys."""
        return self._receiving_waits == WRITABLE

    @property
    def sending_receives(self) -> bool:
        """Whether :meth:`send_now` sent nothing because TLS has to receive first."""
        return self._sending_waits == READABLE

    def fileno(self) -> int:
        """The descriptor to wait for; -1 when it is closed.

        Under TLS bytes may be there although it is not readable: :meth:`receive_now` until it gives None, then wait.
        """
        return self._socket.fileno()

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def secured(self) -> bool:
        """Whether it is under TLS."""
        return self._secured

    @property
    def protocol(self) -> str | None:
        """The protocol that TLS agreed on (ALPN)."""
        return self._socket.selected_alpn_protocol() if isinstance(self._socket, ssl.SSLSocket) else None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End it, at once. Callable any number of times."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            idle = self._users == 0
        self.closing.fire()
        if idle:
            self._finish()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody is to drop one without closing it; whoever does still leaves neither descriptor nor slot behind. Nothing is
        # told of it: this may run at any point of a thread, even of one that holds the log's lock.
        if hasattr(self, "_received"):
            self._dropped = True
            self.close()

    # --- inside -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Generator[None]:
        """The socket stays open for the block, even if somebody closes the connection: no descriptor becomes another's."""
        with self._lock:
            if self._closed:
                raise ConnectionClosed("the connection was closed")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                last = self._closed and self._users == 0
            if last:
                self._finish()

    def _finish(self) -> None:
        with suppress(OSError):
            self._socket.close()
        usage = Usage(
            address=address_text(self.address),
            sent=self._sent,
            received=self._received,
            seconds=time.monotonic() - self._began,
        )
        self._ended(None if self._dropped else usage)

    def _repeat(self, action: Callable[[], T], events: int, stage: Stage, deadline: Deadline) -> T:
        """Do it as soon as it can be done."""
        while True:
            deadline.remaining(stage)
            try:
                return self._try(action)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as want:
                wanted = READABLE if isinstance(want, ssl.SSLWantReadError) else WRITABLE
            except BlockingIOError:
                wanted = events
            try:
                wait_for_socket(self._socket, wanted, deadline, stage, self.closing)
            except OSError as error:  # the process has no descriptors left to wait with
                raise ConnectionBroken(f"the connection cannot be waited for: {error.strerror}") from error

    def _now(self, action: Callable[[], T], events: int) -> tuple[T | None, int]:
        """Do it if it can be done, and what to wait for before the next time."""
        try:
            return self._try(action), events
        except ssl.SSLWantReadError:
            return None, READABLE
        except ssl.SSLWantWriteError:
            return None, WRITABLE
        except BlockingIOError:
            return None, events

    def _try(self, action: Callable[[], T]) -> T:
        try:
            with self._io:  # the TLS library takes no two calls at once for one connection
                return action()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            raise
        except OSError as error:
            if self._closed:
                raise ConnectionClosed("the connection was closed") from error
            what = TlsBroken if _is_of_tls(error) else ConnectionBroken
            raise what(f"the connection failed: {error.strerror or error}") from error

    def _secure(self, deadline: Deadline) -> None:
        if self._context is None or self._secured:
            raise TlsFailed("the connection is not one that goes on under TLS")
        try:
            secure = self._context.wrap_socket(
                self._socket, server_hostname=self._server_name, do_handshake_on_connect=False
            )
            self._socket = secure
            self._repeat(secure.do_handshake, READABLE, Stage.TLS, deadline)
        except ConnectionBroken as error:
            raise _tls_failed(error.__cause__ or error) from error
        except (OSError, ValueError) as error:
            raise _tls_failed(error) from error
        self._secured = True


def _is_of_tls(error: OSError) -> bool:
    """Whether it was TLS that failed, and not what is below it or a peer that went without a word."""
    return isinstance(error, ssl.SSLError) and not isinstance(
        error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    )


def _tls_failed(error: BaseException) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"the peer's certificate is not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return TlsFailed(f"the TLS handshake failed: {error.reason or 'the peer ended it'}")
    return TlsFailed(f"the TLS handshake failed: {error}")


def connect(address: Address, port: int, deadline: Deadline) -> socket.socket:
    """A connected socket that does not block.

    :raises ConnectFailed: this address does not do.
    :raises TimeIsUp: the deadline passed.
    :raises DialCancelled: the deadline was cancelled.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    zone = getattr(address, "scope_id", None)
    where = (str(address).partition("%")[0], port)
    try:
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise ConnectFailed(f"no socket could be opened: {error.strerror}") from error
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            made.connect(where if family == socket.AF_INET else (*where, 0, int(zone or 0)))
        wait_for_socket(made, WRITABLE, deadline, Stage.CONNECT)
        if number := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, os.strerror(number))
        if made.getsockname() == made.getpeername():
            # A port of this machine that nobody listens on can be given to the very socket that connects to it.
            raise ConnectionRefusedError
    except OSError as error:
        made.close()
        refused = isinstance(error, ConnectionRefusedError)
        raise ConnectFailed(f"{address_text(address)} cannot be connected to", refused=refused) from error
    except BaseException:
        made.close()
        raise
    return made
