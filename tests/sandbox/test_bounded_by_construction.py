"""There is no way to a guest around the limits and the gate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import zeroclaw_host

ROOT = Path(zeroclaw_host.__file__).parent

ALLOWED = {
    "Store": {"sandbox/store.py", "sandbox/selftest.py"},
    "define_function": {"sandbox/conversion.py", "sandbox/selftest.py"},
    "add_func": {"sandbox/conversion.py"},
    "add_resource": {"sandbox/linker.py"},
    "add_module": {"sandbox/linker.py"},
    "define_unknown_imports_as_traps": set[str](),
    "add_wasi_http": set[str](),
    "deserialize": set[str](),
    "deserialize_file": {"sandbox/engine.py"},
}
"""Where each call may stand. The self-test runs a component of its own, before any plugin's."""


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name) | ast.Attribute(attr=name):
                    yield name


@pytest.mark.req("PLG-022")
@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_what_could_bypass_the_sandbox_is_called_in_one_place(name):
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if name in set(calls(path))}
    assert found == ALLOWED[name]


@pytest.mark.req("PLG-101")
def test_two_plugins_of_a_sandbox_share_its_engine(embed, tool_core, surface, sandbox):
    first = sandbox.load(embed(tool_core()), surface())
    second = sandbox.load(embed(tool_core("unreachable")), surface())
    assert first.form.linker.engine is second.form.linker.engine is sandbox.engine


@pytest.mark.req("PLG-101")
def test_a_component_with_asynchronous_built_ins_gets_the_other_engine(wat, sandbox):
    plain = sandbox.cache.compiled(wat("(component)"))
    other = sandbox.cache.compiled(wat("(component (core func (canon waitable-set.new)))"))
    again = sandbox.cache.compiled(wat("(component (core func (canon waitable-set.drop)))"))
    assert plain.engine is sandbox.engine
    assert other.engine is again.engine is not sandbox.engine


def test_opening_artifacts_is_the_caches_business():
    openers = {path.name for path in ROOT.rglob("*.py") if "engines.open" in path.read_text(encoding="utf-8")}
    assert openers == {"cache.py", "compiler.py", "shared_forms.py"}
