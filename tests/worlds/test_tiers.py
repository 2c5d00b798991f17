"""A Python plugin in its shared and in its plain form is one plugin: same answers, same ends, same fuel."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroclaw_host.errors import GuestTrap, OutOfFuel, PluginError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, parse_manifest
from zeroclaw_host.sandbox.compiling import cache as caching
from zeroclaw_host.sandbox.compiling import shared_forms
from zeroclaw_host.sandbox.compiling.compile import Source
from zeroclaw_host.sandbox.compiling.shared_forms import SHARED
from zeroclaw_host.sandbox.compiling.sharing import share
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName
from zeroclaw_host.sandbox.frame import CallFrame, Phase
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.linker import LinkedComponent, link
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.surface import surface_of

TOOL = "zeroclaw:plugin/tool"
VARIES = re.compile(r" ?\(?0x[0-9a-f]+\)?|\d+ ms|'(guest|host)_ms': \d+")
"""Where code lies, which differs between the forms, and how long it took."""

MANIFEST = b'name = "probe"\nversion = "1.0.0"\nwasm_path = "probe.wasm"\ncapabilities = ["tool"]\n'
SURFACE = surface_of(Capability.TOOL, frozenset())


class NoConfig:
    """Resolves to nothing."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


@dataclass(frozen=True)
class Outcome:
    """Everything the host sees of one call of a new instance."""

    answer: object
    error: tuple[object, ...] | None
    records: tuple[object, ...]
    output: tuple[str, str]
    fuel: int


def call(
    sandbox: Sandbox,
    linked: LinkedComponent,
    function: str,
    *arguments: str,
    limits: Limits | None = None,
    interface: str = TOOL,
) -> Outcome:
    scope = InstanceScope.admit(InstanceIdentity.default_tool("probe"), parse_manifest(MANIFEST))
    sink = MemoryLogSink()
    frame = CallFrame(
        scope=scope,
        services=InstanceServices(config=NoConfig(), log=sink),
        limits=limits or Limits(),
        phase=Phase.TOOL_EXECUTE,
    )

    def work() -> Outcome:
        answer: object = None
        error: tuple[object, ...] | None = None
        fuel = 0
        try:
            with sandbox.guest(linked, frame) as guest:
                try:
                    answer = guest.call(frame, interface, function, *arguments)
                finally:
                    fuel = frame.limits.call_fuel - guest.fuel_left()
        except PluginError as raised:
            details = VARIES.sub("", repr(dict(raised.details)))
            error = (type(raised), VARIES.sub("", raised.message), details, raised.causes())
        records = tuple((record.level, record.message, record.source) for record in sink.records)
        return Outcome(answer, error, records, (frame.stdout.text(), frame.stderr.text()), fuel)

    return sandbox.threads.run(frame, work)


def execute(sandbox: Sandbox, linked: LinkedComponent, text: str, **more: Limits) -> Outcome:
    return call(sandbox, linked, "execute", text, **more)


@pytest.fixture(scope="session")
def shared(sandbox: Sandbox, probe_component: bytes) -> LinkedComponent:
    """The probe in its shared form, whatever else there is of it."""
    digest = hashlib.sha256(probe_component).hexdigest()
    forms = sandbox._shared
    assert forms is not None
    found = forms.find(digest) or forms.make(probe_component, digest)
    assert found is not None
    return LinkedComponent(digest, SURFACE, link(found, SURFACE, sandbox.conversion))


@pytest.fixture(scope="session")
def plain(sandbox: Sandbox, probe_component: bytes) -> LinkedComponent:
    """The probe as it is. For slow tests: nobody else needs it."""
    digest = hashlib.sha256(probe_component).hexdigest()
    found = sandbox.cache.compiled(probe_component, sha256=digest)
    return LinkedComponent(digest, SURFACE, link(found, SURFACE, sandbox.conversion))


def test_of_a_python_plugin_the_interpreter_and_its_libraries_are_shared_and_its_memory_is_not(
    probe_component: bytes,
) -> None:
    found = share(probe_component)
    assert found is not None
    sizes = sorted(len(module) for module in found.modules.values())
    assert len(sizes) == 3
    assert sizes[-1] > 5_000_000
    assert len(found.component) > 10_000_000
    assert b"Does what it is told." in found.component
    assert not any(b"Does what it is told." in module for module in found.modules.values())


def test_a_second_python_plugin_compiles_nothing_of_the_first(
    sandbox: Sandbox, probe_component: bytes, shared: LinkedComponent, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = probe_component.replace(b"Does what it is told.", b"Does something other.")
    assert second != probe_component
    sandbox.cache.artifacts.discard(ArtifactName(SHARED, hashlib.sha256(second).hexdigest()))
    compiled: list[tuple[str, int]] = []
    compile_sources = shared_forms.compile_sources

    def noted(sources: list[Source], **more: object) -> None:
        compiled.extend((source.form.value, len(source.content)) for source in sources)
        compile_sources(sources, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(shared_forms, "compile_sources", noted)
    monkeypatch.setattr(caching, "compile_sources", None)
    linked = sandbox.load(second, SURFACE)
    assert call(sandbox, linked, "description").answer == "Does something other."
    assert call(sandbox, shared, "description").answer == "Does what it is told."
    [(form, size)] = compiled
    assert form == "component"
    assert size < len(second) - 6_500_000
    modules = shared.form.compiled.modules
    assert linked.form.compiled.modules.keys() == modules.keys()


@settings(max_examples=25)
@given(st.data())
def test_a_damaged_python_plugin_is_rewritten_or_left_without_a_fault(
    probe_component: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(probe_component)
    for _ in range(data.draw(st.integers(1, 4))):
        # Half of the damage where structure is dense: before the memory, which begins some kilobytes in.
        end = data.draw(st.sampled_from([16 * 1024, len(damaged)]))
        damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    found = share(bytes(damaged))
    assert found is None or len(found.component) < len(damaged)


SCENARIOS: Mapping[str, tuple[str, Limits]] = {
    "an answer": ('{"do": "echo", "text": "grüße ☃"}', Limits()),
    "a long text": (json.dumps({"do": "echo", "text": "x" * 200_000}), Limits()),
    "an error of its own": ('{"do": "fail"}', Limits()),
    "an exception": ('{"do": "raise"}', Limits()),
    "no such action": ('{"do": "nothing"}', Limits()),
    "text that is no JSON": ("{", Limits()),
    "an endless loop": ('{"do": "loop"}', Limits(call_fuel=30_000_000)),
    "too much memory": ('{"do": "hog"}', Limits(max_memory_mb=40)),
    "an exit": ('{"do": "exit"}', Limits()),
    "output": ('{"do": "print"}', Limits()),
    "log records": ('{"do": "log", "times": 3, "message": "wind"}', Limits()),
    "secrets": ('{"do": "secrets", "names": ["token", "other"]}', Limits()),
    "a spent budget of host calls": ('{"do": "budget"}', Limits()),
    "state": ('{"do": "state", "key": "k", "value": "v"}', Limits()),
    "too little memory to start": ('{"do": "echo"}', Limits(max_memory_mb=1)),
    "too few instances to start": ('{"do": "echo"}', Limits(max_instances=5)),
    "too small a table to start": ('{"do": "echo"}', Limits(max_table_elements=10)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("request_", "limits"), SCENARIOS.values(), ids=list(SCENARIOS))
def test_both_forms_answer_log_and_end_alike(
    sandbox: Sandbox, plain: LinkedComponent, shared: LinkedComponent, request_: str, limits: Limits
) -> None:
    one, two = (execute(sandbox, linked, request_, limits=limits) for linked in (plain, shared))
    assert one == two
    assert (one.answer is None) != (one.error is None)


@pytest.mark.slow
def test_both_forms_say_the_same_about_themselves(
    sandbox: Sandbox, plain: LinkedComponent, shared: LinkedComponent
) -> None:
    for interface, function in (
        (TOOL, "name"),
        (TOOL, "description"),
        (TOOL, "parameters-schema"),
        ("zeroclaw:plugin/plugin-info", "plugin-name"),
        ("zeroclaw:plugin/plugin-info", "plugin-version"),
    ):
        one, two = (call(sandbox, linked, function, interface=interface) for linked in (plain, shared))
        assert one == two
        assert isinstance(one.answer, str)


@pytest.mark.slow
def test_both_forms_run_out_of_fuel_at_the_same_point(
    sandbox: Sandbox, plain: LinkedComponent, shared: LinkedComponent
) -> None:
    request = '{"do": "log", "times": 2, "message": "wind"}'
    whole = execute(sandbox, plain, request).fuel
    budgets = [1, 2, 3, *(whole * step // 200 for step in range(1, 200)), whole - 1, whole, whole + 1]
    ends = set[object]()
    for budget in budgets:
        one, two = (
            execute(sandbox, linked, request, limits=Limits(call_fuel=budget)) for linked in (plain, shared)
        )
        assert one == two
        ends.add(None if one.error is None else one.error[0])
    assert ends == {None, OutOfFuel}


@pytest.mark.slow
def test_the_one_difference_is_that_the_native_stack_ends_a_moment_earlier(
    sandbox: Sandbox, plain: LinkedComponent, shared: LinkedComponent
) -> None:
    level = execute(sandbox, plain, "[" * 1_001).fuel - execute(sandbox, plain, "[" * 1_000).fuel
    one, two = (execute(sandbox, linked, "[" * 200_000) for linked in (plain, shared))
    for outcome in (one, two):
        assert outcome.error is not None
        assert outcome.error[0] is GuestTrap
        assert "stack" in str(outcome.error[1])
    assert one.error is not None
    assert two.error is not None
    assert one.error[1] == two.error[1]
    assert 0 <= one.fuel - two.fuel < level


@pytest.mark.slow
def test_an_instance_stays_in_the_form_it_was_made_from(
    sandbox: Sandbox,
    plain: LinkedComponent,
    shared: LinkedComponent,
    tool_scope: Callable[..., InstanceScope],
) -> None:
    """As those of channels and memories do, which live long."""
    linked = LinkedComponent(shared.sha256, SURFACE, shared.form)
    services = InstanceServices(config=NoConfig(), log=MemoryLogSink())
    frame = CallFrame(
        scope=tool_scope(parse_manifest(MANIFEST)),
        services=services,
        limits=Limits(),
        phase=Phase.TOOL_EXECUTE,
    )

    def counted(guest: object) -> int:
        answer = guest.call(frame, TOOL, "execute", '{"do": "echo"}').value  # type: ignore[attr-defined]
        calls = json.loads(answer["output"])["calls"]
        assert isinstance(calls, int)
        return calls

    def work() -> list[int]:
        with sandbox.guest(linked, frame) as warm:
            found = [counted(warm)]
            linked.form = plain.form
            found.append(counted(warm))
            with sandbox.guest(linked, frame) as fresh:
                found.append(counted(fresh))
            return found

    assert sandbox.threads.run(frame, work) == [1, 2, 1]
