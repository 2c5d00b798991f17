"""What is told of plugins is made anew exactly when something that it is made of is another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zeroclaw_daemon.activation.current import InForce
from zeroclaw_daemon.activation.standing import PluginsReports, ToolSet
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.errors import StorageError
from zeroclaw_host.installation.discovery import Rejected

IN_FORCE, CONFIG = InForce(manifests={}), Config()


def refusing(name: str) -> tuple[Rejected, ...]:
    return (Rejected(Path("/plugins") / name, name, StorageError("it cannot be read")),)


MORE_IN_FORCE = replace(IN_FORCE, rejected=refusing("a"))
MORE_TOOLS = ToolSet(rejected=refusing("b"))
MEMORY = Config.model_validate({"memory": {"backend": "plugin:absent"}})
STRAY = Config.model_validate({"plugins": {"entries": ({"name": "weather"},)}})


@pytest.mark.parametrize(
    ("then", "packages", "problem"),
    [
        ((MORE_IN_FORCE, None, CONFIG), ["a"], "plugin a is refused: it cannot be read"),
        ((IN_FORCE, MORE_TOOLS, CONFIG), ["b"], "plugin b is refused: it cannot be read"),
        ((IN_FORCE, None, MEMORY), ["absent"], "plugin absent is missing"),
        ((IN_FORCE, None, STRAY), [], "the row weather of plugins.entries is read by nobody"),
    ],
)
def test_another_of_any_of_the_three_counts_at_once(
    then: tuple[InForce, ToolSet | None, Config], packages: list[str], problem: str
) -> None:
    kept = PluginsReports()
    before = kept.of(IN_FORCE, None, CONFIG)
    assert (before.standings, before.problems) == ((), ())
    report = kept.of(*then)
    assert [each.package for each in report.standings] == packages
    assert [told.startswith(problem) for told in report.problems] == [True]
    assert kept.of(*then) is report
    assert kept.of(IN_FORCE, None, CONFIG) == before


def test_rows_are_told_ahead_of_plugins() -> None:
    both = STRAY.model_copy(update={"memory": MEMORY.memory})
    problems = PluginsReports().of(IN_FORCE, None, both).problems
    assert [told.split()[1] for told in problems] == ["row", "absent"]
