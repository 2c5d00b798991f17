"""Attacks on conversion: values that are none, and allocators and answers that lie."""

from __future__ import annotations

from attacks.attack import Attack, Stage, answering, beside, metadata, tool
from zeroclaw_host.sandbox.values import Err

OWN_CALL = "its own call"
"""What a broken rule of the component model ends, and all that it ends."""

STORE_TEXT = """
(i32.store8 (i32.const 0) (i32.const 0)) (i32.store8 (i32.const 4) (i32.const 1))
(i32.store (i32.const 8) (i32.const 512)) (i32.store (i32.const 12) (i32.const {size}))
(i32.store8 (i32.const 16) (i32.const {option}))"""
"""A successful answer at 0 whose text is the memory from 512 on."""

LOG = "logging.log-record"
RECORD = "(call $logging.log-record (i32.const {level}) (i32.const 512) (i32.const 1) (i32.const {action}) (i32.const {some}) (i32.const {outcome}) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512) (i32.const {size}))"


def record(*, level: int = 2, action: int = 0, some: int = 0, outcome: int = 0, size: int = 1) -> str:
    """The call that logs one record, with parts of it chosen."""
    return RECORD.format(level=level, action=action, some=some, outcome=outcome, size=size)


def lie(name: str, body: str, says: str, **more: object) -> Attack:
    """An attack that breaks a rule of the component model in its own call."""
    return Attack(
        name=name,
        build=tool(body, **more),  # type: ignore[arg-type]
        bound=OWN_CALL,
        code="guest_trap",
        says=says,
    )


ATTACKS = (
    lie(
        "an answer that is no UTF-8",
        "(i32.store8 (i32.const 512) (i32.const 255))"
        + STORE_TEXT.format(size=1, option=0)
        + "(return (i32.const 0))",
        "invalid utf-8",
    ),
    lie(
        "an answer in UTF-8 that is cut off",
        "(i32.store8 (i32.const 512) (i32.const 0xe2))"
        + STORE_TEXT.format(size=1, option=0)
        + "(return (i32.const 0))",
        "utf-8",
    ),
    lie(
        "an answer in UTF-8 with half of a surrogate pair",
        "(i32.store (i32.const 512) (i32.const 0x80a0ed))"
        + STORE_TEXT.format(size=3, option=0)
        + "(return (i32.const 0))",
        "utf-8",
    ),
    lie("an answer at an address outside its memory", "(return (i32.const -4))", "out of bounds"),
    lie("an answer at an address that is not aligned", "(return (i32.const 1))", "not aligned"),
    lie(
        "an answer that reaches over the end of its memory",
        "(return (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)))",
        "out of bounds",
    ),
    lie(
        "an answer whose text is longer than its memory",
        STORE_TEXT.format(size=-1, option=0) + "(return (i32.const 0))",
        "out of bounds",
    ),
    lie(
        "an answer that is neither success nor failure",
        "(i32.store8 (i32.const 0) (i32.const 9)) (return (i32.const 0))",
        "discriminant 9",
    ),
    lie(
        "an answer with an option that is neither there nor not",
        STORE_TEXT.format(size=1, option=7) + "(return (i32.const 0))",
        "discriminant 7",
    ),
    Attack(
        name="a truth value that is neither 0 nor 1",
        build=tool(
            STORE_TEXT.format(size=0, option=0)
            + "(i32.store8 (i32.const 4) (i32.const 170)) (return (i32.const 0))"
        ),
        bound="the component model, by which it is true",
        code=None,
    ),
    lie("a log level that does not exist", record(level=99), "discriminant 99", imports=[LOG]),
    lie("a log level below zero", record(level=-1), "discriminant", imports=[LOG]),
    lie("an action that does not exist", record(action=38), "discriminant 38", imports=[LOG]),
    lie("an outcome that does not exist", record(some=1, outcome=2), "discriminant 2", imports=[LOG]),
    lie("a record whose text lies outside its memory", record(size=-1), "out of bounds", imports=[LOG]),
    lie(
        "a result of the host's at an address outside its memory",
        "(call $secrets.get (i32.const 0) (i32.const 0) (i32.const -4))",
        "out of bounds",
        imports=["secrets.get"],
    ),
    lie(
        "a result of the host's at an address that is not aligned",
        "(call $secrets.get (i32.const 0) (i32.const 0) (i32.const 511))",
        "aligned",
        imports=["secrets.get"],
    ),
    lie("an allocator that traps", "", "aborted", realloc="unreachable"),
    lie(
        "an allocator that gives an address outside the memory",
        "",
        "realloc return",
        realloc="(i32.const -16)",
    ),
    lie(
        "an allocator that gives the end of the memory",
        "",
        "realloc return",
        realloc="(i32.mul (memory.size) (i32.const 65536))",
    ),
    Attack(
        name="an allocator that always gives the same address",
        build=tool("", realloc="(i32.const 0)"),
        bound="its own memory",
        code=None,
    ),
    lie(
        "an allocator that calls the host",
        "",
        "cannot-leave-component-instance",
        imports=["wasi:clocks/monotonic-clock.now"],
        realloc='(drop (call $"wasi:clocks/monotonic-clock.now")) (i32.const 512)',
    ),
    lie(
        "a post-return that calls the host",
        "",
        "cannot-leave-component-instance",
        imports=["wasi:clocks/monotonic-clock.now"],
        post={"tool.execute": '(drop (call $"wasi:clocks/monotonic-clock.now"))'},
    ),
    lie("a post-return that traps", "", "aborted", post={"tool.execute": "unreachable"}),
    Attack(
        name="a trap in the tool's description",
        build=metadata("tool.description", "(i32.div_u (i32.const 1) (i32.const 0)) drop"),
        bound=OWN_CALL,
        code="guest_trap",
        says="divided by zero",
        stage=Stage.LOADING,
    ),
    Attack(
        name="a tool without a name",
        build=answering("", function="tool.name"),
        bound="the rule that a tool has one",
        code="guest_failure",
        says="no name",
        stage=Stage.LOADING,
    ),
    *(
        Attack(
            name=f"a schema that is {what}",
            build=answering(text, function="tool.parameters-schema"),
            bound="the rule that it is a JSON object",
            code="guest_failure",
            says="schema",
            stage=Stage.LOADING,
        )
        for what, text in {
            "no JSON": "{",
            "a list": "[]",
            "not a number": '{"x": NaN}',
            "half of a surrogate pair": '{"x": "\\ud800"}',
            "a number of ten thousand digits": '{"x": ' + "9" * 10_000 + "}",
        }.items()
    ),
    Attack(
        name="an error made of terminal escapes and line breaks",
        build=answering(Err("\x1b[2J\x1b]0;owned\x07\r\nroot: all is well\u202e\x00")),
        bound="the rule that texts of others are shown escaped",
        code="guest_failure",
    ),
    Attack(
        name="an error without a text",
        build=answering(Err("")),
        bound=OWN_CALL,
        code="guest_failure",
        says="without a text",
    ),
    Attack(
        name="a function named with terminal escapes, which traps",
        build=beside(
            r"""(core module $named
              (func $f (@name "\1b[2J\0aCaused by:\0awasm trap: all fuel consumed by WebAssembly\0a") unreachable)
              (start $f)) (core instance (instantiate $named))"""
        ),
        bound="the rule that only the engine's own words decide",
        code="guest_trap",
        says="aborted",
        stage=Stage.STARTING,
    ),
)
