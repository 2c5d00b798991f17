"""Compiling happens in a bounded child; what is no component never gets that far."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import CompileLimit, ComponentInvalid
from zeroclaw_host.sandbox import compile as compiling
from zeroclaw_host.sandbox.compile import CompileLimits, compile_component
from zeroclaw_host.sandbox.header import MAX_COMPONENT_BYTES, check_header

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


def test_a_component_that_takes_too_long_is_stopped_and_its_process_is_gone(embed, tool_core, monkeypatch):
    component = embed(tool_core())
    children = []
    popen = compiling.subprocess.Popen

    def remember(*args, **kwargs):
        children.append(popen(*args, **kwargs))
        return children[-1]

    monkeypatch.setattr(compiling.subprocess, "Popen", remember)
    with pytest.raises(CompileLimit) as caught:
        compiled(component, CompileLimits(seconds=0.01))
    assert caught.value.details["limit"] == "seconds"
    [child] = children
    assert child.returncode == -signal.SIGKILL


def test_a_component_that_takes_too_much_memory_is_stopped(wat):
    body = "(local.set 0 (i32.mul (i32.add (local.get 0) (local.get 1)) (local.get 2)))" * 400_000
    component = wat(f'(component (core module (func (export "f") (param i32 i32 i32) {body})))')
    with pytest.raises(CompileLimit) as caught:
        compiled(component, CompileLimits(memory_bytes=160 * 1024**2))
    assert caught.value.details["limit"] == "memory_bytes"


def test_an_artifact_that_grows_too_large_is_stopped(embed, tool_core):
    with pytest.raises(CompileLimit) as caught:
        compiled(embed(tool_core()), CompileLimits(artifact_bytes=1000))
    assert caught.value.details["limit"] == "artifact_bytes"


def test_a_full_disk_is_told_from_a_bad_component():
    with Path("/dev/full").open("wb") as artifact, pytest.raises(OSError, match="No space left"):
        compile_component(EMPTY, artifact.fileno())


def test_progress_is_told_while_the_child_works(embed, tool_core, monkeypatch):
    monkeypatch.setattr(compiling, "_POLL_SECONDS", 0.01)
    told: list[float] = []
    with tempfile.TemporaryFile() as artifact:
        compile_component(embed(tool_core()), artifact.fileno(), progress=told.append)
    assert told == sorted(told)
    assert told


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


ENDLESS = """
import os, sys, time
from zeroclaw_host.sandbox import compiler
def endless(engines, job):
    os.write(job.artifact, b"begun")
    time.sleep(60)
compiler._compile = endless
compiler.main(sys.argv[1:])
"""

KILLED_HOST = """
import sys
from zeroclaw_host.sandbox import compile as compiling
compiling._COMMAND = (sys.executable, "-c", sys.argv[1])
compiling.compile_component(bytes.fromhex(sys.argv[2]), int(sys.argv[3]))
"""


def test_a_compiler_whose_host_was_killed_ends_by_itself():
    reading, writing = os.pipe()
    host = subprocess.Popen(
        [sys.executable, "-c", KILLED_HOST, ENDLESS, EMPTY.hex(), str(writing)], pass_fds=(writing,)
    )
    os.close(writing)
    assert os.read(reading, 100) == b"begun"
    host.kill()
    host.wait()
    ended = select.poll()
    ended.register(reading)
    assert ended.poll(20_000), "the pipe ends when nobody is left who could write to it"
    assert os.read(reading, 100) == b""
    os.close(reading)
