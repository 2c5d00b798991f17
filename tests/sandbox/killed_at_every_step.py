"""Does one thing to a store again and again, each time killed one step later, and looks at what is left.

A step is a call that changes something on the disk. Run as a program: it forks, which a process with threads should not.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName

FINGERPRINT = "a" * 64
NAME = ArtifactName("component", "1" * 64)
OTHERS = [ArtifactName("component", f"{number:064x}") for number in range(16, 20)]
CHANGES = [
    (os, "open"),
    (os, "write"),
    (os, "fsync"),
    (os, "utime"),
    (fcntl, "flock"),
    (Path, "replace"),
    (Path, "unlink"),
]


def put(store: ArtifactStore, name: ArtifactName, content: bytes) -> None:
    with store.draft(name) as draft:
        os.write(draft.descriptor, content)
        draft.publish()


def read(store: ArtifactStore, name: ArtifactName) -> bytes | None:
    with store.open(name) as artifact:
        return None if artifact is None else Path(artifact.path).read_bytes()[:-32]


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before this step; whether the work had so many."""
    child = os.fork()
    if child == 0:
        left = step

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **kwargs: object) -> object:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return function(*args, **kwargs)

            return call

        for owner, name in CHANGES:
            setattr(owner, name, counted(getattr(owner, name)))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def changes(what: str, store: ArtifactStore) -> Callable[[], object]:
    return {
        "publish": lambda: put(store, NAME, b"new"),
        "replace": lambda: put(store, NAME, b"new"),
        "prune": lambda: store.shelf.prune(100),
        "clear": store.shelf.clear,
    }[what]


def look(what: str, store: ArtifactStore, *, killed: bool) -> None:
    """Old or new, and all of it."""
    adds = what in ("publish", "replace")
    before, after = {"publish": (None, b"new"), "replace": (b"old", b"new")}.get(what, (None, None))
    assert read(store, NAME) in ((before, after) if killed else (after,))
    for name in OTHERS:
        assert read(store, name) in ((b"other",) if adds else (b"other", None))


def main(what: str, directory: Path) -> int:
    step = 0
    killed = True
    while killed:
        here = directory / str(step)
        store = ArtifactStore(here, FINGERPRINT)
        for name in OTHERS:
            put(store, name, b"other")
        if what == "replace":
            put(store, NAME, b"old")
        killed = killed_at(step, changes(what, store))
        look(what, ArtifactStore(here, FINGERPRINT), killed=killed)
        long_ago = time.time() - 3600
        for path in here.glob(".*"):
            os.utime(path, (long_ago, long_ago))
        again = ArtifactStore(here, FINGERPRINT)
        assert all(path.suffix == ".artifact" for path in here.iterdir() if path.name != "key"), step
        changes(what, again)()
        look(what, again, killed=False)
        step += 1
    print(step)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
