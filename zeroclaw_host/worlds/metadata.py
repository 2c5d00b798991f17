"""What a warm plugin says about itself: read once, when it is loaded, and held against what a rebuilt instance says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, TypeVar, cast

from zeroclaw_host.errors import PluginError
from zeroclaw_host.worlds.instance import Ask

T = TypeVar("T")


class MetadataChanged(PluginError):
    """A rebuilt instance says something else about itself than the one that was loaded, on which others rely.
    ``details`` holds ``changed``, the names of what differs."""

    code = "plugin_metadata_changed"


class Metadata(Generic[T]):
    """The beginning of every instance of a warm plugin: what it says about itself is read, and must not have changed.

    :param read: reads it from a new instance, into a dataclass.
    """

    def __init__(self, read: Callable[[Ask], T]) -> None:
        self._read = read
        self._known: T | None = None

    def __call__(self, ask: Ask) -> None:
        """Read, and compare; see :data:`~zeroclaw_host.worlds.warm.Start`.

        :raises MetadataChanged: it differs.
        :raises PluginError: it could not be read.
        """
        found = self._read(ask)
        if self._known is None:
            self._known = found
        elif found != self._known:
            changed = tuple(
                each.name
                for each in fields(cast("Any", found))
                if getattr(found, each.name) != getattr(self._known, each.name)
            )
            raise MetadataChanged(
                f"the rebuilt plugin says something else about itself than before: {', '.join(changed)}",
                details={"changed": changed},
            )

    @property
    def known(self) -> T:
        """What the plugin said when it was loaded."""
        assert self._known is not None, "a plugin is used after it was loaded"
        return self._known
