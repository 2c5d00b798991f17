"""What an attack is, and how a hostile guest is made."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from forge import PLUGIN, WASM_TOOLS, Forge
from wasmtime import wat2wasm

from zeroclaw_host.contract import contract
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.values import Ok

HARMLESS = Ok({"success": True, "output": "harmless", "error": None})
"""What a hostile tool answers when it is allowed to come to its end."""

LOCALS = "(local $a i32) (local $b i32) (local $n i32) (local $wide i64)"
"""Locals every hostile body may use, beside its parameters 0, 1, …; the memory below 1024 is free too."""


SMALL = Limits(call_fuel=20_000_000, call_timeout_ms=20_000, max_memory_mb=16)
"""For most attacks: what is reached soon, and no deadline that a busy machine could come near."""

HASTY = Limits(call_fuel=10**15, call_timeout_ms=200, max_memory_mb=16)
"""For attacks on time: fuel without end, and a deadline that is soon."""


class Stage(Enum):
    """How far an attack comes before it is stopped."""

    COMPILING = "compiling"
    LINKING = "linking"
    STARTING = "starting"
    LOADING = "loading"
    CALLING = "calling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One hostile component and what has to become of it.

    :param name: what it does, in a few words; unique.
    :param build: makes the component.
    :param bound: what stops it, as an operator knows it.
    :param code: the code word of the error; None where the attack comes to nothing and the call works.
    :param says: a pattern that the error's message matches.
    :param stage: where the error comes.
    :param limits: the limits of the call; small, so that reaching one takes no time.
    :param host_mib: how much the host's memory may grow meanwhile, the guest's own included.
    :param records: at most so many log records come of it.
    :param slow: compiling or running it takes tens of seconds.
    """

    name: str
    build: Callable[[], bytes] = field(repr=False)
    bound: str
    code: str | None
    says: str = ""
    stage: Stage = Stage.CALLING
    limits: Limits = SMALL
    host_mib: int = 48
    records: int = 0
    slow: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def before_the_first_call(self) -> bool:
        """Whether the error comes while the plugin is loaded."""
        return self.code is not None and self.stage is not Stage.CALLING


def tool(body: str, *, imports: Iterable[str] = (), extra: str = "", **more: object) -> Callable[[], bytes]:
    """A tool whose ``execute`` does this and then, if it comes that far, answers harmlessly."""

    def build() -> bytes:
        forge = Forge()
        result = contract().interface(f"{PLUGIN}tool").functions["execute"].result
        assert result is not None
        answer = forge.data.value(result, HARMLESS)
        return forge.component(
            bodies={"tool.execute": f"{LOCALS} {body} (i32.const {answer})"},
            imports=imports,
            extra=extra,
            **more,  # type: ignore[arg-type]
        )

    return build


def answering(value: object, *, function: str = "tool.execute", **more: object) -> Callable[[], bytes]:
    """A tool one of whose functions answers with this value."""

    def build() -> bytes:
        return Forge().component(returns={"tool.execute": HARMLESS, function: value}, **more)  # type: ignore[arg-type]

    return build


def metadata(function: str, body: str) -> Callable[[], bytes]:
    """A tool one of whose metadata functions does this and then traps."""

    def build() -> bytes:
        return Forge().component(
            bodies={function: f"{LOCALS} {body} unreachable"}, returns={"tool.execute": HARMLESS}
        )

    return build


@lru_cache
def honest_text(world: str) -> str:
    """The text of a whole component that is a harmless plugin."""
    component = Forge(f"{world}-plugin").component(returns={"tool.execute": HARMLESS})
    done = subprocess.run([str(WASM_TOOLS), "print", "-"], input=component, capture_output=True, check=True)
    return done.stdout.decode()


def beside(text: str, *, replace: tuple[str, str] = ("", ""), world: str = "tool") -> Callable[[], bytes]:
    """A harmless plugin with more in its component: imports, core modules, instances that start code of their own.

    :param replace: a piece of the plugin's own text, and what stands there instead.
    """

    def build() -> bytes:
        honest = honest_text(world)
        assert replace[0] in honest, replace[0]
        changed = honest.replace(*replace) if replace[0] else honest
        return bytes(wat2wasm(changed.rstrip().removesuffix(")") + text + ")"))

    return build


def starting(body: str, *, core: str = "", wired: str = "", given: str = "") -> Callable[[], bytes]:
    """A harmless tool beside which a start function does this.

    :param core: more of the core module the function is in.
    :param wired: definitions of the component before that module.
    :param given: the exports of the instance the module imports as ``""``.
    """
    return beside(
        f"""{wired}
        (core module $enemy {core} (func $start {LOCALS} {body}) (start $start))
        (core instance (instantiate $enemy (with "" (instance {given}))))"""
    )
