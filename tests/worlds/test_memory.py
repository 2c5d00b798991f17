"""A plugin's memory: warm, serialised, gone after a failure, back and empty when its owner asks."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from forge import Forge

from zeroclaw_host.errors import (
    ComponentMismatch,
    DeadlineExceeded,
    GuestFailure,
    GuestTrap,
    MemoryLimit,
    OutOfFuel,
    PluginError,
    PluginUnavailable,
    UsageError,
)
from zeroclaw_host.host import PluginHost
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.frame import CallCancelled
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.values import Err, Ok
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds import memory_values
from zeroclaw_host.worlds.kinds import (
    ExportFilter,
    Memory,
    MemoryCategory,
    MemoryEntry,
    MemoryUnsupported,
    ProceduralMessage,
)
from zeroclaw_host.worlds.memory import MemoryPlugin
from zeroclaw_host.worlds.metadata import MetadataChanged

UNAVAILABLE = "plugin instance is unavailable"

COUNTING = "(global $entries (mut i64) (i64.const 0))"
BUMP = "(global.set $entries (i64.add (global.get $entries) (i64.const 1))) (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)"
COUNTED = "(i32.store8 (i32.const 32) (i32.const 0)) (i64.store (i32.const 40) (global.get $entries)) (i32.const 32)"
COUNTER = {"memory.store-entry": BUMP, "memory.count": COUNTED}
"""A guest that remembers how much it was told."""

SPIN = "(loop (br 0)) (unreachable)"
RAW = {
    "id": "1",
    "key": "tea",
    "content": "green",
    "category": ("custom", "drink"),
    "timestamp": "2026-01-01T00:00:00Z",
    "session-id": "s",
    "score": 0.5,
    "namespace": "kitchen",
    "importance": 1.0,
    "superseded-by": "2",
    "agent-alias": "scout",
    "agent-id": "a1",
}
ENTRY = MemoryEntry(
    id="1",
    key="tea",
    content="green",
    category=MemoryCategory("drink", custom=True),
    timestamp="2026-01-01T00:00:00Z",
    session_id="s",
    score=0.5,
    namespace="kitchen",
    importance=1.0,
    superseded_by="2",
    agent_alias="scout",
    agent_id="a1",
)


class NoConfig:
    """A resolver that must not be asked."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        raise AssertionError("a memory has no configuration")


Load = Callable[..., MemoryPlugin]


@pytest.fixture
def log() -> MemoryLogSink:
    return MemoryLogSink()


@pytest.fixture
def load(sandbox: Sandbox, package_of: Callable[..., Any], log: MemoryLogSink) -> Iterator[Load]:
    """Forges a memory guest and loads it."""
    with ExitStack() as opened:

        def make(
            *, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic, **guest: Any
        ) -> MemoryPlugin:
            package = package_of(Forge("memory-plugin").component(**guest), capabilities=("memory",))
            scope = InstanceScope.admit(
                InstanceIdentity("probe", Capability.MEMORY, "main"), package.manifest
            )
            services = InstanceServices(config=NoConfig(), log=log)
            memory = MemoryPlugin.load(sandbox, package, scope, services, limits or Limits(), clock=clock)
            opened.callback(memory.close)
            return memory

        yield make


def count(memory: MemoryPlugin) -> int:
    return memory.run_sync(lambda it: it.count())


def store(memory: MemoryPlugin, key: str = "k") -> None:
    memory.run_sync(lambda it: it.store_entry(key, "c", MemoryCategory.CORE))


@pytest.mark.req("PLG-027")
@pytest.mark.req("PLG-118")
def test_a_plugins_memory_is_a_memory_like_any_other_and_reads_no_configuration(load: Load):
    memory = load(returns={"memory.name": "notebook"})
    assert isinstance(memory, Memory)
    assert (memory.name, memory.capabilities, memory.scope.identity.binding) == (
        "notebook",
        frozenset(),
        "main",
    )


@pytest.mark.req("PLG-118")
@pytest.mark.parametrize("imported", ["config.get", "secrets.get", "state.get", "inbound.inbound-poll"])
def test_a_memory_that_imports_more_than_the_log_does_not_load(
    load: Load, sandbox: Sandbox, package_of: Callable[..., Any], imported: str
):
    interface = imported.partition(".")[0]
    forge = Forge("memory-plugin")
    core = forge.core(imports=(imported,))
    wit = forge._wit.replace("world memory-plugin {", f"world memory-plugin {{\n    import {interface};")
    component = Forge("memory-plugin", wit=wit).lift(core)
    package = package_of(component, capabilities=("memory",))
    scope = InstanceScope.admit(InstanceIdentity("probe", Capability.MEMORY, "main"), package.manifest)
    services = InstanceServices(config=NoConfig(), log=MemoryLogSink())
    with pytest.raises(ComponentMismatch, match=interface):
        MemoryPlugin.load(sandbox, package, scope, services, Limits())


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_none(load: Load, number: float):
    memory = load(returns={"memory.get": Ok({**RAW, "score": number, "importance": number})})
    found = memory.run_sync(lambda it: it.get("tea"))
    assert found is not None
    assert (found.score, found.importance, found.content) == (None, None, "green")


def test_entries_are_read_on_the_guests_thread_and_no_more_of_them_than_were_asked_for(
    load: Load, monkeypatch: pytest.MonkeyPatch
):
    threads = list[str]()
    read = memory_values.entry_from_guest

    def noted(value: Any) -> MemoryEntry:
        threads.append(threading.current_thread().name)
        return read(value)

    monkeypatch.setattr(memory_values, "entry_from_guest", noted)
    memory = load(
        returns={
            "memory.get-memory-capabilities": frozenset({"recall-namespaced"}),
            "memory.get": Ok(RAW),
            **dict.fromkeys(
                (
                    "memory.recall",
                    "memory.recall-for-agents",
                    "memory.recall-namespaced",
                    "memory.list-entries",
                ),
                Ok([RAW] * 5),
            ),
        }
    )

    async def main() -> None:
        assert await memory.get("tea") == ENTRY
        assert await memory.list_entries() == [ENTRY] * 5
        assert await memory.recall("tea", 2) == [ENTRY] * 2
        assert await memory.recall_for_agents(None, "tea", 2) == [ENTRY] * 2
        assert await memory.recall_namespaced("n", "tea", 2) == [ENTRY] * 2

    anyio.run(main)
    assert len(threads) == 1 + 5 + 2 + 2 + 2
    assert all(name.startswith("zeroclaw-guest") for name in threads)


@pytest.mark.req("PLG-032")
def test_what_a_call_leaves_a_later_call_finds(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING)
    for _ in range(3):
        store(memory)
    assert count(memory) == 3


@pytest.mark.req("PLG-033")
def test_flags_are_read_exactly_once(load: Load):
    reads = BUMP.split("(i32.store8")[0] + "(i32.const 0)"
    memory = load(
        bodies={"memory.get-memory-capabilities": reads, "memory.count": COUNTED},
        returns={"memory.list-entries": Ok([]), "memory.get": Ok(None)},
        extra=COUNTING,
    )
    for _ in range(5):
        memory.run_sync(lambda it: it.get_for_agent("a", "b"))
        memory.run_sync(lambda it: it.export_entries(ExportFilter()))
        memory.run_sync(lambda it: it.reindex())
    assert count(memory) == 1


MESSAGES = [ProceduralMessage("user", "boil", "ada")]
STORED = ("k", "c", MemoryCategory.DAILY)

OPTIONAL: dict[str, tuple[Callable[[Memory], Any], object, object, object]] = {
    "get-for-agent": (lambda it: it.get_for_agent("tea", "a1"), Ok(RAW), ENTRY, None),
    "purge-namespace": (lambda it: it.purge_namespace("n"), Ok(7), 7, MemoryUnsupported),
    "purge-session": (lambda it: it.purge_session("s"), Ok(7), 7, MemoryUnsupported),
    "purge-session-for-agent": (
        lambda it: it.purge_session_for_agent("s", "a"),
        Ok(7),
        7,
        MemoryUnsupported,
    ),
    "purge-agent": (lambda it: it.purge_agent("a"), Ok(7), 7, MemoryUnsupported),
    "reindex": (lambda it: it.reindex(), Ok(7), 7, 0),
    "store-procedural": (
        lambda it: it.store_procedural(MESSAGES, session_id="s"),
        Err("full"),
        GuestFailure,
        None,
    ),
    "ensure-agent-uuid": (lambda it: it.ensure_agent_uuid("scout"), Ok("a1"), "a1", "scout"),
    "recall-namespaced": (lambda it: it.recall_namespaced("n", "q", 5), Ok([RAW]), [ENTRY], []),
    "export-entries": (
        lambda it: it.export_entries(ExportFilter(category=MemoryCategory("x", custom=True))),
        Ok([RAW]),
        [ENTRY],
        [],
    ),
    "store-with-metadata": (
        lambda it: it.store_with_metadata(*STORED, namespace="n", importance=0.1),
        Err("full"),
        GuestFailure,
        None,
    ),
}
"""Each optional function: a call, what the guest answers, what comes of it, and what comes without the flag."""


def outcome(memory: MemoryPlugin, call: Callable[[Memory], Any]) -> object:
    try:
        return memory.run_sync(call)
    except (PluginError, MemoryUnsupported) as error:
        return type(error)


@pytest.mark.req("PLG-034", "PLG-036")
@pytest.mark.parametrize("flag", OPTIONAL)
def test_without_its_flag_an_export_is_not_called_and_the_default_holds(load: Load, flag: str):
    call, _, _, default = OPTIONAL[flag]
    required = {
        "memory.get": Ok(None),
        "memory.recall": Ok([]),
        "memory.list-entries": Ok([]),
        "memory.store-entry": Ok(),
    }
    memory = load(returns=required)
    assert outcome(memory, call) == default
    assert memory.available


@pytest.mark.req("PLG-034")
@pytest.mark.parametrize("flag", OPTIONAL)
def test_with_its_flag_an_export_answers(load: Load, flag: str):
    call, answer, expected, _ = OPTIONAL[flag]
    memory = load(returns={"memory.get-memory-capabilities": frozenset({flag}), f"memory.{flag}": answer})
    assert outcome(memory, call) == expected


REQUIRED = {
    "memory.store-entry": Ok(),
    "memory.store-with-agent": Ok(),
    "memory.recall": Ok([RAW, RAW, RAW]),
    "memory.recall-for-agents": Ok([RAW, RAW]),
    "memory.get": Ok(RAW),
    "memory.list-entries": Ok([RAW]),
    "memory.forget": Ok(True),
    "memory.forget-for-agent": Ok(False),
    "memory.count": Ok(2**64 - 1),
    "memory.health-check": False,
}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda it: it.store_entry(*STORED, session_id="s"), None),
        (lambda it: it.store_with_agent(*STORED, agent_id="a"), None),
        (lambda it: it.recall("q", 2), [ENTRY, ENTRY]),
        (lambda it: it.recall_for_agents(["a"], "q", 1), [ENTRY]),
        (lambda it: it.recall_for_agents([], "q", 5), [ENTRY, ENTRY]),
        (lambda it: it.get("tea"), ENTRY),
        (lambda it: it.list_entries(MemoryCategory.CONVERSATION), [ENTRY]),
        (lambda it: it.forget("k"), True),
        (lambda it: it.forget_for_agent("k", "a"), False),
        (lambda it: it.count(), 2**64 - 1),
        (lambda it: it.health_check(), False),
    ],
)
def test_what_every_memory_does_goes_to_the_plugin(
    load: Load, call: Callable[[Memory], Any], expected: object
):
    assert load(returns=REQUIRED).run_sync(call) == expected


@pytest.mark.req("PLG-108")
def test_an_error_of_the_guest_is_an_answer_and_keeps_the_instance(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING, returns={"memory.forget": Err("no such key")})
    store(memory)
    with pytest.raises(GuestFailure, match="no such key"):
        memory.run_sync(lambda it: it.forget("k"))
    assert (memory.available, count(memory)) == (True, 1)


def test_an_argument_that_cannot_cross_reaches_nobody(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING)
    store(memory)
    for call in (lambda it: it.recall("q", -1), lambda it: it.get("\ud800")):
        with pytest.raises(UsageError):
            memory.run_sync(call)
    assert count(memory) == 1


FAULTS: dict[str, tuple[dict[str, Any], Limits, type[PluginError]]] = {
    "deadline": (
        {"bodies": {"memory.get": SPIN}},
        Limits(call_timeout_ms=50, call_fuel=2**62),
        DeadlineExceeded,
    ),
    "trap": ({}, Limits(), GuestTrap),
    "fuel": ({"bodies": {"memory.get": SPIN}}, Limits(call_fuel=100_000), OutOfFuel),
    "memory": (
        {"bodies": {"memory.get": "(drop (memory.grow (i32.const 1))) (i32.const -16)"}},
        Limits(),
        PluginError,
    ),
    "half a text": (
        {
            "bodies": {
                "memory.get": "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 24) (i32.const 64))"
                " (i32.store (i32.const 28) (i32.const 1)) (i32.store8 (i32.const 64) (i32.const 255)) (i32.const 16)"
            }
        },
        Limits(),
        PluginError,
    ),
    "import": (
        {
            "bodies": {
                "memory.get": "(call $logging.log-record (i32.const 2) (i32.const -8) (i32.const 9)"
                " (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0)"
                " (i32.const 0) (i32.const 0) (i32.const 0)) (unreachable)"
            },
            "imports": ("logging.log-record",),
        },
        Limits(),
        PluginError,
    ),
}


@pytest.mark.req("PLG-107", "PLG-108", "PLG-111", "PLG-112")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_memory_is_gone_after_a_failed_call_until_its_owner_rebuilds_it_and_starts_empty(
    load: Load, fault: str
):
    guest, limits, error = FAULTS[fault]
    bodies = COUNTER | guest.get("bodies", {})
    memory = load(limits=limits, extra=COUNTING, bodies=bodies, imports=guest.get("imports", ()))
    store(memory)
    assert count(memory) == 1
    with pytest.raises(error):
        memory.run_sync(lambda it: it.get("k"))
    assert not memory.available
    for _ in range(3):
        with pytest.raises(PluginUnavailable) as raised:
            count(memory)
        assert raised.value.message == UNAVAILABLE
    assert memory.rebuilds == 0
    memory.run_sync(lambda it: it.rebuild())
    assert (memory.available, memory.rebuilds, count(memory)) == (True, 1, 0)
    store(memory)
    assert count(memory) == 1


@pytest.mark.req("PLG-107", "PLG-111")
def test_a_cancelled_call_ends_the_instance_and_nobody_waits_for_another(load: Load):
    memory = load(bodies=COUNTER | {"memory.get": SPIN}, extra=COUNTING, limits=Limits(call_fuel=2**62))

    async def main() -> None:
        with anyio.move_on_after(0.05) as scope:
            await memory.get("k")
        assert scope.cancelled_caught
        for _ in range(3):
            with anyio.fail_after(5), pytest.raises(PluginUnavailable, match=UNAVAILABLE):
                await memory.count()
        await memory.rebuild()
        assert await memory.count() == 0

    anyio.run(main)


@pytest.mark.req("PLG-032")
def test_calls_of_many_tasks_are_served_one_at_a_time(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(memory.store_entry, "k", "c", MemoryCategory.CORE)
        assert await memory.count() == 40

    anyio.run(main)


@pytest.mark.req("PLG-111")
def test_a_rebuild_that_comes_too_often_is_paced_and_calls_do_not_wait_for_it(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING, limits=Limits(call_timeout_ms=150))
    for _ in range(4):
        with pytest.raises(GuestTrap):
            memory.run_sync(lambda it: it.get("k"))
        if memory.rebuilds < 3:
            memory.run_sync(lambda it: it.rebuild())
    with pytest.raises(DeadlineExceeded) as raised:
        memory.run_sync(lambda it: it.rebuild())
    assert "rebuilt" in str(raised.value.details["waited_for"])
    assert (memory.available, memory.rebuilds) == (False, 3)
    with pytest.raises(PluginUnavailable, match=UNAVAILABLE):
        count(memory)


@pytest.mark.req("PLG-111")
def test_a_rebuild_is_at_once_again_when_time_has_passed(load: Load):
    now = [0.0]
    memory = load(bodies=COUNTER, extra=COUNTING, clock=lambda: now[0])
    for _ in range(5):
        with pytest.raises(GuestTrap):
            memory.run_sync(lambda it: it.get("k"))
        now[0] += 100
        memory.run_sync(lambda it: it.rebuild())
    assert (memory.rebuilds, count(memory)) == (5, 0)


def test_a_rebuild_of_what_is_there_changes_nothing(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING)
    store(memory)
    memory.run_sync(lambda it: it.rebuild())
    assert (memory.rebuilds, count(memory)) == (0, 1)


def rebuild_and_fail(memory: MemoryPlugin) -> None:
    """Three times, because chance alone can bring the same flags again, once in 2 048 times."""
    for _ in range(3):
        memory.run_sync(lambda it: it.rebuild())
        with pytest.raises(GuestTrap):
            memory.run_sync(lambda it: it.count())


@pytest.mark.req("PLG-033")
def test_a_rebuilt_instance_with_other_flags_is_refused(load: Load):
    memory = load(
        bodies={
            "memory.get-memory-capabilities": '(i32.and (i32.wrap_i64 (call $"wasi:random/random.get-random-u64"))'
            " (i32.const 2047))"
        },
        imports=("wasi:random/random.get-random-u64",),
    )
    loaded = memory.capabilities
    with pytest.raises(GuestTrap):
        memory.run_sync(lambda it: it.count())
    with pytest.raises(MetadataChanged) as raised:
        rebuild_and_fail(memory)
    assert raised.value.details == {"changed": ("capabilities",)}
    assert (memory.available, memory.capabilities) == (False, loaded)
    with pytest.raises(PluginUnavailable, match=UNAVAILABLE):
        memory.run_sync(lambda it: it.count())


@pytest.mark.parametrize(
    ("guest", "error"),
    [
        ({"returns": {"memory.name": ""}}, GuestFailure),
        ({"bodies": {"memory.name": "(unreachable)"}}, GuestTrap),
        ({"bodies": {"memory.get-memory-capabilities": SPIN}, "limits": Limits(call_fuel=1000)}, OutOfFuel),
        ({"pages": 17, "limits": Limits(max_memory_mb=1)}, MemoryLimit),
    ],
)
def test_a_memory_that_does_not_start_does_not_load(
    load: Load, guest: dict[str, Any], error: type[PluginError]
):
    with pytest.raises(error):
        load(**guest)


def test_a_closed_memory_is_unavailable_for_good(load: Load):
    memory = load(bodies=COUNTER, extra=COUNTING)
    memory.close()
    memory.close()
    for call in (lambda it: it.count(), lambda it: it.rebuild()):
        with pytest.raises(PluginUnavailable, match=UNAVAILABLE):
            memory.run_sync(call)
    anyio.run(memory.aclose)


def test_closing_ends_the_call_that_runs(load: Load):
    memory = load(bodies={"memory.get": SPIN}, limits=Limits(call_fuel=2**62))

    async def main() -> None:
        async def call() -> None:
            with pytest.raises((PluginUnavailable, CallCancelled)):
                await memory.get("k")

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await asyncio.sleep(0)
                await memory.aclose()

    anyio.run(main)


def test_work_without_an_event_loop_cannot_wait_for_one(load: Load):
    memory = load()
    with pytest.raises(RuntimeError, match="awaits the plugin alone"):
        memory.run_sync(lambda _: asyncio.sleep(0))


def test_a_program_loads_an_installed_memory(tmp_path: Path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "notes.wasm").write_bytes(Forge("memory-plugin").component(bodies=COUNTER, extra=COUNTING))
    (source / "manifest.toml").write_text(
        'name = "notes"\nversion = "1.0.0"\nwasm_path = "notes.wasm"\ncapabilities = ["memory"]\n'
    )
    with PluginHost(tmp_path / "plugins", tmp_path / "cache") as host:
        host.install(str(source))
        installed = host.discover().get("notes")
        memory = host.load_memory(installed)
        store(memory)
        assert (count(memory), memory.scope.identity.binding) == (1, "notes")
        assert host.load_memory(installed, "other").scope.identity.binding == "other"
        with pytest.raises(IdentityInvalid):
            host.load_tool(installed)
