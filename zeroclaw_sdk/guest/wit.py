"""The real host of a built component, reached through the modules that componentize-py generates.

What the generated code cannot pass on it does not refuse, it aborts the component without a word: an error value as an
exception of another type, a lone surrogate in a text, a number out of range, a recursion limit reached half-way. So
every call of an import is made here, and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from zeroclaw_sdk.guest.host import LogEvent, SecretError

_U64_MAX: Final = 2**64 - 1
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


class WitHost:
    """:class:`zeroclaw_sdk.guest.host.Host` over the contract's ``logging`` and ``secrets`` interfaces."""

    def __init__(self) -> None:
        # Generated for the component that is being built; there is nothing to import anywhere else.
        self._types: Any = import_module("componentize_py_types")
        self._logging: Any = import_module("wit_world.imports.logging")
        self._secrets: Any = import_module("wit_world.imports.secrets")

    def log(self, event: LogEvent) -> None:
        """Queue the record in the host's log."""
        wit = self._logging
        outcome = None if event.outcome is None else wit.PluginOutcome[_case(event.outcome)]
        record = wit.PluginEvent(
            function_name=encodable(event.function),
            action=wit.PluginAction[_case(event.action)],
            outcome=outcome,
            duration_ms=None if event.duration_ms is None else min(event.duration_ms, _U64_MAX),
            attrs=event.attrs,
            message=encodable(event.message),
        )
        level = wit.LogLevel[_case(event.level)]
        _with_headroom(wit.log_record, level, record)

    def secret(self, name: str) -> str:
        """Ask the host for one secret.

        :raises SecretError: with the contract's word for why not.
        """
        try:
            value: str = _with_headroom(self._secrets.get, encodable(name))
        except self._types.Err as error:
            word = error.value.name.lower().replace("_", "-")
            raise SecretError(name, word) from None
        return value
