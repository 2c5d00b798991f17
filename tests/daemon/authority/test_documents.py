"""The page about authority says what the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import zeroclaw_daemon
from zeroclaw_daemon.authority.rights import AUTHORITY_SECTIONS, RuleKind
from zeroclaw_daemon.config.schema import PermissionProfile, Resource, Verb

PACKAGE = Path(zeroclaw_daemon.__file__).parent
PAGE = (Path(__file__).parents[3] / "docs" / "authority.md").read_text(encoding="utf-8")


def test_every_rule_stands_in_the_table() -> None:
    assert words_of("| `rule` | means |") == {kind.value for kind in RuleKind}


def test_every_other_refusal_has_a_rule_that_stands_in_the_other_table() -> None:
    """Whatever is refused with no rule of a profile, wherever it is decided."""
    refusals = [
        ast.unparse(call)
        for module in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Forbidden"
    ]
    assert [call for call in refusals if "'rule'" not in call and "**rule" not in call] == []
    named = set(re.findall(r"'rule': '(\w+)'", " ".join(refusals)))
    assert words_of("| in `data.rule` | means |") == named


def words_of(head: str) -> set[str]:
    """The words in the first column of the table with this head."""
    table = PAGE.partition(head)[2].partition("\n\n")[0]
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_every_resource_verb_and_setting_is_named() -> None:
    for word in (*get_args(Resource), *get_args(Verb), *AUTHORITY_SECTIONS):
        assert f"`{word}`" in PAGE, word
    for setting in PermissionProfile.model_fields:
        assert re.search(rf"^\| `{setting}\b", PAGE, re.MULTILINE), setting
