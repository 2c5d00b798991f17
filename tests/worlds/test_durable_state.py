"""A real guest over the real store: what each permission lets it do, whose its entries are, and what it is told of faults."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from state_parts import OTHER, Home

from zeroclaw_host.contract import contract
from zeroclaw_host.errors import DeadlineExceeded
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.state import StateEntry
from zeroclaw_host.services.state_store import DurableState
from zeroclaw_host.worlds.tool import ToolPlugin

PROBE = InstanceIdentity.default_tool("probe")
BOTH = ("state_read", "state_write")


class NoConfig:
    """Nothing is configured."""

    def resolve(self, scope: InstanceScope) -> ResolvedConfig:
        return ResolvedConfig(scope, {}, {})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def load(sandbox, probe_component, package_of, tool_scope):
    """Loads the probe with permissions over a store."""

    def make(store: DurableState, *permissions: str, grants=None, limits: Limits | None = None) -> ToolPlugin:
        package = package_of(probe_component, permissions=permissions)
        lent = InstanceServices(config=NoConfig(), log=MemoryLogSink(), state=store)
        return ToolPlugin.load(
            sandbox, package, tool_scope(package.manifest, grants), lent, limits or Limits()
        )

    return make


def told(tool: ToolPlugin, **more: object):
    """What get, put and delete of one key answer, in this order."""
    return json.loads(tool.execute_sync({"do": "state", "key": "k", **more}).output)


DENIED = {"err": "access-denied"}


@pytest.mark.req("PLG-009")
@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        ((), {"get": DENIED, "put": DENIED, "delete": DENIED}),
        (("state_read",), {"get": {"ok": {"value": "kept", "revision": 1}}, "put": DENIED, "delete": DENIED}),
        (("state_write",), {"get": DENIED, "put": {"ok": 2}, "delete": {"ok": None}}),
        (BOTH, {"get": {"ok": {"value": "kept", "revision": 1}}, "put": {"ok": 2}, "delete": {"ok": None}}),
    ],
)
@pytest.mark.parametrize("withheld", [False, True])
def test_each_direction_of_the_store_has_its_own_permission(
    home: Home, load, granted, expected, withheld: bool
):
    """Whether the manifest does not ask for a permission, or asks and is not granted it."""
    store = home.store()
    store.put(PROBE, "k", b"kept", None)
    grants = frozenset(map(Permission, granted)) if withheld else None
    tool = load(store, *(BOTH if withheld else granted), grants=grants)

    assert told(tool, value="new", expected=1, revision=2) == expected
    assert (store.get(PROBE, "k") == StateEntry(b"kept", 1)) is ("state_write" not in granted)


@pytest.mark.req("PLG-154")
def test_a_guest_has_its_own_entries_and_those_alone(home: Home, load):
    store = home.store()
    store.put(OTHER, "k", b"another's", None)
    tool = load(store, *BOTH)

    assert told(tool, value="mine", revision=7) == {
        "get": {"ok": None},
        "put": {"ok": 1},
        "delete": {"err": "conflict"},
    }
    assert store.get(PROBE, "k") == StateEntry(b"mine", 1)
    assert store.get(OTHER, "k") == StateEntry(b"another's", 1)


@pytest.mark.req("PLG-154")
def test_a_guest_cannot_say_whose_entries_it_means():
    functions = contract().interface("zeroclaw:plugin/state").functions
    assert {name: [parameter for parameter, _ in found.params] for name, found in functions.items()} == {
        "get": ["key"],
        "put": ["key", "value", "expected-revision"],
        "delete": ["key", "expected-revision"],
    }


@pytest.mark.req("PLG-156", "PLG-158", "PLG-155")
def test_faults_keep_their_words(home: Home, load):
    store = home.store()
    tool = load(store, *BOTH)
    assert told(tool, expected=3, revision=1) == {
        "get": {"ok": None}, "put": {"err": "conflict"}, "delete": {"err": "not-found"},
    }  # fmt: skip
    assert home.files() == {}, "nothing was made"
    assert told(tool, value="x" * 65_536, revision=9)["put"] == {"ok": 1}
    assert told(tool, value="x" * 65_537, expected=1, revision=9)["put"] == {"err": "quota-exceeded"}
    assert store.get(PROBE, "k") == StateEntry(b"x" * 65_536, 1)
    assert {answer["err"] for answer in told(tool, key="a/b").values()} == {"invalid-key"}


@pytest.mark.req("PLG-159")
def test_a_guest_is_told_no_more_than_that_its_state_is_unavailable(home: Home, load):
    store = home.store()
    tool = load(store, *BOTH)
    told(tool, value="v", revision=9)
    home.key.write_text(os.urandom(32).hex())

    unavailable = {"err": "unavailable"}
    assert told(tool, expected=1) == {"get": unavailable, "put": unavailable, "delete": unavailable}
    assert home.reasons == ["key_replaced"]


def test_waiting_for_the_store_ends_with_the_calls_deadline(home: Home, load):
    """The call's own error, though the store itself would wait for longer."""
    store = home.store()
    store.put(PROBE, "k", b"", None)
    tool = load(store, *BOTH, limits=Limits(call_timeout_ms=5000))
    raw = sqlite3.connect(home.database, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(DeadlineExceeded) as late:
            tool.execute_sync({"do": "state", "key": "k", "expected": 1})
    finally:
        raw.close()
    assert late.value.details["timeout_ms"] == 5000
    assert store.get(PROBE, "k") == StateEntry(b"", 1)
