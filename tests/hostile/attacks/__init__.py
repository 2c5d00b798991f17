"""What an enemy would try, as a table: each entry makes a component and says what must become of it.

The tests run every entry; ``tools/security.py`` writes the table into ``docs/security.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from attacks import abusing, exploding, growing, lying, python, spinning, trespassing
from attacks.attack import HARMLESS, Attack, Stage, answering
from attacks.warm import WARM_ATTACKS

TOOL_GROUPS: Mapping[str, tuple[Attack, ...]] = {
    "Time": spinning.ATTACKS,
    "Memory": growing.ATTACKS,
    "Values": lying.ATTACKS,
    "What the host lends": abusing.ATTACKS,
    "The contract": trespassing.ATTACKS,
    "The compiler and the engine": exploding.ATTACKS,
    "Python": python.ATTACKS,
}

GROUPS: Mapping[str, tuple[Attack, ...]] = {**TOOL_GROUPS, "Plugins that stay": WARM_ATTACKS}
"""All attacks, as the documentation groups them."""

ATTACKS = tuple(attack for group in TOOL_GROUPS.values() for attack in group)
"""Those through the tool world."""

__all__ = ["ATTACKS", "GROUPS", "HARMLESS", "Attack", "Stage", "answering"]
