"""``wasi:cli``: no input, captured output, no terminal (PLG-015).

``environment`` and ``exit`` have no resource and stay with wasmtime, which is given an empty context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zeroclaw_host.imports.wasi.streams import NoInput, OutputStream
from zeroclaw_host.sandbox.frame import CallFrame, OutputCapture
from zeroclaw_host.sandbox.interface import HostFunction, interface

MAX_WRITE: Final = 1024 * 1024
"""Most bytes of one write. Generous, because Python guests write unbuffered and forget what one write did not take."""


class CapturedOutput(OutputStream):
    """Standard output or standard error. What is written goes to the capture of the call it is written in.

    :param capture: which of a frame's captures.
    """

    def __init__(self, capture: Callable[[CallFrame], OutputCapture]) -> None:
        super().__init__()
        self._capture = capture

    def budget(self) -> int:
        """Always the same: the capture bounds itself."""
        return MAX_WRITE

    def accept(self, frame: CallFrame, contents: bytes) -> None:
        """Capture the bytes."""
        self._capture(frame).write(contents)

    def ready(self) -> bool:
        """Always."""
        return True


class TerminalInput:
    """The input side of a terminal. There is never one."""


class TerminalOutput:
    """The output side of a terminal. There is never one."""


def _get_stdin(frame: CallFrame) -> NoInput:
    return NoInput()


def _get_stdout(frame: CallFrame) -> CapturedOutput:
    return CapturedOutput(lambda current: current.stdout)


def _get_stderr(frame: CallFrame) -> CapturedOutput:
    return CapturedOutput(lambda current: current.stderr)


def _no_terminal(frame: CallFrame) -> None:
    return None


STDIN: Final = interface("wasi:cli/stdin", HostFunction("get-stdin", _get_stdin))
STDOUT: Final = interface("wasi:cli/stdout", HostFunction("get-stdout", _get_stdout))
STDERR: Final = interface("wasi:cli/stderr", HostFunction("get-stderr", _get_stderr))

TERMINAL_INPUT: Final = interface("wasi:cli/terminal-input", resources={"terminal-input": TerminalInput})
TERMINAL_OUTPUT: Final = interface("wasi:cli/terminal-output", resources={"terminal-output": TerminalOutput})
TERMINAL_STDIN: Final = interface("wasi:cli/terminal-stdin", HostFunction("get-terminal-stdin", _no_terminal))
TERMINAL_STDOUT: Final = interface(
    "wasi:cli/terminal-stdout", HostFunction("get-terminal-stdout", _no_terminal)
)
TERMINAL_STDERR: Final = interface(
    "wasi:cli/terminal-stderr", HostFunction("get-terminal-stderr", _no_terminal)
)
