"""The grammars of the names an operator chooses."""

from __future__ import annotations

import re
from typing import Final

ALIAS_RULE: Final = (
    "1 to 63 lowercase letters, digits and single underscores, beginning and ending with a letter or a digit"
)
_ALIAS = re.compile(r"[a-z0-9](?:[a-z0-9_]{0,61}[a-z0-9])?")

PRINCIPAL_RULE: Final = "1 to 64 letters, digits, underscores and hyphens, beginning with a letter or a digit"
_PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

RESERVED_AGENTS: Final = frozenset({"default"})
"""Aliases that no agent may have (D-26)."""


def alias(text: str) -> str:
    """The text, if it can name an agent, a channel or a provider.

    :raises ValueError: it cannot; the message is the rule.
    """
    if not is_alias(text):
        raise ValueError(f"a name here is {ALIAS_RULE}")
    return text


def is_alias(text: str) -> bool:
    """Whether the text can name an agent, a channel or a provider."""
    return _ALIAS.fullmatch(text) is not None and "__" not in text


def agent_alias(text: str) -> str:
    """As :func:`alias`, for agents, of which some names are reserved."""
    if text in RESERVED_AGENTS:
        raise ValueError(f"the agent name {text} is reserved")
    return alias(text)


def principal(text: str) -> str:
    """The text, if it can name a user or a permission profile.

    :raises ValueError: it cannot; the message is the rule.
    """
    if _PRINCIPAL.fullmatch(text) is None:
        raise ValueError(f"a name here is {PRINCIPAL_RULE}")
    return text
