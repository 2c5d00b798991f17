"""The ends of a file's lines. tomlkit writes and understands one kind alone, and begins a header behind an unfinished line."""

from __future__ import annotations

_LF, _CRLF = "\n", "\r\n"


def with_line_feeds(text: str) -> str:
    """The text with line feeds alone, and one at its end. TOML takes both kinds of ends for the same, in texts of several
    lines too, so it means what it did.
    """
    text = text.replace(_CRLF, _LF)
    return text if not text or text.endswith(_LF) else text + _LF


def as_before(text: str, before: str) -> str:
    """The text, which has line feeds alone, with the ends that most lines of ``before`` have."""
    return text.replace(_LF, _CRLF) if before.count(_CRLF) * 2 > before.count(_LF) else text
