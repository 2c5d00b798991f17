"""How long, and for whom: waiting that ends with a deadline, with whoever asked, or with the thing waited for.

Nothing in this room blocks in any other way. Sockets never block; they are waited for here.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from zeroclaw_host.egress.failures import ConnectionClosed, DialCancelled, Stage, TimeIsUp

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT

_LONGEST_PAUSE: Final = 3600.0
"""One wait of the system's. A longer deadline is waited for in several."""


class Waker:
    """Tells whoever waits, once, from any thread."""

    def __init__(self) -> None:
        self.fired = False
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next = 0

    def fire(self) -> None:
        """Call everyone who waits, and everyone who will."""
        with self._lock:
            self.fired = True
            # Under the lock, so that nobody is called who has left: its descriptor may be another's by then.
            for callback in self._callbacks.values():
                callback()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Generator[None]:
        """Have this called if it fires during the block, or did before. The callback must not block."""
        with self._lock:
            self._next += 1
            key = self._next
            self._callbacks[key] = callback
            if self.fired:
                callback()
        try:
            yield
        finally:
            with self._lock:
                del self._callbacks[key]


class Deadline:
    """A moment until which something may take, and a way to give it up before. Usable from any thread.

    :param seconds: from now on.
    :param clock: seconds that only grow.
    """

    def __init__(
        self, seconds: float, *, clock: Callable[[], float] = time.monotonic, waker: Waker | None = None
    ) -> None:
        self._clock = clock
        self.moment = clock() + seconds
        """When it is over, on the clock's scale."""
        self.waker = Waker() if waker is None else waker

    def sooner(self, seconds: float) -> Deadline:
        """A deadline after so many seconds, if this one is not over before. Cancelled together with this one."""
        left = self.moment - self._clock()
        return Deadline(min(seconds, left), clock=self._clock, waker=self.waker)

    def cancel(self) -> None:
        """Give it up: whoever waits stops at once, and nobody begins to wait."""
        self.waker.fire()

    @property
    def over(self) -> bool:
        """Whether the moment has passed."""
        return self._clock() >= self.moment

    def remaining(self, stage: Stage) -> float:
        """Seconds left, always more than zero.

        :raises TimeIsUp: none are.
        :raises DialCancelled: it was given up.
        """
        if self.waker.fired:
            raise DialCancelled(stage)
        left = self.moment - self._clock()
        if left <= 0:
            raise TimeIsUp(stage)
        return left


def wait_for_socket(
    waited: socket.socket, events: int, deadline: Deadline, stage: Stage, closed: Waker | None = None
) -> None:
    """Wait until a socket can be read or written, or has failed.

    :param events: :data:`READABLE` or :data:`WRITABLE`.
    :param closed: fires when somebody closes the connection.
    :raises TimeIsUp: the deadline passed first.
    :raises DialCancelled: the deadline was cancelled first.
    :raises ConnectionClosed: ``closed`` fired first.
    """
    reader, writer = os.pipe()
    try:
        with ExitStack() as stack:
            for waker in (deadline.waker, *(() if closed is None else (closed,))):
                stack.enter_context(waker.calling(lambda: os.write(writer, b"x")))
            poll = select.poll()
            poll.register(waited, events)
            poll.register(reader, READABLE)
            while True:
                left = min(deadline.remaining(stage), _LONGEST_PAUSE)
                ready = {descriptor for descriptor, _ in poll.poll(left * 1000)}
                if closed is not None and closed.fired:
                    raise ConnectionClosed("the connection was closed")
                deadline.remaining(stage)
                if waited.fileno() in ready:
                    return
    finally:
        os.close(reader)
        os.close(writer)
