"""What can go wrong between a provider and its server, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.visible import visible

_KEY: Final = "[the key]"
_LONGEST: Final = 400
"""Characters that are shown of what a server says: a few sentences."""
_MORE: Final = "…"


class Failure(Exception):
    """An answer that is none. Never leaves a provider: its text may hold what the server sent, and that may hold the key.

    :param said: what the server did, to stand after its name.
    :param again: the same question may be asked again.
    :param after: seconds the server wants to be left alone for, where it says.
    :param setting: the setting of the provider that is probably wrong.
    :param status: the HTTP status, where that is the failure.
    """

    def __init__(
        self,
        said: str,
        *,
        again: bool = False,
        after: float | None = None,
        setting: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(said)
        self.said = said
        self.again = again
        self.after = after
        self.setting = setting
        self.status = status


class BrokenOff(Failure):
    """The stream ended, or stopped, where more was to come."""


def shown(text: str, key: str | None) -> str:
    """What a server said as one line that may be shown: without the key, without control characters, not long."""
    if key:
        text = text.replace(key, _KEY)
    line = visible(text.strip())
    return line if len(line) <= _LONGEST else line[: _LONGEST - len(_MORE)] + _MORE


def words_of(value: JsonValue) -> str:
    """What a server's error object says, whichever of the usual forms it has; empty where it says nothing."""
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    for name in ("error", "message", "detail"):
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(name, cast("object", value))
    return value if isinstance(value, str) else ""
