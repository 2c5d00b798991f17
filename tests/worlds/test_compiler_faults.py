"""What the load check makes of a compiler that ends badly: a verdict where the component did it, an error where it did not."""

from __future__ import annotations

import os
import sys

import pytest

from zeroclaw_host.errors import CompileLimit, ComponentInvalid
from zeroclaw_host.sandbox.compiling import compile as compiling
from zeroclaw_host.sandbox.compiling.compile import CompilerFailed
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.worlds.loading import check_load

CRASH = """
import os, signal, sys
from zeroclaw_host.sandbox.compiling import compiler
def end(*_):
    os.write(2, b"thread 'main' panicked at cranelift/src/isa.rs:1:2:\\nno such register\\nnote: x")
    signal.signal(signal.{0}, signal.SIG_DFL)
    os.kill(os.getpid(), signal.{0})
compiler._compile = end
sys.exit(compiler.main(sys.argv[1:]))
"""


@pytest.fixture
def never_compiled(package_of):
    """A package whose component no cache holds: it has a custom section of random bytes."""
    salt = os.urandom(16)
    return package_of(b"\0asm\x0d\0\x01\0" + b"\0" + bytes([len(salt) + 2]) + b"\x01x" + salt)


def test_a_crash_of_the_compiler_is_a_verdict_with_its_cause(sandbox, never_compiled, monkeypatch):
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", CRASH.format("SIGABRT")))
    verdict = check_load(sandbox, never_compiled, Limits())
    assert not verdict.loads
    assert isinstance(verdict.error, ComponentInvalid)
    assert verdict.causes[0] == "the compiler crashed on the component (SIGABRT)"
    assert "no such register" in verdict.causes[1]


def test_a_compiler_killed_by_the_system_is_no_verdict(sandbox, never_compiled, monkeypatch):
    monkeypatch.setattr(compiling, "_COMMAND", (sys.executable, "-c", CRASH.format("SIGTERM")))
    with pytest.raises(CompilerFailed):
        check_load(sandbox, never_compiled, Limits())


def test_a_component_that_takes_too_much_of_the_compiler_is_a_verdict(sandbox, never_compiled, monkeypatch):
    def too_long(*_: object) -> None:
        raise CompileLimit("compiling the component took longer than 120 s")

    monkeypatch.setattr(compiling, "_wait", too_long)
    verdict = check_load(sandbox, never_compiled, Limits())
    assert isinstance(verdict.error, CompileLimit)
