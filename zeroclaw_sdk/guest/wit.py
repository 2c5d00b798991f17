"""The real host of a built component, reached through the modules that componentize-py generates.

What the generated code cannot pass on it does not refuse, it aborts the component without a word: an error value as an
exception of another type, a lone surrogate in a text, a number out of range, a recursion limit reached half-way. So
every call of an import is made here, and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from zeroclaw_sdk.guest.host import ConfigError, LogEvent, SecretError, StateEntry, StateError
from zeroclaw_sdk.guest.messages import InboundMessage

U64_MAX: Final = 2**64 - 1
"""The largest number of the contract."""
_HEADROOM: Final = 50


def encodable(text: str) -> str:
    """The text with lone surrogates replaced, which have no place in the contract's strings."""
    return str(text).encode("utf-8", "replace").decode()


def _with_headroom(function: Callable[..., Any], *arguments: object) -> Any:
    """Let generated code finish where the author's may not go deeper: it reads enums and dataclasses by calls.

    No context manager: leaving one by an exception sets its traceback, and the generated one is frozen.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _HEADROOM)
    try:
        return function(*arguments)
    finally:
        sys.setrecursionlimit(limit)


def _case(word: str) -> str:
    return word.upper().replace("-", "_")


def _word(error: Any) -> str:
    return error.value.name.lower().replace("_", "-")


def _interface(name: str) -> Any:
    """The generated module of an interface, or None where this kind of plugin does not import it."""
    try:
        return import_module(f"wit_world.imports.{name}")
    except ModuleNotFoundError:
        return None


class WitHost:
    """:class:`zeroclaw_sdk.guest.host.Host` over the interfaces of the contract that the component imports.

    What it does not import answers as a host does that has nothing to offer: ``unavailable``, no message.
    """

    def __init__(self) -> None:
        # Generated for the component that is being built; there is nothing to import anywhere else.
        self._types: Any = import_module("componentize_py_types")
        self._logging: Any = import_module("wit_world.imports.logging")
        self._secrets = _interface("secrets")
        self._config = _interface("config")
        self._inbound = _interface("inbound")
        self._state = _interface("state")

    def log(self, event: LogEvent) -> None:
        """Queue the record in the host's log."""
        wit = self._logging
        outcome = None if event.outcome is None else wit.PluginOutcome[_case(event.outcome)]
        record = wit.PluginEvent(
            function_name=encodable(event.function),
            action=wit.PluginAction[_case(event.action)],
            outcome=outcome,
            duration_ms=None if event.duration_ms is None else min(event.duration_ms, U64_MAX),
            attrs=event.attrs,
            message=encodable(event.message),
        )
        level = wit.LogLevel[_case(event.level)]
        _with_headroom(wit.log_record, level, record)

    def secret(self, name: str) -> str:
        """Ask the host for one secret.

        :raises SecretError: with the contract's word for why not.
        """
        if self._secrets is None:
            raise SecretError(name, "unavailable")
        try:
            value: str = _with_headroom(self._secrets.get, encodable(name))
        except self._types.Err as error:
            raise SecretError(name, _word(error)) from None
        return value

    def config(self) -> str:
        """Ask the host for the public configuration.

        :raises ConfigError: with the contract's word for why not.
        """
        if self._config is None:
            raise ConfigError("unavailable")
        try:
            text: str = _with_headroom(self._config.get)
        except self._types.Err as error:
            raise ConfigError(_word(error)) from None
        return text

    def inbound_poll(self) -> InboundMessage | None:
        """Take a message out of the host's queue."""
        found = None if self._inbound is None else _with_headroom(self._inbound.inbound_poll)
        return None if found is None else InboundMessage(**cast("dict[str, Any]", vars(found)))

    def inbound_pending(self) -> int:
        """Ask the host how many there are."""
        return 0 if self._inbound is None else _with_headroom(self._inbound.inbound_pending)

    def state_get(self, key: str) -> StateEntry | None:
        """Read from the host's store.

        :raises StateError: with the contract's word for why not.
        """
        found = self._ask_state("get", key)
        return None if found is None else StateEntry(found.value, found.revision)

    def state_put(self, key: str, value: bytes, expected_revision: int | None) -> int:
        """Write to the host's store.

        :raises StateError: with the contract's word for why not.
        """
        return self._ask_state(
            "put", key, value, None if expected_revision is None else _revision(expected_revision)
        )

    def state_delete(self, key: str, expected_revision: int) -> None:
        """Delete from the host's store.

        :raises StateError: with the contract's word for why not.
        """
        self._ask_state("delete", key, _revision(expected_revision))

    def _ask_state(self, name: str, key: str, *more: object) -> Any:
        if self._state is None:
            raise StateError(key, "unavailable")
        try:
            return _with_headroom(getattr(self._state, name), encodable(key), *more)
        except self._types.Err as error:
            raise StateError(key, _word(error)) from None


def _revision(number: int) -> int:
    if not 0 <= number <= U64_MAX:
        raise ValueError("a revision is a number that the host gave out")
    return number
