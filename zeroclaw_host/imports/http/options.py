"""``request-options``: how long the stages of a request may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zeroclaw_host.egress.http.message import HttpTimes
from zeroclaw_host.imports.wasi.clocks import NANOSECONDS
from zeroclaw_host.sandbox.frame import CallFrame
from zeroclaw_host.sandbox.interface import HostFunction
from zeroclaw_host.sandbox.values import OK, Ok

NAMES: Final = ("connect", "first-byte", "between-bytes")


class RequestOptions:
    """Durations in nanoseconds, where the guest set any."""

    def __init__(self) -> None:
        self.durations: dict[str, int | None] = dict.fromkeys(NAMES)

    def times(self) -> HttpTimes:
        """The same in seconds, with the defaults where nothing was set."""
        seconds = {
            name.replace("-", "_"): duration / NANOSECONDS
            for name, duration in self.durations.items()
            if duration is not None
        }
        return HttpTimes(**seconds)


def _new(frame: CallFrame) -> RequestOptions:
    return RequestOptions()


def _getter(name: str) -> Callable[..., int | None]:
    def get(frame: CallFrame, options: RequestOptions) -> int | None:
        return options.durations[name]

    return get


def _setter(name: str) -> Callable[..., Ok]:
    def change(frame: CallFrame, options: RequestOptions, duration: int | None) -> Ok:
        options.durations[name] = duration
        return OK

    return change


FUNCTIONS: Final = (
    HostFunction("[constructor]request-options", _new),
    *(HostFunction(f"[method]request-options.{name}-timeout", _getter(name)) for name in NAMES),
    *(HostFunction(f"[method]request-options.set-{name}-timeout", _setter(name)) for name in NAMES),
)
