"""Durable state against a plain dictionary: any sequence of operations, by several stores, over reopening and key rotations."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from state_parts import CHANNEL, DEMO, OTHER, Home

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state import MAX_VALUE_BYTES, StateEntry, StateFault

INSTANCES = st.sampled_from([DEMO, OTHER, CHANNEL])
KEYS = st.sampled_from(["a", "b", "A", "x" * 128, "", "no/key"])
VALUES = st.binary(max_size=40) | st.sampled_from([b"x" * MAX_VALUE_BYTES, b"x" * (MAX_VALUE_BYTES + 1)])
STORES = st.integers(0, 1)


class Model:
    """What the store is meant to do, in the fewest words."""

    def __init__(self) -> None:
        self.entries: dict[tuple[InstanceIdentity, str], StateEntry] = {}
        self.last: dict[InstanceIdentity, int] = {}
        self.forgotten = 0

    def get(self, instance: InstanceIdentity, key: str) -> object:
        return "invalid-key" if "/" in key or not key else self.entries.get((instance, key))

    def put(self, instance: InstanceIdentity, key: str, value: bytes, expected: int | None) -> object:
        if "/" in key or not key:
            return "invalid-key"
        if len(value) > MAX_VALUE_BYTES:
            return "quota-exceeded"
        found = self.entries.get((instance, key))
        if (None if found is None else found.revision) != expected:
            return "conflict"
        revision = max(self.last.get(instance, 0), self.forgotten) + 1
        self.last[instance] = revision
        self.entries[instance, key] = StateEntry(value, revision)
        return revision

    def delete(self, instance: InstanceIdentity, key: str, expected: int) -> object:
        if "/" in key or not key:
            return "invalid-key"
        found = self.entries.get((instance, key))
        if found is None:
            return "not-found"
        if found.revision != expected:
            return "conflict"
        del self.entries[instance, key]
        return None

    def clear(self, instance: InstanceIdentity) -> int:
        doomed = [place for place in self.entries if place[0] == instance]
        for place in doomed:
            del self.entries[place]
        return len(doomed)

    def rekey(self) -> None:
        for instance in set(self.last) - {instance for instance, _ in self.entries}:
            self.forgotten = max(self.forgotten, self.last.pop(instance))


def answer(work: object) -> object:
    try:
        return work()  # type: ignore[operator]
    except StateFault as fault:
        return fault.word


class Stores(RuleBasedStateMachine):
    """Two stores, as of two processes, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="zeroclaw-state-"))
        self.home = Home(self.root)
        self.stores = [self.home.store(), self.home.store()]
        self.model = Model()
        self.rotating = False

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.root)

    @rule(which=STORES, instance=INSTANCES, key=KEYS)
    def get(self, which: int, instance: InstanceIdentity, key: str) -> None:
        assert answer(lambda: self.stores[which].get(instance, key)) == self.model.get(instance, key)

    def expected(self, instance: InstanceIdentity, key: str, offset: int | None) -> int | None:
        """The revision that fits, or one beside it."""
        found = self.model.entries.get((instance, key))
        if offset is None:
            return None
        return max(0, (0 if found is None else found.revision) + offset)

    @rule(
        which=STORES,
        instance=INSTANCES,
        key=KEYS,
        value=VALUES,
        offset=st.sampled_from([None, None, 0, 0, 0, 1, -1]),
    )
    def put(self, which: int, instance: InstanceIdentity, key: str, value: bytes, offset: int | None) -> None:
        expected = self.expected(instance, key, offset)
        done = answer(lambda: self.stores[which].put(instance, key, value, expected))
        assert done == self.model.put(instance, key, value, expected)

    @rule(which=STORES, instance=INSTANCES, key=KEYS, offset=st.sampled_from([0, 0, 0, 1, -1]))
    def delete(self, which: int, instance: InstanceIdentity, key: str, offset: int) -> None:
        expected = self.expected(instance, key, offset) or 0
        done = answer(lambda: self.stores[which].delete(instance, key, expected))
        assert done == self.model.delete(instance, key, expected)

    @rule(which=STORES, instance=INSTANCES)
    def clear(self, which: int, instance: InstanceIdentity) -> None:
        assert self.stores[which].clear(instance) == self.model.clear(instance)

    @rule(which=STORES)
    def reopen(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = self.home.store()

    @precondition(lambda self: self.home.key.exists() and not self.rotating)
    @rule()
    def begin_rotation(self) -> None:
        KeyFile(self.home.key).begin_rotation()
        self.rotating = True

    @precondition(lambda self: self.rotating)
    @rule(which=STORES)
    def rekey(self, which: int) -> None:
        ring = KeyFile(self.home.key).read()
        assert ring.former is not None
        before = self.renamed
        assert self.stores[which].rekey() == len(self.model.entries)
        if not before:
            self.model.rekey()

    @precondition(lambda self: self.rotating)
    @rule(which=STORES)
    def finish_rotation(self, which: int) -> None:
        self.rekey(which)
        KeyFile(self.home.key).finish_rotation()
        self.rotating = False

    @property
    def renamed(self) -> bool:
        """Whether the database is under the next key already, as far as anybody can tell."""
        if not self.home.database.exists():
            return True
        install = KeyFile(self.home.key).read()
        with self.home.inside() as raw:
            rows = [text for (text,) in raw.execute("SELECT ciphertext FROM plugin_state")]
            if rows:
                return install.sealed_this(rows[0])
            owners = [owner for (owner,) in raw.execute("SELECT owner FROM plugin_state_revisions")]
        return not owners or install.digest("zeroclaw.plugin-state.owner.v1\0", b"\0") in owners

    @invariant()
    def usage_agrees(self) -> None:
        used = self.stores[0].usage()
        assert used.unreadable == 0
        kept = {
            instance: [entry for (owner, _), entry in self.model.entries.items() if owner == instance]
            for instance in (DEMO, OTHER, CHANNEL)
        }
        assert {u.instance: (u.entries, u.value_bytes, u.last_revision) for u in used.instances} == {
            instance: (len(found), sum(len(entry.value) for entry in found), self.model.last[instance])
            for instance, found in kept.items()
            if found
        }
        assert self.home.reports == []


Stores.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStores = pytest.mark.req("PLG-154", "PLG-155", "PLG-156")(Stores.TestCase)
