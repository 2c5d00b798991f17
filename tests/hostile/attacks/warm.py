"""Attacks of plugins that stay: what a channel or a memory can do with an instance that is kept from call to call.

Each hostile body is that of ``health-check``, which both worlds have, unless it is about another function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from forge import PLUGIN, Forge

from attacks.abusing import AFTER, BLOCK, CHECK_WRITE, EXIT, STDOUT, WRITE, repeated
from attacks.attack import HASTY, LOCALS, Attack, Stage, beside
from attacks.growing import ROOMY
from attacks.lying import LOG, OWN_CALL, record
from attacks.spinning import DEADLINE, FOREVER, FUEL, STACK
from zeroclaw_host.contract import (
    EnumType,
    FlagsType,
    FunctionType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
    WitType,
    contract,
)
from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.resources import MAX_HANDLES
from zeroclaw_host.sandbox.values import Err, Ok

WORLDS = ("channel", "memory")

AT_LOAD = {
    "channel": (
        "configure",
        "get-channel-capabilities",
        "self-handle",
        "self-addressed-mention",
        "multi-message-delay-ms",
    ),
    "memory": ("name", "get-memory-capabilities"),
}
"""What a world calls when a plugin is loaded."""

NEVER = {"channel": ("name", "drop-self-message", "supports-multi-message-streaming"), "memory": ()}
"""What it never calls, whatever the flags say."""

SAFE = {"channel": ("health-check", "poll-message"), "memory": ("health-check", "count")}
"""Two functions of a world, one of which answers while the other is attacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmAttack(Attack):
    """An attack by a plugin of a world whose instances are kept.

    :param world: ``channel`` or ``memory``.
    :param function: the export whose call is the attack.
    :param calls: how many calls it takes until the error comes; all before it work.
    :param kept: whether the instance survives it.
    """

    world: str
    function: str = "health-check"
    calls: int = 1
    kept: bool = False


def functions(world: str) -> Mapping[str, FunctionType]:
    """The exports of a world's main interface."""
    return contract().interface(f"{PLUGIN}{world}").functions


def example(kind: WitType | None) -> object:
    """Some value of a type."""
    match kind:
        case Primitive("string"):
            return "x"
        case Primitive("bool"):
            return True
        case Primitive("f32" | "f64"):
            return 1.0
        case Primitive():
            return 1
        case ListType():
            return []
        case OptionType() | None:
            return None
        case ResultType(ok):
            return Ok(example(ok))
        case FlagsType(labels):
            return frozenset(labels)
        case EnumType(cases):
            return cases[0]
        case VariantType(cases):
            return (cases[0][0], example(cases[0][1]))
        case RecordType(fields):
            return {name: example(field) for name, field in fields}
        case TupleType(elements):
            return tuple(map(example, elements))
        case _:
            raise TypeError(f"no guest hands over {kind}")


def answers(world: str) -> dict[str, object]:
    """An answer for each export of a world; every flag is set."""
    return {f"{world}.{name}": example(function.result) for name, function in functions(world).items()}


def trapping(world: str, trapped: Iterable[str]) -> bytes:
    """A plugin some of whose exports trap; all others answer."""
    returns = answers(world)
    bodies = {f"{world}.{name}": "unreachable" for name in trapped}
    return Forge(f"{world}-plugin").component(returns=returns, bodies=bodies)


def checking(
    world: str, body: str, *, imports: Iterable[str] = (), extra: str = "", **more: object
) -> Callable[[], bytes]:
    """A plugin whose ``health-check`` does this and then says that all is well."""

    def build() -> bytes:
        return Forge(f"{world}-plugin").component(
            returns=answers(world),
            bodies={f"{world}.health-check": f"{LOCALS} {body} (i32.const 1)"},
            imports=imports,
            extra=extra,
            **more,  # type: ignore[arg-type]
        )

    return build


def saying(world: str, function: str, value: object) -> Callable[[], bytes]:
    """A plugin one of whose functions answers with this."""

    def build() -> bytes:
        return Forge(f"{world}-plugin").component(returns={**answers(world), f"{world}.{function}": value})

    return build


def doing(
    world: str, function: str, body: str, *, trapped: Iterable[str] = (), **more: object
) -> Callable[[], bytes]:
    """A plugin one of whose functions does this, its result included, while others trap."""

    def build() -> bytes:
        bodies = {f"{world}.{name}": "unreachable" for name in trapped}
        return Forge(f"{world}-plugin").component(
            returns=answers(world),
            bodies={**bodies, f"{world}.{function}": f"{LOCALS} {body}"},
            **more,  # type: ignore[arg-type]
        )

    return build


def _in_both(world: str) -> Iterator[WarmAttack]:
    yield WarmAttack(
        name="endless loop", world=world, build=checking(world, FOREVER), bound=FUEL, code="out_of_fuel"
    )
    yield WarmAttack(
        name="endless loop with fuel to spare",
        world=world,
        build=checking(world, FOREVER),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    )
    yield WarmAttack(
        name="endless recursion",
        world=world,
        build=checking(world, "(call $deeper)", extra="(func $deeper (call $deeper))"),
        bound=STACK,
        code="guest_trap",
    )
    yield WarmAttack(
        name="a sleep without end",
        world=world,
        build=checking(world, f'(call $"{BLOCK}" (call $"{AFTER}" (i64.const -1)))', imports=[AFTER, BLOCK]),
        bound=DEADLINE,
        code="deadline_exceeded",
        limits=HASTY,
    )
    yield WarmAttack(
        name="memory that grows with each call",
        world=world,
        build=checking(
            world,
            """(if (i32.lt_s (memory.grow (i32.const 64)) (i32.const 0)) (then unreachable))
            (memory.fill (i32.mul (i32.sub (memory.size) (i32.const 64)) (i32.const 65536)) (i32.const 1) (i32.const 4194304))""",
        ),
        bound="`max_memory_mb`; the instance is dropped, and its memory with it",
        code="guest_trap",
        calls=4,
    )
    yield WarmAttack(
        name="handles kept with each call",
        world=world,
        build=checking(world, repeated(5000, f'(drop (call $"{AFTER}" (i64.const -1)))'), imports=[AFTER]),
        bound=f"{MAX_HANDLES:,} host resources; the instance is dropped, and they are closed",
        code="plugin_limit",
        calls=4,
    )
    yield WarmAttack(
        name="log records beyond the budget, in each call",
        world=world,
        build=checking(world, repeated(1500, record()), imports=[LOG]),
        bound=f"{MAX_HOST_CALLS:,} host calls a call",
        code=None,
        calls=2,
        kept=True,
        records=2 * MAX_HOST_CALLS,
    )
    yield WarmAttack(
        name="output in each call",
        world=world,
        build=checking(
            world,
            f"""(drop (memory.grow (i32.const 4))) (local.set $a (call $"{STDOUT}"))
            (call $"{CHECK_WRITE}" (local.get $a) (i32.const 512))
            (call $"{WRITE}" (local.get $a) (i32.const 0) (i32.const 200000) (i32.const 512))""",
            imports=[STDOUT, CHECK_WRITE, WRITE],
        ),
        bound="64 KiB a call are kept",
        code=None,
        calls=3,
        kept=True,
        records=3,
    )
    yield WarmAttack(
        name="leaving with success",
        world=world,
        build=checking(world, f'(call $"{EXIT}" (i32.const 0))', imports=[EXIT]),
        bound=OWN_CALL,
        code="guest_trap",
        says="ended itself",
    )
    yield WarmAttack(
        name="an endless loop at its start",
        world=world,
        build=checking(world, "", extra=f"(func $spin {FOREVER}) (start $spin)"),
        bound=FUEL,
        code="out_of_fuel",
        stage=Stage.STARTING,
    )
    yield WarmAttack(
        name="flags that do not exist",
        world=world,
        build=doing(world, f"get-{world}-capabilities", "(i32.const -1)"),
        bound="the contract, which does not know them",
        code=None,
        kept=True,
    )
    yield WarmAttack(
        name="a network",
        world=world,
        build=beside(
            '(import "zeroclaw:plugin/websocket@0.1.0" (instance (export "connect" (func))))', world=world
        ),
        bound="the comparison with the contract",
        code="component_mismatch",
        stage=Stage.LINKING,
    )


MESSAGE = {
    **dict.fromkeys(("id", "sender", "reply-target", "content", "channel"), "x"),
    **dict.fromkeys(("channel-alias", "thread-ts", "interruption-scope-id", "subject")),
    "timestamp": 2**64 - 1,
    "attachments": [],
}
ENTRY = {
    **dict.fromkeys(("id", "key", "content", "timestamp", "namespace"), "x"),
    **dict.fromkeys(("session-id", "superseded-by", "agent-alias", "agent-id")),
    "category": ("custom", ""),
    "score": math.nan,
    "importance": math.inf,
}

CHANNEL = (
    WarmAttack(
        name="a message from the end of time",
        world="channel",
        function="poll-message",
        build=saying("channel", "poll-message", MESSAGE),
        bound="nothing: a number is a number",
        code=None,
        kept=True,
    ),
    WarmAttack(
        name="a message whose attachments are a lie",
        world="channel",
        function="poll-message",
        build=saying("channel", "poll-message", {**MESSAGE, "attachments": [{"file-name": "x", "data": b"x", "mime-type": None}] * 3}),
        bound="nothing: three attachments are three",
        code=None,
        kept=True,
    ),
    WarmAttack(
        name="an endless loop in its configuration",
        world="channel",
        build=doing("channel", "configure", f"{FOREVER} unreachable"),
        bound=FUEL,
        code="out_of_fuel",
        stage=Stage.LOADING,
    ),
    WarmAttack(
        name="an endless loop for each webhook request",
        world="channel",
        function="parse-webhook",
        build=doing("channel", "parse-webhook", f"{FOREVER} unreachable"),
        bound=f"{FUEL}; each request has an instance of its own",
        code="out_of_fuel",
        kept=True,
    ),
    WarmAttack(
        name="configuration asked for without end",
        world="channel",
        build=checking("channel", "(loop (call $config.get (i32.const 512)) (br 0))", imports=["config.get"]),
        bound=f"{MAX_HOST_CALLS:,} host calls, then {FUEL}",
        code="out_of_fuel",
        limits=Limits(call_fuel=200_000, call_timeout_ms=20_000, max_memory_mb=16),
    ),
    WarmAttack(
        name="queued messages asked for beyond the budget",
        world="channel",
        build=checking(
            "channel",
            repeated(1500, "(call $inbound.inbound-poll (i32.const 512))")
            + "(if (i32.load8_u (i32.const 512)) (then unreachable))",
            imports=["inbound.inbound-poll"],
        ),
        bound=f"{MAX_HOST_CALLS:,} host calls; then the queue is empty",
        code=None,
        kept=True,
    ),
    WarmAttack(
        name="a refusal in each call",
        world="channel",
        function="send",
        build=saying("channel", "send", Err("\x1b[31mno\n")),
        bound="nothing: an error is an answer",
        code="guest_failure",
        kept=True,
    ),
)  # fmt: skip

MANY = """
(drop (memory.grow (i32.const {pages})))
(i32.store8 (i32.const 0) (i32.const 0)) (i32.store (i32.const 4) (i32.const 131072)) (i32.store (i32.const 8) (i32.const {count}))
(i32.const 0)"""
"""A list of so many entries, all of them zeros: empty texts, no options, the first category."""

MEMORY = (
    WarmAttack(
        name="scores that are no numbers and a category without a name",
        world="memory",
        function="recall",
        build=saying("memory", "recall", Ok([ENTRY])),
        bound="nothing yet: whoever ranks entries must not rely on scores",
        code=None,
        kept=True,
    ),
    WarmAttack(
        name="a category that does not exist",
        world="memory",
        function="recall",
        build=doing(
            "memory",
            "recall",
            """(i32.store8 (i32.const 0) (i32.const 0)) (i32.store (i32.const 4) (i32.const 16))
            (i32.store (i32.const 8) (i32.const 1)) (i32.store8 (i32.const 40) (i32.const 9)) (i32.const 0)""",
        ),
        bound=OWN_CALL,
        code="guest_trap",
        says="discriminant 9",
    ),
    WarmAttack(
        name="twenty thousand entries at once",
        world="memory",
        function="recall",
        build=doing("memory", "recall", MANY.format(pages=60, count=20_000)),
        bound=f"{DEADLINE}, which goes for reading an answer too",
        code="deadline_exceeded",
        limits=HASTY,
        host_mib=160,
    ),
    WarmAttack(
        name="three hundred thousand entries at once",
        world="memory",
        function="recall",
        build=doing("memory", "recall", MANY.format(pages=840, count=300_000)),
        bound="128 MiB of values at once",
        code="plugin_limit",
        limits=ROOMY,
        host_mib=400,
    ),
    WarmAttack(
        name="as many entries as there are numbers",
        world="memory",
        function="count",
        build=saying("memory", "count", Ok(2**64 - 1)),
        bound="nothing: a number is a number",
        code=None,
        kept=True,
    ),
    WarmAttack(
        name="secrets",
        world="memory",
        build=beside('(import "zeroclaw:plugin/secrets@0.1.0" (instance (export "get" (func))))', world="memory"),
        bound="the comparison with the contract",
        code="component_mismatch",
        stage=Stage.LINKING,
    ),
)  # fmt: skip

WARM_ATTACKS: tuple[WarmAttack, ...] = (*_in_both("channel"), *_in_both("memory"), *CHANNEL, *MEMORY)
