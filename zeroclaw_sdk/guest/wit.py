"""The real host of a built component, reached through the modules that componentize-py generates.

An error value that left an export as an exception of another type would abort the component without a word, so every
call of an import is wrapped here, exactly once.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from zeroclaw_sdk.guest.host import LogEvent, SecretError


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
            function_name=event.function,
            action=wit.PluginAction[_case(event.action)],
            outcome=outcome,
            duration_ms=event.duration_ms,
            attrs=event.attrs,
            message=event.message,
        )
        wit.log_record(wit.LogLevel[_case(event.level)], record)

    def secret(self, name: str) -> str:
        """Ask the host for one secret.

        :raises SecretError: with the contract's word for why not.
        """
        try:
            value: str = self._secrets.get(name)
        except self._types.Err as error:
            word = error.value.name.lower().replace("_", "-")
            raise SecretError(name, word) from None
        return value
