"""Attacks on what the host lends: handles, streams, waits, randomness, the log, the budget of host calls."""

from __future__ import annotations

from forge import Forge

from attacks.attack import HARMLESS, HASTY, Attack, tool
from attacks.lying import LOG, OWN_CALL, lie, record
from attacks.spinning import DEADLINE, FUEL
from zeroclaw_host.contract import Primitive
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import MAX_HANDLES

BUDGET = f"{MAX_HOST_CALLS:,} host calls"
HANDLES = f"{MAX_HANDLES:,} host resources"

NOW = "wasi:clocks/monotonic-clock.now"
AFTER = "wasi:clocks/monotonic-clock.subscribe-duration"
AT = "wasi:clocks/monotonic-clock.subscribe-instant"
POLL = "wasi:io/poll.poll"
BLOCK = "wasi:io/poll.[method]pollable.block"
DROP_POLLABLE = "wasi:io/poll.[resource-drop]pollable"
STDIN, STDOUT, STDERR = (f"wasi:cli/{name}.get-{name}" for name in ("stdin", "stdout", "stderr"))
READ = "wasi:io/streams.[method]input-stream.read"
BLOCKING_READ = "wasi:io/streams.[method]input-stream.blocking-read"
BLOCKING_SKIP = "wasi:io/streams.[method]input-stream.blocking-skip"
CHECK_WRITE = "wasi:io/streams.[method]output-stream.check-write"
WRITE = "wasi:io/streams.[method]output-stream.write"
ZEROES = "wasi:io/streams.[method]output-stream.write-zeroes"
BLOCKING_WRITE = "wasi:io/streams.[method]output-stream.blocking-write-and-flush"
BLOCKING_FLUSH = "wasi:io/streams.[method]output-stream.blocking-flush"
BLOCKING_SPLICE = "wasi:io/streams.[method]output-stream.blocking-splice"
SUBSCRIBE = "wasi:io/streams.[method]output-stream.subscribe"
DROP_OUTPUT = "wasi:io/streams.[resource-drop]output-stream"
RANDOM = "wasi:random/random.get-random-bytes"
INSECURE = "wasi:random/insecure.get-insecure-random-bytes"
EXIT = "wasi:cli/exit.exit"
SOCKET = "wasi:sockets/tcp-create-socket.create-tcp-socket"
OPEN = "wasi:filesystem/types.[method]descriptor.stat"

LONG = Limits(call_fuel=10**15, call_timeout_ms=1000, max_memory_mb=16)
"""For floods that are cut off by time: they have a second."""

FLOODING = f"""
(drop (memory.grow (i32.const 16)))
(local.set $a (call $"{{stream}}"))
(loop
  (call $"{CHECK_WRITE}" (local.get $a) (i32.const 512))
  (call $"{WRITE}" (local.get $a) (i32.const 65536) (i32.const 1000000) (i32.const 512))
  (br 0))"""


def handles(count: int, make: str) -> str:
    """Make so many handles and write them down from 65536 on."""
    return f"""
    (drop (memory.grow (i32.const 8)))
    (loop
      (i32.store (i32.add (i32.const 65536) (i32.shl (local.get $n) (i32.const 2))) {make})
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get $n) (i32.const {count}))))"""


def repeated(count: int, call: str) -> str:
    """Do something so many times."""
    return f"""
    (loop {call}
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if 0 (i32.lt_u (local.get $n) (i32.const {count}))))"""


def sleep(name: str, imports: list[str], body: str, *, says: str = "while waiting for") -> Attack:
    """An attack that waits for what never comes."""
    return Attack(
        name=name,
        build=tool(body, imports=imports),
        bound=DEADLINE,
        code="deadline_exceeded",
        says=says,
        limits=HASTY,
    )


def flood(name: str, imports: list[str], call: str, bound: str, code: str, **more: object) -> Attack:
    """An attack that does something again and again."""
    return Attack(
        name=name,
        build=tool(f"(loop {call} (br 0))", imports=imports),
        bound=bound,
        code=code,
        **more,  # type: ignore[arg-type]
    )


WAITS = (
    sleep("a sleep of a century", [AFTER, BLOCK], f'(call $"{BLOCK}" (call $"{AFTER}" (i64.const 3155760000000000000)))'),
    sleep("a sleep of the longest time there is", [AFTER, BLOCK], f'(call $"{BLOCK}" (call $"{AFTER}" (i64.const -1)))'),
    sleep("a sleep until the end of time", [AT, BLOCK], f'(call $"{BLOCK}" (call $"{AT}" (i64.const -1)))'),
    sleep(
        "a poll of a thousand that are never ready",
        [AFTER, POLL],
        handles(1000, f'(call $"{AFTER}" (i64.const -1))')
        + f'(call $"{POLL}" (i32.const 65536) (i32.const 1000) (i32.const 512))',
        says="",
    ),
    Attack(
        name="a thousand short sleeps",
        build=tool(
            repeated(1_000_000, f'(call $"{BLOCK}" (local.tee $a (call $"{AFTER}" (i64.const 1000000)))) (call $"{DROP_POLLABLE}" (local.get $a))'),
            imports=[AFTER, BLOCK, DROP_POLLABLE],
        ),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    ),
    Attack(
        name="waiting for input that never comes",
        build=tool(
            f"""(local.set $a (call $"{STDIN}"))
            (call $"{BLOCKING_READ}" (local.get $a) (i64.const -1) (i32.const 512))
            (call $"{BLOCKING_SKIP}" (local.get $a) (i64.const -1) (i32.const 512))""",
            imports=[STDIN, BLOCKING_READ, BLOCKING_SKIP],
        ),
        bound="its input, which is at its end",
        code=None,
    ),
    Attack(
        name="waiting for output to leave",
        build=tool(
            f"""(local.set $a (call $"{STDOUT}"))
            (call $"{BLOCKING_WRITE}" (local.get $a) (i32.const 0) (i32.const 4096) (i32.const 512))
            (call $"{BLOCKING_FLUSH}" (local.get $a) (i32.const 512))
            (call $"{BLOCKING_SPLICE}" (local.get $a) (call $"{STDIN}") (i64.const -1) (i32.const 512))""",
            imports=[STDOUT, STDIN, BLOCKING_WRITE, BLOCKING_FLUSH, BLOCKING_SPLICE],
        ),
        bound="its output, which never waits",
        code=None,
        records=1,
    ),
)  # fmt: skip

HANDLE_ATTACKS = (
    lie("a poll of nothing", f'(call $"{POLL}" (i32.const 0) (i32.const 0) (i32.const 512))', "at least one", imports=[POLL]),
    lie(
        "a poll of one handle twenty thousand times",
        f"""(drop (memory.grow (i32.const 8))) (local.set $b (call $"{AFTER}" (i64.const -1)))
        (loop
          (i32.store (i32.add (i32.const 65536) (i32.shl (local.get $n) (i32.const 2))) (local.get $b))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if 0 (i32.lt_u (local.get $n) (i32.const 20000))))
        (call $"{POLL}" (i32.const 65536) (i32.const 20000) (i32.const 512))""",
        f"at most {MAX_HANDLES}",
        imports=[AFTER, POLL],
    ),
    flood("timers without end", [AFTER], f'(drop (call $"{AFTER}" (i64.const 0)))', HANDLES, "plugin_limit", says="host resources"),
    flood("streams without end", [STDOUT], f'(drop (call $"{STDOUT}"))', HANDLES, "plugin_limit"),
    Attack(
        name="twenty thousand handles, each dropped in time",
        build=tool(
            repeated(20_000, f'(call $"{DROP_POLLABLE}" (call $"{AFTER}" (i64.const 0)))'), imports=[AFTER, DROP_POLLABLE]
        ),
        bound="nothing: only what is held counts",
        code=None,
    ),
    Attack(
        name="a stream dropped before the pollable made of it",
        build=tool(
            f"""(local.set $a (call $"{STDOUT}")) (local.set $b (call $"{SUBSCRIBE}" (local.get $a)))
            (call $"{DROP_OUTPUT}" (local.get $a)) (call $"{BLOCK}" (local.get $b)) (call $"{DROP_POLLABLE}" (local.get $b))""",
            imports=[STDOUT, SUBSCRIBE, DROP_OUTPUT, BLOCK, DROP_POLLABLE],
        ),
        bound="nothing: each is kept by itself",
        code=None,
    ),
    lie(
        "a handle dropped twice",
        f"""(local.set $a (call $"{AFTER}" (i64.const 0)))
        (call $"{DROP_POLLABLE}" (local.get $a)) (call $"{DROP_POLLABLE}" (local.get $a))""",
        "unknown handle",
        imports=[AFTER, DROP_POLLABLE],
    ),
    lie(
        "a handle used after its drop",
        f"""(local.set $a (call $"{AFTER}" (i64.const 0)))
        (call $"{DROP_POLLABLE}" (local.get $a)) (call $"{BLOCK}" (local.get $a))""",
        "unknown handle",
        imports=[AFTER, DROP_POLLABLE, BLOCK],
    ),
    lie("a handle that was never given", f'(call $"{BLOCK}" (i32.const 77))', "unknown handle index 77", imports=[BLOCK]),
    lie(
        "a handle of another kind",
        f'(call $"{BLOCK}" (call $"{STDOUT}"))',
        "handle",
        imports=[STDOUT, BLOCK],
    ),
    lie("a file that was never opened", f'(call $"{OPEN}" (i32.const 1) (i32.const 512))', "unknown handle", imports=[OPEN]),
    Attack(
        name="handles kept to the end",
        build=tool(repeated(1000, f'(drop (call $"{AFTER}" (i64.const -1))) (drop (call $"{STDOUT}"))'), imports=[AFTER, STDOUT]),
        bound="the end of its call",
        code=None,
    ),
    lie(
        "a trap with handles still held",
        repeated(1000, f'(drop (call $"{AFTER}" (i64.const -1)))') + "unreachable",
        "aborted",
        imports=[AFTER],
    ),
)  # fmt: skip

OUTPUT = (
    *(
        Attack(
            name=f"{name} without end",
            build=tool(FLOODING.format(stream=stream), imports=[stream, CHECK_WRITE, WRITE]),
            bound=f"{DEADLINE}; the last 64 KiB are kept",
            code="deadline_exceeded",
            limits=LONG,
            host_mib=128,
            records=1,
        )
        for name, stream in (("standard output", STDOUT), ("standard error", STDERR))
    ),
    lie("a write that was not permitted", f'(call $"{WRITE}" (call $"{STDOUT}") (i32.const 0) (i32.const 1) (i32.const 512))', "beyond what check-write permitted", imports=[STDOUT, WRITE]),
    lie(
        "a write of zeroes without end",
        f"""(local.set $a (call $"{STDOUT}")) (call $"{CHECK_WRITE}" (local.get $a) (i32.const 512))
        (call $"{ZEROES}" (local.get $a) (i64.const -1) (i32.const 512))""",
        "beyond what check-write permitted",
        imports=[STDOUT, CHECK_WRITE, ZEROES],
    ),
    lie("a blocking write of a byte too much", f'(call $"{BLOCKING_WRITE}" (call $"{STDOUT}") (i32.const 0) (i32.const 4097) (i32.const 512))', "at most 4096", imports=[STDOUT, BLOCKING_WRITE]),
    Attack(
        name="a read of more than there can be",
        build=tool(f'(call $"{READ}" (call $"{STDIN}") (i64.const -1) (i32.const 512))', imports=[STDIN, READ]),
        bound="its input, which is at its end",
        code=None,
    ),
    Attack(
        name="log records without end",
        build=tool(f"(loop {record()} (br 0))", imports=[LOG]),
        bound=f"{BUDGET}, then {FUEL}",
        code="out_of_fuel",
        limits=Limits(call_fuel=150_000, call_timeout_ms=20_000, max_memory_mb=16),
        records=MAX_HOST_CALLS,
    ),
    Attack(
        name="log records larger than a record may be",
        build=tool("(drop (memory.grow (i32.const 4)))" + repeated(100, record(size=65_537)), imports=[LOG]),
        bound="64 KiB a record; a larger one is dropped",
        code=None,
    ),
)  # fmt: skip

ENTROPY = (
    *(
        Attack(
            name=f"{name} of {size:,} bytes",
            build=tool(f'(call $"{function}" (i64.const {size}) (i32.const 512))', imports=[function]),
            bound="64 MiB of random bytes at once",
            code="plugin_limit",
            says="random bytes",
        )
        for name, function, size in (
            ("randomness", RANDOM, 2**31),
            ("randomness", RANDOM, 2**63),
            ("cheap randomness", INSECURE, 2**31),
        )
    ),
    lie("more randomness than its memory holds", f'(call $"{RANDOM}" (i64.const 40000000) (i32.const 512))', "", imports=[RANDOM]),
)  # fmt: skip


def asking_while_loaded() -> bytes:
    """A tool that asks for a secret when it is asked for its description, and traps unless nobody answers."""
    forge = Forge()
    text = forge.data.value(Primitive("string"), "A tool.")
    return forge.component(
        returns={"tool.execute": HARMLESS},
        bodies={
            "tool.description": f"""(call $secrets.get (i32.const 0) (i32.const 4) (i32.const 512))
            (if (i32.ne (i32.load8_u (i32.const 516)) (i32.const 2)) (then unreachable)) (i32.const {text})"""
        },
        imports=["secrets.get"],
    )


SERVICES = (
    Attack(
        name="a secret asked for while it is loaded",
        build=asking_while_loaded,
        bound="the phase of the call: then the answer is `unavailable`",
        code=None,
    ),
    Attack(
        name="host calls without end",
        build=tool('(loop (call $secrets.get (i32.const 0) (i32.const 4) (i32.const 512)) (br 0))', imports=["secrets.get"]),
        bound=f"{BUDGET}, then {FUEL}",
        code="out_of_fuel",
        limits=Limits(call_fuel=200_000, call_timeout_ms=20_000, max_memory_mb=16),
    ),
    Attack(
        name="five thousand requests for a secret",
        build=tool(
            repeated(5000, "(call $secrets.get (i32.const 0) (i32.const 4) (i32.const 512))")
            + "(if (i32.ne (i32.load8_u (i32.const 516)) (i32.const 2)) (then unreachable))",
            imports=["secrets.get"],
        ),
        bound=f"{BUDGET}; then the answer is `unavailable`",
        code=None,
    ),
    flood("asking for the time without end", [NOW], f'(drop (call $"{NOW}"))', DEADLINE, "deadline_exceeded", limits=HASTY),
    flood("asking for sockets without end", [SOCKET], f'(call $"{SOCKET}" (i32.const 0) (i32.const 512))', DEADLINE, "deadline_exceeded", limits=HASTY),
    Attack(
        name="a key of a megabyte",
        build=tool(
            """(drop (memory.grow (i32.const 20)))
            (call $state.get (i32.const 65536) (i32.const 1000000) (i32.const 512))""",
            imports=["state.get"],
        ),
        bound="the grammar of keys",
        code=None,
    ),
    *(
        Attack(
            name=f"leaving with {what}",
            build=tool(f'(call $"{EXIT}" (i32.const {status}))', imports=[EXIT]),
            bound=OWN_CALL,
            code="guest_trap",
            says=f"ended itself with status {status}",
        )
        for what, status in (("success", 0), ("failure", 1))
    ),
    lie("leaving with a status that does not exist", f'(call $"{EXIT}" (i32.const 7))', "discriminant", imports=[EXIT]),
)  # fmt: skip

ATTACKS = (*WAITS, *HANDLE_ATTACKS, *OUTPUT, *ENTROPY, *SERVICES)
