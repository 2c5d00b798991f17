"""What every command starts from: the installation it acts on, and how it is to speak."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from zeroclaw_daemon.cli.remedies import Place
from zeroclaw_daemon.config.paths import Paths

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.store import ConfigStore
    from zeroclaw_daemon.entry_properties import EntryProperties
    from zeroclaw_host.services.sealing import KeyFile

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass
class Environment:
    """The global options, and what follows from them. Nothing is looked up before it is needed."""

    config_dir: str | None = None
    json: bool = False
    """Whether the command was asked for JSON; errors then are JSON too."""

    @cached_property
    def paths(self) -> Paths:
        """The places of the installation; variables that another setting overrules are named once, aloud.

        :raises UsageError: they cannot be determined.
        """
        from zeroclaw_daemon.cli.output import warn

        paths = Paths.resolve(self.config_dir, os.environ)
        for notice in paths.notices:
            warn(notice)
        return paths

    @property
    def config_file(self) -> Path:
        """The configuration file."""
        return Path(self.paths.config_file)

    @cached_property
    def config_store(self) -> ConfigStore:
        """The way to write the configuration."""
        from zeroclaw_daemon.config.source import FileSource
        from zeroclaw_daemon.config.store import ConfigStore

        return ConfigStore(
            FileSource(self.config_file, os.environ),
            self.key_file,
            checks=lambda: self.entry_properties.check,
        )

    @cached_property
    def entry_properties(self) -> EntryProperties:
        """What the installed packages say of their instances' properties."""
        from zeroclaw_daemon.entry_properties import EntryProperties

        return EntryProperties(self.snapshot, self.paths)

    @cached_property
    def key_file(self) -> KeyFile:
        """The installation's key; it need not exist."""
        from zeroclaw_daemon.config.installation_key import installation_key

        return installation_key(self.paths)

    @property
    def place(self) -> Place:
        """The installation that printed commands name."""
        return Place(self.paths.config_dir, data_dir_named=self.paths.data_dir_named)

    def snapshot(self) -> Snapshot:
        """The configuration, overrides included.

        :raises ConfigFileInvalid: it cannot be used.
        """
        from zeroclaw_daemon.config.file import load

        return load(self.config_file, os.environ)


def environment(context: typer.Context) -> Environment:
    """The environment the main command made."""
    return cast("Environment", context.find_root().obj)


def warned_snapshot(current: Environment) -> Snapshot:
    """The configuration, after everything that is wrong with it was said on standard error (PLG-123)."""
    from zeroclaw_daemon.cli.output import warn

    snapshot = current.snapshot()
    for problem in snapshot.problems:
        warn(f"{problem}; the whole [plugins] section is not in force, and plugins are off")
    for notice in snapshot.notices:
        warn(notice)
    return snapshot


def usable_snapshot(current: Environment) -> Snapshot:
    """The configuration, whole: no package may come or go by a section that cannot be read.

    :raises ConfigFileInvalid: ``[plugins]`` cannot be read.
    """
    from zeroclaw_daemon.cli.output import warn
    from zeroclaw_daemon.config.problems import ConfigFileInvalid

    snapshot = current.snapshot()
    if snapshot.problems:
        raise ConfigFileInvalid(snapshot.problems)
    for notice in snapshot.notices:
        warn(notice)
    return snapshot
