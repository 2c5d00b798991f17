"""What a shell offers when TAB is pressed: property paths, the words that fit there, names of packages (D-24).

Nothing here says anything: where something cannot be read, nothing is offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.visible import is_plain

if TYPE_CHECKING:
    from pathlib import Path

    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.paths import Paths


_TRUTHS: Final = ("true", "false")


def complete_path(context: typer.Context, incomplete: str) -> list[str]:
    """Paths of properties that begin so: those there are, and what the packages of instances take."""
    with suppress(ZeroclawError, OSError):
        from zeroclaw_daemon.config.properties import list_properties

        snapshot, paths = _installation(context)
        found = [each.path for each in list_properties(snapshot.config)]
        if incomplete.startswith("plugins.entries."):
            found += _of_instances(snapshot, paths)
        return _beginning(incomplete, found)
    return []


def complete_value(context: typer.Context, incomplete: str) -> list[str]:
    """The words that the property named before takes, where it takes only some."""
    with suppress(ZeroclawError, OSError):
        path = str(context.params.get("path") or "")
        snapshot, paths = _installation(context)
        return _beginning(incomplete, _words(path, snapshot, paths))
    return []


def complete_package(context: typer.Context, incomplete: str) -> list[str]:
    """Names of packages that are installed and begin so."""
    with suppress(ZeroclawError, OSError):
        snapshot, paths = _installation(context)
        return _beginning(incomplete, _packages(snapshot, paths))
    return []


def complete_method(incomplete: str) -> list[str]:
    """Names of methods of the daemon that begin so."""
    from zeroclaw_daemon.rpc.methods.table import TABLE

    return _beginning(incomplete, TABLE)


def _installation(context: typer.Context) -> tuple[Snapshot, Paths]:
    """The installation that the options before name."""
    from pathlib import Path

    from zeroclaw_daemon.config.file import load
    from zeroclaw_daemon.config.paths import Paths

    paths = Paths.resolve(context.find_root().params.get("config_dir"), os.environ)
    return load(Path(paths.config_file), os.environ), paths


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete) and is_plain(word)]


def _of_instances(snapshot: Snapshot, paths: Paths) -> Iterator[str]:
    from zeroclaw_daemon.entry_properties import EntryProperties

    properties = EntryProperties(lambda: snapshot, paths)
    for row in snapshot.config.plugins.entries:
        yield from (f"plugins.entries.{row.name}.config.{name}" for name in properties.names(row.name))


def _words(path: str, snapshot: Snapshot, paths: Paths) -> tuple[str, ...]:
    from zeroclaw_daemon.config.properties import find_value
    from zeroclaw_daemon.config.shape import ValueKind
    from zeroclaw_daemon.entry_properties import EntryProperties
    from zeroclaw_host.package.schema_rules import PropertyType

    declared = EntryProperties(lambda: snapshot, paths).find(path)
    if declared is not None:
        return _TRUTHS if declared.type is PropertyType.BOOLEAN else declared.choices
    found = find_value(path)
    match found.kind:
        case ValueKind.BOOL:
            return _TRUTHS
        case ValueKind.REFERENCE:
            return snapshot.config.providers.names()
        case _:
            return found.choices


def _packages(snapshot: Snapshot, paths: Paths) -> list[str]:
    from zeroclaw_daemon.plugins import plugins_dir

    found: Path = plugins_dir(snapshot, paths)
    return sorted(each.name for each in found.iterdir() if (each / "manifest.toml").is_file())
