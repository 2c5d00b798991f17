"""Attacks by channels and memories, whose instance is kept: what drops it, what does not, and what comes back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from attacks.abusing import NOW
from attacks.attack import SMALL
from attacks.warm import AT_LOAD, NEVER, SAFE, WARM_ATTACKS, WORLDS, WarmAttack, doing, functions, trapping

from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.channel import ChannelPlugin
from zeroclaw_host.worlds.kinds import ExportFilter, MemoryCategory, ProceduralMessage
from zeroclaw_host.worlds.kinds.channel import ApprovalRequest, SendMessage, WebhookRequest
from zeroclaw_host.worlds.memory import MemoryPlugin
from zeroclaw_host.worlds.tool import ToolPlugin

MESSAGE = SendMessage(content="hello", recipient="somebody")
CORE = MemoryCategory.CORE

CALLS: Mapping[str, Mapping[str, Callable[[Any], Awaitable[object]]]] = {
    "channel": {
        "send": lambda it: it.send(MESSAGE),
        "poll-message": lambda it: it.poll_message(),
        "health-check": lambda it: it.health_check(),
        "start-typing": lambda it: it.start_typing("x"),
        "stop-typing": lambda it: it.stop_typing("x"),
        "supports-draft-updates": lambda it: it.supports_draft_updates(),
        "send-draft": lambda it: it.send_draft(MESSAGE),
        "update-draft": lambda it: it.update_draft("x", "y", "z"),
        "update-draft-progress": lambda it: it.update_draft_progress("x", "y", "z"),
        "finalize-draft": lambda it: it.finalize_draft("x", "y", "z"),
        "cancel-draft": lambda it: it.cancel_draft("x", "y"),
        "add-reaction": lambda it: it.add_reaction("x", "y", "z"),
        "remove-reaction": lambda it: it.remove_reaction("x", "y", "z"),
        "pin-message": lambda it: it.pin_message("x", "y"),
        "unpin-message": lambda it: it.unpin_message("x", "y"),
        "redact-message": lambda it: it.redact_message("x", "y"),
        "request-approval": lambda it: it.request_approval(
            "x", ApprovalRequest(tool_name="t", arguments_summary="a")
        ),
        "request-choice": lambda it: it.request_choice("which?", ["this", "that"], 1),
        "supports-free-form-ask": lambda it: it.supports_free_form_ask(),
        "webhook-path": lambda it: it.webhook_path(),
        "parse-webhook": lambda it: it.parse_webhook(WebhookRequest(method="POST")),
    },
    "memory": {
        "store-entry": lambda it: it.store_entry("k", "c", CORE),
        "recall": lambda it: it.recall("q", 5),
        "get": lambda it: it.get("k"),
        "list-entries": lambda it: it.list_entries(),
        "forget": lambda it: it.forget("k"),
        "forget-for-agent": lambda it: it.forget_for_agent("k", "a"),
        "count": lambda it: it.count(),
        "health-check": lambda it: it.health_check(),
        "store-with-agent": lambda it: it.store_with_agent("k", "c", CORE),
        "recall-for-agents": lambda it: it.recall_for_agents(None, "q", 5),
        "get-for-agent": lambda it: it.get_for_agent("k", "a"),
        "purge-namespace": lambda it: it.purge_namespace("n"),
        "purge-session": lambda it: it.purge_session("s"),
        "purge-session-for-agent": lambda it: it.purge_session_for_agent("s", "a"),
        "purge-agent": lambda it: it.purge_agent("a"),
        "reindex": lambda it: it.reindex(),
        "store-procedural": lambda it: it.store_procedural([ProceduralMessage(role="user", content="hello")]),
        "ensure-agent-uuid": lambda it: it.ensure_agent_uuid("a"),
        "recall-namespaced": lambda it: it.recall_namespaced("n", "q", 5),
        "export-entries": lambda it: it.export_entries(ExportFilter()),
        "store-with-metadata": lambda it: it.store_with_metadata("k", "c", CORE),
    },
}
"""How each export of a world is reached through the world's own interface."""


class StandingClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Warm:
    """A loaded plugin of either world."""

    world: str
    plugin: Any

    def call(self, function: str) -> tuple[str | None, str]:
        """The code word and the message of the error, if there is one."""
        return told(lambda: anyio.run(CALLS[self.world][function], self.plugin))

    def rebuild(self) -> None:
        """A channel does that by itself at the next call."""
        if self.world == "memory":
            anyio.run(self.plugin.rebuild)


def told(work: Callable[[], object]) -> tuple[str | None, str]:
    try:
        work()
    except ZeroclawError as error:
        return error.code, error.message
    return None, ""


@pytest.fixture
def load_warm(
    sandbox: Sandbox, honest: ToolPlugin, enemy_package: Callable[..., Any], no_config: Any
) -> Callable[..., Warm]:
    """Loads a component as the channel or memory of a package without permissions, beside an honest plugin."""

    def load(world: str, component: bytes, limits: Limits, sink: MemoryLogSink, **more: object) -> Warm:
        capability = Capability(world)
        package = enemy_package(component, capability)
        scope = InstanceScope.admit(InstanceIdentity("enemy", capability, "enemy"), package.manifest)
        kind = {"channel": ChannelPlugin, "memory": MemoryPlugin}[world]
        services = InstanceServices(no_config, sink)
        return Warm(world, kind.load(sandbox, package, scope, services, limits, **more))

    return load


@pytest.mark.parametrize("world", WORLDS)
def test_every_export_of_the_world_is_attacked(world: str) -> None:
    assert {*CALLS[world], *AT_LOAD[world], *NEVER[world]} == set(functions(world))


@pytest.mark.req("PAINS-6", "PLG-107", "PLG-108", "PLG-109", "PLG-111")
@pytest.mark.parametrize(
    ("world", "function"), [(world, function) for world in WORLDS for function in CALLS[world]]
)
def test_a_trap_in_any_export_drops_the_instance_and_nothing_else(
    world: str,
    function: str,
    load_warm: Callable[..., Warm],
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    safe = next(name for name in SAFE[world] if name != function)
    component = trapping(world, [name for name in (*CALLS[world], *NEVER[world]) if name != safe])
    already_compiled(component, Capability(world))
    own_instance = function == "parse-webhook"
    with witness():
        warm = load_warm(world, component, SMALL, MemoryLogSink())
        assert warm.call(function)[0] == "guest_trap"
        if world == "memory":
            assert warm.call(safe) == ("plugin_unavailable", "plugin instance is unavailable")
            warm.rebuild()
        assert warm.call(safe) == (None, "")
        assert warm.plugin.rebuilds == (0 if own_instance else 1)
        warm.plugin.close()
        del warm


@pytest.mark.req("PLG-022")
@pytest.mark.parametrize(
    ("world", "function"), [(world, function) for world in WORLDS for function in AT_LOAD[world]]
)
def test_a_trap_while_it_is_loaded_leaves_no_plugin(
    world: str,
    function: str,
    load_warm: Callable[..., Warm],
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    component = trapping(world, [function])
    already_compiled(component, Capability(world))
    with witness():
        assert told(lambda: load_warm(world, component, SMALL, MemoryLogSink()))[0] == "guest_trap"


@pytest.mark.req("PLG-020", "PLG-022", "PLG-031", "PLG-032", "PLG-107")
@pytest.mark.parametrize("attack", WARM_ATTACKS, ids=lambda attack: f"{attack.world}: {attack.name}")
def test_a_kept_instance_gains_nothing_by_being_kept(
    attack: WarmAttack,
    load_warm: Callable[..., Warm],
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    component = attack.build()
    already_compiled(component, Capability(attack.world))
    sink = MemoryLogSink()
    with witness() as seen:
        assert outcome(attack, lambda: load_warm(attack.world, component, attack.limits, sink)) == "as told"
    assert seen.grown < attack.host_mib * 1024**2
    assert len([record for record in sink.records if record.source != "host"]) <= attack.records


def outcome(attack: WarmAttack, load: Callable[[], Warm]) -> str:
    """``as told`` if the attack ends the way its entry says, what happened otherwise."""
    loaded: list[Warm] = []
    refused = told(lambda: loaded.append(load()))
    if not loaded:
        return compared(attack, refused, loading=True)
    warm = loaded[0]
    safe = next(name for name in SAFE[attack.world] if name != attack.function)
    try:
        ends = [warm.call(attack.function) for _ in range(attack.calls)]
        if any(code is not None for code, _ in ends[:-1]):
            return f"too early: {ends}"
        if warm.plugin.rebuilds or warm.call(safe)[0] != ("plugin_unavailable" if lost(attack) else None):
            return "the next call found something else"
        warm.rebuild()
        if warm.plugin.rebuilds != (0 if attack.kept else 1) or warm.call(safe) != (None, ""):
            return "it does not come back"
        return compared(attack, ends[-1], loading=False)
    finally:
        warm.plugin.close()


def lost(attack: WarmAttack) -> bool:
    """Whether the next call finds no instance, which goes for a memory alone."""
    return attack.world == "memory" and not attack.kept


def compared(attack: WarmAttack, end: tuple[str | None, str], *, loading: bool) -> str:
    code, message = end
    if code != attack.code or loading != attack.before_the_first_call or not re.search(attack.says, message):
        return f"{code}: {message}"
    return "as told"


@pytest.mark.req("PLG-033")
@pytest.mark.parametrize("world", WORLDS)
def test_flags_that_are_others_after_a_rebuild_are_refused(
    world: str,
    load_warm: Callable[..., Warm],
    already_compiled: Callable[..., None],
    witness: Callable[[], Any],
) -> None:
    """The guest looks at the clock to tell its instances apart."""
    victim, other = SAFE[world]
    later = f'(i32.wrap_i64 (i64.shr_u (call $"{NOW}") (i64.const 41)))'
    component = doing(
        world, f"get-{world}-capabilities", f"(i32.or (i32.const 1) {later})", imports=[NOW], trapped=[victim]
    )()
    already_compiled(component, Capability(world))
    clock = StandingClock()
    with witness():
        warm = load_warm(world, component, SMALL, MemoryLogSink(), clock=clock)
        assert warm.call(victim)[0] == "guest_trap"
        clock.seconds += 2.0**42 / 10**9
        if world == "memory":
            assert told(warm.rebuild)[0] == "plugin_metadata_changed"
            assert warm.call(other)[0] == "plugin_unavailable"
        else:
            assert warm.call(other)[0] == "plugin_metadata_changed"
        warm.plugin.close()
        del warm
