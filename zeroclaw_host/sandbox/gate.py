"""The gate: the only way from a guest into the host.

Every host function passes here exactly once, on either conversion path. The gate finds the call frame, keeps the books
of time and of the host-call budget, and lets no exception out: wasmtime-py catches ``Exception`` only, so anything else
(an interrupt, a cancellation) would unwind through native code and end the process; and it keeps the exception of a
host function in one global of the process, where threads take each other's. So the gate keeps the real error in the
frame of its own call, and what goes through wasmtime is a text that means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wasmtime import WasmtimeError

from zeroclaw_host.errors import Kind, PluginError
from zeroclaw_host.sandbox.frame import CallFrame, current_frame
from zeroclaw_host.sandbox.interface import HostFunction

HOST_FAILURE: Final = "a host function failed"
"""The neutral text. The frame of the call knows more."""


class HostFunctionFailed(PluginError):
    """A function the host offers failed in a way it should not have. ``details`` holds ``function``."""

    code = "host_function_failed"
    kind = Kind.INTERNAL


class Gated:
    """One host function behind the gate.

    :param interface: the interface's name, for errors.
    """

    __slots__ = ("_function", "_label")

    def __init__(self, interface: str, function: HostFunction) -> None:
        self._function = function
        self._label = f"{interface}.{function.name}"

    def pass_through(
        self, arguments: Callable[[CallFrame], list[object]], deliver: Callable[[CallFrame, object], Any]
    ) -> tuple[bool, Any]:
        """Run the function once for the guest call of this thread.

        :param arguments: reads the guest's arguments.
        :param deliver: hands the result over; what it returns is returned.
        :returns: whether it worked, and what ``deliver`` returned. Never raises.
        """
        frame: CallFrame | None = None
        try:
            frame = current_frame()
            frame.enter_host()
            values = arguments(frame)
            function = self._function
            if function.charged and not frame.charge():
                value = function.exhausted
            else:
                value = function.implementation(frame, *values)
            return True, deliver(frame, value)
        except BaseException as error:  # noqa: BLE001 - see above: nothing may leave
            if frame is not None:
                frame.keep_error(_plugin_error(error, self._label))
            return False, None
        finally:
            if frame is not None:
                frame.leave_host()


def _plugin_error(error: BaseException, label: str) -> PluginError:
    """The error as the plugin's caller shall see it.

    Whatever is not an answer about the plugin becomes one that names the host's function. That goes for interrupts and
    exits too: on a guest thread they are nobody's Ctrl-C, and passed on they would end the caller's event loop.
    """
    if isinstance(error, PluginError):
        return error
    failed = HostFunctionFailed(
        f"the host's function {label} failed: {type(error).__name__}", details={"function": label}
    )
    failed.__cause__ = error
    return failed


def drop_resource(_store: object, handle: int) -> None:
    """The destructor of every host resource: take the object out of the frame's table and close it.

    :raises WasmtimeError: that failed; the frame has the error.
    """
    frame: CallFrame | None = None
    try:
        frame = current_frame()
        frame.table.drop(handle)
        return
    except BaseException as error:  # noqa: BLE001 - as in the gate
        if frame is not None:
            frame.keep_error(_plugin_error(error, "resource drop"))
    raise WasmtimeError(HOST_FAILURE)


def check_deadline() -> str | None:
    """Asked at each epoch tick of a running guest; a text when it has to stop. Never raises."""
    frame: CallFrame | None = None
    try:
        frame = current_frame()
        frame.remaining()
        return None
    except BaseException as error:  # noqa: BLE001 - as in the gate
        if frame is not None:
            frame.keep_error(_plugin_error(error, "deadline check"))
        return HOST_FAILURE
