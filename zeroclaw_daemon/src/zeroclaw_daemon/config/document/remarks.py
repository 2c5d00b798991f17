"""Comments above a header stay above it.

tomlkit holds the lines between the last key of a table and the next header as part of the table before, so a key that is
added would come after them, and a table that is removed would take them along.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tomlkit.items import AoT, Comment, InlineTable, Item, Key, Null, Table, Whitespace

Lines = list[tuple[Key | None, Item]]


@contextmanager
def below_the_keys(around: object) -> Generator[None]:
    """Whatever the block adds to this table, or below it, comes before the lines that belong to the next header."""
    last = _last_table(around)
    lines = _cut_lines(last) if last is not None else []
    try:
        with _unindented(around):
            yield
    finally:
        last = _last_table(around)
        if last is not None:
            last.value.body.extend(lines)


@contextmanager
def _unindented(table: object) -> Generator[None]:
    """tomlkit gives what is added to a table the table's own indent, and takes the comments before its header for one.

    A table that had no header, and gets one by what is added, would repeat the comment behind the first header inside it.
    """
    if isinstance(table, Table) and table.is_super_table():
        table.trivia.comment_ws = table.trivia.comment = ""
    if not isinstance(table, Table) or "#" not in table.trivia.indent:
        yield
        return
    indent, table.trivia.indent = table.trivia.indent, ""
    try:
        yield
    finally:
        table.trivia.indent = indent


@contextmanager
def above_the_tables(table: object) -> Generator[None]:
    """Whatever key the block adds to this table comes before the lines that belong to the first header inside it."""
    if not isinstance(table, Table) or isinstance(table, InlineTable):
        yield
        return
    body = table.value.body
    first = next(
        (index for index, (key, item) in enumerate(body) if key is not None and _has_header(key, item)), None
    )
    header = _first_header(body[first][1]) if first is not None else None
    lines = "" if first is None or header is None else _blank_lines(table, first)
    try:
        if header is None:
            with below_the_keys(table):
                yield
        else:
            with _unindented(table):
                yield
    finally:
        if header is not None:
            header.trivia.indent = lines + header.trivia.indent


def kept_after_removal(before: str, after: str) -> str:
    """The text after a table was taken out of it, with the comments that stood above the next header.

    :param before: the text with the table.
    :param after: the text without it.
    """
    gone = len(before) - len(after)
    same = next(
        (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(after)
    )
    start = before.rfind("\n", 0, same) + 1
    if gone <= 0 or before[:start] + before[start + gone :] != after:
        return after
    lines = before[start : start + gone].splitlines(keepends=True)
    while start and lines and not lines[0].lstrip().startswith("["):
        # Where the table that follows begins with the same lines, the one that went began as many lines before.
        above = before[before.rfind("\n", 0, start - 1) + 1 : start]
        if above != lines[-1]:
            break
        start, lines = start - len(above), [above, *lines[:-1]]
    first = len(lines)
    while first > 0 and (not lines[first - 1].strip() or lines[first - 1].lstrip().startswith("#")):
        first -= 1
    remarks = "".join(lines[first:]).lstrip("\r\n")
    return after[:start] + remarks + after[start:] if remarks.strip() else after


def _has_header(key: Key, item: Item) -> bool:
    return isinstance(item, (Table, AoT)) and not isinstance(item, InlineTable) and not key.is_dotted()


def _first_header(node: Item) -> Table | None:
    """The first table in this one that is written with a header."""
    if isinstance(node, AoT):
        return node.body[0] if node.body else None
    if isinstance(node, Table) and node.is_super_table():
        return next((_first_header(item) for key, item in node.value.body if key is not None), None)
    return node if isinstance(node, Table) else None


def _blank_lines(table: Table, end: int) -> str:
    """Take the lines that belong to the header at this index out of the table; what is left in their place says nothing."""
    body = table.value.body
    start = _first_line(body, end)
    text = "".join(item.as_string() for _, item in body[start:end])
    for index in range(start, end):
        body[index] = (None, Null())
    return text


def _last_table(node: object) -> Table | None:
    """The table that is written last in this one; None for what has no lines of its own."""
    if isinstance(node, AoT):
        return _last_table(node.body[-1]) if node.body else None
    if not isinstance(node, Table) or isinstance(node, InlineTable):
        return None
    for key, item in reversed(node.value.body):
        if key is not None:
            inside = _last_table(item)
            return node if inside is None else inside
    return node


def _cut_lines(table: Table) -> Lines:
    """Take the blank lines and comments off a table's end; a comment right below the last key stays where a blank line follows."""
    body = table.value.body
    start = _first_line(body, len(body))
    lines = body[start:]
    del body[start:]
    return lines


def _first_line(body: Lines, end: int) -> int:
    """Where the lines begin that belong to the header at ``end``: at the first blank one, or right below the last key."""
    start = end
    while start > 0 and body[start - 1][0] is None and isinstance(body[start - 1][1], (Comment, Whitespace)):
        start -= 1
    return next((index for index in range(start, end) if isinstance(body[index][1], Whitespace)), start)
