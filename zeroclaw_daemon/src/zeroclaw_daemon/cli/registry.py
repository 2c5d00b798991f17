"""Which registry a command uses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import Environment

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_host.registry.client import RegistryClient

RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The registry: an http(s) or file URL, or a path. Wins over ZEROCLAW_PLUGIN_REGISTRY_URL, "
        "which wins over plugins.registry_url.",
    ),
]


def registry_client(current: Environment, flag: str | None, snapshot: Snapshot) -> RegistryClient | None:
    """The registry that an option, the environment or the configuration names, if any does (D-22)."""
    from zeroclaw_daemon.plugins import registry_location

    location = registry_location(flag, os.environ, snapshot)
    if location is None:
        return None
    from zeroclaw_host.registry.client import RegistryClient
    from zeroclaw_host.registry.index_cache import IndexCache
    from zeroclaw_host.registry.location import Location

    cache = IndexCache(Path(current.paths.registry_cache_dir) / "registry.json")
    return RegistryClient(Location.parse(location), cache=cache)
