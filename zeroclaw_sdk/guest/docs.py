"""Descriptions of parameters, read from where authors write them anyway.

In order of preference: ``Annotated[T, Param(description=...)]`` (handled by :mod:`zeroclaw_sdk.guest.shapes`), the
string below a dataclass field, and the docstring's ``:param name:`` or ``Args:`` section.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Any

_FIELD = re.compile(r"^:(?:param|ivar|var|attr)\s+(?:[^:]*\s)?(\w+):\s*(.*)$")
_HEADING = re.compile(r"^(Args|Arguments|Parameters|Attributes):\s*$")
_ENTRY = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def summary(subject: object) -> str:
    """The first paragraph of a docstring on one line; empty when there is none."""
    text = inspect.getdoc(subject) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


def parameter_texts(subject: type | Callable[..., Any]) -> dict[str, str]:
    """Descriptions by parameter or field name."""
    found = _from_docstring(subject.__doc__ or "")
    if isinstance(subject, type):
        found |= _below_fields(subject)
    return found


def _from_docstring(docstring: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    section_indent: int | None = None
    entry_indent = 0
    for line in inspect.cleandoc(docstring).splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if _HEADING.match(text):
            section_indent, current = indent, None
            continue
        if section_indent is not None and text and indent <= section_indent:
            section_indent, current = None, None
        entry = _FIELD.match(text) if section_indent is None else None
        if section_indent is not None and (current is None or indent <= entry_indent):
            entry = _ENTRY.match(text)
        if entry:
            entry_indent = indent
            current = found.setdefault(entry[1], [entry[2]])
        elif not text or (text.startswith(":") and section_indent is None):
            current = None
        elif current is not None:
            current.append(text)
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


def _below_fields(cls: type) -> dict[str, str]:
    """The strings that follow a class's annotated fields in its source; none where the source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, str] = {}
    [definition] = tree.body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, below in pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
