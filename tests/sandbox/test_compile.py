"""Compiling happens in a bounded child; what is no component never gets that far."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import Module

from zeroclaw_host.errors import CompileLimit, ComponentInvalid, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.sandbox.compiling import compile as compiling
from zeroclaw_host.sandbox.compiling.compile import CompilerFailed, Source, compile_component, compile_sources
from zeroclaw_host.sandbox.compiling.compile_limits import (
    BACKGROUND_PATIENCE,
    MEMORY_PER_BYTE,
    ORDINARY_BYTES,
    CompileLimits,
)
from zeroclaw_host.sandbox.compiling.compiler import Ending, Form, Job, Order, Report, Stage
from zeroclaw_host.sandbox.compiling.header import MAX_COMPONENT_BYTES, check_header
from zeroclaw_host.sandbox.engine import Engines

EMPTY = b"\0asm\x0d\0\x01\0"


def compiled(component: bytes, limits: CompileLimits | None = None) -> int:
    """The size of the artifact."""
    with tempfile.TemporaryFile() as artifact:
        compile_component(component, artifact.fileno(), limits=limits)
        return os.fstat(artifact.fileno()).st_size


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no WebAssembly"),
        (b"PK\x03\x04 a zip archive", "no WebAssembly"),
        (b"(component)", "no WebAssembly"),
        (b"\0as", "truncated"),
        (b"\0asm", "truncated"),
        (b"\0asm\x0d\0", "truncated"),
        (b"\0asm\x01\0\0\0", "core WebAssembly module"),
        (b"\0asm\x0e\0\x01\0", "version"),
        (EMPTY + b"\x00", "truncated"),
        (EMPTY + b"\x00\x05abcd", "truncated"),
        (EMPTY + b"\x00\xff\xff\xff\xff\xff\xff", "truncated"),
    ],
)
def test_what_is_no_whole_component_is_refused_without_a_compiler(content, reason, monkeypatch):
    monkeypatch.setattr(compiling.subprocess, "Popen", None)
    with pytest.raises(ComponentInvalid, match=reason), tempfile.TemporaryFile() as artifact:
        compile_component(content, artifact.fileno())


def test_the_largest_component_is_looked_at_and_one_byte_more_is_not():
    missing_one = MAX_COMPONENT_BYTES - len(EMPTY) - 5
    head = (
        EMPTY
        + b"\0"
        + bytes((missing_one >> shift) & 0x7F | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21))
    )
    with pytest.raises(ComponentInvalid, match="truncated"):
        check_header(head + bytes(missing_one - 1))
    check_header(head + bytes(missing_one))
    with pytest.raises(ComponentInvalid, match=str(MAX_COMPONENT_BYTES)):
        check_header(head + bytes(missing_one + 1))


def test_a_component_of_millions_of_empty_sections_is_left_to_the_child():
    check_header(EMPTY + b"\0\0" * 10_000 + b"\0")


@given(st.binary(max_size=64))
def test_no_bytes_break_the_look_at_the_header(content: bytes):
    for candidate in (content, EMPTY + content):
        with suppress(ComponentInvalid):
            check_header(candidate)


def test_a_component_cut_inside_any_section_is_refused(embed, tool_core):
    component = embed(tool_core())
    whole = 0
    for cut in range(9, len(component)):
        try:
            check_header(component[:cut])
            whole += 1  # cut between two sections, which leaves a component with less in it
        except ComponentInvalid as error:
            assert "truncated" in error.message  # noqa: PT017 - some cuts are fine
    assert whole < 100 < len(component)


def test_what_the_compiler_refuses_is_refused_in_its_words(wat):
    component = bytearray(wat('(component (core module (func (export "f") (result i32) (i32.const 1))))'))
    component[component.index(b"\x41\x01\x0b")] = 0xFF  # no such instruction
    with pytest.raises(ComponentInvalid, match="cannot be compiled") as caught:
        compiled(bytes(component))
    assert "illegal opcode" in str(caught.value.details["compiler"])


def test_a_component_that_takes_too_long_is_stopped_and_its_process_is_gone(stand_in, monkeypatch):
    stand_in("time.sleep(600)")
    children = []
    popen = compiling.subprocess.Popen

    def remember(*args, **kwargs):
        children.append(popen(*args, **kwargs))
        return children[-1]

    monkeypatch.setattr(compiling.subprocess, "Popen", remember)
    with pytest.raises(CompileLimit) as caught:
        compiled(EMPTY, CompileLimits(seconds=0.01))
    assert caught.value.details["limit"] == "seconds"
    assert caught.value.remedy == Remedy(RemedyAction.RAISE_COMPILE_LIMIT, {"limit": "seconds"})
    [child] = children
    assert child.returncode == -signal.SIGKILL


def test_a_component_that_takes_too_much_memory_is_stopped(wat):
    body = "(local.set 0 (i32.mul (i32.add (local.get 0) (local.get 1)) (local.get 2)))" * 400_000
    component = wat(f'(component (core module (func (export "f") (param i32 i32 i32) {body})))')
    with pytest.raises(CompileLimit) as caught:
        compiled(component, CompileLimits(memory_bytes=160 * 1024**2))
    assert caught.value.details["limit"] == "memory_bytes"
    assert caught.value.remedy == Remedy(RemedyAction.RAISE_COMPILE_LIMIT, {"limit": "memory_bytes"})


def test_an_artifact_that_grows_too_large_is_stopped(embed, tool_core):
    with pytest.raises(CompileLimit) as caught:
        compiled(embed(tool_core()), CompileLimits(artifact_bytes=1000))
    assert caught.value.details["limit"] == "artifact_bytes"


def test_a_full_disk_is_told_from_a_bad_component():
    with Path("/dev/full").open("wb") as artifact, pytest.raises(OSError, match="No space left"):
        compile_component(EMPTY, artifact.fileno())


def test_progress_is_told_while_the_child_works(stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(compiling, "_POLL_SECONDS", 0.01)
    heard = tmp_path / "heard"
    stand_in(f"while not os.path.exists({str(heard)!r}): time.sleep(0.01)")
    told: list[float] = []

    def tell(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 3:
            heard.touch()

    with tempfile.TemporaryFile() as artifact:
        compile_component(EMPTY, artifact.fileno(), progress=tell)
    assert told == sorted(told)
    assert len(told) >= 3


def test_the_child_sees_no_secret_of_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2")
    assert "SOME_API_KEY" not in compiling._child_environment()
    assert "PATH" in compiling._child_environment()


def test_components_are_compiled_side_by_side(embed, tool_core):
    component = embed(tool_core())
    sizes: list[int] = []
    threads = [threading.Thread(target=lambda: sizes.append(compiled(component))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sizes) == 3


@pytest.mark.req("PLG-020")
def test_a_tiny_component_of_countless_instances_never_reaches_the_host(wat):
    nested = "(component $c (core module $m))"
    for _ in range(20):
        nested = f"(component $c {nested} (instance (instantiate $c)) (instance (instantiate $c)))"
    component = wat(f"(component {nested} (instance (instantiate $c)))")
    assert len(component) < 2000
    with pytest.raises(CompileLimit) as caught:
        compiled(component)
    assert caught.value.details["limit"] == "loaded_bytes"


def test_more_compilations_than_allowed_wait_and_may_be_given_up(monkeypatch):
    monkeypatch.setattr(compiling, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(compiling.subprocess, "Popen", None)
    monkeypatch.setattr(compiling, "_turns", threading.BoundedSemaphore(1))
    told: list[float] = []

    class GivenUp(Exception):
        pass

    def give_up(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 3:
            raise GivenUp

    with (
        compiling._turn(None),
        tempfile.TemporaryFile() as artifact,
        pytest.raises(GivenUp),
    ):
        compile_component(EMPTY, artifact.fileno(), progress=give_up)
    assert told == sorted(told)


def test_a_reason_in_any_letters_arrives_whatever_the_locale(wat, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setattr(compiling, "_KEPT_ENVIRONMENT", (*compiling._KEPT_ENVIRONMENT, "PYTHONIOENCODING"))
    component = wat('(component (core module $m (import "ä" "" (func))) (core instance (instantiate $m)))')
    with pytest.raises(ComponentInvalid, match="ä"):
        compiled(component)


def test_the_compilers_chain_of_reasons_is_the_errors(wat):
    component = bytearray(wat('(component (core module (func (export "f") (result i32) (i32.const 1))))'))
    component[component.index(b"\x41\x01\x0b")] = 0xFF
    with pytest.raises(ComponentInvalid) as caught:
        compiled(bytes(component))
    first, *_, last = caught.value.causes()
    assert "failed to compile" in first
    assert "illegal opcode" in last


STAND_IN = """
import os, signal, sys, time, types
from zeroclaw_host.sandbox.compiling import compiler
from zeroclaw_host.sandbox.compiling.compiler import Ending, Report

def compile(engines, job, memory_bytes, artifact_bytes):
    compiler.resource.setrlimit(compiler.resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    {compile}
    return Report()

def load(engines, jobs, loaded_bytes):
    {load}
    return Report()

compiler._compile, compiler._load = compile, load
sys.modules["zeroclaw_host.sandbox.engine"] = types.SimpleNamespace(Engines=object)
sys.exit(compiler.main(sys.argv[1:]))
"""


@pytest.fixture
def stand_in(monkeypatch):
    """Puts other code in the place of what compiles and loads, in the child."""

    def put(compile: str = "pass", load: str = "pass") -> str:
        script = STAND_IN.format(compile=compile, load=load)
        monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", script))
        return script

    return put


def die(name: str) -> str:
    """Code that ends its process so; wasmtime has handlers for some signals, which let one pass that nothing caused."""
    return f"signal.signal(signal.{name}, signal.SIG_DFL); os.kill(os.getpid(), signal.{name})"


@pytest.mark.parametrize("stage", ["compile", "load"])
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGILL", "SIGBUS"])
def test_a_component_that_crashes_the_compiler_is_the_one_at_fault(name, stage, stand_in):
    words = "os.write(2, b\"thread '<unnamed>' panicked at cranelift/src/x.rs:1:2:\\ninternal error: entered unreachable code\\nnote: run with\")"
    stand_in(**{stage: f"{words}; {die(name)}"})
    with pytest.raises(ComponentInvalid, match=name) as caught:
        compiled(EMPTY)
    assert caught.value.details["signal"] == name
    [cause] = caught.value.causes()
    assert "entered unreachable code" in cause
    assert "note:" not in cause


def test_a_compiler_that_reads_where_nothing_is_has_crashed(stand_in):
    stand_in("import ctypes; ctypes.string_at(0)")
    with pytest.raises(ComponentInvalid, match="SIGSEGV"):
        compiled(EMPTY)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_compiler_that_somebody_else_ended_says_nothing_about_the_component(name, stand_in):
    stand_in(die(name))
    with pytest.raises(CompilerFailed, match="signal"):
        compiled(EMPTY)


def test_a_compiler_that_the_system_killed_for_memory_says_nothing_about_the_component(stand_in):
    stand_in("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CompilerFailed, match="signal 9"):
        compiled(EMPTY)


def test_a_compiler_that_does_not_start_says_nothing_about_the_component(monkeypatch):
    monkeypatch.setattr(compiling, "_COMMAND", ("/nonexistent/compiler",))
    with pytest.raises(CompilerFailed, match="could not be started"):
        compiled(EMPTY)
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", "import nothing_of_that_name"))
    with pytest.raises(CompilerFailed, match="status 1") as caught:
        compiled(EMPTY)
    assert "nothing_of_that_name" in str(caught.value.details["stderr"])


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_a_child_that_ends_before_it_reports_says_nothing_about_the_component(name, monkeypatch):
    """Its own start is at fault, or its supervisor's: the compiler runs in processes of its own."""
    script = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", script))
    with pytest.raises(CompilerFailed, match="signal"):
        compiled(EMPTY)


def test_a_compiler_that_gets_no_threads_says_nothing_about_the_component(stand_in):
    stand_in(f"os.write(2, b'... ThreadPoolBuildError ...'); {die('SIGABRT')}")
    with pytest.raises(CompilerFailed):
        compiled(EMPTY)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("compile", "memory allocation of 65536 bytes failed"),
        ("compile", "OSError: [Errno 12] Cannot allocate memory"),
        ("load", "memory allocation of 65536 bytes failed"),
    ],
)
def test_a_crash_for_want_of_memory_is_a_limit(stage, words, stand_in):
    stand_in(**{stage: f"os.write(2, {words.encode()!r}); {die('SIGABRT')}"})
    with pytest.raises(CompileLimit) as caught:
        compiled(EMPTY)
    assert caught.value.details["limit"] == ("memory_bytes" if stage == "compile" else "loaded_bytes")


def test_a_refusal_for_want_of_memory_is_a_limit_too(stand_in):
    stand_in(
        'return Report(Ending.REFUSED, text="failed\\n\\nCaused by:\\n    Cannot allocate memory (os error 12)")'
    )
    with pytest.raises(CompileLimit):
        compiled(EMPTY)


def test_whatever_memory_the_compiler_is_given_too_little_is_told_as_such(wat):
    body = "(local.set 0 (i32.mul (i32.add (local.get 0) (local.get 1)) (local.get 2)))" * 20_000
    component = wat(f'(component (core module (func (export "f") (param i32 i32 i32) {body})))')
    ends = set()
    for mebibytes in (30, 58, 66, 74, 200):
        try:
            compiled(component, CompileLimits(memory_bytes=mebibytes * 1024**2))
            ends.add("compiled")
        except CompileLimit as error:
            ends.add(error.details["limit"])
    assert ends == {"compiled", "memory_bytes"}


def test_a_reason_as_long_as_a_component_is_cut_in_its_middle(stand_in):
    stand_in(
        'return Report(Ending.REFUSED, text=compiler._shortened("first " + "é" * 10**6 + "\\nCaused by:\\n    last"))'
    )
    with pytest.raises(ComponentInvalid, match="last") as caught:
        compiled(EMPTY)
    assert len(str(caught.value.details["compiler"])) < 40_000
    assert caught.value.causes()[0].startswith("first")


def test_several_sources_are_compiled_in_one_run(wat, monkeypatch):
    core = wat('(module (func (export "f") (result i32) (i32.const 7)))')
    children = []
    popen = compiling.subprocess.Popen
    monkeypatch.setattr(
        compiling.subprocess, "Popen", lambda *args, **kwargs: children.append(1) or popen(*args, **kwargs)
    )
    engines = Engines()
    with tempfile.TemporaryFile() as module, tempfile.TemporaryFile() as component:
        compile_sources(
            [
                Source(Form.MODULE, core, module.fileno()),
                Source(Form.COMPONENT, EMPTY, component.fileno()),
            ]
        )
        loaded = Module.deserialize_file(engines.plain, f"/proc/self/fd/{module.fileno()}")
        assert [export.name for export in loaded.exports] == ["f"]
        assert engines.open(f"/proc/self/fd/{component.fileno()}").engine is engines.plain
    assert children == [1]


@given(
    st.one_of(
        st.text(),
        st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5).map(
            json.dumps
        ),
        st.fixed_dictionaries(
            {
                "ending": st.none() | st.sampled_from([*Ending, "other"]) | st.integers(),
                "stage": st.sampled_from([*Stage, "other", None]),
                "text": st.none() | st.text(),
                "number": st.integers(-1, 70) | st.integers() | st.floats(),
            }
        ).map(json.dumps),
        st.just("[" * 100_000),
    )
)
def test_whatever_the_child_says_is_an_error_or_success_and_never_a_crash_of_the_host(said: str):
    with suppress(ZeroclawError, OSError):
        compiling._judge(0, said, "", CompileLimits())


@pytest.mark.parametrize("number", [-1, 2**16, 2**31, 2**64])
def test_a_report_with_a_number_the_system_does_not_have_is_none(number: int):
    said = Report(Ending.UNWRITTEN, number=number).to_json()
    with pytest.raises(CompilerFailed):
        compiling._judge(0, said, "", CompileLimits())


def test_a_report_and_an_order_are_read_as_they_were_written():
    report = Report(Ending.REFUSED, Stage.LOAD, "é\n", 7)
    assert Report.from_json(report.to_json()) == report
    order = Order(
        jobs=(Job(Form.MODULE, 3, 4), Job(Form.COMPONENT, 5, 6)),
        parent=1,
        memory_bytes=2,
        artifact_bytes=3,
        loaded_bytes=4,
        seconds=5.5,
        background=True,
    )
    assert Order.from_json(order.to_json()) == order


@pytest.mark.parametrize("limit", ["artifact_bytes", "loaded_bytes"])
def test_what_several_sources_are_allowed_is_meant_for_all_of_them_together(wat, limit):
    """What one of them needs is found out by trying: within the bound, and not within half of it."""
    functions = "".join(f'(func (export "{number:0400}"))' for number in range(500))
    source = wat(f"(module {functions})")

    def fits(bound: int, number: int) -> bool:
        with ExitStack() as files:
            artifacts = [files.enter_context(tempfile.TemporaryFile()) for _ in range(number)]
            sources = [Source(Form.MODULE, source, artifact.fileno()) for artifact in artifacts]
            try:
                compile_sources(sources, limits=CompileLimits(**{limit: bound}))
            except CompileLimit as error:
                if error.details["limit"] != limit:
                    raise
                return False
            return True

    bound = 64 * 1024
    while not fits(bound, 1):
        bound *= 2
    assert not fits(bound, 3)
    assert fits(bound * 16, 3)  # far more than three times, because an allocator takes memory in large pieces


def test_one_bad_source_of_several_is_told(wat):
    with tempfile.TemporaryFile() as good, tempfile.TemporaryFile() as bad, pytest.raises(ComponentInvalid):
        compile_sources(
            [
                Source(Form.COMPONENT, EMPTY, good.fileno()),
                Source(Form.MODULE, b"\0asm\x01\0\0\0\x63", bad.fileno()),
            ]
        )


def test_a_compilation_in_the_background_gives_way_to_everything_else(stand_in):
    stand_in("os.write(job.artifact, str(os.nice(0)).encode())")
    found: list[int] = []
    for background in (False, True):
        with tempfile.TemporaryFile() as artifact:
            compile_sources([Source(Form.COMPONENT, EMPTY, artifact.fileno())], background=background)
            artifact.seek(0)
            found.append(int(artifact.read()))
    assert found == [os.nice(0), 19]


def test_larger_sources_get_more_and_what_is_in_the_background_more_time():
    limits = CompileLimits(memory_bytes=1000, seconds=10)
    assert limits.of(ORDINARY_BYTES) == limits
    assert limits.of(ORDINARY_BYTES + 1).memory_bytes == 1000 + MEMORY_PER_BYTE
    assert limits.of(ORDINARY_BYTES * 3).seconds == 30
    assert limits.of(0, background=True).seconds == 10 * BACKGROUND_PATIENCE
    largest = CompileLimits().of(MAX_COMPONENT_BYTES)
    assert largest.memory_bytes >= 1.5 * 2430 * 1024**2, "what 60 MiB of code took"
    assert largest.seconds >= 3 * 159


def test_a_large_source_is_compiled_within_the_limits_of_its_size(stand_in):
    script = (
        "import resource; os.write(job.artifact, str(resource.getrlimit(resource.RLIMIT_AS)[0]).encode())"
    )
    stand_in(script)
    large = EMPTY + b"\0" + bytes((0xFF, 0xFF, 0xFF, 0x0F)) + bytes(32 * 1024**2 - 1)
    for content in (EMPTY, large):
        with tempfile.TemporaryFile() as artifact:
            compile_component(content, artifact.fileno())
            artifact.seek(0)
            assert int(artifact.read()) == CompileLimits().of(len(content)).memory_bytes


def test_the_largest_component_of_data_is_compiled_within_the_limits():
    def leb(number: int) -> bytes:
        return bytes((number >> shift) & 0x7F | (0x80 if shift < 28 else 0) for shift in (0, 7, 14, 21, 28))

    def part(kind: int, body: bytes) -> bytes:
        return bytes([kind]) + leb(len(body)) + body

    data = random.Random(1).randbytes(MAX_COMPONENT_BYTES - 100)
    memory = part(5, b"\x01\x00" + leb(len(data) // 65_536 + 1))
    module = b"\0asm\x01\0\0\0" + memory + part(11, b"\x01\x00\x41\x00\x0b" + leb(len(data)) + data)
    component = EMPTY + part(1, module)
    assert MAX_COMPONENT_BYTES - 100 < len(component) <= MAX_COMPONENT_BYTES
    assert compiled(component) > len(data)


@pytest.mark.parametrize(
    ("kind", "most", "limit"),
    [("RLIMIT_FSIZE", 32 * 1024**2, "artifact_bytes"), ("RLIMIT_AS", 1536 * 1024**2, "memory_bytes")],
)
def test_a_host_that_is_bounded_itself_compiles_within_its_own_bounds(kind: str, most: int, limit: str):
    script = f"""if True:
        import resource, tempfile
        from zeroclaw_host.sandbox.compiling import compile
        resource.setrlimit(resource.{kind}, ({most}, {most}))
        orders, run = [], compile._run
        compile._run = lambda order, *rest: orders.append(order) or run(order, *rest)
        with tempfile.TemporaryFile() as artifact:
            compile.compile_component({EMPTY!r}, artifact.fileno())
        print(orders[0].{limit})
    """
    done = subprocess.run(
        [sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.returncode) == (f"{most}\n", 0), done.stderr


def test_a_machine_of_many_processors_takes_no_more_memory(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(128)))
    assert compiling._child_environment()["RAYON_NUM_THREADS"] == "8"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert compiling._child_environment()["RAYON_NUM_THREADS"] == "1"


def ends(pipe: int) -> bool:
    """Whether a pipe ends, because nobody is left who could write to it."""
    ended = select.poll()
    ended.register(pipe)
    return bool(ended.poll(20_000)) and os.read(pipe, 100) == b""


@pytest.mark.parametrize("reason", ["time", "given up"])
def test_nothing_of_a_compilation_outlives_its_end(reason, stand_in, monkeypatch):
    monkeypatch.setattr(compiling, "_POLL_SECONDS", 0.01)
    stand_in("os.write(job.artifact, b'begun'); time.sleep(60)")
    reading, writing = os.pipe()

    class GivenUp(Exception):
        pass

    def give_up(_: float) -> None:
        if reason == "given up" and select.select([reading], [], [], 0)[0]:
            raise GivenUp

    with pytest.raises((CompileLimit, GivenUp)):
        compile_component(
            EMPTY, writing, limits=CompileLimits(seconds=60 if reason == "given up" else 1), progress=give_up
        )
    os.close(writing)
    if reason == "given up":
        assert os.read(reading, 5) == b"begun"
    else:
        select.select([reading], [], [], 20)
        os.read(reading, 5)
    assert ends(reading)
    os.close(reading)


KILLED_HOST = """
import sys
from zeroclaw_host.sandbox.compiling import compile as compiling
compiling._COMMAND = (sys.executable, "-c", sys.argv[1])
compiling.compile_component(bytes.fromhex(sys.argv[2]), int(sys.argv[3]))
"""


def test_a_compiler_whose_host_was_killed_ends_by_itself(stand_in):
    script = stand_in("os.write(job.artifact, b'begun'); time.sleep(60)")
    reading, writing = os.pipe()
    host = subprocess.Popen(
        [sys.executable, "-c", KILLED_HOST, script, EMPTY.hex(), str(writing)], pass_fds=(writing,)
    )
    os.close(writing)
    assert os.read(reading, 100) == b"begun"
    host.kill()
    host.wait()
    assert ends(reading)
    os.close(reading)
