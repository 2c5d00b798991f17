"""What stands behind the handles of ``wasi:io``: pollables, streams and errors.

These are the classes other import modules build their own resources on: a body that arrives over a network is an
:class:`InputStream`, one that leaves is an :class:`OutputStream`, a response to come is a :class:`Pollable`.

A readiness callable runs while the frame's lock is held. It may take a lock of its own, so whoever holds that lock must
let go of it before calling :meth:`CallFrame.notify`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from zeroclaw_host.errors import GuestTrap
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.values import Err

MAX_CHUNK: Final = 64 * 1024
"""Most bytes that one read gives, and most that one permission to write covers."""

MAX_BLOCKING_WRITE: Final = 4096
"""Most bytes of one ``blocking-write-and-flush``, by the standard."""


def broken_rule(rule: str) -> GuestTrap:
    """The end of a guest that broke a rule of the standard whose breach is a trap."""
    return GuestTrap(f"the plugin broke a rule of wasi:io: {rule}", details={"trap": rule})


class IoError:
    """What went wrong in an operation.

    :param text: for a person who debugs a plugin; the guest sees it, so it names nothing of the host.
    :param code: the value that the interface's own function (``http-error-code`` and the like) reads back.
    """

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: object = None) -> None:
        self.text = text
        self.code = code


class StreamEnded(Exception):
    """A stream gives or takes no more.

    :param error: why, or None at a regular end.
    """

    def __init__(self, error: IoError | None = None) -> None:
        super().__init__("closed" if error is None else error.text)
        self.error = error

    def as_result(self) -> Err:
        """The ``stream-error`` the guest gets."""
        return Err(("closed", None) if self.error is None else ("last-operation-failed", self.error))


class Pollable:
    """Something that will be ready: when a condition holds, when a moment has come, or whichever is first.

    :param condition: asked whenever the frame is notified; None never holds.
    :param at: a moment on the frame's clock, in seconds; None never comes.
    """

    __slots__ = ("_condition", "at")

    def __init__(self, condition: Callable[[], bool] | None = None, *, at: float | None = None) -> None:
        self._condition = condition
        self.at = at

    def ready(self, now: float) -> bool:
        """Whether it is ready at this moment."""
        return (self.at is not None and now >= self.at) or (self._condition is not None and self._condition())


class InputStream(ABC):
    """Bytes for the guest."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether :meth:`read` would give bytes, or raise."""

    @abstractmethod
    def read(self, limit: int) -> bytes:
        """At most ``limit`` bytes without waiting; none at all while there are none.

        :raises StreamEnded: there will be no more.
        """


class OutputStream(ABC):
    """Bytes from the guest. Subclasses say how many they take and where they go."""

    def __init__(self) -> None:
        self._permitted = 0

    @abstractmethod
    def budget(self) -> int:
        """How many bytes :meth:`accept` takes now; zero means that the guest must wait.

        :raises StreamEnded: it takes no more.
        """

    @abstractmethod
    def accept(self, frame: CallFrame, contents: bytes) -> None:
        """Take bytes, no more than the budget.

        :raises StreamEnded: it takes no more.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Whether :meth:`budget` would be more than zero, or raise."""

    def flush(self) -> None:  # noqa: B027 - most streams keep nothing back
        """Begin to hand on what was taken.

        :raises StreamEnded: it takes no more.
        """

    def flushed(self) -> bool:
        """Whether everything taken before the last :meth:`flush` was handed on."""
        return True

    def permit(self) -> int:
        """The budget, from here on permitted to the guest."""
        self._permitted = self.budget()
        return self._permitted

    def spend(self, size: int) -> None:
        """Use up some of what was permitted.

        :raises GuestTrap: that much was not.
        """
        if size > self._permitted:
            raise broken_rule("a write goes beyond what check-write permitted")
        self._permitted -= size


class NoInput(InputStream):
    """A stream at its end."""

    def ready(self) -> bool:
        """Always: the end is there."""
        return True

    def read(self, limit: int) -> bytes:
        """Nothing, ever.

        :raises StreamEnded: always.
        """
        raise StreamEnded


def wait(frame: CallFrame, pollables: Sequence[Pollable], what: str) -> list[int]:
    """The positions of those that are ready, after waiting for the first (PLG-018).

    :param what: what is waited for, for the error.
    :raises DeadlineExceeded: the call's deadline came first.
    :raises CallCancelled: the caller of the plugin gave up.
    """
    until = min((pollable.at for pollable in pollables if pollable.at is not None), default=None)
    found: list[int] = []

    def any_ready() -> bool:
        now = frame.now()
        found.extend(position for position, pollable in enumerate(pollables) if pollable.ready(now))
        return bool(found)

    while not frame.wait(any_ready, what, until=until):
        """The earliest moment has come; the next look finds it."""
    return found
