"""What became of processes."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
