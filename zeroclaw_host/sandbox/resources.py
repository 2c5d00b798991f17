"""The Python objects behind the handles a guest holds."""

from __future__ import annotations

import threading
from typing import Final, Protocol, runtime_checkable

from zeroclaw_host.errors import Kind, PluginError
from zeroclaw_host.sandbox.holdings import Holdings

MAX_HANDLES: Final = 16_384
"""Live handles of one store. A Python guest holds fewer than a hundred; this bounds what a hostile one makes the host keep."""


class TooManyHandles(PluginError):
    """A guest holds more host resources than allowed."""

    code = "plugin_limit"
    kind = Kind.LIMIT


class UnknownHandle(PluginError):
    """A guest used a handle that is not, or no longer, its own."""

    code = "guest_failure"


@runtime_checkable
class Closable(Protocol):
    """A resource that holds something outside the guest."""

    def close(self) -> None:
        """Let go of it. Called once."""
        ...


class ResourceTable:
    """Handles of one store. Safe from several threads: workers of an import may push while the guest runs.

    No destructor runs for what a guest still held when it trapped, or for what it handed over to the host as an owned
    argument. So the table is the owner: :meth:`pop` takes an object out for good, and :meth:`close` closes what is left.
    """

    def __init__(self) -> None:
        self.holdings = Holdings()
        """The bytes that are kept behind the handles, as far as they are counted."""
        self._objects: dict[int, object] = {}
        self._next = 1
        self._lock = threading.Lock()
        self._changed: threading.Condition | None = None

    def watch(self, changed: threading.Condition) -> None:
        """From here on this is what the store's guest waits by: the condition of the frame that it is called in."""
        self._changed = changed

    def wake(self) -> None:
        """Have the guest look again, if it waits. For worker threads whose objects outlive the frame they were made in."""
        changed = self._changed
        if changed is not None:
            with changed:
                changed.notify_all()

    def __len__(self) -> int:
        return len(self._objects)

    def push(self, resource: object) -> int:
        """Keep an object; its new handle.

        :raises TooManyHandles: :data:`MAX_HANDLES` are live. The object was closed, since nobody will hold it.
        """
        with self._lock:
            if len(self._objects) < MAX_HANDLES:
                handle = self._next
                self._next += 1
                self._objects[handle] = resource
                return handle
        _close(resource)
        raise TooManyHandles(
            f"the plugin holds {MAX_HANDLES} host resources at once, which is the limit",
            details={"limit": "host resources", "maximum": MAX_HANDLES},
        )

    def get(self, handle: int) -> object:
        """The object behind a borrowed handle.

        :raises UnknownHandle: there is none.
        """
        try:
            return self._objects[handle]
        except KeyError as error:
            raise UnknownHandle("the plugin used a handle that the host does not know") from error

    def pop(self, handle: int) -> object:
        """Take the object out of the table, as the receiver of an owned handle does. It is not closed.

        :raises UnknownHandle: there is none.
        """
        try:
            return self._objects.pop(handle)
        except KeyError as error:
            raise UnknownHandle("the plugin used a handle that the host does not know") from error

    def drop(self, handle: int) -> None:
        """Take the object out and close it: the guest dropped its handle. An unknown handle is nothing to drop."""
        _close(self._objects.pop(handle, None))

    def close(self) -> None:
        """Close everything, newest first, so that a stream goes before the body it reads from.

        An object whose ``close`` fails does not keep the others open; the first failure is raised at the end.
        """
        failure: Exception | None = None
        while self._objects:
            _, resource = self._objects.popitem()
            try:
                _close(resource)
            except Exception as error:  # noqa: BLE001 - whatever one resource does, the rest must be closed too
                failure = failure or error
        if failure is not None:
            raise failure


def _close(resource: object) -> None:
    if isinstance(resource, Closable):
        resource.close()
