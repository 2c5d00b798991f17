"""A save that fails or is killed at any step: the file is the old one or the new one, and nothing else is left."""

from __future__ import annotations

import errno
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from config_stores import COMMENTED, STEPS, Broken, command, left_behind, live

from zeroclaw_host.errors import RemedyAction, StorageError

SUPPORT = str(Path(sys.modules["config_stores"].__file__ or "").parent)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.mark.req("RPC-077")
@pytest.mark.parametrize("text", [COMMENTED, None])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_leaves_disk_and_live_configuration_as_they_were(
    file: Path, step: str, number: int, text: str | None
) -> None:
    if text is not None:
        file.write_text(text)
    steps = Broken(step, number)
    store = live(file, steps=steps)
    before = store.current()
    installed: list[str] = []
    with pytest.raises(StorageError) as caught:
        store.commit(
            lambda draft: draft.set("gateway.port", 2), prepare=lambda _: lambda: installed.append("now")
        )
    assert step in steps.done
    assert (file.read_text() if file.exists() else None) == text
    assert left_behind(file) == []
    assert store.current() is before
    assert installed == []
    assert caught.value.details["errno"] == errno.errorcode[number]
    if number == errno.ENOSPC:
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.FREE_SPACE
    steps.step = "none"
    assert store.commit(lambda draft: draft.set("gateway.port", 3)).config.gateway.port == 3


_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from config_stores import Killed, command
port, connections = map(int, sys.argv[4:6])
def change(draft):
    draft.set("gateway.port", port)
    draft.set("rpc.max_local_connections", connections)
command(Path(sys.argv[2]), steps=Killed(sys.argv[3])).commit(change)
"""


def save_and_be_killed(file: Path, step: str, port: int, connections: int) -> None:
    arguments = [sys.executable, "-c", _KILLED, SUPPORT, str(file), step, str(port), str(connections)]
    assert subprocess.run(arguments, timeout=120).returncode == 9


@pytest.mark.req("RPC-077")
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_at_any_step_leaves_the_old_file_or_the_new_one(file: Path, step: str) -> None:
    file.write_text(COMMENTED)
    save_and_be_killed(file, step, 2, 1)
    new = COMMENTED.replace("port = 1 ", "port = 2 ")
    assert file.read_text() == (new if step == "sync directory" else COMMENTED)
    snapshot = command(file).commit(lambda draft: draft.set("rpc.max_local_connections", 7))
    assert snapshot.config.rpc.max_local_connections == 7, "the lock died with its holder"
    assert left_behind(file) == [], "the next save clears away what the killed one left"


_READER = """
import sys, tomllib
from pathlib import Path
looks = 0
print("reading", flush=True)
while True:
    found = tomllib.loads(Path(sys.argv[1]).read_bytes().decode())
    pair = found["gateway"]["port"], found["rpc"]["max_local_connections"]
    if pair[0] != pair[1]:
        sys.exit(f"a mixture: {pair}")
    looks += 1
    if pair[0] == 60:
        print(looks)
        sys.exit(0)
"""


@pytest.mark.req("RPC-074", "RPC-077")
def test_a_reader_never_sees_a_mixture_while_saves_succeed_and_fail_and_are_killed(file: Path) -> None:
    file.write_text(COMMENTED)
    reader = subprocess.Popen([sys.executable, "-c", _READER, str(file)], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    killed = {10 * (index + 1): step for index, step in enumerate(STEPS)}
    for number in range(2, 61):

        def change(draft: object, number: int = number) -> None:
            draft.set("gateway.port", number)  # type: ignore[attr-defined]
            draft.set("rpc.max_local_connections", number)  # type: ignore[attr-defined]

        failing = STEPS[number % len(STEPS)]
        with pytest.raises(StorageError):
            command(file, steps=Broken(failing)).commit(change)
        if number in killed:
            save_and_be_killed(file, killed[number], number, number)
        command(file).commit(change)
    output, _ = reader.communicate(timeout=120)
    assert reader.returncode == 0
    assert int(output) > 0
    assert tomllib.loads(file.read_text())["gateway"]["port"] == 60
