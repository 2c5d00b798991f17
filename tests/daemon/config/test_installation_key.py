"""One key for the configuration and for plugins' state: what one of them had sealed keeps the other from a new one (PLG-159)."""

from __future__ import annotations

from pathlib import Path

import pytest
from state_parts import DEMO

from zeroclaw_daemon.config.installation_key import installation_key
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable
from zeroclaw_host.services.state import StateEntry, StateFault
from zeroclaw_host.services.state_store import DurableState

pytestmark = pytest.mark.req("PLG-159")

SECRET = f"plugins.entries.{DEMO.key}.config.token"
ROW = f'schema_version = 1\n[[plugins.entries]]\nname = "{DEMO.key}"\n'


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths.resolve(str(tmp_path / "home"), {})
    Path(found.config_dir).mkdir(mode=0o700)
    Path(found.config_file).write_text(ROW)
    return found


def store_of(paths: Paths) -> ConfigStore:
    return ConfigStore(FileSource(Path(paths.config_file), {}), installation_key(paths))


def state_of(paths: Paths) -> DurableState:
    return DurableState(Path(paths.state_file), installation_key(paths))


def set_secret(paths: Paths) -> None:
    store_of(paths).commit(lambda draft: draft.set(SECRET, "hunter2"))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("broken", [False, True])
def test_a_first_value_makes_no_key_where_secrets_are_sealed_with_one_that_is_lost(
    paths: Paths, legacy: bool, broken: bool
) -> None:
    set_secret(paths)
    key, file = Path(paths.key_file), Path(paths.config_file)
    digits = key.read_bytes()
    if legacy:
        file.write_text(ROW + '[plugins.entries.config]\ntoken = "enc:00"\n')
    if broken:
        file.write_text(file.read_text() + "[plugins\n")
    key.unlink()
    state = state_of(paths)

    with pytest.raises(StateFault) as fault:
        state.put(DEMO, "a", b"1", None)
    assert fault.value.word == "unavailable"
    assert not key.exists()
    assert not Path(paths.state_file).exists()
    key.write_bytes(digits)
    key.chmod(0o600)
    assert state.put(DEMO, "a", b"1", None) == 1


def test_a_first_secret_makes_no_key_where_state_is_sealed_with_one_that_is_lost(paths: Paths) -> None:
    state_of(paths).put(DEMO, "a", b"1", None)
    key = Path(paths.key_file)
    digits = key.read_bytes()
    key.unlink()
    before = Path(paths.config_file).read_bytes()

    with pytest.raises(KeyUnavailable) as refused:
        set_secret(paths)
    assert refused.value.details["reason"] == "missing"
    assert not key.exists()
    assert Path(paths.config_file).read_bytes() == before
    key.write_bytes(digits)
    key.chmod(0o600)
    set_secret(paths)
    assert state_of(paths).get(DEMO, "a") == StateEntry(b"1", 1)


def test_who_starts_over_without_the_key_takes_away_what_it_had_sealed(paths: Paths) -> None:
    """As the page about security says."""
    set_secret(paths)
    state_of(paths).put(DEMO, "a", b"1", None)
    Path(paths.key_file).unlink()

    store_of(paths).commit(lambda draft: draft.unset(SECRET))
    with pytest.raises(KeyUnavailable):
        set_secret(paths)
    for path in Path(paths.data_dir).glob("plugin-state.db*"):
        path.unlink()
    set_secret(paths)
    assert state_of(paths).get(DEMO, "a") is None
    assert state_of(paths).put(DEMO, "a", b"1", None) == 1


@pytest.mark.parametrize("text", [ROW, ROW + '[plugins.entries.config]\ntoken = "plain"\n', "", "[plugins"])
def test_where_nothing_is_sealed_the_first_who_needs_a_key_makes_it(paths: Paths, text: str) -> None:
    Path(paths.config_file).write_text(text)

    assert state_of(paths).put(DEMO, "a", b"1", None) == 1
    assert state_of(paths).get(DEMO, "a") == StateEntry(b"1", 1)


def test_who_finds_in_use_what_another_sealed_just_now_takes_his_key(tmp_path: Path) -> None:
    path = tmp_path / ".secret_key"

    def somebody_was_quicker() -> bool:
        KeyFile(path).read_or_create()
        return True

    key = KeyFile(path, in_use=somebody_was_quicker).read_or_create()
    assert key.same_as(KeyFile(path).read())
