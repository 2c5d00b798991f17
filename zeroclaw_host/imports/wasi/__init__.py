"""WASI 0.2 for guests: the empty system (PLG-015).

Whatever touches a resource is answered here. What does not (:data:`NATIVE`) is wasmtime's own, with an empty context:
no environment, no argument, real randomness, the real time of day. A store links wasmtime's WASI first and then shadows
it with :data:`INTERFACES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from zeroclaw_host.imports.wasi import cli, clocks, filesystem, io, sockets
from zeroclaw_host.sandbox.interface import HostInterface

INTERFACES: Final[Mapping[str, HostInterface]] = MappingProxyType(
    {
        found.name: found
        for found in (
            io.ERROR,
            io.POLL,
            io.STREAMS,
            clocks.MONOTONIC_CLOCK,
            cli.STDIN,
            cli.STDOUT,
            cli.STDERR,
            cli.TERMINAL_INPUT,
            cli.TERMINAL_OUTPUT,
            cli.TERMINAL_STDIN,
            cli.TERMINAL_STDOUT,
            cli.TERMINAL_STDERR,
            filesystem.TYPES,
            filesystem.PREOPENS,
            sockets.NETWORK,
            sockets.INSTANCE_NETWORK,
            sockets.TCP,
            sockets.TCP_CREATE_SOCKET,
            sockets.UDP,
            sockets.UDP_CREATE_SOCKET,
            sockets.IP_NAME_LOOKUP,
        )
    }
)
"""What this room answers, by name without version."""

NATIVE: Final = frozenset(
    {
        "wasi:cli/environment",
        "wasi:cli/exit",
        "wasi:clocks/wall-clock",
        "wasi:random/insecure",
        "wasi:random/insecure-seed",
        "wasi:random/random",
    }
)
"""What wasmtime answers, by name without version. None of these touches a resource or waits."""
