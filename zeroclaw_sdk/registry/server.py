"""Handing out a registry over plain HTTP: the index and the archives, and nothing else of the directory."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from zeroclaw_host.errors import Kind, ZeroclawError
from zeroclaw_host.registry.location import INDEX_NAME
from zeroclaw_sdk.registry.store import PACKAGES, RegistryDirectory

SHUTDOWN_SECONDS: Final = 5
"""How long running downloads may take to finish when the server is told to end."""


class PortBusy(ZeroclawError):
    """The address to serve on is taken, or is not this machine's. ``details`` holds ``host`` and ``port``."""

    code = "address_unavailable"
    kind = Kind.CONFLICT


def application(registry: RegistryDirectory) -> Starlette:
    """The web application: ``/registry.json`` and ``/packages/NAME``."""

    async def index(request: Request) -> Response:
        headers = {"Cache-Control": "no-cache"}
        return await _file(registry.index_path, "application/json", headers)

    async def archive(request: Request) -> Response:
        name = str(request.path_params["name"])
        path = registry.archive_path(f"{PACKAGES}/{name}") if name.endswith(".zip") else None
        if path is None:
            raise HTTPException(404)
        return await _file(path, "application/zip", {})

    async def root(request: Request) -> Response:
        return RedirectResponse(INDEX_NAME)

    return Starlette(
        routes=[
            Route("/", root),
            Route(f"/{INDEX_NAME}", index),
            Route(f"/{PACKAGES}/{{name}}", archive),
        ]
    )


async def _file(path: Path, media_type: str, headers: dict[str, str]) -> Response:
    if not await anyio.to_thread.run_sync(lambda: path.is_file() and not path.is_symlink()):
        raise HTTPException(404)
    return FileResponse(path, media_type=media_type, headers={"X-Content-Type-Options": "nosniff"} | headers)


def serve(registry: RegistryDirectory, *, host: str, port: int, started: Callable[[str], None]) -> None:
    """Serve until interrupted or terminated.

    :param port: 0 takes a free one.
    :param started: told the index's URL once connections are accepted.
    :raises PortBusy: the address cannot be had.
    """
    listener = _listen(host, port)
    with listener:
        bound = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{bound}/{INDEX_NAME}")
        config = uvicorn.Config(
            application(registry),
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            lifespan="off",
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _busy(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise _busy(host, port, error) from error
    return listener


def _busy(host: str, port: int, error: OSError) -> PortBusy:
    return PortBusy(
        f"{host} port {port} cannot be served on: {error.strerror}", details={"host": host, "port": port}
    )
