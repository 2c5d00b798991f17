"""The daemon's own endpoint: the one place that chooses between a pipe and a socket (D-23)."""

from __future__ import annotations

from pathlib import Path

from zeroclaw_daemon.rpc.transport.base import Listener
from zeroclaw_daemon.rpc.transport.pipe import PipeFactory, PipeListener
from zeroclaw_daemon.rpc.transport.unix import UnixListener


def listener_at(endpoint: str, *, data_dir: Path, pipes: PipeFactory | None = None) -> Listener:
    """What listens at an endpoint, as :class:`~zeroclaw_daemon.config.paths.Paths` names it (RPC-014).

    :param data_dir: the directory that a socket of this daemon may be made in.
    :param pipes: makes the system's pipes, where it has them; the endpoint is then a pipe's name.
    """
    if pipes is not None:
        return PipeListener(endpoint, pipes)
    return UnixListener(Path(endpoint), data_dir=data_dir)
