"""The maintainer's command, as a maintainer types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def archive(command: Run, plugin_copy: Callable[[str], Path], tmp_path: Path) -> Path:
    """A signed package."""
    hello = plugin_copy("hello")
    command("zeroclaw-plugin", "keygen", tmp_path / "key.pem")
    command("zeroclaw-plugin", "sign", hello, "--key", tmp_path / "key.pem")
    assert command("zeroclaw-plugin", "pack", hello, "--output", tmp_path / "hello.zip").status == 0
    return tmp_path / "hello.zip"


def test_a_registry_from_nothing_to_verified(command: Run, archive: Path, tmp_path: Path):
    assert command("zeroclaw-registry", "init", "reg").status == 0
    added = command("zeroclaw-registry", "add", "reg", archive)
    assert added.status == 0, added.err
    assert added.out.startswith("published hello@0.1.0")
    assert command("zeroclaw-registry", "add", "reg", archive).out.startswith("already published hello@0.1.0")
    assert command("zeroclaw-registry", "verify", "reg").out == "1 of 1 packages are good\n"
    done = command("zeroclaw-registry", "verify", "reg", "--json")
    assert done.json == {"entries": 1, "problems": [], "strays": []}
    assert command("zeroclaw-registry", "init", "reg").status == 6


def test_a_damaged_registry_is_told_by_status(command: Run, archive: Path, tmp_path: Path):
    command("zeroclaw-registry", "init", "reg")
    command("zeroclaw-registry", "add", "reg", archive)
    [package] = (tmp_path / "reg" / "packages").iterdir()
    package.write_bytes(package.read_bytes() + b"x")
    done = command("zeroclaw-registry", "verify", "reg")
    assert (done.status, done.out) == (3, "0 of 1 packages are good\n")
    assert "hello@0.1.0" in done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["verify", "nowhere"], 3, "nowhere"),
        (["add", "reg", "nothing.zip"], 7, "nothing.zip"),
        (["add", "reg", "junk.zip"], 3, "junk.zip"),
        (["serve", "nowhere"], 3, "nowhere"),
        (["serve", "reg", "--port", "70000"], 2, "--port"),
        (["serve", "reg", "--host", "192.0.2.1", "--port", "0"], 6, "192.0.2.1"),
    ],
)
def test_every_mistake_is_one_error_with_its_status(
    command: Run, tmp_path: Path, words: list[str], status: int, said: str
):
    command("zeroclaw-registry", "init", "reg")
    (tmp_path / "junk.zip").write_text("junk")
    done = command("zeroclaw-registry", *words)
    assert done.status == status, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert json.loads((tmp_path / "reg" / "registry.json").read_text()) == {"plugins": []}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_an_index_says_steers_no_terminal(command: Run, tmp_path: Path, options: tuple[str, ...]):
    hostile = {
        "name": "x\u001b[31m",
        "version": "1\u202e\n2",
        "description": "\u009b2J",
        "url": "packages/x.zip",
    }
    command("zeroclaw-registry", "init", "reg")
    (tmp_path / "reg" / "registry.json").write_text(json.dumps({"plugins": [hostile]}))
    done = command("zeroclaw-registry", "verify", "reg", *options)
    assert "[31m" in done.out + done.err
    assert not set(done.out + done.err) & set("\u001b\u202e\u009b")
