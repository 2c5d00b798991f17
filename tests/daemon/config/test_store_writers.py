"""Several writers at once, commands and the daemon: every accepted write is there, and comments survive."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from config_stores import COMMENTED, left_behind, live

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import load
from zeroclaw_host.services.sealing import KeyFile

SUPPORT = str(Path(sys.modules["config_stores"].__file__ or "").parent)
ROUNDS = 12

_WRITER = """
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from config_stores import command
file, name, rounds = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
chance = random.Random(name)
store = command(file)
for number in range(rounds):
    match chance.randrange(3):
        case 0:
            change = lambda draft: draft.append("security.nat64_prefixes", f"{name}{number}")
        case 1:
            change = lambda draft: draft.set(f"agents.{name}{number}.model", "m")
        case 2:
            change = lambda draft: draft.set(f"providers.models.openai.{name}{number}.api_key", "hunter2")
    store.commit(change)
    print(number, flush=True)
"""


def written(file: Path, name: str) -> set[int]:
    """The rounds of a writer whose write is in the file."""
    config = load(file).config
    found = [
        *config.security.nat64_prefixes,
        *config.agents,
        *config.providers.models.get("openai", {}),
    ]
    return {int(each.removeprefix(name)) for each in found if each.startswith(name)}


@pytest.mark.req("RPC-077", "PLG-139")
def test_every_write_of_commands_and_daemon_is_in_the_file_and_comments_survive(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(COMMENTED)
    store = live(file)
    writers = {
        name: subprocess.Popen(
            [sys.executable, "-c", _WRITER, SUPPORT, str(file), name, str(ROUNDS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("x", "y")
    }
    failures: list[BaseException] = []

    def daemon(name: str) -> None:
        chance = random.Random(name)
        try:
            for number in range(ROUNDS):

                def change(draft: Draft, number: int = number) -> None:
                    if chance.random() < 0.5:
                        draft.set(f"agents.{name}{number}.model", "m")
                    else:
                        draft.append("security.nat64_prefixes", f"{name}{number}")

                revision = store.commit(change).revision
                assert revision
                store.current()
        except BaseException as error:  # noqa: BLE001 — told below, by the thread that judges
            failures.append(error)

    threads = [threading.Thread(target=daemon, args=(name,)) for name in ("v", "w")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    accepted = {name: writer.communicate(timeout=120)[0].split() for name, writer in writers.items()}
    assert failures == []
    assert [writer.returncode for writer in writers.values()] == [0, 0]
    assert {name: len(rounds) for name, rounds in accepted.items()} == {"x": ROUNDS, "y": ROUNDS}
    for name in "vwxy":
        assert written(file, name) == set(range(ROUNDS)), name
    text = file.read_text()
    for line in COMMENTED.splitlines():
        assert line in text
    assert left_behind(file) == []
    assert "hunter2" not in text
    keys = load(file).config.providers.models["openai"].values()
    key = KeyFile(file.with_name(".secret_key")).read()
    assert {key.unseal(model.api_key.get_secret_value()) for model in keys if model.api_key} == {"hunter2"}
    assert store.current() == load(file)
