"""Finding what must not be shown. Pure functions of text; nothing here knows that it runs in a plugin."""

import re
from collections.abc import Sequence

# A credential is known by its prefix and ends where its alphabet does. The lower bounds keep words like "sk-" in prose.
CREDENTIAL = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        sk-[A-Za-z0-9_-]{8,}            # API keys of model providers
      | ghp_[A-Za-z0-9]{8,}             # GitHub personal access tokens
      | AKIA[A-Z0-9]{8,}                # AWS access key ids
      | xoxb-[A-Za-z0-9-]{8,}           # Slack bot tokens
    )
    """,
    re.VERBOSE,
)

# Rather a word too many than an address too few: any letters, any length. An address begins only where a run of its
# characters begins, and the run is never given back, so the time a text takes grows with its length alone.
EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]++)+")


def mask(text: str, replacement: str, *, emails: bool, literals: Sequence[str]) -> tuple[str, int]:
    """The text with every match replaced, and how many there were.

    Overlapping matches become one: nothing of either is left standing.
    """
    patterns = [CREDENTIAL]
    if emails:
        patterns.append(EMAIL)
    # Every position is tried, also inside another match, so that overlapping literals are all found.
    patterns += [re.compile(f"(?=({re.escape(literal)}))") for literal in literals if literal]
    spans = sorted(span for pattern in patterns for span in _spans(pattern, text))
    return _replace(text, _merged(spans), replacement)


def _spans(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    return [match.span(pattern.groups) for match in pattern.finditer(text)]


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replace(text: str, spans: list[tuple[int, int]], replacement: str) -> tuple[str, int]:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += [text[position:start], replacement]
        position = end
    parts.append(text[position:])
    return "".join(parts), len(spans)
