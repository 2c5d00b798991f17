"""Calling what componentize-py generates for an interface.

What the generated code cannot pass on it does not refuse, it aborts the component without a word: an error value as an
exception of another type, a lone surrogate in a text, a number out of range, a recursion limit reached half-way. So every
call of an import is made by way of these functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_HEADROOM: Final = 50


def encodable(text: str) -> str:
    """The text with lone surrogates replaced, which have no place in the contract's strings."""
    return str(text).encode("utf-8", "replace").decode()


def with_headroom(function: Callable[..., Any], *arguments: object) -> Any:
    """Let generated code finish where the author's may not go deeper: it reads enums and dataclasses by calls.

    No context manager: leaving one by an exception sets its traceback, and the generated one is frozen.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _HEADROOM)
    try:
        return function(*arguments)
    finally:
        sys.setrecursionlimit(limit)


def case_of(word: str) -> str:
    """A word of the contract as a member of a generated enum."""
    return word.upper().replace("-", "_")


def word_of(error: Any) -> str:
    """The contract's word for an error that is an enum."""
    return error.value.name.lower().replace("_", "-")


def interface(name: str) -> Any:
    """The generated module of an interface, or None where this kind of plugin does not import it."""
    try:
        return import_module(f"wit_world.imports.{name}")
    except ModuleNotFoundError:
        return None


def release(resource: Any) -> None:
    """Drop a resource now, and not when it is collected. What it was made from is dropped after it."""
    with_headroom(resource.__exit__, None, None, None)
