"""What the code says of itself, as plain text."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from zeroclaw_daemon.rpc import methods

_REQUIREMENTS: Final = re.compile(r" ?\((?:D|RPC|PLG)-[^()]*\)|^(?:D|RPC|PLG)-\d+: ")


def plain(thing: object) -> str:
    """The docstring of a class or function, plain."""
    return as_plain(inspect.getdoc(thing) or "")


def as_plain(text: str) -> str:
    """The text of a docstring without its fields and the numbers of requirements; one line a paragraph."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    kept = (part for part in paragraphs if part and not part.startswith(":"))
    return "\n\n".join(_REQUIREMENTS.sub("", part).replace("``", "`") for part in kept)


def first_sentence(text: str) -> str:
    """The first sentence of a text."""
    return re.split(r"(?<=[.!?]) |\n\n", text, maxsplit=1)[0]


@cache
def servers() -> Mapping[str, object]:
    """The function that serves each method, by the method's name."""
    found: dict[str, object] = {}
    for module in pkgutil.iter_modules(methods.__path__, methods.__name__ + "."):
        for owner in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(owner) and owner.__module__ == module.name and hasattr(owner, "handlers"):
                found |= cast("type[Any]", owner).handlers(_Unmade(owner))
    return found


class _Unmade:
    """An object of a class that was never made: its methods are functions, and it has everything else it is asked for."""

    def __init__(self, owner: type) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name, self)
