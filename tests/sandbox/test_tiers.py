"""A component serves in its shared form at once, and in its plain form when somebody had the time to compile that."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from wasmtime import Store, WasmtimeError

from zeroclaw_host.errors import ComponentInvalid, ComponentMismatch, PluginUnavailable, StorageError
from zeroclaw_host.sandbox.compiling import cache as caching
from zeroclaw_host.sandbox.compiling import shared_forms
from zeroclaw_host.sandbox.compiling.compile import Source
from zeroclaw_host.sandbox.compiling.sharing import SHARED_BYTES, Shared, import_name
from zeroclaw_host.sandbox.linker import LinkedComponent, LinkedForm, Surface
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.sandbox.structure import MAX_EXTERNS

LIBRARY = f"""(core module $library
    (import "own" "memory" (memory 1))
    (func (export "answer") (result i32) (i32.load8_u (i32.const 0)))
    (@custom "padding" "{"x" * SHARED_BYTES}"))"""

BUSY = f"""(core module $library
    (import "own" "memory" (memory 1))
    (memory $second 2)
    (table $table 4 funcref)
    (elem (i32.const 1) $recurse)
    (global $left (mut i32) (i32.const 5))
    (start $begin)
    (func $begin (global.set $left (i32.add (global.get $left) (i32.const 2))))
    (func $recurse (result i32)
      (if (result i32) (global.get $left)
        (then (global.set $left (i32.sub (global.get $left) (i32.const 1)))
          (call_indirect $table (result i32) (i32.const 1)))
        (else (i32.add (i32.load8_u (i32.const 0)) (memory.grow $second (i32.const 1))))))
    (export "answer" (func $recurse))
    (@custom "padding" "{"x" * SHARED_BYTES}"))"""
"""A library with a start function, a table, elements and a memory of its own, which it makes larger."""

NOTHING = Surface(
    interfaces={},
    native=frozenset(),
    empty=frozenset(),
    reasons={},
    exports=(),
    version_fits=lambda name, version: True,
)

Plugin = Callable[..., bytes]


@pytest.fixture(scope="session")
def plugin(wat: Callable[[str], bytes]) -> Plugin:
    """A component that answers with the byte in its data; its code is in a large module that others have too."""

    def make(answer: int, *, library: str = LIBRARY, more: str = "") -> bytes:
        return wat(f"""(component {more}
          (core module $own (memory (export "memory") 1) (data (i32.const 0) "\\{answer:02x}"))
          {library}
          (core instance $o (instantiate $own))
          (core instance $l (instantiate $library (with "own" (instance $o))))
          (func (export "run") (result u32) (canon lift (core func $l "answer"))))""")

    return make


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox that has compiled nothing yet."""
    with Sandbox(tmp_path / "cache", threads=2) as found:
        yield found


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was compiled, one list for each run of the compiler; those in the background are named so.

    They are run in the foreground nevertheless: beside other tests nobody knows how long they would wait.
    """
    runs: list[list[str]] = []
    for module in (caching, shared_forms):
        compile_sources = module.compile_sources

        def noted(
            sources: list[Source],
            compile_sources: Callable[..., None] = compile_sources,
            *,
            background: bool = False,
            **more: object,
        ) -> None:
            runs.append([source.form.value for source in sources] + ["background"] * background)
            compile_sources(sources, **more)

        monkeypatch.setattr(module, "compile_sources", noted)
    return runs


def answer(linked: LinkedComponent) -> int:
    """What a new instance says."""
    form = linked.form
    store = Store(form.compiled.engine)
    store.set_fuel(10_000)
    store.set_epoch_deadline(1_000_000)
    function = form.linker.instantiate(store, form.compiled.component).get_func(store, "run")
    assert function is not None
    found = function(store)
    assert isinstance(found, int)
    return found


OFFSET = re.compile(r"0x[0-9a-f]+")


def ending(form: LinkedForm, *, fuel: int = 10_000, **limits: int) -> str:
    """What comes of a new instance within these bounds: its answer and the fuel it took, or the trap's words."""
    store = Store(form.compiled.engine)
    store.set_limits(**limits)
    store.set_fuel(fuel)
    store.set_epoch_deadline(1_000_000)
    try:
        function = form.linker.instantiate(store, form.compiled.component).get_func(store, "run")
        assert function is not None
        return f"{function(store)} after {fuel - store.get_fuel()}"
    except WasmtimeError as error:
        return OFFSET.sub("", str(error))  # where code lies is counted from its module, or from its component


def artifacts(sandbox: Sandbox) -> Counter[str]:
    """How many files of each kind lie in the cache; of what is unfinished, how many as well."""
    kinds = Counter(path.name.partition("-")[0] for path in sandbox.cache.directory.glob("*.artifact"))
    kinds.update("partial" for _ in sandbox.cache.directory.glob(".*.partial"))
    return kinds


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- the shared form ----------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-101")
def test_two_plugins_share_one_compiled_module_and_the_second_compiles_only_what_is_its_own(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    first, second = (sandbox.load(plugin(number), NOTHING) for number in (41, 42))
    assert (answer(first), answer(second)) == (41, 42)
    assert compiled == [["module", "component"], ["component"]]
    assert artifacts(sandbox) == {"module": 1, "shared": 2}
    [one], [two] = (linked.form.compiled.modules.values() for linked in (first, second))
    assert one is two


def test_another_process_finds_the_shared_form_and_compiles_nothing(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    sandbox.load(plugin(41), NOTHING)
    with Sandbox(sandbox.cache.directory, threads=1) as other:
        assert answer(other.load(plugin(41), NOTHING)) == 41
    assert len(compiled) == 1


def test_without_sharing_every_component_is_compiled_as_it_is(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    sandbox.load(plugin(41), NOTHING)
    with Sandbox(sandbox.cache.directory, threads=1, share_core_modules=False) as plain:
        linked = plain.load(plugin(41), NOTHING)
        assert answer(linked) == 41
        assert not linked.form.compiled.modules
        assert not plain.improvable()
    assert compiled == [["module", "component"], ["component"]]


UNSHARED = {
    "its code and data are one module": {
        "library": LIBRARY.replace(
            '(import "own" "memory" (memory 1))', '(memory 1) (data (i32.const 0) "\\29")'
        )
    },
    "it speaks of core types": {"more": "(core type (func))"},
    "it needs the engine of asynchronous built-ins": {"more": "(core func (canon waitable-set.new))"},
}


@pytest.mark.parametrize("how", UNSHARED.values(), ids=list(UNSHARED))
def test_a_component_without_a_shared_form_is_compiled_as_it_is(
    sandbox: Sandbox, plugin: Plugin, how: dict[str, str]
) -> None:
    linked = sandbox.load(plugin(41, **how), NOTHING)
    assert answer(linked) == 41
    assert not linked.form.compiled.modules
    assert not sandbox.improvable()
    assert artifacts(sandbox)["component"] == 1
    assert artifacts(sandbox)["shared"] == 0


def test_a_shared_form_that_the_compiler_refuses_is_no_verdict_on_the_component(
    sandbox: Sandbox, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten = Shared(b"\0asm\x0d\0\x01\0\x0b\x01\x01", {import_name(digest(b"")): b"\0asm\x01\0\0\0"})
    monkeypatch.setattr(shared_forms, "share", lambda component: rewritten)
    linked = sandbox.load(plugin(41), NOTHING)
    assert answer(linked) == 41
    assert artifacts(sandbox) == {"component": 1}


def test_an_invalid_component_is_refused_as_it_was_delivered_and_leaves_nothing(
    sandbox: Sandbox, plugin: Plugin
) -> None:
    broken = plugin(41, more="(core instance (instantiate 7))")
    with pytest.raises(ComponentInvalid, match="unknown module"):
        sandbox.load(broken, NOTHING)
    assert not artifacts(sandbox)


def test_what_cannot_be_written_is_told(sandbox: Sandbox, plugin: Plugin) -> None:
    shutil.rmtree(sandbox.cache.directory)
    with pytest.raises(StorageError):
        sandbox.load(plugin(41), NOTHING)


# --- nobody chooses the module but the host -----------------------------------------------------------------------------


def test_a_damaged_module_is_compiled_again(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    sandbox.load(plugin(41), NOTHING)
    [module] = sandbox.cache.directory.glob("module-*")
    content = bytearray(module.read_bytes())
    content[len(content) // 2] ^= 1
    module.write_bytes(content)
    with Sandbox(sandbox.cache.directory, threads=1) as other:
        assert answer(other.load(plugin(41), NOTHING)) == 41
    assert compiled == [["module", "component"]] * 2
    assert module.read_bytes() != content


def test_another_module_of_the_same_type_in_its_place_is_refused(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    lying = LIBRARY.replace("i32.load8_u (i32.const 0)", "i32.load8_u (i32.const 1)")
    sandbox.load(plugin(41, library=lying), NOTHING)
    [other] = sandbox.cache.directory.glob("module-*")
    sandbox.load(plugin(41), NOTHING)
    [module] = set(sandbox.cache.directory.glob("module-*")) - {other}
    shutil.copyfile(other, module)
    with Sandbox(sandbox.cache.directory, threads=1) as again:
        assert answer(again.load(plugin(41), NOTHING)) == 41
    assert len(compiled) == 3


def test_a_module_that_was_pruned_is_compiled_again(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    sandbox.load(plugin(41), NOTHING)
    [module] = sandbox.cache.directory.glob("module-*")
    module.unlink()
    with Sandbox(sandbox.cache.directory, threads=1) as other:
        assert answer(other.load(plugin(41), NOTHING)) == 41
    assert len(compiled) == 2
    assert module.exists()


@pytest.mark.req("PLG-038")
def test_a_plugin_that_asks_for_a_module_of_the_hosts_is_refused_by_name(
    sandbox: Sandbox, plugin: Plugin, wat: Callable[[str], bytes]
) -> None:
    sandbox.load(plugin(41), NOTHING)
    [module] = sandbox.cache.directory.glob("module-*")
    name = import_name(module.name.split("-")[1])
    thief = wat(f"""(component
      (import "{name}" (core module $library
        (import "own" "memory" (memory 1)) (export "answer" (func (result i32)))))
      {LIBRARY.replace("$library", "")})""")
    with pytest.raises(ComponentMismatch, match=name):
        sandbox.load(thief, NOTHING)


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize(
    "more",
    [
        '(import "a:b/c@1.0.0" (instance (export "f" (func))))',
        '(import "f" (func))',
        "".join(f'(import "f{number}" (func))' for number in range(MAX_EXTERNS)),
        "".join(f'(import "f{number}" (func))' for number in range(MAX_EXTERNS + 1)),
    ],
    ids=["an interface", "a function", "as many as are looked at", "one more"],
)
def test_the_comparison_with_the_contract_says_the_same_of_both_forms(
    sandbox: Sandbox, plugin: Plugin, more: str
) -> None:
    component = plugin(41, more=more)
    with pytest.raises(ComponentMismatch) as of_shared:
        sandbox.load(component, NOTHING)
    assert artifacts(sandbox) == {"module": 1, "shared": 1}
    with (
        Sandbox(sandbox.cache.directory, threads=1, share_core_modules=False) as plain,
        pytest.raises(ComponentMismatch) as of_plain,
    ):
        plain.load(component, NOTHING)
    assert str(of_shared.value) == str(of_plain.value)
    assert of_shared.value.details == of_plain.value.details


# --- the plain form -----------------------------------------------------------------------------------------------------


def test_an_improved_component_changes_its_form_for_everybody_who_holds_it(
    sandbox: Sandbox, plugin: Plugin
) -> None:
    component = plugin(41)
    holders = [sandbox.load(component, NOTHING) for _ in range(2)]
    other = sandbox.load(plugin(42), NOTHING)
    assert sandbox.improvable() == {digest(component), digest(plugin(42))}
    before = holders[0].form
    sandbox.improve(component)
    for linked in holders:
        assert not linked.form.compiled.modules
        assert answer(linked) == 41
    assert before.compiled.modules
    assert other.form.compiled.modules
    assert sandbox.improvable() == {digest(plugin(42))}


def test_the_plain_form_takes_the_place_of_the_shared_one_on_disk_and_in_every_later_process(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    component = plugin(41)
    held = sandbox.load(component, NOTHING)
    sandbox.improve(component)
    assert artifacts(sandbox) == {"module": 1, "component": 1}
    assert not sandbox.load(component, NOTHING).form.compiled.modules
    with Sandbox(sandbox.cache.directory, threads=1) as other:
        linked = other.load(component, NOTHING)
        assert answer(linked) == answer(held) == 41
        assert not linked.form.compiled.modules
        assert not other.improvable()
    assert compiled == [["module", "component"], ["component", "background"]]


def test_what_another_process_improved_is_taken_over_without_compiling(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    component = plugin(41)
    with Sandbox(sandbox.cache.directory, threads=1) as other:
        held = sandbox.load(component, NOTHING)
        other.load(component, NOTHING)
        other.improve(component)
        sandbox.improve(component)
        assert not held.form.compiled.modules
    assert len(compiled) == 2


def test_a_component_nobody_holds_is_not_improvable(sandbox: Sandbox, plugin: Plugin) -> None:
    linked = sandbox.load(plugin(41), NOTHING)
    assert sandbox.improvable()
    del linked
    assert not sandbox.improvable()


def test_an_improvement_that_is_given_up_leaves_nothing_and_can_be_made_again(
    sandbox: Sandbox, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    component = plugin(41)
    linked = sandbox.load(component, NOTHING)
    children: list[int] = []
    spawn = subprocess.Popen.__init__

    def noted(self: subprocess.Popen[bytes], *args: object, **more: object) -> None:
        spawn(self, *args, **more)  # type: ignore[arg-type]
        os.kill(self.pid, signal.SIGSTOP)  # so that it is not done before anybody looks
        children.append(self.pid)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    monkeypatch.setattr("zeroclaw_host.sandbox.compiling.compile._POLL_SECONDS", 0.01)

    def give_up(seconds: float) -> None:
        raise PluginUnavailable("the daemon ends")

    with pytest.raises(PluginUnavailable):
        sandbox.improve(component, progress=give_up)
    [child] = children
    assert not Path(f"/proc/{child}").exists()
    assert artifacts(sandbox) == {"module": 1, "shared": 1}
    assert answer(linked) == 41
    assert sandbox.improvable() == {digest(component)}
    monkeypatch.setattr(subprocess.Popen, "__init__", spawn)
    sandbox.improve(component)
    assert not sandbox.improvable()


def test_instances_are_made_without_a_fault_while_the_form_changes(sandbox: Sandbox, plugin: Plugin) -> None:
    component = plugin(41)
    linked = sandbox.load(component, NOTHING)
    improved, at_work = threading.Event(), threading.Semaphore(0)

    def call() -> None:
        assert answer(linked) == 41
        at_work.release()
        while not improved.is_set():
            assert answer(linked) == 41
        assert answer(linked) == 41

    with ThreadPoolExecutor(2) as pool:
        callers = [pool.submit(call) for _ in range(2)]
        try:
            for _ in callers:
                assert at_work.acquire(timeout=60)
            sandbox.improve(component)
        finally:
            improved.set()
        for caller in callers:
            caller.result()


def test_a_plugin_that_is_being_improved_is_loaded_meanwhile_in_the_form_there_is(
    sandbox: Sandbox, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    component = plugin(41)
    sandbox.load(component, NOTHING)
    monkeypatch.setattr("zeroclaw_host.sandbox.compiling.compile._POLL_SECONDS", 0.01)
    loaded: list[LinkedComponent] = []
    compilers: list[int] = []
    spawn = subprocess.Popen.__init__

    def noted(self: subprocess.Popen[bytes], *args: object, **more: object) -> None:
        spawn(self, *args, **more)  # type: ignore[arg-type]
        os.kill(self.pid, signal.SIGSTOP)  # until the plugin was loaded
        compilers.append(self.pid)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    with ThreadPoolExecutor(1) as pool:

        def load(_: float) -> None:
            if not loaded:
                loaded.append(pool.submit(sandbox.load, component, NOTHING).result(timeout=60))
                [compiler] = compilers
                os.kill(compiler, signal.SIGCONT)

        sandbox.improve(component, progress=load)
    assert answer(loaded[0]) == 41


@pytest.mark.req("PLG-020", "PLG-021")
def test_fuel_memory_and_instances_end_both_forms_at_the_same_point_with_the_same_words(
    sandbox: Sandbox, plugin: Plugin
) -> None:
    component = plugin(41, library=BUSY)
    linked = sandbox.load(component, NOTHING)
    shared = linked.form
    assert shared.compiled.modules
    sandbox.improve(component)
    plain = linked.form
    bounds = [
        *({"fuel": fuel} for fuel in range(40)),
        *({"memory_size": pages * 65536} for pages in range(5)),
        *({"instances": instances} for instances in range(4)),
        *({"memories": memories} for memories in range(4)),
        *({"tables": tables} for tables in range(3)),
        *({"table_elements": elements} for elements in range(6)),
    ]
    ends = [(ending(shared, **bound), ending(plain, **bound)) for bound in bounds]
    assert [one for one, _ in ends] == [other for _, other in ends]
    assert len({one for one, _ in ends}) >= 6, "some came through, and each bound was met"
    assert any("library" in one and "!recurse" in one for one, _ in ends), "whose code it was can be read"


# --- several at once ----------------------------------------------------------------------------------------------------


def test_threads_that_load_different_plugins_at_once_compile_the_module_once(
    sandbox: Sandbox, plugin: Plugin, compiled: list[list[str]]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: sandbox.load(plugin(number), NOTHING), (1, 2, 3, 1)))
    assert [answer(linked) for linked in found] == [1, 2, 3, 1]
    assert sum(run.count("module") for run in compiled) == 1
    assert sum(run.count("component") for run in compiled) == 3


SCRIPT = """
import sys
from pathlib import Path
from zeroclaw_host.sandbox.compiling import shared_forms
from zeroclaw_host.sandbox.linker import Surface
from zeroclaw_host.sandbox.sandbox import Sandbox

compile_sources = shared_forms.compile_sources
def noted(sources, **more):
    print(*(source.form.value for source in sources), flush=True)
    compile_sources(sources, **more)
shared_forms.compile_sources = noted
nothing = Surface(interfaces={}, native=frozenset(), empty=frozenset(), reasons={}, exports=(), version_fits=bool)
with Sandbox(Path(sys.argv[1]), threads=1) as sandbox:
    print("ready", flush=True)
    sys.stdin.readline()
    linked = sandbox.load(Path(sys.argv[2]).read_bytes(), nothing)
    print("modules", len(linked.form.compiled.modules))
"""


def test_processes_that_load_different_plugins_at_once_compile_the_module_once(
    tmp_path: Path, plugin: Plugin
) -> None:
    processes: list[subprocess.Popen[str]] = []
    for number in (1, 2):
        (tmp_path / f"{number}.wasm").write_bytes(plugin(number))
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "cache"), str(tmp_path / f"{number}.wasm")]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    said: list[str] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        said += out.splitlines()
    assert sorted(said) == ["component", "module component", "modules 1", "modules 1"]
