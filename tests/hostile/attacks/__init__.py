"""What an enemy would try, as a table: each entry makes a component and says what must become of it.

The tests run every entry; ``tools/security.py`` writes the table into ``docs/security.md``.
"""

from __future__ import annotations

from attacks import abusing, exploding, growing, lying, spinning, trespassing
from attacks.attack import HARMLESS, Attack, Stage, answering

GROUPS: dict[str, tuple[Attack, ...]] = {
    "time": spinning.ATTACKS,
    "memory": growing.ATTACKS,
    "values": lying.ATTACKS,
    "what the host lends": abusing.ATTACKS,
    "the contract": trespassing.ATTACKS,
    "the compiler and the engine": exploding.ATTACKS,
}

ATTACKS = tuple(attack for group in GROUPS.values() for attack in group)

__all__ = ["ATTACKS", "GROUPS", "HARMLESS", "Attack", "Stage", "answering"]
