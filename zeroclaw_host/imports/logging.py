"""``zeroclaw:plugin/logging``: what a guest has to say, under the host's own attribution (PLG-028)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.services.logging import MAX_RECORD_BYTES, LogRecord


def _log_record(frame: CallFrame, level: str, event: Mapping[str, object]) -> None:
    record = LogRecord(
        instance=frame.scope.identity,
        call_site=frame.call_site,
        level=level,
        message=cast("str", event["message"]),
        function=cast("str", event["function-name"]),
        action=cast("str", event["action"]),
        outcome=cast("str | None", event["outcome"]),
        duration_ms=cast("int | None", event["duration-ms"]),
        raw=cast("str | None", event["attrs"]),
    )
    if record.size > MAX_RECORD_BYTES:
        frame.services.log.drop()
    else:
        frame.services.log.emit(record)


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/logging", HostFunction("log-record", _log_record, charged=True)
)
