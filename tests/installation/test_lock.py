from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zeroclaw_host.errors import StorageError
from zeroclaw_host.installation.lock import LOCK_NAME, Clock, LockTimeout, NamespaceChanged, locked

HOLD = """
import sys
from pathlib import Path
from zeroclaw_host.installation.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class SteppedClock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep)


@pytest.mark.req("PLG-047", "PLG-331")
def test_a_lock_held_by_another_process_is_waited_for_a_minute_and_then_named(tmp_path: Path) -> None:
    fake = SteppedClock()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockTimeout, match=LOCK_NAME) as caught, locked(tmp_path, clock=fake.clock):
            pass
        holder.communicate(b"")
    assert fake.time == pytest.approx(60)
    assert caught.value.details["path"] == str(tmp_path / LOCK_NAME)
    assert fake.sleeps[:3] == [0.01, 0.02, 0.04]
    assert max(fake.sleeps) == 0.25
    with locked(tmp_path):
        pass


def test_two_holders_in_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(LockTimeout), locked(tmp_path, clock=SteppedClock().clock):
        pass


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked(tmp_path):
        raise KeyboardInterrupt
    with locked(tmp_path, wait=0):
        pass


@pytest.mark.parametrize("planted", ["directory", "pipe", "link", "dangling link"])
def test_a_lock_file_that_is_not_a_regular_file_is_refused_without_waiting(
    tmp_path: Path, planted: str
) -> None:
    path = tmp_path / LOCK_NAME
    match planted:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            (tmp_path / "target").touch()
            path.symlink_to("target")
        case _:
            path.symlink_to("created-through-a-link")
    with pytest.raises(NamespaceChanged, match="not a regular file"), locked(tmp_path):
        pass
    assert not (tmp_path / "created-through-a-link").exists()


def test_a_directory_that_is_missing_is_one_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="open the plugins directory"), locked(tmp_path / "none"):
        pass


@pytest.mark.req("PLG-059")
@pytest.mark.parametrize("removed", [True, False])
def test_a_plugins_directory_replaced_or_removed_meanwhile_is_noticed(tmp_path: Path, removed: bool) -> None:
    directory = tmp_path / "plugins"
    directory.mkdir()
    with locked(directory) as lock:
        lock.check()
        directory.rename(tmp_path / "old")
        if not removed:
            shutil.copytree(tmp_path / "old", directory)
        with pytest.raises(NamespaceChanged, match="plugins directory"):
            lock.check()


@pytest.mark.req("PLG-060")
@pytest.mark.parametrize("removed", [True, False])
def test_a_lock_file_replaced_or_removed_meanwhile_is_noticed(tmp_path: Path, removed: bool) -> None:
    with locked(tmp_path) as lock:
        (tmp_path / LOCK_NAME).rename(tmp_path / "old-lock")
        if not removed:
            (tmp_path / LOCK_NAME).touch()
        with pytest.raises(NamespaceChanged, match="lock file"):
            lock.check()


def test_a_plugins_directory_reached_through_a_link_can_be_locked(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with locked(tmp_path / "link") as lock:
        lock.check()
