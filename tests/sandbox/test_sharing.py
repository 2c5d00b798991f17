"""A component without its shared modules is the same component; what is not understood is left as it is."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Module, Store, WasmtimeError
from wasmtime.component import Component, Linker

from zeroclaw_host.sandbox.compiling import sections
from zeroclaw_host.sandbox.compiling.component_types import MAX_DEPTH
from zeroclaw_host.sandbox.compiling.module_type import ModuleInterface
from zeroclaw_host.sandbox.compiling.sections import COMPONENT_HEADER, CORE_HEADER, Budget, Reader, Unreadable
from zeroclaw_host.sandbox.compiling.sharing import (
    MAX_IMPORTS,
    MAX_MODULES,
    SHARED_BYTES,
    import_name,
    module_digest,
    share,
)
from zeroclaw_host.sandbox.engine import new_engine

WASM_TOOLS = Path(sys.executable).with_name("wasm-tools")
ENGINE = new_engine()

PADDING = f'(@custom "padding" "{"x" * SHARED_BYTES}")'

LIBRARY = f"""
  (core module $library
    (type $answer (func (result i32)))
    (import "host" "memory" (memory 1))
    (import "host" "count" (global $count (mut i32)))
    (table (export "table") 1 funcref)
    (global (export "seventeen") i64 (i64.add (i64.const 8) (i64.const 9)))
    (global $vector v128 (v128.const i32x4 1 2 3 4))
    (global $nothing funcref (ref.null func))
    (global $number f64 (f64.const 1.5))
    (func (export "answer") (type $answer)
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (i32.add (i32.load8_u (i32.const 0)) (global.get $count)))
    (func (export "unused") (param i32 f32 externref) (result i32 i32) (unreachable))
    {PADDING})
"""

PLUGIN = f"""(component
  (core module $own
    (memory (export "memory") 1)
    (global (export "count") (mut i32) (i32.const 0))
    (data (i32.const 0) "\\29"))
  {LIBRARY}
  (core module $main
    (import "library" "answer" (func $answer (result i32)))
    (import "library" "seventeen" (global i64))
    (func (export "run") (result i32) (call $answer)))
  (core instance $o (instantiate $own))
  (core instance $l (instantiate $library (with "host" (instance $o))))
  (core instance $m (instantiate $main (with "library" (instance $l))))
  (func (export "run") (result u32) (canon lift (core func $m "run")))
  (type $interface (instance
    (type $r (record (field "a" (option string)) (field "b" (result u8 (error (tuple char f64))))))
    (export "r" (type (eq $r)))
    (type $v (variant (case "x") (case "y" (list $r)))) (export "v" (type (eq $v)))
    (type $e (enum "p" "q")) (export "e" (type (eq $e)))
    (type $f (flags "s" "t")) (export "f" (type (eq $f)))
    (export "thing" (type $thing (sub resource)))
    (export "make" (func (param "t" (borrow $thing)) (result (own $thing))))
    (export "plain" (func))))
  (component $shim
    (import "run" (func (result u32)))
    (export "run-again" (func 0)))
  (instance (instantiate $shim (with "run" (func 0))))
)"""


def run(component: bytes, modules: dict[str, bytes] | None = None) -> int:
    """What the component's function ``run`` answers."""
    compiled = Component(ENGINE, component)
    linker = Linker(ENGINE)
    with linker.root() as root:
        for name, module in (modules or {}).items():
            root.add_module(name, Module(ENGINE, module))
    store = Store(ENGINE)
    store.set_fuel(10_000)
    store.set_epoch_deadline(1_000_000)
    instance = linker.instantiate(store, compiled)
    function = instance.get_func(store, "run")
    assert function is not None
    answer = function(store)
    assert isinstance(answer, int)
    return answer


def text_of(component: bytes) -> str:
    done = subprocess.run([str(WASM_TOOLS), "print"], input=component, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture(scope="session")
def plugin(wat: Callable[[str], bytes]) -> bytes:
    return wat(PLUGIN)


def test_a_component_without_its_shared_module_answers_as_it_did(plugin: bytes) -> None:
    shared = share(plugin)
    assert shared is not None
    assert len(shared.component) < len(plugin) - SHARED_BYTES
    assert run(shared.component, dict(shared.modules)) == run(plugin) == 0x29 + 1


def test_the_import_that_stands_for_a_module_is_named_after_the_digest_of_its_bytes(plugin: bytes) -> None:
    shared = share(plugin)
    assert shared is not None
    [(name, module)] = shared.modules.items()
    digest = hashlib.sha256(module).hexdigest()
    assert name == import_name(digest) == f"core-module-x{digest}"
    assert module_digest(name) == digest
    assert list(Component(ENGINE, shared.component).type.imports(ENGINE)) == [name]
    assert module in plugin


def test_the_imported_modules_type_has_all_imports_and_only_the_exports_somebody_asks_for(
    plugin: bytes,
) -> None:
    shared = share(plugin)
    assert shared is not None
    text = text_of(shared.component)
    declared = text[text.index("(core type") : text.index('(import "core-module')]
    for name in ("answer", "seventeen", "count"):
        assert f'"{name}"' in declared
    for name in ("unused", "table"):
        assert f'"{name}"' not in declared


def test_a_module_of_the_same_type_but_other_bytes_would_run_so_nothing_but_the_digest_may_choose_it(
    plugin: bytes,
) -> None:
    shared = share(plugin)
    assert shared is not None
    [(name, module)] = shared.modules.items()
    other = module.replace(b"\x41\x01\x6a", b"\x41\x02\x6a", 1)
    assert other != module
    assert run(shared.component, {name: other}) == 0x29 + 2


def test_a_module_is_found_by_what_it_is_wherever_it_stands(wat: Callable[[str], bytes]) -> None:
    library = "(component " + LIBRARY + ")"
    moved = PLUGIN.replace("(core module $own", "(core module) (core module) (core module $own")
    found = [share(wat(text)) for text in (library, PLUGIN, moved)]
    assert all(shared is not None and shared.modules == found[0].modules for shared in found)  # type: ignore[union-attr]
    assert run(found[2].component, dict(found[2].modules)) == run(wat(moved))  # type: ignore[union-attr]


def test_each_of_several_modules_comes_back_as_itself(wat: Callable[[str], bytes]) -> None:
    other = f"""(core module $other (import "library" "answer" (func $answer (result i32)))
      (func (export "run") (result i32) (i32.add (call $answer) (i32.const 100))) {PADDING})"""
    component = wat(f"""(component
      (core module $own (memory (export "memory") 1) (global (export "count") (mut i32) (i32.const 0)))
      {LIBRARY} {other}
      (core instance $o (instantiate $own))
      (core instance $l (instantiate $library (with "host" (instance $o))))
      (core instance $m (instantiate $other (with "library" (instance $l))))
      (func (export "run") (result u32) (canon lift (core func $m "run"))))""")
    shared = share(component)
    assert shared is not None
    assert len(shared.modules) == 2
    assert run(shared.component, dict(shared.modules)) == run(component) == 101


def test_of_two_copies_the_second_stays(wat: Callable[[str], bytes]) -> None:
    shared = share(wat("(component " + LIBRARY.replace("$library", "") * 2 + ")"))
    assert shared is not None
    assert len(shared.modules) == 1
    assert SHARED_BYTES < len(shared.component) < 2 * SHARED_BYTES
    Component(ENGINE, shared.component)


# --- what is not shared -------------------------------------------------------------------------------------------------

NOT_WORTH_IT = {
    "a small module": "(component (core module (func)))",
    "one byte too few": f'(component (core module (func) (@custom "padding" "{"x" * (SHARED_BYTES - 100)}")))',
    "a module with data": f'(component (core module (memory 1) (func) (data (i32.const 0) "own") {PADDING}))',
    "a module without code": f"(component (core module (memory 1) {PADDING}))",
    "no module": "(component)",
}


@pytest.mark.parametrize("text", NOT_WORTH_IT.values(), ids=list(NOT_WORTH_IT))
def test_what_other_plugins_do_not_have_is_not_shared(wat: Callable[[str], bytes], text: str) -> None:
    assert share(wat(text)) is None


def test_the_least_size_is_that_of_the_whole_module(wat: Callable[[str], bytes]) -> None:
    component = wat(f"(component (core module (func) {PADDING}))")
    [section] = [
        found
        for found in Reader(memoryview(component), Budget()).sections(COMPONENT_HEADER)
        if found.kind == 1
    ]
    size = len(section.body.data)
    assert share(component, shared_bytes=size) is not None
    assert share(component, shared_bytes=size + 1) is None


IN_MODULE = {
    "a tag": "(tag)",
    "a garbage-collected type": "(type (struct (field i32)))",
    "a group of types": "(rec (type (func)) (type (func)))",
    "a typed reference": "(type $f (func)) (func (param (ref null $f)))",
    "a reference of another hierarchy": "(func (param anyref))",
    "a table of typed references": "(type $f (func)) (table 1 (ref null $f))",
    "a table with a first value": "(func $f) (table 1 funcref (ref.func $f))",
    "a memory of 64 bits": "(memory i64 1)",
    "a shared memory": "(memory 1 1 shared)",
    "a global of a typed reference": "(type $f (func)) (global (ref null $f) (ref.null $f))",
    "an import of a tag": '(import "a" "b" (tag))',
    "two imports of one name": '(import "a" "b" (func)) (import "a" "b" (global i32))',
}


@pytest.mark.parametrize("item", IN_MODULE.values(), ids=list(IN_MODULE))
def test_a_module_that_is_not_understood_leaves_the_component_as_it_is(
    wat: Callable[[str], bytes], item: str
) -> None:
    assert share(wat(f"(component (core module {item} (func) {PADDING}))")) is None


IN_COMPONENT = {
    "a core type behind the module": "(core type (func))",
    "a core module's type": "(core type (module))",
    "an import of a core module": '(import "m" (core module))',
    "an export of a core module": '(core module $m) (export "m" (core module $m))',
    "an import with a name of the host's own": f'(import "{import_name("0" * 64)}" (func))',
    "a nested component with a core module": "(component (core module))",
    "a nested component with a core type": "(component (core type (func)))",
    "a nested component that imports a core module": '(component (import "m" (core module)))',
    "a nested component that takes a module from outside": "(component (alias outer 1 0 (core module)))",
    "a nested component that takes a type that is not there": "(component (alias outer 1 0 (core type)))",
    "a nested component in a nested one": "(component (component))",
    "an instance type with a core type": "(type (instance (core type (func))))",
    "an instance type with a type from outside": "(type (instance (alias outer 1 0 (core type))))",
    "a component type with a core module": '(type (component (import "m" (core module))))',
    "a map": "(type (map u8 string))",
}


@pytest.mark.parametrize("item", IN_COMPONENT.values(), ids=list(IN_COMPONENT))
def test_a_component_that_speaks_of_core_types_or_of_what_is_unknown_is_left_as_it_is(
    wat: Callable[[str], bytes], item: str
) -> None:
    assert share(wat(f"(component {LIBRARY} )")) is not None
    assert share(wat(f"(component {LIBRARY} {item})")) is None
    assert share(wat(f"(component {item} {LIBRARY})")) is None


def test_an_export_that_is_given_a_core_type_which_is_not_there_does_not_find_the_hosts(
    wat: Callable[[str], bytes],
) -> None:
    component = wat(f"""(component
      (core module $library (func (export "answer") (result i32) (i32.const 7)) {PADDING})
      (export "m" (core module $library)))""")
    untyped, typed = (
        b"\x0b\x08\x01\x00\x01m\x00\x11\x00\x00",
        b"\x0b\x0b\x01\x00\x01m\x00\x11\x00\x01\x00\x11\x00",
    )
    invalid = component.replace(untyped, typed)
    assert invalid != component
    with pytest.raises(WasmtimeError, match="unknown type 0"):
        Component(ENGINE, invalid)
    assert share(invalid) is None


@pytest.mark.parametrize("kind", [9, 12, 13, 255])
def test_a_component_with_sections_of_an_unknown_kind_is_left_as_it_is(plugin: bytes, kind: int) -> None:
    assert share(plugin + sections.section(kind, b"\x00")) is None


def test_types_may_be_nested_only_so_deep(wat: Callable[[str], bytes]) -> None:
    def nested(depth: int) -> bytes:
        return wat(f"(component {LIBRARY} {'(type (component ' * depth}{'))' * depth})")

    assert share(nested(MAX_DEPTH)) is not None
    assert share(nested(MAX_DEPTH + 1)) is None


def test_so_many_modules_are_shared_and_one_more_leaves_the_component_as_it_is(
    wat: Callable[[str], bytes],
) -> None:
    def distinct(count: int) -> bytes:
        modules = "".join(
            f'(core module (func (export "f{number}")) (@custom "padding" "{"x" * 100}"))'
            for number in range(count)
        )
        return wat(f"(component {modules})")

    shared = share(distinct(MAX_MODULES), shared_bytes=100)
    assert shared is not None
    assert len(shared.modules) == MAX_MODULES
    Component(ENGINE, shared.component)
    assert share(distinct(MAX_MODULES + 1), shared_bytes=100) is None


def test_a_component_with_more_imports_than_any_may_have_is_left_as_it_is(
    wat: Callable[[str], bytes],
) -> None:
    def importing(count: int) -> bytes:
        return wat(
            "(component" + "".join(f'(import "f{number}" (func))' for number in range(count)) + LIBRARY + ")"
        )

    assert share(importing(MAX_IMPORTS)) is not None
    assert share(importing(MAX_IMPORTS + 1)) is None


# --- bytes of anybody ---------------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    return sections.encoded(value)


FLOODS = {
    "sections": lambda size: COMPONENT_HEADER + b"\x00\x00" * size,
    "types": lambda size: COMPONENT_HEADER + sections.section(7, number(size) + b"\x7f" * size),
    "aliases": lambda size: COMPONENT_HEADER + sections.section(6, number(size) + b"\x01\x02\x00\x00" * size),
    "imports of a module": lambda size: (
        COMPONENT_HEADER
        + sections.section(1, CORE_HEADER + sections.section(2, number(size) + b"\x00\x00\x00\x00" * size))
    ),
    "sections of a module": lambda size: (
        COMPONENT_HEADER + sections.section(1, CORE_HEADER + b"\x00\x00" * size)
    ),
    "operations of a constant": lambda size: (
        COMPONENT_HEADER
        + sections.section(
            1,
            CORE_HEADER
            + sections.section(6, b"\x01\x7f\x00" + b"\x6a" * size + b"\x0b")
            + sections.section(10, b"\x00")
            + sections.section(0, b"\x00" + b"x" * SHARED_BYTES),
        )
    ),
    "modules": lambda size: COMPONENT_HEADER + sections.section(1, CORE_HEADER) * size,
    "components": lambda size: COMPONENT_HEADER + sections.section(4, COMPONENT_HEADER) * size,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=list(FLOODS))
def test_the_work_grows_with_the_bytes_and_ends_at_the_bound(
    flood: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    byte = Reader.byte

    def counted(self: Reader) -> int:
        nonlocal steps
        steps += 1
        return byte(self)

    monkeypatch.setattr(Reader, "byte", counted)

    def work(size: int) -> int:
        nonlocal steps
        steps = 0
        share(flood(size))
        return steps

    assert work(4_000) <= 2.2 * work(2_000)
    assert work(16 * sections.MAX_ITEMS) <= 12 * sections.MAX_ITEMS


def test_a_count_is_not_believed_before_the_items_are_there() -> None:
    assert share(COMPONENT_HEADER + sections.section(7, number(2**32 - 1))) is None
    with pytest.raises(Unreadable, match="more items"):
        Reader(memoryview(number(2**32 - 1)), Budget()).count()


@pytest.mark.parametrize(
    ("encoded", "value"),
    [(b"\x00", 0), (b"\x80\x00", 0), (b"\xff\xff\xff\xff\x0f", 2**32 - 1)],
)
def test_numbers_of_32_bits_are_read(encoded: bytes, value: int) -> None:
    assert Reader(memoryview(encoded), Budget()).number() == value


@pytest.mark.parametrize(
    "encoded", [b"", b"\x80", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 20]
)
def test_longer_or_broken_ones_are_not(encoded: bytes) -> None:
    with pytest.raises(Unreadable):
        Reader(memoryview(encoded), Budget()).number()


@given(st.integers(0, 2**32 - 1))
def test_what_is_encoded_reads_back(value: int) -> None:
    reader = Reader(memoryview(sections.encoded(value)), Budget())
    assert reader.number() == value
    assert reader.done()


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_component_is_rewritten_or_left_and_never_more_valid_than_it_was(
    plugin: bytes, data: st.DataObject
) -> None:
    """Changes anywhere but in the padding."""
    padding = plugin.index(b"x" * 1_000)
    interesting = [*range(padding), *range(padding + SHARED_BYTES, len(plugin))]
    damaged = bytearray(plugin)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(interesting))
        match data.draw(st.integers(0, 2)):
            case 0:
                damaged[place % len(damaged)] = data.draw(st.integers(0, 255))
            case 1:
                del damaged[place : place + data.draw(st.integers(1, 8))]
            case _:
                damaged[place:place] = data.draw(st.binary(min_size=1, max_size=8))
    shared = share(bytes(damaged))
    if shared is None:
        return
    try:
        Component(ENGINE, shared.component)
        modules = {name: Module(ENGINE, module) for name, module in shared.modules.items()}
    except WasmtimeError:
        return
    assert modules
    Component(ENGINE, bytes(damaged))  # is valid as well


@given(st.binary(max_size=200))
def test_any_bytes_are_left_as_they_are(content: bytes) -> None:
    assert share(content) is None
    assert share(COMPONENT_HEADER + content, shared_bytes=1 << 20) is None


# --- module types -------------------------------------------------------------------------------------------------------

_OFF = (
    "gc",
    "exceptions",
    "threads",
    "memory64",
    "relaxed-simd",
    "custom-page-sizes",
    "shared-everything-threads",
)
SMITH = [
    *(
        f"--{feature}-enabled=false"
        for feature in (*_OFF, "compact-imports", "custom-descriptors", "wide-arithmetic")
    ),
    *(
        "--export-everything=true",
        "--extended-const-enabled=true",
        "--max-memory32-bytes=65536",
        "--max-memories=1",
    ),
    *("--min-imports=3", "--max-imports=20", "--min-funcs=1", "--min-globals=2", "--max-table-elements=100"),
]


@pytest.fixture(scope="session")
def smith() -> Callable[[int], bytes]:
    """A valid core module made of a seed."""

    def make(seed: int) -> bytes:
        noise = random.Random(seed).randbytes(2_000)
        done = subprocess.run(
            [str(WASM_TOOLS), "smith", *SMITH], input=noise, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return make


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_any_module_satisfies_the_type_that_was_read_from_it(
    smith: Callable[[int], bytes], seed: int
) -> None:
    module = smith(seed)
    names = [(found.module, found.name) for found in Module(ENGINE, module).imports]
    if len(set(names)) < len(names):
        with pytest.raises(Unreadable, match="two imports of one name"):
            ModuleInterface.read(Reader(memoryview(module), Budget()))
        return
    interface = ModuleInterface.read(Reader(memoryview(module), Budget()))
    kind = interface.type({name for name, _ in interface.exports})
    name = b"core-module-xff"
    entry = b"\x00" + number(len(name)) + name + b"\x00\x11\x00"
    component = (
        COMPONENT_HEADER
        + sections.section(3, sections.vector([kind]))
        + sections.section(10, sections.vector([entry]))
    )
    linker = Linker(ENGINE)
    with linker.root() as root:
        root.add_module(name.decode(), Module(ENGINE, module))
    store = Store(ENGINE)
    linker.instantiate(store, Component(ENGINE, component))
    found = {export.name for export in Module(ENGINE, module).exports}
    assert found == {exported.decode() for exported, _ in interface.exports}
