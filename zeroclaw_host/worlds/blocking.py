"""Using what has coroutine methods from a thread without an event loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar, cast

from zeroclaw_host.worlds.warm import WarmStore

T = TypeVar("T")


class Blocking:
    """A plugin whose methods are for tasks, and, by :meth:`run_sync`, for threads without an event loop as well."""

    _blocking = False

    def run_sync(self, work: Callable[[Self], Coroutine[Any, Any, T]]) -> T:
        """Use the plugin from a thread without an event loop; the thread waits for it::

            entries = memory.run_sync(lambda it: it.recall("tea", 5))

        :param work: awaits nothing but methods of what it is given.
        :raises ZeroclawError: whatever those raise.
        :raises RuntimeError: it awaited something else.
        """
        blocking = copy.copy(self)
        blocking._blocking = True
        coroutine = work(blocking)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return cast("T", done.value)
        coroutine.close()
        raise RuntimeError("run_sync is for work that awaits the plugin alone")

    async def _call_on(self, warm: WarmStore, function: str, *arguments: object, **how: Any) -> object:
        """Call an export in whichever way the caller can wait."""
        if self._blocking:
            return warm.call_sync(function, *arguments, **how)
        return await warm.call(function, *arguments, **how)
