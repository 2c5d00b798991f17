"""Errors that come out of task groups.

A task group wraps whatever its tasks raise, once for each group it passes. A person is told the error itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

from zeroclaw_host.errors import NO_SPACE, ZeroclawError


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise the first error in place of the group that holds it, if all of them are ours, or the system's about output that nobody
    takes: its reader went away, or its disk is full.

    A group with any other error stays a group.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        first = leaves[0]
        if all(isinstance(leaf, ZeroclawError) or _is_of_output(leaf) for leaf in leaves):
            raise first from first.__cause__
        raise


def _is_of_output(error: BaseException) -> bool:
    return isinstance(error, OSError) and (isinstance(error, BrokenPipeError) or error.errno in NO_SPACE)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error
