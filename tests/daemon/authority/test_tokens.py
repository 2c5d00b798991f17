"""Paired tokens: a file that others change too, and that is never half-written, never guessed at and never holds a token."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.authority.tokens import (
    MAX_BYTES,
    MAX_TOKENS,
    IssuedToken,
    PairedToken,
    PairedTokens,
    TokenNotFound,
    TokensUnusable,
    TooManyTokens,
)
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_host.errors import RemedyAction, StorageError, ZeroclawError

PATIENCE = 60
"""Seconds after which a process of a test hangs. None takes this long otherwise."""

FORM = re.compile(r"zct_[0-9a-f]{8}_[0-9a-f]{64}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "paired-tokens.json"


def row(number: int, user: str = "ada") -> dict[str, str]:
    return {
        "id": f"{number:08x}",
        "user": user,
        "created": "2026-01-01T00:00:00+00:00",
        "sha256": f"{number:064x}",
    }


def written(*rows: dict[str, str], **more: Any) -> bytes:
    return json.dumps({"version": 1, "tokens": rows, **more}).encode()


def put(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    file.chmod(0o600)


@pytest.mark.req("RPC-238")
def test_a_token_is_issued_found_and_taken_back(file: Path) -> None:
    tokens = PairedTokens(file, now=lambda: datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC))
    assert tokens.list() == ()
    ada, bob = tokens.pair("ada"), tokens.pair("bob")
    assert FORM.fullmatch(ada.text)
    assert ada.text.split("_")[1] == ada.token.id
    assert (ada.token.user, ada.token.created) == ("ada", "2026-05-04T03:02:01+00:00")
    assert (tokens.find(ada.text), tokens.find(bob.text)) == (ada.token, bob.token)
    assert tokens.list() == (ada.token, bob.token)
    assert tokens.unpair(ada.token.id) == ada.token
    assert (tokens.find(ada.text), tokens.holds(ada.token)) == (None, False)
    assert (tokens.find(bob.text), tokens.holds(bob.token)) == (bob.token, True)
    with pytest.raises(TokenNotFound):
        tokens.unpair(ada.token.id)


@pytest.mark.req("RPC-238")
def test_only_hashes_are_kept_in_a_private_file(file: Path) -> None:
    before = os.umask(0)
    try:
        issued = PairedTokens(file).pair("ada")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = issued.text.rpartition("_")[2]
    for path in file.parent.iterdir():
        assert secret.encode() not in path.read_bytes()
    shown = f"{issued!r} {issued} {issued.token!r} {issued.token}"
    assert secret not in shown
    assert issued.token.sha256 not in shown


@pytest.mark.req("RPC-238")
@given(st.data())
def test_nothing_but_the_whole_token_is_the_token(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tokens = PairedTokens(tmp_path_factory.mktemp("tokens") / "t.json")
    issued = tokens.pair("ada")
    text = issued.text
    index = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda letter: letter != text[index]))
    wrong = [text[:index] + other + text[index + 1 :], text[:index], text + other, text.upper(), f" {text}"]
    for each in (*wrong, "", issued.token.sha256, issued.token.id, data.draw(st.text())):
        assert tokens.find(each) is None
    assert tokens.find(text) == issued.token


@pytest.mark.req("RPC-238")
def test_a_change_by_another_process_counts_at_the_next_question(file: Path) -> None:
    here, there = PairedTokens(file), PairedTokens(file)
    issued = there.pair("ada")
    assert here.holds(issued.token)
    # The same length, the same inode, the same times: only the content tells.
    before = file.stat()
    put(file, file.read_bytes().replace(b'"ada"', b'"eve"'))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)
    assert not here.holds(issued.token)
    found = here.find(issued.text)
    assert found is not None
    assert found.user == "eve"
    there.unpair(issued.token.id)
    assert here.find(issued.text) is None


BAD = {
    "empty": b"",
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "a later version": written(version=2),
    "a foreign member": written(row(1), more=1),
    "a row without a hash": b'{"version":1,"tokens":[{"id":"00000001","user":"ada","created":"x"}]}',
    "a hash too short": written({**row(1), "sha256": "ab"}),
    "a hash with a line end": written({**row(1), "sha256": "a" * 64 + "\n"}),
    "an id of other letters": written({**row(1), "id": "ABCDEFGH"}),
    "an empty user": written({**row(1), "user": ""}),
    "a user of another type": written({**row(1), "user": 5}),  # pyright: ignore[reportArgumentType]
    "one id twice": written(row(1), {**row(2), "id": row(1)["id"]}),
    "too many": written(*(row(number) for number in range(MAX_TOKENS + 1))),
    "too large": written() + b" " * MAX_BYTES,
}


@pytest.mark.req("RPC-238")
@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_a_file_that_does_not_read_makes_every_token_worthless_and_is_kept(file: Path, data: bytes) -> None:
    told: list[ZeroclawError] = []
    tokens = PairedTokens(file, on_error=told.append)
    issued = tokens.pair("ada")
    good = file.read_bytes()
    put(file, data)
    for _ in range(3):
        assert (tokens.find(issued.text), tokens.holds(issued.token), tokens.valid()) == (None, False, ())
    [error] = told  # once, however often it is asked
    assert (type(error), tokens.error) == (TokensUnusable, tokens.error)
    assert str(file) in error.message
    for change in (lambda: tokens.pair("eve"), lambda: tokens.unpair(issued.token.id), tokens.list):
        with pytest.raises(TokensUnusable):
            change()
    assert file.read_bytes() == data
    put(file, good)
    assert tokens.find(issued.text) == issued.token
    assert tokens.error is None


@given(
    st.binary(max_size=200)
    | st.builds(lambda cut, x: written(row(1))[:cut] + x, st.integers(0, 90), st.binary(max_size=9))
)
def test_no_file_content_makes_anything_but_tokens_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.mktemp("tokens") / "t.json"
    put(file, data)
    try:
        assert all(isinstance(token, PairedToken) for token in PairedTokens(file).list())
    except TokensUnusable:
        assert PairedTokens(file).valid() == ()


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir(mode=0o700)


FOREIGN: dict[str, tuple[Callable[[Path], None], RemedyAction]] = {
    "a link": (link, RemedyAction.CLEAR_BY_HAND),
    "a pipe": (pipe, RemedyAction.CLEAR_BY_HAND),
    "a directory": (directory, RemedyAction.CLEAR_BY_HAND),
    "readable by the group": (lambda file: file.chmod(0o640), RemedyAction.RESTRICT_FILE),
    "readable by all": (lambda file: file.chmod(0o604), RemedyAction.RESTRICT_FILE),
    "writable by all": (lambda file: file.chmod(0o602), RemedyAction.RESTRICT_FILE),
}


@pytest.mark.req("RPC-238")
@pytest.mark.parametrize(("spoil", "action"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_file_that_others_may_have_written_is_not_believed(
    file: Path, spoil: Callable[[Path], None], action: RemedyAction
) -> None:
    tokens = PairedTokens(file)
    issued = tokens.pair("ada")
    spoil(file)
    before = file.lstat()
    assert tokens.find(issued.text) is None
    with pytest.raises(TokensUnusable) as refused:
        tokens.pair("eve")
    assert refused.value.remedy is not None
    assert (refused.value.remedy.action, refused.value.remedy.arguments) == (action, {"path": str(file)})
    assert (file.lstat().st_ino, file.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.req("RPC-238")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_not_believed(file: Path) -> None:
    tokens = PairedTokens(file)
    issued = tokens.pair("ada")
    os.chown(file, 65534, 65534)
    assert tokens.find(issued.text) is None
    with pytest.raises(TokensUnusable, match="another user"):
        tokens.list()


def test_there_may_be_so_many_tokens_and_not_one_more(file: Path) -> None:
    put(file, written(*(row(number) for number in range(MAX_TOKENS - 1))))
    tokens = PairedTokens(file)
    last = tokens.pair("ada")
    assert tokens.find(last.text) == last.token
    before = file.read_bytes()
    with pytest.raises(TooManyTokens):
        tokens.pair("ada")
    assert file.read_bytes() == before


STEPS = ("create", "write", "sync", "rename", "sync directory")


class At(Steps):
    """Does something at one step of a save, half-way through a writing."""

    def __init__(self, step: str, act: Callable[[], None]) -> None:
        self.step = step
        self.act = act

    def _reached(self, step: str) -> None:
        if step == self.step:
            self.act()

    def create(self, path: Path) -> int:
        self._reached("create")
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        if self.step == "write":
            super().write(descriptor, data[: len(data) // 2])
        self._reached("write")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._reached("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync")
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._reached("rename")
        super().rename(source, target)


def full() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.req("RPC-238")
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_save_that_fails_pairs_and_unpairs_nothing(file: Path, step: str, exists: bool) -> None:
    tokens = PairedTokens(file)
    issued: IssuedToken | None = tokens.pair("ada") if exists else None
    before = file.read_bytes() if exists else None
    failing = PairedTokens(file, steps=At(step, full))
    with pytest.raises(StorageError, match="the paired tokens"):
        failing.pair("eve")
    if issued is not None:
        with pytest.raises(StorageError):
            failing.unpair(issued.token.id)
    assert (file.read_bytes() if file.exists() else None) == before
    left = {path.name for path in file.parent.iterdir()} - {file.name, f"{file.name}.lock"}
    assert not left
    assert tokens.list() == ((issued.token,) if issued is not None else ())


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from authority_steps import At
from zeroclaw_daemon.authority.tokens import PairedTokens
PairedTokens(Path(sys.argv[1]), steps=At(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))).pair("eve")
"""


@pytest.mark.req("RPC-238")
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_in_a_save_leaves_the_old_file_or_the_new_one(
    file: Path, tmp_path_factory: pytest.TempPathFactory, step: str
) -> None:
    tokens = PairedTokens(file)
    issued = tokens.pair("ada")
    helper = tmp_path_factory.mktemp("helper")
    (helper / "authority_steps.py").write_bytes(Path(__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), step, str(helper)], timeout=PATIENCE, check=False
    )
    assert done.returncode == -signal.SIGKILL
    found = [token.user for token in tokens.list()]
    assert found == (["ada", "eve"] if step == "sync directory" else ["ada"])
    assert tokens.find(issued.text) == issued.token
    again = tokens.pair("bob")  # the lock went with the process, and so does what it left
    assert tokens.find(again.text) == again.token
    assert {path.name for path in file.parent.iterdir()} == {file.name, f"{file.name}.lock"}


PAIRING = """
import sys
from pathlib import Path
from zeroclaw_daemon.authority.tokens import PairedTokens
tokens = PairedTokens(Path(sys.argv[1]), lock_wait=float(sys.argv[4]))
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    issued = tokens.pair(sys.argv[2])
    print(issued.text)
    if number % 2:
        tokens.unpair(issued.token.id)
"""


@pytest.mark.req("RPC-238")
def test_processes_that_pair_at_once_lose_nothing(file: Path) -> None:
    rounds = 6
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PAIRING, str(file), user, str(rounds), str(PATIENCE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for user in ("ada", "bob", "eve")
    ]  # fmt: skip
    try:
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        texts = [process.communicate(timeout=2 * PATIENCE)[0].split() for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    tokens = PairedTokens(file)
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(tokens.list()) == 3 * rounds // 2
    for user, issued in zip(("ada", "bob", "eve"), texts, strict=True):
        found = [tokens.find(text) for text in issued]
        assert [token.user if token else None for token in found] == [user, None] * (rounds // 2)
