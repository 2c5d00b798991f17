"""What answers while: at an instance's start, while a tool tells of itself, in a call; and how often."""

from __future__ import annotations

import pytest
from forge import Forge

from zeroclaw_host.sandbox.frame import MAX_HOST_CALLS
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.state import StateEntry
from zeroclaw_host.worlds.tool import ToolPlugin

PERMISSIONS = ("config_read", "state_read", "state_write")

ANSWERS = """
  ;; above 256 KiB, where the allocator does not come
  (global $at-start (mut i32) (i32.const -1))
  (global $at-name (mut i32) (i32.const -1))
  (global $counted (mut i32) (i32.const 0))
  (data (i32.const 262144) "token")
  ;; 0 where the secret came; the error's number plus one where it did not
  (func $secret (result i32)
    (call $secrets.get (i32.const 262144) (i32.const 5) (i32.const 262160))
    (if (result i32) (i32.load8_u (i32.const 262160))
      (then (i32.add (i32.const 1) (i32.load8_u (i32.const 262164)))) (else (i32.const 0))))
  (func $state (result i32)
    (call $state.get (i32.const 262144) (i32.const 5) (i32.const 262208))
    (if (result i32) (i32.load8_u (i32.const 262208))
      (then (i32.add (i32.const 1) (i32.load8_u (i32.const 262216)))) (else (i32.const 0))))
  (func $log
    (call $logging.log-record (i32.const 2) (i32.const 262144) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 262144) (i32.const 5)))
  (func $digit (param $place i32) (param $value i32)
    (i32.store8 (i32.add (i32.const 262400) (local.get $place)) (i32.add (i32.const 48) (local.get $value))))
  ;; a successful result whose output is that many digits
  (func $digits (param $many i32) (result i32)
    (i32.store8 (i32.const 262528) (i32.const 0)) (i32.store8 (i32.const 262532) (i32.const 1))
    (i32.store (i32.const 262536) (i32.const 262400)) (i32.store (i32.const 262540) (local.get $many))
    (i32.store8 (i32.const 262544) (i32.const 0))
    (i32.const 262528))
"""

UNAVAILABLE = {"secret": "3", "state": "6"}
"""The numbers of the error's case in the contract, plus one."""


class Stored:
    """One secret, and one entry of state that counts how often it is asked for."""

    def __init__(self) -> None:
        self.reads = 0

    def resolve(self, scope: object) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {"token": "t0p"})  # type: ignore[arg-type]

    def get(self, instance: object, key: str, *, remaining: object) -> StateEntry | None:
        self.reads += 1
        return StateEntry(b"", 1)


@pytest.fixture
def load(sandbox, package_of, tool_scope):
    def make(bodies: dict[str, str], extra: str = "") -> tuple[ToolPlugin, MemoryLogSink, Stored]:
        imports = ("secrets.get", "state.get", "logging.log-record")
        component = Forge().component(bodies=bodies, imports=imports, extra=ANSWERS + extra, pages=8)
        package = package_of(component, permissions=PERMISSIONS)
        log, stored = MemoryLogSink(), Stored()
        services = InstanceServices(config=stored, log=log, state=stored)  # type: ignore[arg-type]
        return (
            ToolPlugin.load(sandbox, package, tool_scope(package.manifest), services, Limits()),
            log,
            stored,
        )

    return make


@pytest.mark.req("PLG-147")
def test_an_instance_that_is_being_made_gets_no_secrets_and_no_state(load):
    tool, _, stored = load(
        {
            "tool.execute": """(call $digit (i32.const 0) (global.get $at-start))
              (call $digit (i32.const 1) (global.get $counted))
              (call $digit (i32.const 2) (call $secret)) (call $digit (i32.const 3) (call $state))
              (call $digits (i32.const 4))"""
        },
        extra="""(func (export "_initialize")
          (global.set $at-start (call $secret)) (global.set $counted (call $state)))""",
    )
    assert tool.execute_sync({}).output == UNAVAILABLE["secret"] + UNAVAILABLE["state"] + "00"
    assert stored.reads == 1


@pytest.mark.req("PLG-147")
def test_a_tool_that_tells_of_itself_gets_no_secrets(load):
    tool, log, _ = load(
        {
            "tool.name": """(call $digit (i32.const 0) (call $secret))
              (i32.store (i32.const 262248) (i32.const 262400)) (i32.store (i32.const 262252) (i32.const 1))
              (call $log) (i32.const 262248)""",
        }
    )
    assert tool.name == UNAVAILABLE["secret"]
    assert [record.message for record in log.records] == ["token"]


def times(many: int, body: str) -> str:
    return f"""(local $n i32) (local.set $n (i32.const {many}))
      (loop $again {body} (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br_if $again (local.get $n)))"""


@pytest.mark.req("PLG-024", "PLG-147")
@pytest.mark.parametrize(("name", "answer"), [("secret", "0"), ("state", "0")])
def test_the_thousandth_call_is_answered_and_the_next_is_not(name, answer, load):
    tool, _, stored = load(
        {
            "tool.execute": f"""{times(MAX_HOST_CALLS - 1, f"(drop (call ${name}))")}
              (call $digit (i32.const 0) (call ${name})) (call $digit (i32.const 1) (call ${name}))
              (call $digits (i32.const 2))"""
        }
    )
    for _ in range(2):  # the next call has a budget of its own
        assert tool.execute_sync({}).output == answer + UNAVAILABLE[name]
    assert stored.reads == (2 * MAX_HOST_CALLS if name == "state" else 0)


@pytest.mark.req("PLG-024")
def test_the_log_falls_silent_with_the_budget_and_the_call_goes_on(load):
    tool, log, _ = load(
        {
            "tool.execute": f"""{times(MAX_HOST_CALLS + 1, "(call $log)")}
              (call $digit (i32.const 0) (call $secret)) (call $digits (i32.const 1))"""
        }
    )
    for call in (1, 2):
        assert tool.execute_sync({}).output == UNAVAILABLE["secret"]
        assert (len(log.records), log.dropped) == (call * MAX_HOST_CALLS, 0)


@pytest.mark.req("PLG-024")
def test_the_start_and_each_question_about_a_tool_have_budgets_of_their_own(load):
    spend = times(MAX_HOST_CALLS, "(call $log)")
    text = "(i32.store (i32.const 262248) (i32.const 262144)) (i32.store (i32.const 262252) (i32.const 5)) (i32.const 262248)"
    tool, log, _ = load(
        {
            "tool.name": f"{spend} {text}",
            "tool.description": f"{spend} {text}",
            "tool.execute": f"{spend} (call $digits (i32.const 0))",
        },
        extra=f'(func (export "_initialize") {spend})',
    )
    assert len(log.records) == 3 * MAX_HOST_CALLS
    tool.execute_sync({})
    assert len(log.records) == 5 * MAX_HOST_CALLS
