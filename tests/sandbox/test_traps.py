"""What bites in wasmtime-py itself, each fault once, against the bare library.

The sandbox is built around these. A test that fails here after an upgrade says that a fault is gone, or has changed, and
which part of the sandbox can become simpler; that the sandbox holds in spite of them is shown by the tests beside this one.
"""

from __future__ import annotations

import hashlib
import http.client
import inspect
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest
from wasmtime import Config, Engine, ExitTrap, Store, WasiConfig, WasmtimeError
from wasmtime.component import (
    Component,
    Instance,
    Linker,
    ResourceAny,
    ResourceHost,
    ResourceType,
    Variant,
)

from zeroclaw_host.sandbox.engine import Compiled
from zeroclaw_host.sandbox.limits import MAX_LIST_ELEMENTS, MAX_RANDOM_BYTES
from zeroclaw_host.sandbox.sandbox import Sandbox

CALLS_ASK = """(component
  (import "ask" (func $ask {type}))
  (core func $ask' (canon lower (func $ask)))
  (core module $m
    (import "" "ask" (func $ask {core}))
    (func (export "run") {body}))
  (core instance $i (instantiate $m (with "" (instance (export "ask" (func $ask'))))))
  (func (export "run") (canon lift (core func $i "run"))))"""

ASKS = CALLS_ASK.format(type="", core="", body="(call $ask)")

ASKS_AT_ITS_START = """(component
  (import "ask" (func $ask))
  (core func $ask' (canon lower (func $ask)))
  (core module $m (import "" "ask" (func $ask)) (start $ask))
  (core instance (instantiate $m (with "" (instance (export "ask" (func $ask')))))))"""


def running(body: str, extra: str = "") -> str:
    """A component whose export ``run`` does this."""
    return f"""(component
      (core module $m {extra} (func (export "run") {body}))
      (core instance $i (instantiate $m))
      (func (export "run") (canon lift (core func $i "run"))))"""


UNREACHABLE = running("unreachable")
ENDLESS = running("(loop (br 0))")


class Bare:
    """The library as its manual shows it: an engine with fuel and epochs, a linker, a store."""

    def __init__(self) -> None:
        config = Config()
        config.consume_fuel = True
        config.epoch_interruption = True
        self.engine = Engine(config)
        self.linker = Linker(self.engine)

    def offer(self, function: Callable[..., object], name: str = "ask") -> None:
        with self.linker.root() as root:
            root.add_func(name, function)

    @contextmanager
    def store(self, fuel: int = 1_000_000, epochs: int = 1_000_000) -> Iterator[Store]:
        with Store(self.engine) as store:
            store.set_wasi(WasiConfig())
            store.set_fuel(fuel)
            store.set_epoch_deadline(epochs)
            yield store

    def instantiate(self, store: Store, text: str) -> Instance:
        return self.linker.instantiate(store, Component(self.engine, text))

    def run(self, text: str, *arguments: object, fuel: int = 1_000_000) -> object:
        """Instantiate a component and call its export ``run``, in a store of its own."""
        with self.store(fuel) as store:
            return call(self.instantiate(store, text), store, *arguments)


def call(instance: Instance, store: Store, *arguments: object) -> object:
    function = instance.get_func(store, "run")
    assert function is not None
    return function(store, *arguments)


@pytest.fixture
def bare() -> Bare:
    return Bare()


# --- 1: exceptions that are no Exception --------------------------------------------------------------------------------

CRASH = f"""
import resource
from wasmtime import Engine, Store
from wasmtime.component import Component, Linker
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def ask(store):
    raise {{kind}}
engine = Engine()
linker = Linker(engine)
with linker.root() as root:
    root.add_func("ask", ask)
store = Store(engine)
linker.instantiate(store, Component(engine, '''{ASKS}''')).get_func(store, "run")(store)
"""


@pytest.mark.req("PAINS-1")
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "__import__('asyncio').CancelledError"])
def test_trap_1_an_interrupt_that_leaves_a_host_function_ends_the_process(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH.format(kind=kind)], capture_output=True, check=False, timeout=120
    )
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL), done.stderr


# --- 2: one place for the exceptions of all threads ---------------------------------------------------------------------


@pytest.mark.req("PAINS-2")
def test_trap_2_a_host_functions_exception_replaces_the_trap_of_another_thread(bare: Bare) -> None:
    """The library keeps it in one global of the process, and whoever fails next takes it out."""

    def ask(_store: object) -> None:
        raise LookupError("of the first thread")

    def first() -> None:
        with bare.store() as store, pytest.raises(WasmtimeError, match="python exception"):
            bare.instantiate(store, ASKS_AT_ITS_START)

    bare.offer(ask)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(first).result()
    with pytest.raises(LookupError, match="of the first thread"):
        bare.run(UNREACHABLE)


# --- 3: types nobody compares -------------------------------------------------------------------------------------------


def test_trap_3_a_component_chooses_the_types_its_imports_have(bare: Bare) -> None:
    """The host meant ``func(name: string) -> string``; nothing but our own comparison says otherwise."""
    given: list[object] = []

    def ask(_store: object, name: object) -> int:
        given.append(name)
        return 7

    bare.offer(ask)
    bare.run(
        CALLS_ASK.format(
            type='(param "name" u32) (result u64)',
            core="(param i32) (result i64)",
            body="(drop (call $ask (i32.const 42)))",
        )
    )
    assert given == [42]


# --- 4: resources -------------------------------------------------------------------------------------------------------

HOLDS = """(component
  (import "thing" (type $thing (sub resource)))
  (import "make" (func $make (result (own $thing))))
  (import "ask" (func $ask (param "it" ({how} $thing))))
  (core func $make' (canon lower (func $make)))
  (core func $ask' (canon lower (func $ask)))
  (core module $m
    (import "" "make" (func $make (result i32)))
    (import "" "ask" (func $ask (param i32)))
    (func (export "run") {body}))
  (core instance $i (instantiate $m (with "" (instance
    (export "make" (func $make')) (export "ask" (func $ask'))))))
  (func (export "run") (canon lift (core func $i "run"))))"""


@pytest.fixture
def lending(bare: Bare) -> SimpleNamespace:
    """A host resource whose destructor is watched, and what the guest handed to ``ask``."""
    found = SimpleNamespace(dropped=[], handed=[])
    with bare.linker.root() as root:
        root.add_resource("thing", ResourceType.host(1), lambda _store, number: found.dropped.append(number))
        root.add_func("make", lambda store: ResourceHost.own(17, 1).to_any(store))
        root.add_func("ask", lambda store, it: found.handed.append(it))
    return found


def test_trap_4_a_borrow_that_is_not_turned_into_its_host_form_ends_the_call(
    bare: Bare, lending: SimpleNamespace
) -> None:
    with pytest.raises(WasmtimeError, match="borrow handles still remain"):
        bare.run(HOLDS.format(how="borrow", body="(call $ask (call $make))"))
    [borrowed] = lending.handed
    assert isinstance(borrowed, ResourceAny)


@pytest.mark.parametrize(
    ("how", "body"),
    [
        ("own", "(call $ask (call $make))"),
        ("own", "(drop (call $make)) unreachable"),
        ("own", "(drop (call $make))"),
    ],
    ids=["handed over", "held at a trap", "held at the end"],
)
def test_trap_4_no_destructor_runs_for_what_a_guest_hands_over_or_still_holds(
    how: str, body: str, bare: Bare, lending: SimpleNamespace
) -> None:
    with bare.store() as store:
        instance = bare.instantiate(store, HOLDS.format(how=how, body=body))
        if "unreachable" in body:
            with pytest.raises(WasmtimeError):
                call(instance, store)
        else:
            call(instance, store)
    assert lending.dropped == []


# --- 5: a dead store ----------------------------------------------------------------------------------------------------


def test_trap_5_after_a_trap_nothing_in_the_store_can_be_called_again(bare: Bare) -> None:
    with bare.store() as store:
        with pytest.raises(WasmtimeError, match="unreachable"):
            call(bare.instantiate(store, UNREACHABLE), store)
        store.set_fuel(1_000_000)
        with pytest.raises(WasmtimeError, match="cannot enter component instance"):
            call(bare.instantiate(store, running("")), store)


# --- 6: no codes, only words --------------------------------------------------------------------------------------------


def too_much_memory(bare: Bare) -> None:
    with bare.store() as store:
        store.set_limits(memory_size=65536)
        bare.instantiate(store, "(component (core module $m (memory 2)) (core instance (instantiate $m)))")


def too_many_instances(bare: Bare) -> None:
    with bare.store() as store:
        store.set_limits(instances=1)
        bare.instantiate(
            store,
            "(component (core module $m) (core instance (instantiate $m)) (core instance (instantiate $m)))",
        )


def past_the_epoch(bare: Bare) -> None:
    with bare.store(fuel=10**9, epochs=1) as store:
        instance = bare.instantiate(store, ENDLESS)
        threading.Timer(0.02, bare.engine.increment_epoch).start()
        call(instance, store)


def refused_by_the_host(bare: Bare) -> None:
    def ask(_store: object) -> None:
        raise WasmtimeError("words of the host")

    bare.offer(ask)
    bare.run(ASKS)


def in_a_dead_store(bare: Bare) -> None:
    with bare.store() as store:
        instance = bare.instantiate(store, UNREACHABLE)
        with pytest.raises(WasmtimeError):
            call(instance, store)
        call(instance, store)


NATIVE = """(component
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (import "wasi:cli/exit@0.2.0" (instance $exit
    (export "exit" (func (param "status" (result))))
    (export "exit-with-code" (func (param "status-code" u8)))))
  (core module $heap (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64)))
  (core instance $h (instantiate $heap))
  (core func $random' (canon lower (func $random "get-random-bytes")
    (memory (core memory $h "memory")) (realloc (core func $h "realloc"))))
  (core func $exit' (canon lower (func $exit "exit")))
  (core module $m
    (import "" "random" (func $random (param i64 i32)))
    (import "" "exit" (func $exit (param i32)))
    (func (export "run") {body}))
  (core instance $i (instantiate $m (with "" (instance
    (export "random" (func $random')) (export "exit" (func $exit'))))))
  (func (export "run") (canon lift (core func $i "run"))))"""


def native(body: str) -> Callable[[Bare], object]:
    def run(bare: Bare) -> object:
        bare.linker.add_wasip2()
        return bare.run(NATIVE.format(body=body))

    return run


CAUSES: dict[str, tuple[Callable[[Bare], object], str]] = {
    "fuel": (lambda bare: bare.run(ENDLESS), "wasm trap: all fuel consumed by WebAssembly"),
    "epoch": (past_the_epoch, "wasm trap: interrupt"),
    "abort": (lambda bare: bare.run(UNREACHABLE), "wasm trap: wasm `unreachable` instruction executed"),
    "stack": (
        lambda bare: bare.run(running("(call $deeper)", "(func $deeper (call $deeper))")),
        "wasm trap: call stack exhausted",
    ),
    "memory": (too_much_memory, "memory minimum size of 2 pages exceeds memory limits"),
    "instances": (too_many_instances, "resource limit exceeded: instance count too high at 2"),
    "host": (refused_by_the_host, "words of the host"),
    "exit": (native("(call $exit (i32.const 1))"), "Exited with i32 exit status 1"),
    "random": (
        native(f"(call $random (i64.const {MAX_RANDOM_BYTES + 1}) (i32.const 16))"),
        f"requested len {MAX_RANDOM_BYTES + 1} exceeds limit {MAX_RANDOM_BYTES}",
    ),
    "dead": (in_a_dead_store, "wasm trap: cannot enter component instance"),
}
"""Each way a call can end, and the last line of the text, which is all that tells it from the others."""


@pytest.mark.parametrize("cause", CAUSES)
def test_trap_6_the_last_line_of_a_text_is_all_that_tells_the_cause(cause: str, bare: Bare) -> None:
    provoke, words = CAUSES[cause]
    with pytest.raises(WasmtimeError) as caught:
        provoke(bare)
    assert str(caught.value).rstrip().splitlines()[-1].strip().removeprefix("0: ") == words
    assert isinstance(caught.value, ExitTrap) == (cause == "exit")
    assert not hasattr(caught.value, "trap_code")


# --- 7: epochs and host functions ---------------------------------------------------------------------------------------


@pytest.mark.req("PAINS-3")
def test_trap_7_a_host_function_that_waits_is_not_interrupted(bare: Bare) -> None:
    """The epoch is long past while the host waits; the guest notices when it runs again."""
    returned: list[int] = []

    def ask(_store: object) -> None:
        bare.engine.increment_epoch()
        bare.engine.increment_epoch()
        returned.append(1)

    bare.offer(ask)
    with bare.store(epochs=1) as store:
        text = CALLS_ASK.format(type="", core="", body="(call $ask) (loop (br 0))")
        with pytest.raises(WasmtimeError, match="interrupt"):
            call(bare.instantiate(store, text), store)
    assert returned == [1]


# --- 8: long lists ------------------------------------------------------------------------------------------------------

TAKES_BYTES = """(component
  (import "ask" (func $ask (param "data" (list u8))))
  (core module $heap (memory (export "memory") 64))
  (core instance $h (instantiate $heap))
  (core func $ask' (canon lower (func $ask) (memory (core memory $h "memory"))))
  (core module $m (import "" "ask" (func $ask (param i32 i32)))
    (func (export "run") (call $ask (i32.const 0) (i32.const {size}))))
  (core instance $i (instantiate $m (with "" (instance (export "ask" (func $ask'))))))
  (func (export "run") (canon lift (core func $i "run"))))"""


def test_trap_8_a_list_of_nearly_three_million_elements_ends_the_call(bare: Bare) -> None:
    """That the largest allowed one passes is shown where a codec carries it, in milliseconds and not in seconds."""
    asked: list[object] = []
    bare.offer(lambda _store, data: asked.append(data))
    with pytest.raises(WasmtimeError, match="too much data is being copied between the host and the guest"):
        bare.run(TAKES_BYTES.format(size=MAX_LIST_ELEMENTS + 4_000))
    assert asked == []


# --- 9: what the library offers no way into -----------------------------------------------------------------------------


def test_trap_9_the_librarys_http_has_no_place_for_a_policy() -> None:
    assert list(inspect.signature(Linker.add_wasi_http).parameters) == ["self"]


def test_trap_9_a_linker_being_filled_is_nobody_elses_and_a_finished_one_is_everybodys(bare: Bare) -> None:
    with bare.linker.root(), pytest.raises(WasmtimeError, match="in use"):
        bare.linker.root()
    bare.offer(lambda _store: None)
    component = Component(bare.engine, ASKS)

    def one(_: int) -> None:
        with bare.store() as store:
            call(bare.linker.instantiate(store, component), store)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(200)))


# --- 10: random bytes ---------------------------------------------------------------------------------------------------


def test_trap_10_random_bytes_come_in_full_or_not_at_all(bare: Bare) -> None:
    """A guest that got fewer would go on with the rest of its buffer as it was, which is no randomness."""
    at_the_length = "(if (i32.ne (i32.load (i32.const 20)) (i32.const {size})) (then unreachable))"
    text = NATIVE.replace(
        '(import "" "random"', '(import "" "memory" (memory 1)) (import "" "random"'
    ).replace(
        '(export "random" (func $random\')',
        '(export "memory" (memory $h "memory")) (export "random" (func $random\')',
    )
    bare.linker.add_wasip2()
    body = "(call $random (i64.const 60000) (i32.const 16)) " + at_the_length.format(size=60000)
    bare.run(text.format(body=body))
    with pytest.raises(WasmtimeError, match="exceeds limit"):
        bare.run(text.format(body=f"(call $random (i64.const {2**31}) (i32.const 16))"))


# --- 11: memory that does not grow --------------------------------------------------------------------------------------


def test_trap_11_growing_past_the_ceiling_is_no_trap(bare: Bare) -> None:
    grows = "(if (i32.ne (memory.grow (i32.const 2)) (i32.const -1)) (then unreachable))"
    with bare.store() as store:
        store.set_limits(memory_size=2 * 65536)
        call(bare.instantiate(store, running(grows, "(memory 1)")), store)


# --- 12: what componentize-py bakes in and gives up on ------------------------------------------------------------------

BAKED_WIT = """package trap:guest;
world guest { export run: func(what: string) -> result<string, string>; }
"""

BAKED_GUEST = """
import random
import time

import wit_world
from componentize_py_types import Err


class WitWorld(wit_world.WitWorld):
    def run(self, what):
        if what == "chance":
            return str(random.random())
        if what == "time":
            return str(time.time())
        if what == "import":
            import colorsys

            return colorsys.__name__
        if what == "refuse":
            raise Err("no")
        raise Err(17)
"""


@pytest.fixture(scope="session")
def baked(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A Python guest without imports, for WASI was stubbed out of it; kept compiled under ``.cache``."""
    cache = Path(__file__).parents[2] / ".cache" / "sandbox-tests"
    key = hashlib.sha256("\0".join((BAKED_WIT, BAKED_GUEST, version("componentize-py"))).encode())
    built = cache / f"baked-{key.hexdigest()[:32]}.wasm"
    if not built.exists():
        work = tmp_path_factory.mktemp("baked")
        (work / "guest.wit").write_text(BAKED_WIT, encoding="utf-8")
        (work / "guest.py").write_text(BAKED_GUEST, encoding="utf-8")
        program = Path(sys.executable).with_name("componentize-py")
        command = [str(program), "-d", "guest.wit", "-w", "guest", "componentize", "--stub-wasi", "guest"]
        subprocess.run([*command, "-o", "guest.wasm"], cwd=work, check=True, capture_output=True)
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(work / "guest.wasm", built)
    with Sandbox(cache) as sandbox:
        return sandbox.cache.compiled(built.read_bytes())


def ask(guest: Compiled, what: str) -> Variant:
    """Ask a fresh instance."""
    with Store(guest.engine) as store:
        store.set_fuel(10**9)
        store.set_epoch_deadline(10**6)
        found = call(Linker(guest.engine).instantiate(store, guest.component), store, what)
        assert isinstance(found, Variant)
        return found


@pytest.mark.slow
@pytest.mark.req("PAINS-8")
def test_trap_12_a_stubbed_python_guest_has_the_same_randomness_each_time_and_no_clock(
    baked: Compiled,
) -> None:
    assert ask(baked, "chance").payload == ask(baked, "chance").payload
    with pytest.raises(WasmtimeError, match="unreachable"):
        ask(baked, "time")


@pytest.mark.slow
@pytest.mark.req("PAINS-15")
def test_trap_12_only_modules_imported_when_it_was_built_are_in_a_python_guest(baked: Compiled) -> None:
    with pytest.raises(WasmtimeError, match="unreachable"):
        ask(baked, "import")


@pytest.mark.slow
def test_trap_12_an_error_of_another_type_than_the_exports_own_aborts_a_python_guest(baked: Compiled) -> None:
    assert ask(baked, "refuse") == Variant("err", "no")
    with pytest.raises(WasmtimeError, match="unreachable"):
        ask(baked, "anything else")


# --- 13: the interpreter's lock -----------------------------------------------------------------------------------------


LONG_TURN = 0.2
"""Seconds a thread may keep the interpreter's lock in this test; the interpreter's own setting is a fortieth of that."""


@pytest.mark.realtime
def test_trap_13_a_busy_thread_beside_a_guest_makes_its_host_functions_wait(bare: Bare) -> None:
    """While the guest works the other thread has its turn, and returning into Python waits for that to end."""
    bare.offer(lambda _store: None)
    work = """(local.set $n (i32.const 2000000))
      (loop (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1))))) (call $ask) """
    text = CALLS_ASK.format(type="", core="", body="(local $n i32)" + work * 5)
    spinning, stop = threading.Event(), threading.Event()
    busy = threading.Thread(target=spin, args=(spinning, stop))
    before = sys.getswitchinterval()

    def seconds(turn: float) -> float:
        sys.setswitchinterval(turn)
        started = time.perf_counter()
        bare.run(text, fuel=10**9)
        return time.perf_counter() - started

    busy.start()
    spinning.wait(60)
    try:  # a machine that is busy with other things spoils some
        assert any(seconds(LONG_TURN) > LONG_TURN for _ in range(20))
        assert any(seconds(0.0005) < LONG_TURN for _ in range(20))
    finally:
        sys.setswitchinterval(before)
        stop.set()
        busy.join()


def spin(spinning: threading.Event, stop: threading.Event) -> None:
    spinning.set()
    while not stop.is_set():
        pass


# --- 14: servers in tests -----------------------------------------------------------------------------------------------


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class AnswersAtOnce(Answers):
    disable_nagle_algorithm = True


def answer_seconds(handler: type[Answers]) -> float:
    """How long one request on a connection that stays takes."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        try:
            times: list[float] = []
            for _ in range(7):
                started = time.perf_counter()
                connection.request("GET", "/")
                assert connection.getresponse().read() == b"ok"
                times.append(time.perf_counter() - started)
            return median(times)
        finally:
            connection.close()
            server.shutdown()
            thread.join()


@pytest.mark.realtime
def test_trap_14_the_standard_librarys_server_waits_for_an_acknowledgement_unless_told_not_to() -> None:
    assert answer_seconds(Answers) > 0.03
    assert any(answer_seconds(AnswersAtOnce) < 0.01 for _ in range(20)), "a busy machine spoils some"
