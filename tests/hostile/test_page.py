"""The page about security shows the attacks there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attacks import GROUPS

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_attacks_is_what_the_tests_make() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "security.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_no_two_attacks_of_a_world_have_the_same_name() -> None:
    names = [
        (getattr(attack, "world", "tool"), attack.name) for attacks in GROUPS.values() for attack in attacks
    ]
    assert len(names) == len(set(names))
