"""The daemon log: one JSON object a line, in a file that cannot grow without bound (D-46).

Everything the daemon logs through :mod:`logging` ends here, and everything plugins log, with the host's own words about
who called them (PLG-028).
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from zeroclaw_daemon.config.saving import storage_error
from zeroclaw_daemon.records import ATTRIBUTE, remedies_of
from zeroclaw_host.errors import Remedy
from zeroclaw_host.private_files import FILE_MODE, make_private
from zeroclaw_host.services.log_queue import Drops, LogQueue
from zeroclaw_host.services.logging import LogRecord

MAX_BYTES: Final = 16 * 1024 * 1024
"""Size at which a file is set aside. Two files are kept, so the log takes at most twice this."""

_SEVERITY: Final = {"trace": 1, "debug": 5, "info": 9, "warn": 13, "error": 17}
_SEVERITY_OF_LEVEL: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "error",
}


def _ignore(_complaint: str) -> None:
    """Whom nobody listens to."""


class LogFile:
    """An append-only file of JSON lines that sets itself aside when it is full. Safe to use from several threads.

    :param complain: told, once, of a disk that takes nothing.
    :raises StorageError: at construction, when the file cannot be opened or is no regular file.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, complain: Callable[[str], None] = _ignore
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._complain = complain
        self._lock = threading.Lock()
        self._failed = False
        try:
            make_private(path.parent)
            self._descriptor = self._open()
        except OSError as error:
            raise storage_error(error, str(path), "open the daemon log") from error
        self._size = os.fstat(self._descriptor).st_size

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record. A disk that does not take it is complained of once; nothing is raised."""
        line = json.dumps(record, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            try:
                if self._size and self._size + len(line) > self._max_bytes:
                    self._set_aside()
                self._append(line)
                self._failed = False
            except OSError as error:
                if not self._failed:
                    self._failed = True
                    self._complain(f"zeroclaw: the daemon log cannot be written: {error.strerror}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._descriptor)

    def _append(self, line: bytes) -> None:
        """Write one line whole, or leave nothing of it: a disk that fills up takes the beginning of a line."""
        written = os.write(self._descriptor, line)
        if written < len(line):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def _open(self) -> int:
        # Opening a pipe would wait for its reader, for ever.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, FILE_MODE)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if status.st_uid == os.geteuid():
                os.fchmod(descriptor, FILE_MODE)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _set_aside(self) -> None:
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        fresh = self._open()
        os.close(self._descriptor)
        self._descriptor, self._size = fresh, 0


def log_line(
    *,
    time_ns: int,
    severity: str,
    message: str,
    event: Mapping[str, object],
    attribution: Mapping[str, object],
    attributes: Mapping[str, object],
) -> dict[str, object]:
    """One record in the log's own shape."""
    moment = (
        datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )
    return {
        "id": str(uuid.uuid4()),
        "@timestamp": moment,
        "severity_number": _SEVERITY.get(severity, 9),
        "severity_text": severity.upper(),
        "event": dict(event),
        "service": {"name": "zeroclaw", "pid": os.getpid()},
        "zeroclaw": dict(attribution),
        "message": message,
        "attributes": dict(attributes),
        "schema_version": 2,
    }


class DaemonLogHandler(logging.Handler):
    """Writes the daemon's own records; the facts beside a message become its attributes.

    :param file: where they go.
    :param advise: turns a remedy into what a reader of the log can do.
    """

    def __init__(self, file: LogFile, advise: Callable[[Remedy], Mapping[str, object]]) -> None:
        super().__init__()
        self._file = file
        self._advise = advise

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        facts = dict(cast("Mapping[str, object]", getattr(record, ATTRIBUTE, {})))
        event = {
            "action": facts.pop("action", "note"),
            "category": facts.pop("category", "daemon"),
            "outcome": facts.pop("outcome", None),
        }
        remedies = remedies_of(facts)
        for name in ("remedy", "remedies"):
            facts.pop(name, None)
        facts |= to_do(remedies, self._advise)
        if record.exc_info and record.exc_info[0] is not None:
            # The kind of a fault and where it happened; its text may repeat what a client sent.
            facts["exception"] = record.exc_info[0].__name__
            facts["traceback"] = _where(record)
        self._file.write(
            log_line(
                time_ns=int(record.created * 1e9),
                severity=_SEVERITY_OF_LEVEL.get(record.levelno, "info"),
                message=record.getMessage(),
                event=event,
                attribution={"logger": record.name},
                attributes=facts,
            )
        )


def to_do(remedies: Iterable[Remedy], advise: Callable[[Remedy], Mapping[str, object]]) -> dict[str, object]:
    """What a reader of a record can do, as attributes: ``remedy``, and ``remedies`` where it is several things."""
    advised = [dict(advise(remedy)) for remedy in remedies]
    found: dict[str, object] = {}
    if advised:
        found["remedy"] = advised[0]
    if len(advised) > 1:
        found["remedies"] = advised
    return found


def _where(record: logging.LogRecord) -> list[str]:
    frames: list[str] = []
    traceback = record.exc_info[2] if record.exc_info else None
    while traceback is not None:
        frames.append(f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return frames


def guest_log(file: LogFile) -> LogQueue[LogRecord]:
    """Takes the records of plugins without ever waiting for the disk; what it drops becomes a warning in the file.

    Close it before the file.
    """
    return LogQueue(
        lambda record: file.write(guest_line(record)), lambda drops: file.write(drops_line(drops))
    )


def drops_line(drops: Drops) -> dict[str, object]:
    """How many records of plugins were dropped."""
    return log_line(
        time_ns=time.time_ns(),
        severity="warn",
        message="log records of plugins were dropped",
        event={"action": "drop", "category": "plugin", "outcome": "failure"},
        attribution={},
        attributes=asdict(drops),
    )


def guest_line(record: LogRecord) -> dict[str, object]:
    """A plugin's record, attributed by the host to the instance and to whoever was calling it (PLG-028)."""
    attributes: dict[str, object] = {"plugin_fn": record.function, "source": record.source}
    if record.duration_ms is not None:
        attributes["duration_ms"] = record.duration_ms
    if record.raw is not None:
        attributes["raw"] = record.raw
    return log_line(
        time_ns=record.time_ns,
        severity=record.level,
        message=record.message,
        event={"action": record.action, "category": "plugin", "outcome": record.outcome},
        attribution={
            **record.call_site.attributes,
            "plugin": record.instance.package,
            "plugin_capability": record.instance.capability.value,
            "plugin_binding": record.instance.binding,
        },
        attributes=attributes,
    )
