"""One guest kept from call to call, as channels and memories have it (PLG-031, PLG-032, PLG-106…109).

Calls are served one at a time, in the order in which they came. A caller waits for its turn on its own account: in its
own thread or task, without a guest thread, for as long as a call may take at most. That wait is not the plugin's time;
the call's deadline begins with its turn, and covers everything from there: the wait before a rebuild, the rebuild, and
the call itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import anyio.to_thread

from zeroclaw_host.errors import PluginUnavailable, UsageError, ZeroclawError
from zeroclaw_host.instance import InstanceScope
from zeroclaw_host.sandbox.frame import CallCancelled, CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import ValueMismatch
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import CallSite, LogRecord
from zeroclaw_host.worlds.instance import Ask, PluginInstance
from zeroclaw_host.worlds.rebuild import RebuildPace
from zeroclaw_host.worlds.surface import http_of
from zeroclaw_host.worlds.turns import TaskAlarm, Turns

TURN: Final = "its turn at the plugin"
REBUILD: Final = "the plugin to be rebuilt, which failed too often to be rebuilt at once"
"""What a caller waits for, as the error of a deadline names it."""


Take = Callable[[object], object]
"""What a world makes of a call's result. Runs on the guest's thread, since there can be much of it; must not raise."""


def as_it_is(result: object) -> object:
    """Make nothing of it."""
    return result


Start = Callable[[Ask], None]
"""What a world does with each new instance before it serves: configure it, read what it says about itself. Runs on a
guest thread; what it raises refuses the instance."""


class WarmStore:
    """The one instance of a plugin, its store, and the queue before it. Callable from any thread and any event loop.

    After a call that did not end with a result of the guest (a trap, spent fuel, the deadline, a cancellation, a failed
    import, a result that cannot be taken) the instance is dropped. An ``err(...)`` is a result (PLG-107, PLG-108).

    :param interface: the exported interface that is called, ``zeroclaw:plugin/channel``.
    :param start: done with each new instance.
    :param self_healing: whether a call that finds no instance makes a new one, at the pace of :class:`RebuildPace`; if
        not, it fails at once, until :meth:`start` is called (PLG-109, PLG-111).
    :param clock: seconds that only grow.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        linked: LinkedComponent,
        scope: InstanceScope,
        services: InstanceServices,
        limits: Limits,
        *,
        interface: str,
        start: Start,
        self_healing: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sandbox = sandbox
        self._linked = linked
        self._scope = scope
        self._services = services
        self._limits = limits
        self._interface = interface
        self._start = start
        self._self_healing = self_healing
        self._clock = clock
        self._turns = Turns()
        self._pace = RebuildPace()
        self._starts = 0
        self._instance: PluginInstance | None = None
        self._serving: CallFrame | None = None
        self._closed = False
        self._state = threading.Lock()
        """Held for a moment, around ``_closed`` and ``_serving``."""
        self._inside = threading.Lock()
        """Held by the thread that is in the guest, :attr:`_server`. The queue keeps others away; this makes sure, also against a caller
        that was interrupted twice and left before its guest did."""
        self._server: int | None = None

    @property
    def scope(self) -> InstanceScope:
        """The instance that is called, and what it may do."""
        return self._scope

    @property
    def alive(self) -> bool:
        """Whether there is an instance to call."""
        return self._instance is not None

    @property
    def rebuilds(self) -> int:
        """How many times a further instance was begun after the first."""
        return max(0, self._starts - 1)

    # --- calls ----------------------------------------------------------------------------------------------------------

    def call_sync(
        self,
        function: str,
        *arguments: object,
        phase: Phase,
        call_site: CallSite | None = None,
        take: Take = as_it_is,
    ) -> object:
        """Call an export and wait. For threads without an event loop.

        :param take: makes of the result what is returned.
        :raises PluginUnavailable: there is no instance, or the store is closed.
        :raises UsageError: an argument is not what the contract says; the guest was not called.
        :raises PluginError: the call ended without a result; the subclass says why.
        """
        self._refuse_absent()
        frame = self._frame(phase, call_site)
        with self._turn(frame, build=self._self_healing):
            return self._sandbox.threads.run(frame, lambda: take(self._serve(frame, function, arguments)))

    async def call(
        self,
        function: str,
        *arguments: object,
        phase: Phase,
        call_site: CallSite | None = None,
        take: Take = as_it_is,
    ) -> object:
        """The same for tasks. A task that is cancelled before its turn never reaches the guest; in the guest, the call
        ends at the next epoch tick."""
        self._refuse_absent()
        frame = self._frame(phase, call_site)
        async with self._turn_async(frame, build=self._self_healing):
            return await self._sandbox.threads.run_async(
                frame, lambda: take(self._serve(frame, function, arguments))
            )

    def start_sync(self, *, call_site: CallSite | None = None) -> None:
        """Make an instance if there is none: at load, or when the owner of a plugin that cannot heal itself wants it back.

        :raises PluginUnavailable: the store is closed.
        :raises ZeroclawError: there is still none; from the sandbox, or from what a world does at the start.
        """
        self._sandbox.threads.admit()
        frame = self._frame(Phase.STANDARD, call_site)
        with self._turn(frame, build=True):
            self._sandbox.threads.run(frame, lambda: self._start_missing(frame))

    async def start(self, *, call_site: CallSite | None = None) -> None:
        """The same for tasks."""
        self._sandbox.threads.admit()
        frame = self._frame(Phase.STANDARD, call_site)
        async with self._turn_async(frame, build=True):
            await self._sandbox.threads.run_async(frame, lambda: self._start_missing(frame))

    def close(self) -> None:
        """End the running call, turn away those that wait, drop the instance. May be called twice.

        Blocks until the guest has left, which it does at the next epoch tick; a task uses :meth:`aclose`. A host function
        of the running call only gives the word: the instance goes when it has returned. A forked process has nothing to
        close.
        """
        if self._sandbox.threads.forked:
            self._closed = True
            return
        with self._state:
            self._closed = True
            serving = self._serving
        if serving is not None:
            serving.cancel()
        self._turns.wake_all()
        if self._server != threading.get_ident():
            with self._inside:
                self._drop()

    async def aclose(self) -> None:
        """The same for tasks, also for those that are being cancelled: it is then that things are closed."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    # --- waiting --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self, frame: CallFrame, *, build: bool) -> Generator[None]:
        with self._turns.queued(frame.notify) as turn:
            frame.enter_host()
            frame.wait(lambda: turn.come or self._closed, TURN)
            earliest = self._admit(frame, build=build)
            if earliest is not None:
                frame.wait(lambda: self._closed, REBUILD, until=earliest)
                self._go_on(frame)
            yield

    @asynccontextmanager
    async def _turn_async(self, frame: CallFrame, *, build: bool) -> AsyncGenerator[None]:
        alarm = TaskAlarm(frame)
        with self._turns.queued(alarm.ring) as turn:
            frame.enter_host()
            await alarm.wait(lambda: turn.come or self._closed, TURN)
            earliest = self._admit(frame, build=build)
            if earliest is not None:
                await alarm.wait(lambda: self._closed, REBUILD, until=earliest)
                self._go_on(frame)
            yield

    def _admit(self, frame: CallFrame, *, build: bool) -> float | None:
        """The turn has come: the call's time begins. The moment to wait for, if there is one."""
        frame.leave_host()
        self._refuse_closed()
        frame.begin()
        if self._instance is not None:
            return None
        if not build:
            raise unavailable()
        earliest = self._pace.earliest(frame.now())
        if earliest <= frame.now():
            return None
        frame.enter_host()
        return earliest

    def _go_on(self, frame: CallFrame) -> None:
        """The wait for the rebuild is over, and counts."""
        frame.leave_host()
        frame.waited = self._limits.call_timeout_seconds - frame.remaining(REBUILD)
        self._refuse_closed()

    def _refuse_absent(self) -> None:
        self._sandbox.threads.admit()
        self._refuse_closed()
        if self._instance is None and not self._self_healing:
            raise unavailable()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise unavailable()

    def _frame(self, phase: Phase, call_site: CallSite | None) -> CallFrame:
        return CallFrame(
            scope=self._scope,
            services=self._services,
            limits=self._limits,
            phase=phase,
            call_site=call_site,
            http=http_of(self._scope, self._services),
            clock=self._clock,
        )

    # --- on a guest thread ----------------------------------------------------------------------------------------------

    def _serve(self, frame: CallFrame, function: str, arguments: tuple[object, ...]) -> object:
        with self._entered(frame):
            if self._instance is None and not self._self_healing:
                raise unavailable()
            instance = self._instance or self._build(frame)
            try:
                return instance.call(frame, function, *arguments)
            except ValueMismatch as error:
                raise _wrong_argument(function, error) from error
            except BaseException as error:
                self._discard(instance, frame, error)
                raise

    def _start_missing(self, frame: CallFrame) -> None:
        with self._entered(frame):
            if self._instance is None:
                self._build(frame)

    @contextmanager
    def _entered(self, frame: CallFrame) -> Generator[None]:
        with self._inside:
            with self._state:
                self._refuse_closed()
                self._serving = frame
            self._server = threading.get_ident()
            try:
                yield
            except CallCancelled as error:
                if self._closed:
                    raise unavailable() from error
                raise
            finally:
                with self._state:
                    self._serving = None
                self._server = None
                if self._closed:
                    self._drop()

    def _drop(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _build(self, frame: CallFrame) -> PluginInstance:
        """A new instance, started and kept."""
        self._starts += 1
        if self.rebuilds:
            self._pace = self._pace.rebuilt(frame.now())
        instance: PluginInstance | None = None
        try:
            instance = PluginInstance(self._sandbox, self._linked, frame, interface=self._interface)
            self._start(instance.asker(frame))
        except BaseException as error:
            self._discard(instance, frame, error)
            raise
        self._instance = instance
        return instance

    def _discard(self, instance: PluginInstance | None, frame: CallFrame, error: BaseException) -> None:
        self._instance = None
        self._pace = self._pace.lost(frame.now())
        reason = error.code if isinstance(error, ZeroclawError) else type(error).__name__
        record = LogRecord(
            instance=self._scope.identity,
            call_site=frame.call_site,
            level="warn",
            message=f"the plugin's instance was dropped ({reason}); rebuilds so far: {self.rebuilds}",
            action="fail",
            outcome="failure",
            source="host",
        )
        try:
            self._services.log.emit(record)
        finally:
            if instance is not None:
                instance.close()


class OneShotStore(WarmStore):
    """The same queue, deadlines and end before instances that serve one call each: what one call left behind, or did to its
    instance, is nothing to the next. It needs no :meth:`start`."""

    def _serve(self, frame: CallFrame, function: str, arguments: tuple[object, ...]) -> object:
        with (
            self._entered(frame),
            PluginInstance(self._sandbox, self._linked, frame, interface=self._interface) as instance,
        ):
            self._start(instance.asker(frame))
            try:
                return instance.call(frame, function, *arguments)
            except ValueMismatch as error:
                raise _wrong_argument(function, error) from error


def unavailable() -> PluginUnavailable:
    """The error of a call that finds no instance (PLG-111)."""
    return PluginUnavailable("plugin instance is unavailable")


def _wrong_argument(function: str, error: ValueMismatch) -> UsageError:
    return UsageError(f"an argument of {function} is not what the contract says: {error}")
