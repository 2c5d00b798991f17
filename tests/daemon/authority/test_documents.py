"""The page about authority says what the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from zeroclaw_daemon.authority.rights import AUTHORITY_SECTIONS, RuleKind
from zeroclaw_daemon.config.schema import PermissionProfile, Resource, Verb

PAGE = (Path(__file__).parents[3] / "docs" / "authority.md").read_text(encoding="utf-8")


def test_every_rule_stands_in_the_table() -> None:
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.partition("| `rule` | means |")[2], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == {kind.value for kind in RuleKind}


def test_every_resource_verb_and_setting_is_named() -> None:
    for word in (*get_args(Resource), *get_args(Verb), *AUTHORITY_SECTIONS):
        assert f"`{word}`" in PAGE, word
    for setting in PermissionProfile.model_fields:
        assert re.search(rf"^\| `{setting}\b", PAGE, re.MULTILINE), setting
