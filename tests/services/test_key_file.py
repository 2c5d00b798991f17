"""The file of the key: made once whoever else makes it, never made by reading, and whole whenever the machine stops."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import key_child
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind, RemedyAction, StorageError
from zeroclaw_host.services import sealing
from zeroclaw_host.services.install_key import InstallKey, SealBroken
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable

DIGITS = bytes(range(32)).hex()
WORK_STEPS = [(work, step) for work, steps in key_child.STEPS.items() for step in steps]
BOUND = 60
"""Seconds after which a process that hangs is given up."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".secret_key"


def write(path: Path, content: bytes | str, mode: int = 0o600) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


@contextmanager
def umask(mask: int) -> Generator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def names(path: Path) -> list[str]:
    """What lies in the directory of the key."""
    return sorted(found.name for found in path.parent.iterdir())


def reason(path: Path) -> object:
    """Why the key cannot be had, by reading and by making one; what is there stays as it is."""
    with pytest.raises(KeyUnavailable) as read:
        KeyFile(path).read()
    with pytest.raises(KeyUnavailable) as made:
        KeyFile(path).read_or_create()
    for refused in (read.value, made.value):
        assert refused.code == "install_key_unavailable"
        assert refused.kind is Kind.UNAVAILABLE
        assert isinstance(refused, StorageError)
        assert refused.details["path"] == str(path)
        assert refused.details["reason"] == read.value.details["reason"]
    return read.value.details["reason"]


def remedy(path: Path) -> RemedyAction:
    with pytest.raises(KeyUnavailable) as refused:
        KeyFile(path).read()
    assert refused.value.remedy is not None
    assert refused.value.remedy.arguments == {"path": str(path)}
    return refused.value.remedy.action


@pytest.mark.req("PLG-157")
def test_a_key_is_64_digits_that_only_its_owner_reads(path: Path) -> None:
    with umask(0):
        key = KeyFile(path).read_or_create()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.stat().st_nlink == 1
    assert names(path) == [".secret_key"]
    text = path.read_text()
    assert len(text) == 64
    assert InstallKey(bytes.fromhex(text)).unseal(key.seal("x")) == "x"


def test_a_key_is_made_private_whatever_the_umask(path: Path) -> None:
    path.parent.mkdir()
    with umask(0o277):
        KeyFile(path).read_or_create()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.req("PLG-159")
def test_reading_makes_no_key(path: Path) -> None:
    with pytest.raises(KeyUnavailable) as refused:
        KeyFile(path).read()

    assert refused.value.details == {"path": str(path), "reason": "missing"}
    assert not path.parent.exists()


def test_a_key_that_is_there_is_read_and_kept(path: Path) -> None:
    write(path, DIGITS)
    sealed = InstallKey(bytes(range(32))).seal("x")

    assert KeyFile(path).read().unseal(sealed) == "x"
    assert KeyFile(path).read_or_create().unseal(sealed) == "x"
    assert path.read_text() == DIGITS


@pytest.mark.parametrize("text", [DIGITS + "\n", DIGITS.upper(), DIGITS.upper() + "\n"])
def test_a_key_that_was_put_back_by_hand_counts(path: Path, text: str) -> None:
    write(path, text)

    assert KeyFile(path).read().same_as(InstallKey(bytes(range(32))))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        DIGITS[:-1].encode(),
        DIGITS[:-2].encode() + b"\n\n",
        DIGITS.encode() + b"\n\n",
        DIGITS.encode() + b" ",
        b" " + DIGITS.encode(),
        DIGITS.encode() + b"00",
        DIGITS.encode() * 1000,
        DIGITS[:-1].encode() + b"g",
        bytes(64),
        "é".encode() * 32,
        bytes(range(32)),
    ],
)
@pytest.mark.req("PLG-159")
def test_a_damaged_key_is_refused_and_kept(path: Path, content: bytes) -> None:
    write(path, content)

    assert reason(path) == "damaged"
    assert path.read_bytes() == content


@given(
    st.binary(max_size=140) | st.text("0123456789abcdefABCDEF\n ", min_size=62, max_size=67).map(str.encode)
)
def test_any_content_is_a_key_or_damaged(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("key") / ".secret_key"
    write(path, content)
    if re.fullmatch(rb"[0-9a-fA-F]{64}\n?", content):
        assert KeyFile(path).read().same_as(InstallKey(bytes.fromhex(content.decode())))
    else:
        assert reason(path) == "damaged"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601, 0o610, 0o620, 0o602])
def test_a_key_that_others_may_read_or_write_is_refused(path: Path, mode: int) -> None:
    write(path, DIGITS, mode)

    assert reason(path) == "open_to_others"
    assert remedy(path) is RemedyAction.RESTRICT_FILE
    path.chmod(0o600)
    KeyFile(path).read()


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_that_only_its_owner_reads_is_taken(path: Path, mode: int) -> None:
    write(path, DIGITS, mode)

    KeyFile(path).read()


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_not_followed(path: Path, tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "elsewhere"
    path.parent.mkdir()
    if not dangling:
        write(target, DIGITS)
    path.symlink_to(target)

    assert reason(path) == "link"
    assert remedy(path) is RemedyAction.CLEAR_BY_HAND
    assert target.exists() is not dangling


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(path: Path, make: Callable[[Path], None]) -> None:
    path.parent.mkdir()
    make(path)

    assert reason(path) == "not_a_file"
    assert remedy(path) is RemedyAction.CLEAR_BY_HAND


def test_a_directory_that_is_none_is_said(path: Path) -> None:
    path.parent.write_text("a file")

    assert reason(path) == "unreadable"


@pytest.mark.req("PLG-159")
def test_a_replaced_key_is_noticed_at_once(path: Path) -> None:
    file = KeyFile(path)
    sealed = file.read_or_create().seal("x")
    for _ in range(50):  # in place, of one size, within one tick of the file system's clock
        file.read()
        write(path, os.urandom(32).hex())
        with pytest.raises(SealBroken):
            file.read().unseal(sealed)


@pytest.mark.req("PLG-159")
def test_a_replaced_key_is_noticed_where_times_are_coarse(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system whose clock did not tick between two changes: both look the same."""
    monkeypatch.setattr(sealing, "_stamp", lambda _: (0, 0, 0, 0, 0, 0))
    file = KeyFile(path)
    first = file.read_or_create()
    file.read()
    write(path, DIGITS)

    assert not file.read().same_as(first)


def test_an_old_key_is_not_read_again_and_a_change_of_it_is_noticed(path: Path) -> None:
    write(path, DIGITS)
    os.utime(path, (1, 1))
    file = KeyFile(path)
    first = file.read()
    assert file.read().same_as(first)

    path.chmod(0o644)
    with pytest.raises(KeyUnavailable):
        file.read()
    path.chmod(0o600)
    path.unlink()
    with pytest.raises(KeyUnavailable) as refused:
        file.read()
    assert refused.value.details["reason"] == "missing"
    write(path, DIGITS[::-1])
    assert not file.read().same_as(first)


def children(path: Path, count: int, *arguments: str) -> list[subprocess.Popen[bytes]]:
    return [
        subprocess.Popen([sys.executable, key_child.__file__, str(path), *arguments]) for _ in range(count)
    ]


def test_of_several_processes_that_make_a_key_at_once_all_get_one(path: Path) -> None:
    code = (
        "import sys, pathlib; from zeroclaw_host.services.sealing import KeyFile\n"
        "file = KeyFile(pathlib.Path(sys.argv[1])); print('ready', flush=True); input()\n"
        "print(file.read_or_create().seal('x'))"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    sealed: list[str] = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        out, _ = racer.communicate(timeout=BOUND)
        assert racer.returncode == 0
        sealed.append(out.strip())

    key = KeyFile(path).read()
    assert [key.unseal(text) for text in sealed] == ["x"] * 6
    assert names(path) == [".secret_key"]


def test_who_comes_second_takes_the_key_of_the_first(path: Path) -> None:
    """Every place at which another can finish first: the loser reads the winner's."""
    for moment in [f"{when} {step}" for step in key_child.STEPS["create"] for when in ("before", "after")]:
        other = KeyFile(path)
        winners: list[InstallKey] = []

        def overtake(
            reached: str, moment: str = moment, other: KeyFile = other, won: list[InstallKey] = winners
        ) -> None:
            if reached == moment and not won:
                won.append(other.read_or_create())

        key = KeyFile(path, steps=key_child.StoppingSteps(overtake)).read_or_create()

        assert winners, moment
        assert key.same_as(winners[0]), moment
        assert names(path) == [".secret_key"]
        path.unlink()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("work", "step"), WORK_STEPS)
def test_killed_at_any_step_there_is_a_whole_key_or_none(path: Path, work: str, step: str, when: str) -> None:
    file = KeyFile(path)
    sealed = ""
    if work != "create":
        sealed = file.read_or_create().seal("old")
    if work == "finish":
        sealed = file.begin_rotation().seal("old")

    (child,) = children(path, 1, work, when, step)
    assert child.wait(BOUND) == -signal.SIGKILL

    if sealed:  # at no moment is there a text that cannot be read
        assert file.read().unseal(sealed) == "old"
    key_child.work(file, work)
    if work == "finish":
        assert not file.rotating
    key = file.read()
    assert (key.former is not None) is (work == "begin")
    if sealed:
        assert key.unseal(sealed) == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(path) == [".secret_key", ".secret_key.next"][: 2 if work == "begin" else 1]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize(("work", "step"), [pair for pair in WORK_STEPS if pair[1] != "drop"])
def test_failed_at_any_step_the_work_can_be_done_again(path: Path, work: str, step: str, number: int) -> None:
    file = KeyFile(path)
    sealed = ""
    if work != "create":
        sealed = file.read_or_create().seal("old")
    if work == "finish":
        sealed = file.begin_rotation().seal("old")

    def fail(reached: str) -> None:
        if reached == f"before {step}":
            raise OSError(number, os.strerror(number))

    with pytest.raises(KeyUnavailable) as refused:
        key_child.work(KeyFile(path, steps=key_child.StoppingSteps(fail)), work)
    assert refused.value.details["errno"] == errno.errorcode[number]
    action = refused.value.remedy and refused.value.remedy.action
    assert (action is RemedyAction.FREE_SPACE) is (number == errno.ENOSPC)

    if sealed:
        assert file.read().unseal(sealed) == "old"
    key_child.work(file, work)
    assert file.read().unseal(sealed) == ("old" if sealed else "")


def test_what_cannot_be_swept_does_no_harm(path: Path) -> None:
    def fail(reached: str) -> None:
        if reached == "before drop":
            raise OSError(errno.EIO, "")

    key = KeyFile(path, steps=key_child.StoppingSteps(fail)).read_or_create()

    assert len(names(path)) == 2
    assert KeyFile(path).read_or_create().same_as(key)
    assert names(path) == [".secret_key"]


@pytest.mark.req("PLG-159")
def test_a_rotation_needs_a_key(path: Path) -> None:
    with pytest.raises(KeyUnavailable):
        KeyFile(path).begin_rotation()

    assert not path.parent.exists()


def test_while_a_key_is_replaced_both_are_read(path: Path) -> None:
    file, other = KeyFile(path), KeyFile(path)
    old = file.read_or_create().seal("old")

    both = file.begin_rotation()
    new = both.seal("new")
    assert file.rotating
    assert both.former is not None
    assert file.begin_rotation().same_as(both)
    assert other.read_or_create().same_as(both)
    assert [other.read().unseal(text) for text in (old, new)] == ["old", "new"]
    file.finish_rotation()
    file.finish_rotation()  # nothing more happens

    assert other.read().unseal(new) == "new"
    assert other.read().former is None
    with pytest.raises(SealBroken):
        other.read().unseal(old)


def test_a_damaged_next_key_stops_everything_and_is_named(path: Path) -> None:
    file = KeyFile(path)
    file.read_or_create()
    write(file.next_path, "garbage")

    for attempt in (file.read, file.read_or_create, file.begin_rotation, file.finish_rotation):
        with pytest.raises(KeyUnavailable) as refused:
            attempt()
        assert refused.value.details == {"path": str(file.next_path), "reason": "damaged"}


@pytest.mark.req("PLG-159")
def test_a_key_lost_while_it_is_replaced_is_not_made_again(path: Path) -> None:
    file = KeyFile(path)
    file.read_or_create()
    file.begin_rotation()
    path.unlink()

    for attempt in (file.read, file.read_or_create, file.finish_rotation):
        with pytest.raises(KeyUnavailable) as refused:
            attempt()
        assert refused.value.details["reason"] == "missing"
    assert not path.exists()


def test_nothing_shows_the_key(path: Path) -> None:
    file = KeyFile(path)
    key = file.read_or_create()
    digits = path.read_text()

    assert digits not in repr(file) + repr(key) + repr(vars(file))
    write(path, digits + "00")
    with pytest.raises(KeyUnavailable) as refused:
        file.read()
    assert digits not in repr(refused.value) + str(refused.value.details) + str(refused.value.causes())
