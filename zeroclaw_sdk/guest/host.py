"""The plugin's side of the boundary to the host.

Everything a plugin asks of its host goes through :class:`Host`. A built component talks to the real one
(:mod:`zeroclaw_sdk.guest.wit`); outside a component, in an author's tests, a :class:`RecordingHost` stands in.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

from zeroclaw_sdk.guest.messages import InboundMessage
from zeroclaw_sdk.guest.network import Network, NoNetwork


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


_REASONS: Final[Mapping[str, str]] = {
    "access-denied": "the manifest does not request the permission, or it is kept for the host's own use",
    "unavailable": "a tool is served in `run`, a channel in `configure` and in what it does, but not where it says what it is, "
    "a memory never; no call is served more than 1000 times, nor where the configuration does not fit its schema or the host "
    "cannot open what it keeps",
}
"""What a host's word can mean, for an author who reads it in an error."""
_CONFIG_UNAVAILABLE: Final = (
    "configuration: unavailable (a tool gets it with each call, as `self.config`, when its class names a dataclass in "
    "`config: Config`; a channel is served in `configure` and in what it does, but not where it says what it is, a memory never; "
    "no call is served more than 1000 times, nor where the configuration does not fit its schema)"
)


def _said(what: str, word: str) -> str:
    return f"{what}: {word} ({_REASONS[word]})" if word in _REASONS else f"{what}: {word}"


class SecretError(Exception):
    """A secret cannot be read. ``word`` is ``access-denied``, ``not-found`` or ``unavailable``."""

    def __init__(self, name: str, word: str) -> None:
        super().__init__(_said(f"secret {name}", word))
        self.name = name
        self.word = word


class ConfigError(Exception):
    """The configuration cannot be read. ``word`` is ``access-denied`` or ``unavailable``."""

    def __init__(self, word: str) -> None:
        super().__init__(_CONFIG_UNAVAILABLE if word == "unavailable" else _said("configuration", word))
        self.word = word


class StateError(Exception):
    """A state operation was not done. ``word`` is ``invalid-key``, ``access-denied``, ``not-found``, ``conflict``,
    ``quota-exceeded`` or ``unavailable``."""

    def __init__(self, key: str, word: str) -> None:
        super().__init__(_said(f"state {key}", word))
        self.key = key
        self.word = word


@dataclass(frozen=True)
class StateEntry:
    """A stored value. ``revision`` grows with every write of this instance."""

    value: bytes
    revision: int


class Host(Protocol):
    """What a host answers."""

    @property
    def network(self) -> Network:
        """Where connections come from."""
        ...

    def log(self, event: LogEvent) -> None:
        """Take one record; never fails."""
        ...

    def secret(self, name: str) -> str:
        """One secret property of this instance's configuration.

        :raises SecretError: it cannot be read.
        """
        ...

    def config(self) -> str:
        """The public configuration, a JSON object as text.

        :raises ConfigError: it cannot be read.
        """
        ...

    def inbound_poll(self) -> InboundMessage | None:
        """The oldest message the host received for this channel, taken out of its queue."""
        ...

    def inbound_pending(self) -> int:
        """How many messages are queued."""
        ...

    def state_get(self, key: str) -> StateEntry | None:
        """The entry under a key.

        :raises StateError: it cannot be read.
        """
        ...

    def state_put(self, key: str, value: bytes, expected_revision: int | None) -> int:
        """Write if the key is at this revision (None: absent); the new revision.

        :raises StateError: it was not written.
        """
        ...

    def state_delete(self, key: str, expected_revision: int) -> None:
        """Delete if the key is at this revision.

        :raises StateError: it was not deleted.
        """
        ...


_STATE_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_STATE_VALUE_BYTES: Final = 64 * 1024


@dataclass
class RecordingHost:
    """A host for tests outside a component: keeps log records, answers the rest from plain values.

    ``serves`` is false for a kind of plugin that has the log only.
    """

    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    records: list[LogEvent] = field(default_factory=list[LogEvent])
    configuration: Mapping[str, object] = field(default_factory=dict[str, object])
    inbound: deque[InboundMessage] = field(default_factory=deque[InboundMessage])
    state: dict[str, StateEntry] = field(default_factory=dict[str, StateEntry])
    serves: bool = True
    network: Network = field(default_factory=NoNetwork)
    _revision: int = field(default=0, init=False)

    def log(self, event: LogEvent) -> None:
        """Append the record."""
        self.records.append(event)

    def secret(self, name: str) -> str:
        """The secret under this name.

        :raises SecretError: ``not-found``, or ``unavailable`` where nothing is served.
        """
        if not self.serves:
            raise SecretError(name, "unavailable")
        try:
            return self.secrets[name]
        except KeyError:
            raise SecretError(name, "not-found") from None

    def config(self) -> str:
        """The configuration as it is now.

        :raises ConfigError: nothing is served.
        """
        if not self.serves:
            raise ConfigError("unavailable")
        return json.dumps(dict(self.configuration))

    def inbound_poll(self) -> InboundMessage | None:
        """Take the first of ``inbound``."""
        return self.inbound.popleft() if self.inbound else None

    def inbound_pending(self) -> int:
        """How many there are."""
        return len(self.inbound)

    def state_get(self, key: str) -> StateEntry | None:
        """See :meth:`Host.state_get`."""
        return self._state(key).get(key)

    def state_put(self, key: str, value: bytes, expected_revision: int | None) -> int:
        """See :meth:`Host.state_put`."""
        found = self._state(key).get(key)
        if len(value) > _STATE_VALUE_BYTES:
            raise StateError(key, "quota-exceeded")
        if expected_revision != (None if found is None else found.revision):
            raise StateError(key, "conflict")
        self._revision += 1
        self.state[key] = StateEntry(value, self._revision)
        return self._revision

    def state_delete(self, key: str, expected_revision: int) -> None:
        """See :meth:`Host.state_delete`."""
        found = self._state(key).get(key)
        if found is None:
            raise StateError(key, "not-found")
        if found.revision != expected_revision:
            raise StateError(key, "conflict")
        del self.state[key]

    def _state(self, key: str) -> dict[str, StateEntry]:
        if not self.serves:
            raise StateError(key, "unavailable")
        if not _STATE_KEY.fullmatch(key):
            raise StateError(key, "invalid-key")
        return self.state


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
