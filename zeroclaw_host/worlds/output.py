"""What a guest wrote to its standard output and error, as log records."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.sandbox.frame import CallFrame, OutputCapture
from zeroclaw_host.services.logging import LogRecord

_LEVELS: Final = {"stdout": "info", "stderr": "warn"}


def emit_output(frame: CallFrame) -> None:
    """Hand the captured output of a finished call to the log, one record a stream, if there is any."""
    for source, capture in (("stdout", frame.stdout), ("stderr", frame.stderr)):
        if capture.total:
            frame.services.log.emit(
                LogRecord(
                    instance=frame.scope.identity,
                    call_site=frame.call_site,
                    level=_LEVELS[source],
                    message=_message(capture),
                    source=source,
                )
            )


def _message(capture: OutputCapture) -> str:
    text = capture.text().rstrip("\n")
    return (
        f"[the first {capture.total - len(text.encode())} bytes are not kept]\n{text}"
        if capture.truncated
        else text
    )
