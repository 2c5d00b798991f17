"""A running instance of a plugin, as the worlds make and call it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.linker import LinkedComponent
from zeroclaw_host.sandbox.resources import ResourceTable
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.store import Guest
from zeroclaw_host.worlds.output import emit_output
from zeroclaw_host.worlds.surface import ensure_http_coherent


class Ask(Protocol):
    """Calls an export of the instance that is being started, in a frame of its own."""

    def __call__(self, function: str, *arguments: object, phase: Phase = Phase.STANDARD) -> object:
        """The function's result.

        :raises PluginError: the call ended without one.
        """
        ...


def instantiate(sandbox: Sandbox, linked: LinkedComponent, frame: CallFrame) -> Guest:
    """A new guest for this frame; the one way of the worlds to make one.

    :raises HttpIncoherent: linker and frame do not agree about HTTP; no code of the guest ran.
    :raises PluginError: it does not instantiate.
    """
    ensure_http_coherent(linked.surface, frame)
    return sandbox.guest(linked, frame)


class PluginInstance:
    """A guest that serves several calls, one at a time, with the handles it keeps between them. For guest threads.

    :param frame: of the caller's call for which it is made; instantiation is a part of that.
    :param interface: the exported interface that is called, ``zeroclaw:plugin/channel``.
    :raises PluginError: it does not instantiate.
    """

    def __init__(
        self, sandbox: Sandbox, linked: LinkedComponent, frame: CallFrame, *, interface: str
    ) -> None:
        self._table = ResourceTable()
        self._interface = interface
        inner = frame.within(Phase.STANDARD, self._table)
        try:
            self._guest = instantiate(sandbox, linked, inner)
        finally:
            emit_output(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def call(self, frame: CallFrame, function: str, *arguments: object) -> object:
        """Call an export with the whole budget of a call; what it wrote becomes log records.

        :raises PluginError: the call ended without a result; the instance is dead.
        :raises ValueMismatch: an argument does not have its type; the guest was not called.
        """
        frame.table = self._table
        try:
            return self._guest.call(frame, self._interface, function, *arguments)
        finally:
            emit_output(frame)

    def asker(self, frame: CallFrame) -> Ask:
        """Calls of this instance within a caller's call."""

        def ask(function: str, *arguments: object, phase: Phase = Phase.STANDARD) -> object:
            return self.call(frame.within(phase, self._table), function, *arguments)

        return ask

    def fuel_left(self) -> int:
        """Units of work left of the last call's budget."""
        return self._guest.fuel_left()

    def close(self) -> None:
        """Drop the guest and what it held. May be called twice."""
        self._guest.close()
