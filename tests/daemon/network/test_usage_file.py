"""The file of the ledger: bounded, private, shared by processes, whole whatever happens to them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.network.usage import ADDRESSES, Key, Outcome, Tally, UsedDestination
from zeroclaw_daemon.network.usage_file import KEPT, UsageFile, UsageUnavailable, read_usage
from zeroclaw_host.errors import Kind, RemedyAction
from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")
OTHER = InstanceIdentity.default_tool("other")
FEW = {Outcome.OPENED: 3, Outcome.FAILED: 2, Outcome.LIMITED: 2, Outcome.REFUSED: 2}


def key(
    host: str = "a.example",
    outcome: Outcome = Outcome.OPENED,
    *,
    identity: InstanceIdentity = WEATHER,
    reason: str = "",
    port: int = 443,
) -> Key:
    return Key(identity.key, outcome, "http", host, port, "", reason)


def tally(last: int = 1, *, rule: str = "", **more: object) -> Tally:
    return Tally(count=1, rule=rule, first=last, last=last, **more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "plugin-egress.db"


def test_what_was_used_is_read_back_the_latest_first(path: Path) -> None:
    assert read_usage(path, WEATHER) == ()
    assert not path.exists()
    file = UsageFile(path)
    file.add(
        {
            key(): Tally(1, 5, 7, ("1.1.1.1",), False, "a.example", 1_000, 2_500),
            key("b.example", Outcome.REFUSED, reason="host_not_granted"): tally(3_000),
            key(identity=OTHER): tally(9_000),
        }
    )
    file.add({key(): Tally(2, 10, 0, ("::1",), True, "*.example", 4_000, 4_000)})
    file.close()
    assert read_usage(path, WEATHER) == (
        UsedDestination(
            transport="http",
            host="a.example",
            port=443,
            tls_profile=None,
            outcome=Outcome.OPENED,
            reason=None,
            rule="*.example",
            count=3,
            bytes_sent=15,
            bytes_received=7,
            addresses=("::1", "1.1.1.1"),
            private=True,
            first=datetime.fromtimestamp(1, UTC),
            last=datetime.fromtimestamp(4, UTC),
        ),
        UsedDestination(
            transport="http",
            host="b.example",
            port=443,
            tls_profile=None,
            outcome=Outcome.REFUSED,
            reason="host_not_granted",
            rule=None,
            count=1,
            bytes_sent=0,
            bytes_received=0,
            addresses=(),
            private=False,
            first=datetime.fromtimestamp(3, UTC),
            last=datetime.fromtimestamp(3, UTC),
        ),
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [left.name for left in path.parent.iterdir()] == [path.name]


def test_the_last_addresses_are_kept(path: Path) -> None:
    file = UsageFile(path)
    for number in range(ADDRESSES + 2):
        file.add({key(): tally(number, addresses=(f"10.0.0.{number}",))})
    file.add({key(): tally(99, addresses=("10.0.0.3",))})
    (found,) = file.read(WEATHER)
    file.close()
    assert found.addresses == ("10.0.0.3", "10.0.0.5", "10.0.0.4", "10.0.0.2")


@pytest.mark.parametrize("outcome", Outcome)
def test_at_the_bound_every_destination_is_kept_singly_and_one_more_adds_up_the_oldest(
    path: Path, outcome: Outcome
) -> None:
    file = UsageFile(path, kept=FEW)
    bound = FEW[outcome]
    for number in range(bound):
        file.add({key(f"h{number}.a.example", outcome): tally(number, rule="*.a.example", sent=1)})
    assert {each.host for each in file.read(WEATHER)} == {f"h{number}.a.example" for number in range(bound)}
    file.add(
        {key("h0.a.example", outcome): tally(999, rule="*.a.example", sent=1)}
    )  # used again, so it stays
    for number in range(bound, bound + 2):
        file.add({key(f"h{number}.a.example", outcome): tally(100 + number, rule="*.a.example", sent=1)})
    found = file.read(WEATHER)
    file.close()
    together = [each for each in found if each.port is None]
    assert len(found) == bound + 1
    assert [each.host for each in together] == ["*.a.example" if outcome.permitted else None]
    assert together[0].count == 2
    assert "h0.a.example" in {each.host for each in found}
    assert sum(each.count for each in found) == bound + 3  # nothing is lost
    assert sum(each.bytes_sent for each in found) == bound + 3


def test_made_up_hosts_push_out_neither_what_was_used_nor_another_instance(path: Path) -> None:
    file = UsageFile(path)
    file.add({key("used.example"): tally(1, rule="used.example"), key(identity=OTHER): tally(1)})
    for start in range(0, 5_000, 1_000):
        file.add(
            {
                key(f"{'x' * 200}{number}.example", Outcome.REFUSED, reason="host_not_granted"): tally(
                    start + number
                )
                for number in range(start, start + 1_000)
            }
        )
    found = file.read(WEATHER)
    assert len(found) == KEPT[Outcome.REFUSED] + 2
    assert "used.example" in {each.host for each in found}
    assert len(file.read(OTHER)) == 1
    file.close()
    assert path.stat().st_size < 2 * 1024 * 1024


def test_of_hosts_under_several_entries_each_entry_keeps_its_sum(path: Path) -> None:
    file = UsageFile(path, kept=FEW)
    for number in range(10):
        rule = f"*.{'ab'[number % 2]}.example"
        file.add({key(f"h{number}{rule[1:]}"): tally(number, rule=rule, private=number == 1)})
    together = {each.host: each for each in file.read(WEATHER) if each.port is None}
    file.close()
    assert {host: each.count for host, each in together.items()} == {"*.a.example": 4, "*.b.example": 3}
    assert [together[f"*.{each}.example"].private for each in "ab"] == [False, True]


STEPS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(Outcome), st.integers(0, 50)), max_size=40
)


@given(steps=STEPS)
def test_whatever_is_added_the_sums_are_right_and_the_bounds_hold(
    steps: list[tuple[str, Outcome, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "usage.db"
    file = UsageFile(path, kept=FEW)
    for host, outcome, moment in steps:
        file.add({key(f"{host}.example", outcome): tally(moment, rule="*.example", received=2)})
    found = file.read(WEATHER)
    file.close()
    for outcome in Outcome:
        of_it = [each for each in found if each.outcome is outcome]
        moments = [moment for _, which, moment in steps if which is outcome]
        assert sum(each.count for each in of_it) == len(moments)
        assert sum(each.bytes_received for each in of_it) == 2 * len(moments)
        assert sum(each.port is not None for each in of_it) <= FEW[outcome]
        if moments:
            assert min(each.first.timestamp() for each in of_it) * 1000 == pytest.approx(min(moments))
            assert max(each.last.timestamp() for each in of_it) * 1000 == pytest.approx(max(moments))


# --- faults ---------------------------------------------------------------------------------------------------------


def damage(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o600)


def written(path: Path) -> None:
    file = UsageFile(path)
    file.add({key(f"h{number}.example"): tally(number) for number in range(200)})
    file.close()


def test_a_file_that_is_no_database_is_a_clear_error_and_stays(path: Path) -> None:
    damage(path, b"no database at all" * 100)
    for use in (lambda: read_usage(path, WEATHER), lambda: UsageFile(path).add({key(): tally()})):
        with pytest.raises(UsageUnavailable, match="is no database") as caught:
            use()
        assert caught.value.kind is Kind.UNAVAILABLE
        assert str(path) in caught.value.message
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.CLEAR_BY_HAND
    assert path.read_bytes() == b"no database at all" * 100


def test_a_damaged_page_is_found_before_anything_of_it_is_told(path: Path) -> None:
    written(path)
    raw = bytearray(path.read_bytes())
    assert len(raw) > 3 * 4096
    raw[2 * 4096 + 8 : 2 * 4096 + 200] = b"\xff" * 192
    damage(path, bytes(raw))
    with pytest.raises(UsageUnavailable, match="damaged"):
        read_usage(path, WEATHER)


def test_a_damaged_page_of_another_instance_is_found_as_well(path: Path) -> None:
    file = UsageFile(path)
    file.add({key(f"h{number}.example", identity=OTHER): tally(number) for number in range(200)})
    file.add({key(): tally()})
    file.close()
    raw = bytearray(path.read_bytes())
    pages = {at: bytes(raw[at : at + 4096]) for at in range(4096, len(raw), 4096)}
    others = [at for at, page in pages.items() if page.count(b".example") > 9 and b"a.example" not in page]
    raw[others[-1]] = 0xFF  # what kind of page it is
    damage(path, bytes(raw))
    with pytest.raises(UsageUnavailable, match="damaged"):
        read_usage(path, WEATHER)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE used SET outcome = 'neither'",
        "UPDATE used SET addresses = '{}'",
        "UPDATE used SET addresses = 'no list'",
        "UPDATE used SET count = 'many'",
        "UPDATE used SET last = 9223372036854775807",
        "UPDATE used SET rule = x'ff'",
        "PRAGMA user_version = 7",
        "ALTER TABLE used ADD COLUMN more",
        "DROP TABLE used",
    ],
)
def test_a_row_or_a_table_that_is_none_of_ours_is_a_clear_error(path: Path, change: str) -> None:
    written(path)
    raw = sqlite3.connect(path)
    raw.execute(change)
    raw.commit()
    raw.close()
    with pytest.raises(UsageUnavailable, match=r"damaged|is no ledger"):
        read_usage(path, WEATHER)


def test_a_link_and_a_file_open_to_others_are_refused(path: Path, tmp_path: Path) -> None:
    written(path)
    path.chmod(0o640)
    with pytest.raises(UsageUnavailable, match="others than its owner") as caught:
        read_usage(path, WEATHER)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.RESTRICT_FILE
    path.unlink()
    (tmp_path / "elsewhere").touch()
    for target in (tmp_path / "elsewhere", tmp_path / "nowhere"):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        with pytest.raises(UsageUnavailable, match="is a link"):
            UsageFile(path).add({key(): tally()})
    assert not (tmp_path / "nowhere").exists()


def test_what_is_left_of_a_file_that_is_gone_is_not_taken_for_a_part_of_a_new_one(path: Path) -> None:
    path.parent.mkdir()
    left = path.with_name(path.name + "-wal")
    left.write_bytes(b"x")
    with pytest.raises(UsageUnavailable, match="is gone, and what belongs to it is not") as caught:
        UsageFile(path).add({key(): tally()})
    assert caught.value.remedy is not None
    assert caught.value.remedy.arguments == {"path": str(left)}


def test_a_file_that_is_replaced_or_taken_away_under_a_writer_is_the_one_that_counts(path: Path) -> None:
    file = UsageFile(path)
    file.add({key("a.example"): tally()})
    for side in path.parent.iterdir():
        side.unlink()
    file.add({key("b.example"): tally()})
    assert [each.host for each in read_usage(path, WEATHER)] == ["b.example"]
    file.close()


def test_a_directory_that_takes_nothing_is_a_clear_error(path: Path) -> None:
    path.parent.parent.joinpath("data").write_text("a file")
    with pytest.raises(UsageUnavailable, match="cannot be used"):
        UsageFile(path).add({key(): tally()})


# --- processes ------------------------------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from zeroclaw_daemon.network.usage import Outcome
from zeroclaw_daemon.network.usage import Key, Tally
from zeroclaw_daemon.network.usage_file import UsageFile
path, instance, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
file = UsageFile(path)
number = 0
while rounds < 0 or number < rounds:
    file.add({
        Key(instance, Outcome.OPENED, "http", host, 443): Tally(1, 1, 1, (), False, host, number, number)
        for host in ("a.example", "b.example")
    })
    number += 1
    print(number, flush=True)
"""


def writer(path: Path, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), WEATHER.key, str(rounds)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_programs_that_write_at_once_lose_nothing_and_one_that_reads_sees_whole_steps(path: Path) -> None:
    rounds = 40
    writers = [writer(path, rounds) for _ in range(2)]
    try:
        while any(each.poll() is None for each in writers):
            counts = {each.host: each.count for each in read_usage(path, WEATHER)}
            assert counts.get("a.example") == counts.get("b.example")
        assert [each.wait(60) for each in writers] == [0, 0]
    finally:
        for each in writers:
            each.kill()
            each.communicate()
    assert [each.count for each in read_usage(path, WEATHER)] == [2 * rounds] * 2


def test_a_writer_that_is_killed_leaves_whole_steps(path: Path) -> None:
    told = 0
    for _ in range(4):
        victim = writer(path, -1)
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(3)]
        victim.kill()
        rest, _ = victim.communicate()
        told += len([line for line in [*lines, *rest.splitlines()] if line.strip()])
        counts = [each.count for each in read_usage(path, WEATHER)]
        assert len(set(counts)) == 1
        assert counts[0] >= told  # what was said to be written is there
        told = counts[0]
    left = {each.name for each in path.parent.iterdir()}
    assert not [name for name in left if "partial" in name]


def test_the_rest_of_a_creation_that_was_killed_is_swept_away(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / f"{path.name}-0123.partial").touch()
    (path.parent / f"{path.name}-0123.partial-wal").touch()
    written(path)
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208
