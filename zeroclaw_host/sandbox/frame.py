"""The call frame: everything the host knows about one call into a guest.

A frame begins before guest code is loaded and ends when the call has. It carries who is called and for whom, what is
still allowed (time, host calls), what the guest left behind (output, handles), and the first error the host itself met.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from typing import Final

from zeroclaw_host.egress.http.exchange import HttpClient
from zeroclaw_host.errors import ConfigInvalid, DeadlineExceeded, Kind, PluginError, Remedy, RemedyAction
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import CallSite

MAX_HOST_CALLS: Final = 1000
"""Charged host calls of one frame (PLG-024)."""

MAX_CAPTURED_BYTES: Final = 64 * 1024
"""Kept bytes of each output stream of one frame; the size of one log record, into which they go."""


CONVERTING: Final = "a long list of the plugin's to be read"
"""What a call does that reads many values of a guest, as the error of a deadline names it."""


class CallCancelled(PluginError):
    """The caller gave the call up."""

    code = "call_cancelled"
    kind = Kind.UNAVAILABLE


class Phase(Enum):
    """What a frame is for, which decides which services answer in it."""

    STANDARD = "standard"
    """Instantiation, metadata, and every call of a memory plugin: the log only."""
    TOOL_EXECUTE = "tool-execute"
    """A tool's ``execute``."""
    CHANNEL_SERVICE = "channel-service"
    """A channel's operational calls."""


_PHASE_CAPABILITY: Final = {Phase.TOOL_EXECUTE: Capability.TOOL, Phase.CHANNEL_SERVICE: Capability.CHANNEL}


class OutputCapture:
    """The end of what a guest wrote to one of its output streams, bounded.

    The end, because a traceback comes last. ``total`` counts all bytes ever written.
    """

    __slots__ = ("_kept", "_limit", "total")

    def __init__(self, limit: int = MAX_CAPTURED_BYTES) -> None:
        self._kept = bytearray()
        self._limit = limit
        self.total = 0

    def write(self, data: bytes) -> None:
        """Add bytes, forgetting the oldest beyond the limit."""
        self.total += len(data)
        self._kept += data[-self._limit :]
        if len(self._kept) > self._limit:
            del self._kept[: len(self._kept) - self._limit]

    @property
    def truncated(self) -> bool:
        """Whether some of what was written is gone."""
        return self.total > len(self._kept)

    def text(self) -> str:
        """What is kept, as text; bytes that are no UTF-8 are replaced."""
        return self._kept.decode("utf-8", "replace")


class CallFrame:
    """One call into a guest. Made by a world, read by the gate and by imports.

    :param scope: the instance that is called, with the permissions in force.
    :param services: what stands behind its imports.
    :param table: the handles of the store the call runs in; a fresh store has a fresh table.
    :param http: what carries the guest's HTTP requests; None where the guest has none.
    :param clock: seconds that only grow; a test may bring its own.
    """

    def __init__(
        self,
        *,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        phase: Phase = Phase.STANDARD,
        call_site: CallSite | None = None,
        table: ResourceTable | None = None,
        http: HttpClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scope = scope
        self.services = services
        self.limits = limits
        self.phase = phase
        self.call_site = call_site or CallSite()
        self.http = http
        self.stdout = OutputCapture()
        self.stderr = OutputCapture()
        self.error: PluginError | None = None
        """The first error a host function met. The gate keeps it here; the call's caller gets it."""
        self.host_calls = 0
        self.waited = 0.0
        """Seconds the caller waited before the call got a thread, as far as they count against its deadline."""
        self._outer: CallFrame | None = None
        self._clock = clock
        self._started = clock()
        self._deadline = self._started + limits.call_timeout_seconds
        self._host_seconds = 0.0
        self._host_since: float | None = None
        self._changed = threading.Condition()
        self._cancelled = False
        self.table = ResourceTable() if table is None else table
        self._config: ResolvedConfig | ConfigInvalid | None = None

    @property
    def table(self) -> ResourceTable:
        """The handles of the store the call runs in. Whatever happens to what is behind them wakes this call from here on."""
        return self._table

    @table.setter
    def table(self, table: ResourceTable) -> None:
        self._table = table
        table.watch(self._changed)

    def begin(self) -> None:
        """Start the clock anew: the call got a thread. Waiting for one is not the plugin's time, but for :attr:`waited`."""
        self._started = self._clock() - self.waited
        self._deadline = self._started + self.limits.call_timeout_seconds
        self._host_seconds = self.waited

    def within(self, phase: Phase, table: ResourceTable) -> CallFrame:
        """A frame for a further guest call that the same caller's call needs, as a rebuilt plugin's start does.

        It has a budget, a configuration and an output of its own; deadline and cancellation are those of this frame.
        """
        inner = CallFrame(
            scope=self.scope,
            services=self.services,
            limits=self.limits,
            phase=phase,
            call_site=self.call_site,
            table=table,
            http=self.http,
            clock=self._clock,
        )
        inner._outer = self
        inner._changed = self._changed
        inner.table = table
        inner._started, inner._deadline = self._started, self._deadline
        inner._host_seconds = self._host_seconds
        return inner

    # --- time -------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds on this frame's clock, the scale of :attr:`deadline` and of ``until`` in :meth:`wait`."""
        return self._clock()

    def remaining(self, what: str = "") -> float:
        """Seconds left until the deadline, always more than zero.

        :param what: what is being waited for, named by the error.
        :raises DeadlineExceeded: none are left.
        :raises CallCancelled: the caller gave up.
        """
        if self.cancelled:
            raise CallCancelled("the call was cancelled by its caller")
        left = self._deadline - self._clock()
        if left <= 0:
            raise self._deadline_exceeded(what)
        return left

    @property
    def deadline(self) -> float:
        """The moment of the deadline on :func:`time.monotonic`'s scale."""
        return self._deadline

    def wait(self, ready: Callable[[], bool], what: str, *, until: float | None = None) -> bool:
        """Wait until ``ready()`` is true, no longer than the call may take (PLG-018).

        Worker threads that change what ``ready`` looks at call :meth:`notify` afterwards.

        :param what: what is waited for, for the error.
        :param until: a moment on the clock's scale at which to stop waiting without error.
        :returns: whether it became true; ``False`` only when ``until`` passed.
        :raises DeadlineExceeded: the deadline passed first.
        :raises CallCancelled: the caller gave up.
        """
        with self._changed:
            while not ready():
                left = self.remaining(what)
                if until is not None:
                    pause = until - self._clock()
                    if pause <= 0:
                        return False
                    left = min(left, pause)
                self._changed.wait(left)
        return True

    def notify(self) -> None:
        """Wake :meth:`wait` so that it looks again. Callable from any thread."""
        with self._changed:
            self._changed.notify_all()

    def cancel(self) -> None:
        """Make the call end soon: at once inside :meth:`wait`, at the next epoch tick in guest code. From any thread."""
        self._cancelled = True
        self.notify()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called, here or on the frame that this one is within."""
        return self._cancelled or (self._outer is not None and self._outer.cancelled)

    def enter_host(self) -> None:
        """From here on the time is the host's, not the guest's. The gate says so; imports need not."""
        self._host_since = self._clock()

    def leave_host(self) -> None:
        """From here on the time is the guest's again."""
        if self._host_since is not None:
            self._host_seconds += self._clock() - self._host_since
            self._host_since = None

    def spent_ms(self) -> tuple[int, int]:
        """Milliseconds since the call began: those in the guest, and those in host functions."""
        now = self._clock()
        in_host = self._host_seconds + (now - self._host_since if self._host_since is not None else 0.0)
        host_ms = round(in_host * 1000)
        return max(0, round((now - self._started) * 1000) - host_ms), host_ms

    def _deadline_exceeded(self, what: str) -> DeadlineExceeded:
        guest_ms, host_ms = self.spent_ms()
        timeout_ms = self.limits.call_timeout_ms
        doing = f" while waiting for {what}" if what else ""
        return DeadlineExceeded(
            f"the call ran past its deadline{doing}: {guest_ms} ms in the plugin and {host_ms} ms in the host "
            f"(call_timeout_ms is {timeout_ms})",
            remedy=Remedy(RemedyAction.RAISE_LIMIT, {"limit": "call_timeout_ms"}),
            details={
                "timeout_ms": timeout_ms,
                "guest_ms": guest_ms,
                "host_ms": host_ms,
                "waited_for": what,
            },
        )

    # --- services ---------------------------------------------------------------------------------------------------

    def charge(self) -> bool:
        """Count one charged host call; whether the budget still covers it (PLG-024)."""
        self.host_calls += 1
        return self.host_calls <= MAX_HOST_CALLS

    @property
    def serves(self) -> bool:
        """Whether configuration, secrets, state and connections answer in this frame."""
        return _PHASE_CAPABILITY.get(self.phase) is self.scope.identity.capability

    def config(self) -> ResolvedConfig:
        """This instance's configuration, resolved at most once in a frame, a failure included (PLG-169).

        :raises ConfigInvalid: it does not resolve.
        """
        if self._config is None:
            try:
                resolved = self.services.config.resolve(self.scope)
                if resolved.scope is not self.scope:
                    raise ConfigInvalid("the configuration was resolved for another instance")
                self._config = resolved
            except ConfigInvalid as error:
                self._config = error
        if isinstance(self._config, ConfigInvalid):
            raise self._config
        return self._config

    # --- end --------------------------------------------------------------------------------------------------------

    def keep_error(self, error: PluginError) -> None:
        """Remember what a host function met, unless something was met before."""
        if self.error is None:
            self.error = error


_local: Final = threading.local()


class NoCallFrame(RuntimeError):
    """A host function was called outside any call into a guest."""


def current_frame() -> CallFrame:
    """The frame of the guest call this thread is in. A host's worker thread is in none: hand it the frame.

    :raises NoCallFrame: there is none.
    """
    frame: CallFrame | None = getattr(_local, "frame", None)
    if frame is None:
        raise NoCallFrame("no guest call is running on this thread")
    return frame


def inside_a_call() -> bool:
    """Whether this thread is in a guest call, which makes whoever asks a host function of it."""
    return getattr(_local, "frame", None) is not None


@contextmanager
def entered(frame: CallFrame) -> Generator[CallFrame]:
    """Make this the thread's current frame for the time of the block."""
    previous: CallFrame | None = getattr(_local, "frame", None)
    _local.frame = frame
    try:
        yield frame
    finally:
        _local.frame = previous
