"""Attacks by a plugin in Python: the same ends, through an interpreter."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from attacks.attack import Attack
from attacks.lying import OWN_CALL
from attacks.spinning import DEADLINE, FUEL, STACK
from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.sandbox.limits import Limits

GUEST = Path(__file__).parents[1] / "guests" / "enemy.py"
CACHE = Path(__file__).parents[3] / ".cache" / "hostile-guests"
COMPONENTIZE = Path(sys.executable).with_name("componentize-py")

INTERPRETED = Limits(call_fuel=100_000_000, call_timeout_ms=60_000, max_memory_mb=48)
"""Fuel for a fraction of a second of an interpreter's work, and little memory beside what it takes itself."""

WITH_BREATH = Limits(call_fuel=2_000_000_000, call_timeout_ms=60_000, max_memory_mb=48)

IMPATIENT = Limits(call_fuel=10**15, call_timeout_ms=600, max_memory_mb=48)

NOTHING_THERE = "the empty system: there is none"


def world() -> str:
    """The tool world without the transports that need a permission."""
    text = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")
    start = text.index("world tool-plugin")
    end = text.index("}", start)
    kept = (line for line in text[start:end].splitlines(keepends=True) if "socket" not in line)
    return text[:start] + "".join(kept) + text[end:]


@lru_cache(maxsize=1)
def component() -> bytes:
    """The one Python component of all these attacks, built when it is missing (ten seconds)."""
    wit, source = world(), GUEST.read_bytes()
    key = hashlib.sha256(b"\0".join((wit.encode(), source, version("componentize-py").encode()))).hexdigest()
    kept = CACHE / f"enemy-{key[:32]}.wasm"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "enemy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever else wants it waits
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as name:
                work = Path(name)
                (work / "plugin.wit").write_text(wit, encoding="utf-8")
                command = [
                    str(COMPONENTIZE),
                    "-d",
                    "plugin.wit",
                    "-w",
                    "tool-plugin",
                    "componentize",
                    GUEST.stem,
                ]
                command += ["-p", str(GUEST.parent), "-o", "enemy.wasm"]
                subprocess.run(command, cwd=work, check=True, capture_output=True)
                (work / "enemy.wasm").replace(kept)
    return kept.read_bytes()


def does(function: str, name: str, bound: str, code: str | None, says: str = "", **more: object) -> Attack:
    """The attack of one function of the guest."""
    options: dict[str, object] = {"limits": INTERPRETED, "host_mib": 160, "records": 1, **more}
    return Attack(
        name=f"Python: {name}",
        build=component,
        bound=bound,
        code=code,
        says=says,
        arguments={"do": function},
        **options,  # type: ignore[arg-type]
    )


def denied(function: str, name: str, says: str = "the plugin raised") -> Attack:
    return does(function, name, NOTHING_THERE, "guest_trap", says)


ATTACKS = (
    does("behave", "nothing at all", "nothing: this is what an honest plugin does", None),
    does("loop", "an endless loop", FUEL, "out_of_fuel"),
    does("loop", "an endless loop with fuel to spare", DEADLINE, "deadline_exceeded", limits=IMPATIENT),
    does("recurse", "an endless recursion", "the interpreter's own limit", "guest_trap", "RecursionError"),
    does("recurse_without_limit", "an endless recursion without the interpreter's limit", STACK, "guest_trap", limits=WITH_BREATH),
    does("recurse_in_c", "a recursion through a hundred thousand lists", "the interpreter's own limit", "guest_trap", limits=WITH_BREATH),
    does("hoard", "memory without end", "`max_memory_mb`", "plugin_limit", "max_memory_mb is 48"),
    does("hoard_at_once", "a gibibyte at once", "`max_memory_mb`", "plugin_limit", "max_memory_mb is 48"),
    does("compute", "a number of a hundred million digits", FUEL, "out_of_fuel"),
    does("backtrack", "a regular expression that never ends", FUEL, "out_of_fuel"),
    does("sleep", "a sleep of days", DEADLINE, "deadline_exceeded", "while waiting", limits=IMPATIENT),
    does("wait_for_a_lock", "a lock it already has", DEADLINE, "guest_trap", limits=IMPATIENT),
    does("print_without_end", "output without end", f"{DEADLINE}; the last 64 KiB are kept", "deadline_exceeded", limits=IMPATIENT),
    does("raise_exit", "SystemExit", OWN_CALL, "guest_trap", "ended itself with status 1"),
    does("raise_interrupt", "KeyboardInterrupt", OWN_CALL, "guest_trap", "KeyboardInterrupt"),
    does("raise_with_escapes", "an exception made of terminal escapes", "the rule that texts of others are shown escaped", "guest_trap", "ValueError"),
    does("leave", "leaving with success", OWN_CALL, "guest_trap", "ended itself with status 0"),
    does("abort", "an abort", OWN_CALL, "guest_trap"),
    does("answer_nothing_known", "an answer of another type", OWN_CALL, "guest_trap"),
    does("answer_half_a_surrogate", "an answer that no text can hold", OWN_CALL, "guest_trap"),
    does("refuse_with_a_number", "an error of another type", OWN_CALL, "guest_trap"),
    does("lie_about_memory", "a lie about why it ended", "nothing: it lies about itself alone", "plugin_limit"),
    denied("start_a_thread", "a thread"),
    denied("start_a_program", "a program"),
    denied("read_a_file", "reading a file"),
    denied("write_a_file", "writing a file"),
    denied("connect", "a connection"),
    denied("resolve", "a name to be resolved"),
    denied("listen", "a port to listen on"),
    denied("load_a_library", "a library of the system's"),
    denied("look_around", "a look at files, environment and arguments"),
)  # fmt: skip
