"""``make bench``: every measurement in one run, as a table of ratios."""

from __future__ import annotations

import os
import platform
import sys

from benchmarks import (
    boundary,
    calls,
    concurrency,
    config,
    daemon,
    egress,
    footprint,
    http,
    loading,
    packages,
    sessions,
    state,
    streaming,
    tiers,
    warm,
)

MEASUREMENTS = {
    "calls": calls.measure,
    "warm": warm.measure,
    "boundary": boundary.measure,
    "concurrency": concurrency.measure,
    "tiers": tiers.measure,
    "loading": loading.measure,
    "packages": packages.measure,
    "config": config.measure,
    "state": state.measure,
    "sessions": sessions.measure,
    "egress": egress.measure,
    "http": http.measure,
    "daemon": daemon.measure,
    "streaming": streaming.measure,
    "footprint": footprint.measure,
}


def main() -> int:
    """Run the named measurements, or all."""
    chosen = sys.argv[1:] or list(MEASUREMENTS)
    if unknown := [name for name in chosen if name not in MEASUREMENTS]:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    print(
        f"CPython {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores; medians of interleaved rounds\n"
    )
    for name in chosen:
        for measurement in MEASUREMENTS[name]():
            print("\n".join(measurement.rows()), flush=True)
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
