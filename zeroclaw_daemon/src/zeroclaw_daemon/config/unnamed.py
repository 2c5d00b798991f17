"""What no path can name, and no listing shows: rows and values whose name holds a dot, or what is no plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import BaseModel

from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, children, step, takes_values
from zeroclaw_host.visible import is_plain


def unnamed(config: Config) -> Iterator[tuple[str, str]]:
    """The path of the map or the rows, and the name, of everything that is in the file and is no property for that."""
    return _walk(ROOT, config, ())


def _walk(node: Node, current: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, inner, below in _inside(node, current):
        if inner is None:
            continue
        if not name or not is_plain(name) or ("." in name and not takes_values(node)):
            yield ".".join(path), name
        else:
            yield from _walk(inner, below, (*path, name))


def _inside(node: Node, current: object) -> Iterator[tuple[str, Node | None, object]]:
    match node:
        case TableOf():
            for key in children(node):
                yield key, step(node, key), getattr(current, key)
        case MapOf():
            for key, element in cast("Mapping[str, object]", current).items():
                yield key, step(node, key), element
        case RowsOf(model):
            for row in cast("tuple[BaseModel, ...]", current):
                yield str(getattr(row, "name", "")), TableOf(model), row
        case _:
            return
