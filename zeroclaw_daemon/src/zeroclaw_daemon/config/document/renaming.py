"""Giving a key of a document another name wherever the text names it, and changing nothing else of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zeroclaw_daemon.config.document.mentions import Mention, Name, mentions, passes_through, written_key


def renamed(text: str, path: Sequence[str | int], new: str) -> str:
    """The text with the last key of ``path`` called ``new``: in every header and every assignment that names it.

    :param text: a TOML document.
    :param path: keys, and indexes into arrays.
    """
    written, parts, rest = written_key(new), list[str](), 0
    for name in _names_of(text, path):
        parts += (text[rest : name.start], written)
        rest = name.end
    return "".join((*parts, text[rest:]))


def _names_of(text: str, path: Sequence[str | int]) -> Iterator[Name]:
    for mention in mentions(text):
        if passes_through(mention, path):
            name = _name_at(mention, len(path) - 1)
            if name is not None:
                yield name


def _name_at(mention: Mention, position: int) -> Name | None:
    """What the mention calls the key at this position of its path; None where something around it named the key."""
    keys = [index for index, part in enumerate(mention.path) if isinstance(part, str)]
    return dict(zip(keys[len(keys) - len(mention.names) :], mention.names, strict=True)).get(position)
