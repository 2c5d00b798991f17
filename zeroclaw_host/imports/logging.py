"""``zeroclaw:plugin/logging``: what a guest has to say, under the host's own attribution (PLG-028)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction, HostInterface, interface
from zeroclaw_host.services.logging import LogRecord

MAX_RECORD_BYTES: Final = 64 * 1024
"""Bytes of function name, attributes and message of one record. A larger one is dropped whole, never cut."""


def _log_record(frame: CallFrame, level: str, event: Mapping[str, object]) -> None:
    function = cast("str", event["function-name"])
    attributes = cast("str | None", event["attrs"])
    message = cast("str", event["message"])
    if sum(len(text.encode()) for text in (function, attributes or "", message)) > MAX_RECORD_BYTES:
        return
    frame.services.log.emit(
        LogRecord(
            instance=frame.scope.identity,
            call_site=frame.call_site,
            level=level,
            message=message,
            function=function,
            action=cast("str", event["action"]),
            outcome=cast("str | None", event["outcome"]),
            duration_ms=cast("int | None", event["duration-ms"]),
            raw=attributes,
        )
    )


INTERFACE: Final[HostInterface] = interface(
    "zeroclaw:plugin/logging", HostFunction("log-record", _log_record, charged=True)
)
