"""Where guest log records go.

The host, not the guest, says whose record it is: every record carries the instance and the call site that was running
when the guest spoke (PLG-028).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from zeroclaw_host.instance import InstanceIdentity

MAX_RECORD_BYTES: Final = 64 * 1024
"""Bytes of function name, attributes and message of one record. A larger one is dropped whole, never cut."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """Who is calling a plugin, in the host's own words: free attribution such as agent, session, turn and tool."""

    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a guest, with the host's attribution.

    ``source`` is ``log`` for the logging interface, ``stdout`` and ``stderr`` for captured output. ``raw`` is the
    guest's own ``attrs`` text, kept unparsed. ``time_ns`` counts from the Unix epoch.
    """

    instance: InstanceIdentity
    call_site: CallSite
    level: str
    message: str
    function: str = ""
    action: str = "note"
    outcome: str | None = None
    duration_ms: int | None = None
    raw: str | None = None
    source: str = "log"
    time_ns: int = field(default_factory=time.time_ns)

    @property
    def size(self) -> int:
        """Bytes of the texts that the guest wrote."""
        return sum(len(text.encode()) for text in (self.function, self.message, self.raw or ""))


class LogSink(Protocol):
    """Takes guest records. Must not block and must not raise; it may drop.

    One that could block stands behind a :class:`~zeroclaw_host.services.log_queue.LogQueue`.
    """

    def emit(self, record: LogRecord) -> None:
        """Take one record, of at most :data:`MAX_RECORD_BYTES`."""
        ...

    def drop(self) -> None:
        """Count a record that was larger than that, and is gone."""
        ...


class MemoryLogSink:
    """A sink that keeps records in a list and counts those that were dropped, for tests and tools."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.dropped = 0

    def emit(self, record: LogRecord) -> None:
        """Append the record."""
        self.records.append(record)

    def drop(self) -> None:
        """Count it."""
        self.dropped += 1


class StandardLogSink:
    """Passes records on to a logger of Python's :mod:`logging`, with the record itself as ``extra["plugin_record"]``."""

    _LEVELS: Final[Mapping[str, int]] = MappingProxyType(
        {
            "trace": logging.DEBUG,
            "debug": logging.DEBUG,
            "info": logging.INFO,
            "warn": logging.WARNING,
            "error": logging.ERROR,
        }
    )

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("zeroclaw.plugin")

    def emit(self, record: LogRecord) -> None:
        """Log the guest's message under the name of its package."""
        level = self._LEVELS.get(record.level, logging.INFO)
        self._logger.log(
            level, "%s: %s", record.instance.package, record.message, extra={"plugin_record": record}
        )

    def drop(self) -> None:
        """Warn of it."""
        self._logger.warning("a plugin's log record of more than %d bytes was dropped", MAX_RECORD_BYTES)
