"""What is told of plugins is made anew exactly when something that it is made of is another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zeroclaw_daemon.activation.current import InForce
from zeroclaw_daemon.activation.standing import Standings, ToolSet
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.errors import StorageError
from zeroclaw_host.installation.discovery import Rejected

IN_FORCE, CONFIG = InForce(manifests={}), Config()


def refusing(name: str) -> tuple[Rejected, ...]:
    return (Rejected(Path("/plugins") / name, name, StorageError("it cannot be read")),)


MORE_IN_FORCE = replace(IN_FORCE, rejected=refusing("a"))
MORE_TOOLS = ToolSet(rejected=refusing("b"))
MEMORY = Config.model_validate({"memory": {"backend": "plugin:absent"}})


@pytest.mark.parametrize(
    ("then", "packages"),
    [
        ((MORE_IN_FORCE, None, CONFIG), ["a"]),
        ((IN_FORCE, MORE_TOOLS, CONFIG), ["b"]),
        ((IN_FORCE, None, MEMORY), ["absent"]),
    ],
)
def test_another_of_any_of_the_three_counts_at_once(
    then: tuple[InForce, ToolSet | None, Config], packages: list[str]
) -> None:
    kept = Standings()
    before = kept.of(IN_FORCE, None, CONFIG)
    assert before == ()
    assert [each.package for each in kept.of(*then)] == packages
    assert kept.of(*then) is kept.of(*then)
    assert kept.of(IN_FORCE, None, CONFIG) == ()
