"""Real peers on loopback, and what a dial must not leave behind."""

from __future__ import annotations

import gc
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

Handler = Callable[[socket.socket], object]
PATIENCE = 60.0
"""Seconds that tell hanging from slow."""


class Peer:
    """A server on one loopback address. Each connection is handled on a thread of its own, then closed.

    ``accepted`` counts connections; a TLS peer counts one before its handshake.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.accepted = 0
        self.served = 0
        """Connections whose thread has begun."""
        self.address = address
        self._handler = handler
        self._tls = tls
        self._listener = socket.create_server((address, port))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(accepted)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(target=self._handle, args=(accepted,))
            self._threads.append(thread)
            thread.start()
            self.served += 1

    def _handle(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            if self._tls is None:
                self._handler(accepted)
                return
            with self._tls.wrap_socket(accepted, server_side=True) as secure:
                self._open.append(secure)
                self._handler(secure)

    def close(self) -> None:
        """Stop listening and end every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65_536):
        connection.sendall(data)


def say(text: bytes) -> Handler:
    return lambda connection: connection.sendall(text)


def hold(connection: socket.socket) -> None:
    """Say nothing until the other side goes."""
    while connection.recv(65_536):
        pass


def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose listener takes no more connections: whoever connects waits, as for an address behind a silent wall."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(64):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it becomes true. The wait has no part in what is asserted: it ends when it does, or the test hangs."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def readable(descriptor: int) -> bool:
    """Whether the system holds bytes, or the end, that nobody has read yet."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _descriptors_without_garbage() -> int:
    """How many are open, once what ended threads held in cycles is collected."""
    gc.collect()
    return descriptors()


def _named_descriptors() -> list[str]:
    """What is open, for a person to read."""
    found: list[str] = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the directory itself
            found.append(str(each.readlink()))
    return sorted(found)


def _passing_threads() -> set[threading.Thread]:
    """Threads that come and go with connections. Those of a sandbox's guests are a pool of its own, which grows when it likes
    up to its bound."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("zeroclaw-guest")}


@contextmanager
def nothing_left() -> Iterator[None]:
    """Descriptors and threads are as many after the block as before it, soon."""
    gc.collect()
    before, threads = descriptors(), _passing_threads()
    yield
    gc.collect()
    assert eventually(lambda: _passing_threads() <= threads), _passing_threads() - threads
    assert eventually(lambda: _descriptors_without_garbage() <= before), _named_descriptors()
