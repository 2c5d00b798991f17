"""Words to look for, as the full-text index takes them. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from zeroclaw_host.errors import UsageError

MAX_QUERY_CHARACTERS: Final = 1024
MAX_QUERY_WORDS: Final = 32

_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
"""Characters of scripts that write no blanks between words. Each is a word of its own to the index."""

_UNSEARCHED: Final = re.compile("[\x00\ud800-\udfff]")
"""What the index cannot take: the end of a text inside it, and halves of characters."""


def searchable(text: str) -> str:
    """A text as it is put into the index: equal characters in one form, and a blank beside each that is a word of its own."""
    plain = _UNSEARCHED.sub(" ", text)
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain).casefold()
    return _UNSPACED.sub(r" \1 ", plain)


def match_of(query: str) -> str | None:
    """What to ask the index for the texts that have every word of a query, the last one perhaps only begun; None for a query
    without words. Nothing in a query is an operator.

    :raises UsageError: the query is too long.
    """
    words = query.split() if len(query) <= MAX_QUERY_CHARACTERS else ()
    if len(query) > MAX_QUERY_CHARACTERS or len(words) > MAX_QUERY_WORDS:
        raise UsageError(
            f"a query has at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARACTERS} characters",
            details={"member": "query"},
        )
    if not words:
        return None
    phrases = ('"' + searchable(word).replace('"', '""') + '"' for word in words)
    return " ".join(phrases) + " *"
