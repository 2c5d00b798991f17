"""The plugin's side of the boundary to the host.

Everything a plugin asks of its host goes through :class:`Host`. A built component talks to the real one
(:mod:`zeroclaw_sdk.guest.wit`); outside a component, in an author's tests, a :class:`RecordingHost` stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class LogEvent:
    """One log record. ``level``, ``action`` and ``outcome`` are the contract's words; ``attrs`` is a JSON object as text."""

    level: str
    function: str
    action: str
    message: str
    outcome: str | None = None
    duration_ms: int | None = None
    attrs: str | None = None


class SecretError(Exception):
    """A secret cannot be read. ``word`` is ``access-denied``, ``not-found`` or ``unavailable``."""

    def __init__(self, name: str, word: str) -> None:
        super().__init__(f"secret {name}: {word}")
        self.name = name
        self.word = word


class Host(Protocol):
    """What a host answers."""

    def log(self, event: LogEvent) -> None:
        """Take one record; never fails."""
        ...

    def secret(self, name: str) -> str:
        """One secret property of this instance's configuration.

        :raises SecretError: it cannot be read.
        """
        ...


@dataclass
class RecordingHost:
    """A host for tests outside a component: keeps log records, answers secrets from a mapping."""

    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    records: list[LogEvent] = field(default_factory=list[LogEvent])

    def log(self, event: LogEvent) -> None:
        """Append the record."""
        self.records.append(event)

    def secret(self, name: str) -> str:
        """The secret under this name.

        :raises SecretError: ``not-found``.
        """
        try:
            return self.secrets[name]
        except KeyError:
            raise SecretError(name, "not-found") from None


_current: ContextVar[Host] = ContextVar("zeroclaw_host")
_fallback: list[Host] = [RecordingHost()]


def current_host() -> Host:
    """The host of the running call."""
    return _current.get(_fallback[0])


def install_host(host: Host) -> None:
    """Make this the host of every call from now on. A component does it once, while it is built."""
    _fallback[0] = host


class use_host:  # noqa: N801  # reads as a verb: with use_host(RecordingHost()): ...
    """Make this the host inside a ``with`` block, in this thread or task only."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __enter__(self) -> Host:
        self._token = _current.set(self._host)
        return self._host

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
