"""What the commands say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from zeroclaw_daemon.cli.main import app as operator
from zeroclaw_sdk.cli.plugin import app as author
from zeroclaw_sdk.cli.registry import app as maintainer

COLUMNS = 78
"""What the library fills of a terminal of 80."""
PROGRAMS = {"zeroclaw": operator, "zeroclaw-plugin": author, "zeroclaw-registry": maintainer}


def groups(name: str, command: Any) -> Iterator[tuple[str, TyperGroup]]:
    """A command and everything below it that has commands."""
    if isinstance(command, TyperGroup):
        yield name, command
        for each, below in command.commands.items():
            yield from groups(f"{name} {each}", below)


def usages(name: str, command: Any) -> Iterator[str]:
    """The first line of the help of a command and of everything below it."""
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=200)
    yield command.get_usage(context)
    for each, below in getattr(command, "commands", {}).items():
        yield from usages(f"{name} {each}", below)


GROUPS = dict(pair for name, app in PROGRAMS.items() for pair in groups(name, typer.main.get_command(app)))


def test_every_list_of_commands_is_looked_at() -> None:
    assert {"zeroclaw", "zeroclaw plugin cache", "zeroclaw-plugin", "zeroclaw-registry"} <= set(GROUPS)


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_list_of_commands_says_of_each_fits_a_terminal_of_80_columns(name: str) -> None:
    group = GROUPS[name]
    context = group.make_context(name, [], resilient_parsing=True, terminal_width=COLUMNS)
    _, _, listed = group.get_help(context).partition("\nCommands:\n")
    lines = listed.splitlines()
    assert [line.split()[0] for line in lines] == list(group.commands)
    assert [line for line in lines if line.endswith("...") or len(line) > COLUMNS] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_may_be_left_out_stands_in_brackets_once(name: str) -> None:
    lines = list(usages(name, typer.main.get_command(PROGRAMS[name])))
    assert len(lines) > 4
    assert [line for line in lines if "[[" in line] == []
