"""What a guest wrote to its standard output and error, as log records."""

from __future__ import annotations

from typing import Final

from zeroclaw_host.sandbox.frame import CallFrame, OutputCapture
from zeroclaw_host.services.logging import MAX_RECORD_BYTES, LogRecord

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
    """What is kept of a stream, within the size of a record: bytes that are no UTF-8 grow when they are replaced."""
    data = capture.text().rstrip("\n").encode()
    if not capture.truncated and len(data) <= MAX_RECORD_BYTES:
        return data.decode()
    note = f"[only the end of {capture.total} bytes is kept]\n"
    return note + data[len(note) - MAX_RECORD_BYTES :].decode(errors="ignore")
