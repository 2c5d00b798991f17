"""A plugin counts its calls: over restarts of the daemon, an update and a removal, and nothing of it can be read on the disk."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from pages import Reader

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "example-plugins" / "counter"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, built by its author."""
    directory = tmp_path_factory.mktemp("author") / "counter"
    shutil.copytree(
        EXAMPLE, directory, ignore=shutil.ignore_patterns("build", "__pycache__", ".pytest_cache")
    )
    Reader(directory.parent / "home").types(f"cd '{directory}' && zeroclaw-plugin build")
    return directory


def version_of(built: Path, version: str, at: Path) -> Path:
    """The package with another version."""
    shutil.copytree(built, at)
    manifest = (at / "manifest.toml").read_text(encoding="utf-8")
    at.joinpath("manifest.toml").write_text(
        re.sub(r'^version = ".*"$', f'version = "{version}"', manifest, flags=re.MULTILINE), encoding="utf-8"
    )
    return at


def strings(path: Path) -> Iterator[str]:
    """What `strings` finds in a file: everything printable of some length."""
    for found in re.finditer(rb"[\x20-\x7e]{4,}", path.read_bytes()):
        yield found[0].decode("ascii")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-009", "PLG-139", "PLG-154", "PLG-157", "PLG-160", "PLG-161")
def test_a_plugin_counts_over_restarts_and_an_update_and_nothing_of_it_is_readable(
    built: Path, short_path: Path
) -> None:
    reader = Reader(short_path / "home")
    thing, secret = f"planted-{token_hex(8)}", f"secret-{token_hex(8)}"
    home = reader.home / ".zeroclaw"

    def counts(add: int = 1, times: int = 1) -> list[int]:
        """What the plugin answers, called so many times."""
        prompt = "/tool counter " + json.dumps({"thing": thing, "add": add})
        printed = reader.types(f"for _ in {' '.join('x' * times)}; do zeroclaw prompt '{prompt}'; done")
        return [int(line) for line in printed.splitlines()]

    reader.types("zeroclaw config set plugins.enabled true && zeroclaw config set plugins.auto_discover true")
    reader.types(
        'zeroclaw config patch \'[{"op": "add", "path": "/providers/models/openai/main", "value": {}}]\''
    )
    reader.types(f"printf %s {secret} | zeroclaw config set providers.models.openai.main.api_key -")
    reader.types(f"zeroclaw plugin install '{version_of(built, '1.0.0', short_path / 'one')}'")
    with reader.leaves_running("zeroclaw daemon"):
        assert counts(add=1000, times=10)[-1] == 10_000  # a number that nothing else has
        assert counts() == [10_001]
    with reader.leaves_running("zeroclaw daemon"):
        assert counts() == [10_002], "the daemon was started again"
        reader.types(
            f"zeroclaw plugin update counter --from '{version_of(built, '1.1.0', short_path / 'two')}'"
        )
        assert counts() == [10_003], "the plugin was updated beside it"
        # As it is while the daemon has the database open, what lies beside it included.
        not_readable(home, thing, secret, "10003")
    assert '"1.1.0"' in reader.types("zeroclaw plugin list --json")

    reader.types("zeroclaw plugin remove counter")
    reader.types(f"zeroclaw plugin install '{short_path / 'two'}'")
    with reader.leaves_running("zeroclaw daemon"):
        assert counts() == [10_004], "a package of the same name has what the former one had"
    not_readable(home, thing, secret, "10004")


def not_readable(home: Path, *texts: str) -> None:
    """Neither the database nor the configuration shows a key, a value, a secret or whose the state is."""
    database = [*home.glob("data/plugin-state.db*")]
    assert home / "data" / "plugin-state.db" in database
    for file in (*database, home / "config.toml"):
        for found in strings(file):
            for text in (*texts, *(["counter"] if file in database else [])):
                assert text not in found, f"{text} in {file.name}"
    assert any("enc2:" in found for found in strings(home / "config.toml")), "the secret is there, sealed"
