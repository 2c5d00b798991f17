"""The store trusts only what it wrote, under the name it wrote it for."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import RemedyAction, StorageError
from zeroclaw_host.sandbox.compiling import artifacts, shelf
from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.shelf import TOUCH_SECONDS, ArtifactName, lock

HERE = "a" * 64
ELSEWHERE = "b" * 64
NAME = ArtifactName("component", "1" * 64)
OTHER = ArtifactName("component", "2" * 64)
SAME_SOURCE = ArtifactName("module", "1" * 64)


class User:
    """Something that uses an artifact."""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "cache", HERE)


def put(store: ArtifactStore, name: ArtifactName = NAME, content: bytes = b"compiled") -> Path:
    with store.draft(name) as draft:
        os.write(draft.descriptor, content)
        draft.publish()
    return store.shelf.path(name)


def read(store: ArtifactStore, name: ArtifactName = NAME) -> bytes | None:
    """The content as somebody reads it who loads from the path, without the digest at its end."""
    with store.open(name) as artifact:
        return None if artifact is None else Path(artifact.path).read_bytes()[:-32]


def test_what_was_published_is_found_again_by_every_process(store):
    put(store)
    assert read(store) == b"compiled"
    assert read(ArtifactStore(store.directory, HERE)) == b"compiled"
    assert read(store, OTHER) is None


@given(st.data())
def test_no_other_bytes_are_ever_opened(tmp_path_factory, data):
    store = ArtifactStore(tmp_path_factory.mktemp("cache"), HERE)
    content = data.draw(st.binary(min_size=1, max_size=200), "content")
    path = put(store, content=content)
    good = path.read_bytes()
    start = data.draw(st.integers(0, len(good)), "start")
    end = data.draw(st.integers(start, len(good)), "end")
    forged = good[:start] + data.draw(st.binary(max_size=40), "forged") + good[end:]
    path.write_bytes(forged)
    if forged == good:
        assert read(store) == content
    else:
        assert read(store) is None
        assert not path.exists(), "what cannot be trusted is not kept"


@pytest.mark.req("PLG-101")
@pytest.mark.parametrize("name", [OTHER, SAME_SOURCE])
def test_an_artifact_is_good_under_its_own_name_only(store, name):
    put(store).rename(store.shelf.path(name))
    assert read(store, name) is None


@pytest.mark.req("PLG-101")
def test_an_artifact_of_another_release_is_not_opened_under_any_name(store):
    old = put(ArtifactStore(store.directory, ELSEWHERE))
    assert read(store) is None
    old.rename(store.shelf.path(NAME))
    assert read(store) is None


def test_a_draft_that_is_not_published_leaves_nothing(store):
    before = sorted(store.directory.iterdir())
    with store.draft(NAME) as draft:
        os.write(draft.descriptor, b"half")
        assert sorted(store.directory.iterdir()) != before
    assert sorted(store.directory.iterdir()) == before


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_is_full_at_any_step_leaves_what_was_there(step, store, monkeypatch):
    put(store, content=b"old")
    before = sorted(store.directory.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full) if step == "fsync" else monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match="full") as caught:
        put(store, content=b"new")
    monkeypatch.undo()
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.FREE_SPACE
    assert sorted(store.directory.iterdir()) == before
    assert read(store) == b"old"


def test_only_the_owner_can_read_an_artifact(store):
    assert stat.S_IMODE(put(store).stat().st_mode) == 0o600


def test_an_artifact_that_is_removed_while_open_is_still_the_one_that_was_checked(store):
    path = put(store)
    with store.open(NAME) as artifact:
        assert artifact is not None
        path.unlink()
        path.write_bytes(b"something else")
        assert Path(artifact.path).read_bytes().startswith(b"compiled")


def test_a_pipe_in_an_artifacts_place_holds_nobody_up(store):
    os.mkfifo(store.shelf.path(NAME), 0o600)
    assert read(store) is None
    put(store)
    assert read(store) == b"compiled"


def in_use(store: ArtifactStore) -> bool:
    [artifact] = store.shelf.stored()
    return artifact.in_use


def test_an_artifact_is_in_use_while_its_user_lives(store):
    put(store)
    assert not in_use(store)
    user = User()
    with store.open(NAME) as artifact:
        assert artifact is not None
        assert in_use(store)
        artifact.keep_while(user)
    assert in_use(store), "the user outlives the block"
    del user
    gc.collect()
    assert not in_use(store)


def test_a_new_artifact_is_in_use_like_one_that_was_opened(store):
    user = User()
    with store.draft(NAME) as draft:
        os.write(draft.descriptor, b"compiled")
        draft.publish()
        draft.keep_while(user)
    assert in_use(store)
    with store.open(NAME) as artifact:
        assert artifact is not None, "several may use one"


def test_use_is_noted_once_an_hour(store):
    path = put(store)
    now = time.time()
    os.utime(path, (now, now - TOUCH_SECONDS + 60))
    read(store)
    assert path.stat().st_mtime < now - 60, "noted recently"
    os.utime(path, (now, now - TOUCH_SECONDS - 1))
    read(store)
    assert path.stat().st_mtime >= now - 1


def test_the_end_of_a_long_use_is_noted_too(store):
    path = put(store)
    user = User()
    with store.open(NAME) as artifact:
        assert artifact is not None
        artifact.keep_while(user)
    long_ago = time.time() - 30 * 24 * 3600
    os.utime(path, (long_ago, long_ago))
    del user
    gc.collect()
    assert path.stat().st_mtime > time.time() - 60


def test_a_turn_waits_for_another_ones_and_leaves_no_file(store):
    told: list[float] = []
    with store.turn(NAME, seconds=10):
        with store.turn(OTHER, seconds=0), store.turn(SAME_SOURCE, seconds=0):
            pass  # others are not concerned
        with store.turn(NAME, seconds=0.1, waiting=told.append):
            assert told, "it waited, and then went on"
    assert [path.name for path in store.directory.iterdir()] == ["key"]


class Stepped:
    """A clock that only moves when somebody sleeps, in the place of the module ``time``."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_turn_for_several_waits_no_longer_than_one_for_one(store, monkeypatch):
    names = [ArtifactName("module", f"{number:064x}") for number in range(8)]
    told: list[float] = []
    with store.turn(*names, seconds=10, waiting=lambda _: pytest.fail("nobody else has them")):
        clock = Stepped()
        monkeypatch.setattr(artifacts, "time", clock)
        with store.turn(*reversed(names), seconds=2, waiting=told.append):
            assert clock.now == pytest.approx(2, abs=0.1), "eight times as long would be 16"
    assert told == sorted(told)
    assert told[-1] < 2
    assert [path.name for path in store.directory.iterdir()] == ["key"]


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """The system opens nothing more for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.open(os.devnull, os.O_RDONLY)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_want_of_descriptors_says_nothing_against_an_artifact(store):
    path = put(store)
    user = User()
    with no_descriptor_left(), pytest.raises(StorageError, match="Too many open files"), store.open(NAME):
        pass
    with store.open(NAME) as artifact:
        assert artifact is not None
        with no_descriptor_left():
            artifact.keep_while(user)  # it is not counted as in use then, and good all the same
    assert read(store) == b"compiled"
    assert path.exists()


def test_who_looks_whether_an_artifact_is_in_use_keeps_nobody_from_using_it(store, monkeypatch):
    path = put(store)
    user = User()
    with path.open() as looking:
        assert lock(looking.fileno(), fcntl.LOCK_EX)
        monkeypatch.setattr(shelf.time, "sleep", lambda _: looking.close())  # done while the other one waits
        with store.open(NAME) as artifact:
            assert artifact is not None
            artifact.keep_while(user)
    assert in_use(store)


def test_who_gives_up_waiting_for_a_turn_is_let_go(store):
    class GivenUp(Exception):
        pass

    def give_up(_: float) -> None:
        raise GivenUp

    with store.turn(NAME, seconds=10), pytest.raises(GivenUp), store.turn(NAME, seconds=10, waiting=give_up):
        pass


def test_adding_an_artifact_makes_room_and_keeps_the_new_one(tmp_path):
    store = ArtifactStore(tmp_path / "cache", HERE, maximum_bytes=100)
    old = put(store, OTHER, b"x" * 60)
    new = put(store, NAME, b"x" * 60)
    assert not old.exists()
    assert new.exists()
    huge = put(store, OTHER, b"x" * 1000)
    assert huge.exists(), "whoever just compiled it is about to use it"


def test_a_successor_takes_the_place_of_what_another_release_made_of_the_same(store):
    old = put(ArtifactStore(store.directory, ELSEWHERE))
    others = put(ArtifactStore(store.directory, ELSEWHERE), OTHER)
    put(store)
    assert not old.exists()
    assert others.exists()


def test_making_room_may_fail_without_harm(store, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise StorageError("the directory cannot be read")

    monkeypatch.setattr(store.shelf, "prune", refuse)
    put(store)
    assert read(store) == b"compiled"


KILLED = Path(__file__).with_name("killed_at_every_step.py")


@pytest.mark.req("PAINS-11")
@pytest.mark.parametrize("what", ["publish", "replace", "prune", "clear"])
def test_a_process_killed_at_any_step_leaves_old_or_new_and_nothing_that_stays(what, tmp_path):
    done = subprocess.run(
        [sys.executable, str(KILLED), what, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps >= 5, "the steps were found"


SEVERAL = """
import os, random, sys
from pathlib import Path
from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName

random.seed(int(sys.argv[2]))
sys.stdin.read(1)
store = ArtifactStore(Path(sys.argv[1]), "a" * 64, maximum_bytes=5000)
found = 0
for _ in range(150):
    number = random.randrange(8)
    name = ArtifactName("component", f"{number:064x}")
    with store.open(name) as artifact:
        if artifact is not None:
            found += 1
            assert Path(artifact.path).read_bytes()[:-32] == bytes([number]) * 1000
            continue
    with store.turn(name, seconds=10), store.draft(name) as draft:
        os.write(draft.descriptor, bytes([number]) * 1000)
        draft.publish()
    if random.random() < 0.05:
        store.shelf.clear()
print(found)
"""


def test_processes_that_add_use_and_remove_at_once_never_meet_half_an_artifact(tmp_path):
    directory = tmp_path / "cache"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SEVERAL, str(directory), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(3)
    ]
    for process in processes:
        process.stdin.write("!")  # all at once
        process.stdin.flush()
    outcomes = [process.communicate() for process in processes]
    assert [error for _, error in outcomes] == ["", "", ""]
    assert all(int(found) > 0 for found, _ in outcomes)
    assert sum(path.stat().st_size for path in directory.glob("*.artifact")) <= 5000
    assert not list(directory.glob("*.partial"))
