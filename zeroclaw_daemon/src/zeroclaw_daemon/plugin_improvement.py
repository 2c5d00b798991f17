"""Plugins made faster while the daemon serves.

A plugin that was just installed runs in the form that was soonest compiled. This compiles the one that runs best: one
plugin at a time, in a process that gives way to every other, and the plugin goes over to it between two calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from zeroclaw_daemon.records import record
from zeroclaw_host.errors import (
    CompileLimit,
    ComponentInvalid,
    ComponentMismatch,
    PluginUnavailable,
    StorageError,
    ZeroclawError,
)

if TYPE_CHECKING:
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.discovery import InstalledPackage

logger = logging.getLogger(__name__)


class PluginImprovement:
    """Improves what a host has loaded, whenever it is told to look. Thread-safe.

    :param host: the host whose plugins are in use; None while there is none.
    """

    def __init__(self, host: Callable[[], PluginHost | None]) -> None:
        self._host = host
        self._changed = threading.Condition()
        self._due = False
        self._stopping = False
        self._given_up: WeakKeyDictionary[PluginHost, set[str | None]] = WeakKeyDictionary()
        """Components that cannot be improved, for reasons of their own that are as good tomorrow, unless a host with other
        settings comes."""
        self._put_off: set[str | None] = set()
        """Those that could not be for another reason, until plugins are loaded again. The others need not wait for them."""

    def look(self) -> None:
        """Say that plugins were loaded."""
        with self._changed:
            self._due = True
            self._changed.notify()

    def stop(self) -> None:
        """Let :meth:`run` return, within half a second if it compiles. Nothing unfinished is left."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        """Improve what there is whenever :meth:`look` was called, until :meth:`stop` is. Needs a thread of its own."""
        while self._wait():
            while (found := self._next()) is not None and self._improve(*found):
                pass

    def _wait(self) -> bool:
        """Whether there is something to look at; False when there will never be."""
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._stopping)
            self._due = False
            self._put_off.clear()
            return not self._stopping

    def _next(self) -> tuple[PluginHost, InstalledPackage] | None:
        host = self._host()
        if host is None or self._stopping:
            return None
        passed_over = self._given_up.setdefault(host, set()) | self._put_off
        waiting = (found for found in host.improvable() if found.component_sha256 not in passed_over)
        package = next(waiting, None)
        return None if package is None else (host, package)

    def _improve(self, host: PluginHost, package: InstalledPackage) -> bool:
        """Improve one package. False when this is no time for another one."""
        started = time.monotonic()
        try:
            host.improve(package, on_compile=self._go_on)
        except ZeroclawError as error:
            if self._stopping:
                return False
            record(
                logger, logging.WARNING, f"{package.name} stays in its slower form: {error.message}",
                action="plugin_not_improved", category="plugin", outcome="failure",
                plugin=package.name, code=error.code, causes=list(error.causes()), remedy=error.remedy,
            )  # fmt: skip
            passed_over = self._given_up.setdefault(host, set()) if _is_final(error) else self._put_off
            passed_over.add(package.component_sha256)
            return not isinstance(error, StorageError)  # a full disk is full for the others too
        record(
            logger, logging.INFO, f"{package.name} {package.version} is in its faster form",
            action="plugin_improved", category="plugin",
            plugin=package.name, seconds=round(time.monotonic() - started, 1),
        )  # fmt: skip
        return True

    def _go_on(self, seconds: float) -> None:
        """Told now and then while a component is compiled.

        :raises PluginUnavailable: the daemon ends.
        """
        del seconds
        if self._stopping:
            raise PluginUnavailable("the daemon ends")


def _is_final(error: ZeroclawError) -> bool:
    """Whether it says something about the component, and not about a busy machine or a package that is being updated."""
    if isinstance(error, CompileLimit):
        return error.details.get("limit") != "seconds"
    return isinstance(error, (ComponentInvalid, ComponentMismatch))
