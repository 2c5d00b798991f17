"""Staging against a model of plain bytes, and its arithmetic to the byte."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.uploads.budget import Budget, byte_length, cost
from zeroclaw_daemon.uploads.errors import (
    ChunkDiffers,
    ChunkEmpty,
    ChunkLeavesGap,
    ChunkPastEnd,
    ChunkRefused,
    ChunkTooLarge,
    DigestInvalid,
    FilenameTooLong,
    FileTooLarge,
    UploadBudgetSpent,
    UploadIncomplete,
    UploadLimit,
    UploadUnknown,
)
from zeroclaw_daemon.uploads.staging import Staging, StagingLimits
from zeroclaw_host.errors import ZeroclawError

SMALL = StagingLimits(
    chunk_bytes=4, file_bytes=12, filename_bytes=3, per_connection=2, total_bytes=60, idle_seconds=300.0
)
DIGEST = "ab" * 32


def staging_of(limits: StagingLimits = SMALL) -> tuple[Staging[str], ManualClock]:
    clock = ManualClock()
    return Staging[str](clock.now, limits), clock


# The budget.

FIELDS = ("session_id", "owner", "agent", "filename", "digest")


def begun(staging: Staging[str], holder: object = "c", **change: Any) -> str:
    given: dict[str, Any] = {
        "size": 3, "session_id": "s1", "owner": "own", "agent": "ag", "filename": "f", "digest": DIGEST,
    } | change  # fmt: skip
    return staging.begin(
        holder,
        "target",
        kept=(given["session_id"], given["owner"], given["agent"]),
        size=given["size"],
        filename=given["filename"],
        digest=given["digest"],
    ).id


@pytest.mark.req("RPC-191")
def test_the_charge_is_the_size_and_every_text_that_is_kept() -> None:
    used = 3 + 2 + 3 + 2 + 1 + 64
    staging, _ = staging_of(StagingLimits(total_bytes=used))
    begun(staging)
    assert staging.used_bytes == used


@pytest.mark.req("RPC-191")
@pytest.mark.parametrize(
    "change",
    [
        {"size": 4},
        {"session_id": "s12"},
        {"owner": "ownr"},
        {"agent": "agt"},
        {"filename": "fi"},
        {"owner": "oné"},
    ],
)
def test_one_byte_more_anywhere_does_not_fit(change: dict[str, Any]) -> None:
    limits = StagingLimits(total_bytes=3 + 2 + 3 + 2 + 1 + 64)
    staging, _ = staging_of(limits)
    with pytest.raises(UploadBudgetSpent):
        begun(staging, **change)
    assert staging.used_bytes == 0
    begun(staging)
    assert staging.used_bytes == limits.total_bytes


@pytest.mark.req("RPC-191")
def test_a_declared_digest_counts_and_none_is_free() -> None:
    limits = StagingLimits(total_bytes=3 + 2 + 3 + 2 + 1)
    staging, _ = staging_of(limits)
    with pytest.raises(UploadBudgetSpent):
        begun(staging)
    begun(staging, digest=None)
    assert staging.used_bytes == limits.total_bytes
    assert cost(0, None, "") == 0


@pytest.mark.req("RPC-192")
def test_empty_files_fill_the_budget_with_what_is_kept_of_them() -> None:
    staging, _ = staging_of(StagingLimits(total_bytes=1000, per_connection=1000))
    for _ in range(10):
        begun(
            staging,
            size=0,
            digest=None,
            session_id="s" * 50,
            owner="o" * 20,
            agent="a" * 20,
            filename="f" * 10,
        )
    with pytest.raises(UploadBudgetSpent):
        begun(staging, size=0, digest=None, session_id="", owner=None, agent="", filename="f")
    assert staging.used_bytes == 1000


@pytest.mark.req("RPC-193")
def test_a_charge_is_given_back_once() -> None:
    budget = Budget(10)
    first, second = budget.take(6), budget.take(4)
    assert first is not None
    assert second is not None
    assert budget.take(1) is None
    for _ in range(3):
        first.give_back()
        assert budget.used == 4
    second.give_back()
    assert (budget.used, first.amount, second.amount) == (0, 0, 0)
    assert budget.take(11) is None
    assert budget.take(10) is not None


@pytest.mark.req("RPC-193")
@pytest.mark.parametrize("end", ["taken", "dropped", "both", "expired", "expired and dropped"])
def test_every_end_of_an_upload_gives_its_charge_back_once(end: str) -> None:
    staging, clock = staging_of()
    upload = begun(staging, size=2, digest=None)
    staging.append("c", upload, 0, b"ab")
    other = begun(staging, "d", size=1, digest=None)
    rest = 1 + 2 + 3 + 2 + 1
    if end in ("taken", "both"):
        taken = staging.take("c", upload)
        assert staging.used_bytes == rest + 10  # Its bytes are still there.
        if end == "both":
            staging.drop("c")
            assert staging.used_bytes == rest + 10
        taken.charge.give_back()
        taken.charge.give_back()
    if end.startswith("expired"):
        clock.advance(299)
        staging.append("d", other, 0, b"x")
        clock.advance(1)
        with pytest.raises(UploadUnknown):
            staging.append("c", upload, 0, b"ab")
    staging.drop("c")
    staging.drop("c")
    assert staging.used_bytes == rest
    staging.drop("d")
    assert staging.used_bytes == 0


@pytest.mark.req("RPC-166")
def test_lengths_are_in_bytes_of_utf8_and_half_a_character_has_three() -> None:
    assert [byte_length(text) for text in ("", "a", "é", "€", "😀", "\ud800")] == [0, 1, 2, 3, 4, 3]


@pytest.mark.req("RPC-189")
@pytest.mark.parametrize("piece", [1000, 64 * 1024, 1024 * 1024])
def test_what_came_is_held_with_an_eighth_more_room_at_most(piece: int) -> None:
    staging, _ = staging_of(StagingLimits())
    size = StagingLimits().file_bytes
    upload = staging.begin("c", "target", size=size, filename="f")
    for offset in range(0, size, piece):
        staging.append("c", upload.id, offset, bytes(min(piece, size - offset)))
    assert size <= sys.getsizeof(upload.received) <= size * 9 // 8 + 100
    staging.drop("c")


# The order of the checks.


@pytest.mark.req("RPC-163")
def test_of_several_faults_the_documented_first_one_is_told() -> None:
    staging, _ = staging_of()
    begun(staging, size=12, digest=None)
    begun(staging, size=12, digest=None)
    faults: list[tuple[type[ZeroclawError], dict[str, Any]]] = [
        (FileTooLarge, {"size": 13}),
        (FilenameTooLong, {"filename": "long"}),
        (DigestInvalid, {"digest": "x"}),
    ]
    for number, (error, _) in enumerate(faults):
        change = {key: value for _, each in faults[number:] for key, value in each.items()}
        with pytest.raises(error):
            begun(staging, **change)
    with pytest.raises(UploadLimit):
        begun(staging, session_id="s" * 100)
    with pytest.raises(UploadBudgetSpent):
        begun(staging, "d", session_id="s" * 100)


# Idle time.


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(ZeroclawError) as caught:
        yield
    assert not isinstance(caught.value, UploadUnknown)


@pytest.mark.req("RPC-194", "RPC-195")
@pytest.mark.parametrize("touch", ["a chunk", "the same again", "a commit too early"])
def test_what_is_accepted_starts_the_time_again(touch: str) -> None:
    staging, clock = staging_of()
    upload = begun(staging, size=9, digest=None)
    staging.append("c", upload, 0, b"a")
    sent = 1
    for _ in range(3):
        clock.advance(299)
        if touch == "a chunk":
            sent = staging.append("c", upload, sent, b"a")
        elif touch == "the same again":
            staging.append("c", upload, 0, b"a")
        else:
            with pytest.raises(UploadIncomplete):
                staging.take("c", upload)
    clock.advance(300)
    with pytest.raises(UploadUnknown):
        staging.append("c", upload, sent, b"a")
    assert staging.used_bytes == 0


@pytest.mark.req("RPC-195")
@pytest.mark.parametrize(
    ("offset", "data"), [(2, b"a"), (0, b"b"), (1, b""), (1, b"abcde"), (0, b"ab"), (1, b"abcd")]
)
def test_what_is_refused_does_not(offset: int, data: bytes) -> None:
    staging, clock = staging_of()
    upload = begun(staging, size=3, digest=None)
    staging.append("c", upload, 0, b"a")
    clock.advance(299)
    with refused():
        staging.append("c", upload, offset, data)
    clock.advance(1)
    with pytest.raises(UploadUnknown):
        staging.append("c", upload, 1, b"b")


@pytest.mark.req("RPC-196", "RPC-259")
def test_what_rests_too_long_makes_room_though_nobody_has_looked_for_it() -> None:
    staging, clock = staging_of()
    old = [(holder, begun(staging, holder, digest=None)) for holder in "ccdd"]
    clock.advance(299.9)
    with pytest.raises(UploadLimit):
        begun(staging, "c", digest=None)
    clock.advance(0.1)
    begun(staging, "c", digest=None)
    assert staging.used_bytes == cost(3, "s1", "own", "ag", "f", None)
    for holder, upload in old:
        with pytest.raises(UploadUnknown):
            staging.append(holder, upload, 0, b"a")


@pytest.mark.req("RPC-195")
def test_a_begin_touches_no_other_upload() -> None:
    staging, clock = staging_of()
    old = begun(staging, size=3, digest=None)
    clock.advance(299)
    begun(staging, size=3, digest=None)
    clock.advance(1)
    with pytest.raises(UploadUnknown):
        staging.append("c", old, 0, b"a")


# Everything together, against plain bytes.


class Plain:
    """What an upload is, without any cleverness."""

    def __init__(self, holder: str, size: int, charge: int, now: float) -> None:
        self.holder, self.size, self.charge, self.touched = holder, size, charge, now
        self.content = b""


class StagingMachine(RuleBasedStateMachine):
    """Two connections begin, send, repeat, leave gaps, wait, commit and vanish; the model holds plain bytes."""

    uploads = Bundle("uploads")

    @initialize()
    def start(self) -> None:
        self.staging, self.clock = staging_of()
        self.model: dict[str, Plain] = {}

    def alive(self, upload: str, holder: str) -> Plain | None:
        """The model of an upload, unless it is idle for too long or somebody else's."""
        found = self.model.get(upload)
        if found is not None and self.clock.now() - found.touched >= SMALL.idle_seconds:
            del self.model[upload]
            return None
        return found if found is not None and found.holder == holder else None

    @rule(
        target=uploads,
        holder=st.sampled_from("cd"),
        size=st.integers(0, 14),
        name=st.sampled_from(["", "é", "abcd"]),
    )
    def begin(self, holder: str, size: int, name: str) -> Any:
        for upload, plain in tuple(self.model.items()):
            self.alive(upload, plain.holder)
        charge = cost(size, "s", name)
        used = sum(plain.charge for plain in self.model.values())
        mine = sum(plain.holder == holder for plain in self.model.values())
        error = next(
            (
                kind
                for kind, holds in (
                    (FileTooLarge, size > SMALL.file_bytes),
                    (FilenameTooLong, byte_length(name) > SMALL.filename_bytes),
                    (UploadLimit, mine >= SMALL.per_connection),
                    (UploadBudgetSpent, used + charge > SMALL.total_bytes),
                )
                if holds
            ),
            None,
        )
        if error is not None:
            with pytest.raises(error):
                self.staging.begin(holder, "s", kept=("s",), size=size, filename=name)
            return multiple()
        upload = self.staging.begin(holder, "s", kept=("s",), size=size, filename=name)
        assert upload.id not in self.model
        self.model[upload.id] = Plain(holder, size, charge, self.clock.now())
        return upload.id

    @rule(
        upload=uploads,
        holder=st.sampled_from("cd"),
        offset=st.integers(0, 14),
        near=st.booleans(),
        data=st.binary(max_size=5),
        honest=st.booleans(),
    )
    def send(self, upload: str, holder: str, offset: int, near: bool, data: bytes, honest: bool) -> None:
        plain = self.alive(upload, holder)
        if plain is None:
            with pytest.raises(UploadUnknown):
                self.staging.append(holder, upload, offset, data)
            return
        received = len(plain.content)
        offset = received if near else offset
        if honest and plain.content[offset : offset + len(data)]:
            data = plain.content[offset : offset + len(data)]
        error: type[ChunkRefused] | None = None
        if not data:
            error = ChunkEmpty
        elif len(data) > SMALL.chunk_bytes:
            error = ChunkTooLarge
        elif offset > received:
            error = ChunkLeavesGap
        elif offset + len(data) > plain.size:
            error = ChunkPastEnd
        elif offset < received and plain.content[offset : offset + len(data)] != data:
            error = ChunkDiffers
        if error is not None:
            with pytest.raises(error) as caught:
                self.staging.append(holder, upload, offset, data)
            assert caught.value.details["next_offset"] == received
            return
        if offset == received:
            plain.content += data
        plain.touched = self.clock.now()
        assert self.staging.append(holder, upload, offset, data) == len(plain.content)

    @rule(upload=uploads, holder=st.sampled_from("cd"))
    def commit(self, upload: str, holder: str) -> None:
        plain = self.alive(upload, holder)
        if plain is None:
            with pytest.raises(UploadUnknown):
                self.staging.take(holder, upload)
        elif len(plain.content) < plain.size:
            with pytest.raises(UploadIncomplete):
                self.staging.take(holder, upload)
            plain.touched = self.clock.now()
        else:
            taken = self.staging.take(holder, upload)
            assert (bytes(taken.received), taken.size) == (plain.content, plain.size)
            taken.charge.give_back()
            del self.model[upload]

    @rule(upload=consumes(uploads), holder=st.sampled_from("cd"))
    def finish(self, upload: str, holder: str) -> None:
        """Send what is missing and commit, as a client does that has all of it."""
        while (plain := self.alive(upload, holder)) is not None and len(plain.content) < plain.size:
            piece = b"xyz"[: plain.size - len(plain.content)]
            plain.content += piece
            plain.touched = self.clock.now()
            at = len(plain.content) - len(piece)
            assert self.staging.append(holder, upload, at, piece) == len(plain.content)
        self.commit(upload, holder)

    @rule(seconds=st.sampled_from([1.0, 150.0, 299.0, 300.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(holder=st.sampled_from("cd"))
    def vanish(self, holder: str) -> None:
        self.staging.drop(holder)
        self.model = {upload: plain for upload, plain in self.model.items() if plain.holder != holder}

    @invariant()
    def the_budget_is_what_lives_and_what_nobody_asked_for_again(self) -> None:
        # An upload that is idle keeps its charge until somebody begins another or asks for it.
        lower = sum(
            plain.charge
            for plain in self.model.values()
            if self.clock.now() - plain.touched < SMALL.idle_seconds
        )
        assert lower <= self.staging.used_bytes <= SMALL.total_bytes

    def teardown(self) -> None:
        for holder in "cd":
            self.staging.drop(holder)
        assert self.staging.used_bytes == 0


TestStaging = pytest.mark.req(
    "RPC-170", "RPC-171", "RPC-172", "RPC-173", "RPC-174", "RPC-175", "RPC-186", "RPC-193"
)(StagingMachine.TestCase)
TestStaging.settings = settings(max_examples=60, stateful_step_count=40)
