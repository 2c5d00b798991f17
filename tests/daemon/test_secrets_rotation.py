"""A new key for everything: readable at every moment, finished after any stop, and nothing begun that cannot be finished."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import key_child
import pytest
import rotation_child
from state_parts import DEMO, OTHER, Home

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.problems import ConfigSyntaxInvalid
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.config.sealed import SecretUnreadable
from zeroclaw_daemon.config.source import ConfigSource, FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_daemon.secrets_rotation import Rotation, StateUnreadable, rotate
from zeroclaw_host.errors import StorageError, ZeroclawError
from zeroclaw_host.services.install_key import InstallKey
from zeroclaw_host.services.sealing import KeyFile, KeyUnavailable
from zeroclaw_host.services.state import StateEntry, StateFault
from zeroclaw_host.services.state_database import StateFile, StateUnavailable
from zeroclaw_host.services.state_rows import mark_owner, owner_of
from zeroclaw_host.services.state_store import DurableState

ROW = "plugins.entries." + DEMO.key + ".config.token"
TEXT = f"""schema_version = 1 # ours

# a row that an operator wrote
[[plugins.entries]]
name = "{DEMO.key}"
[plugins.entries.config]
token = "SEALED" # from the vault
other = "LEGACY"
"""


class House(Home):
    """An installation with two secrets in its configuration and two instances that keep state."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.file = root / "config.toml"
        self.old = KeyFile(self.key).read_or_create()
        raw = bytes.fromhex(self.key.read_text())
        legacy = "enc:" + bytes(byte ^ raw[index] for index, byte in enumerate(b"older secret")).hex()
        self.file.write_text(TEXT.replace("SEALED", self.old.seal("the secret")).replace("LEGACY", legacy))
        store = self.store()
        store.put(DEMO, "a", b"demo's", None)
        store.delete(OTHER, "gone", store.put(OTHER, "gone", b"", None))
        store.put(OTHER, "a", b"other's", None)
        store.close()

    def config(self, steps: Steps | None = None, key_steps: key_child.KeySteps | None = None) -> ConfigStore:
        return ConfigStore(FileSource(self.file, {}), KeyFile(self.key, steps=key_steps), steps=steps)

    def rotate(self, steps: Steps | None = None, key_steps: key_child.KeySteps | None = None) -> Rotation:
        config = self.config(steps, key_steps)
        state = DurableState(self.database, config.key_file, file=StateFile(self.database, busy_seconds=0.05))
        try:
            return rotate(config, state)
        finally:
            state.close()

    def secrets(self) -> dict[str, str]:
        """The secrets as any process of this moment reads them."""
        entry = load(self.file).config.plugins.entry(DEMO.key)
        assert entry is not None
        key = KeyFile(self.key).read()
        return {name: key.unseal(text.get_secret_value()) for name, text in entry.config.items()}

    def check_readable(self) -> None:
        assert self.secrets() == {"token": "the secret", "other": "older secret"}
        store = self.store()
        assert store.get(DEMO, "a") == StateEntry(b"demo's", 1)
        assert store.get(OTHER, "a") == StateEntry(b"other's", 2)
        assert store.get(OTHER, "gone") is None
        store.close()
        assert self.reports == []

    def check_rotated(self) -> None:
        """Nothing is left that the old key opens, and nothing that is in the way."""
        self.check_readable()
        present = KeyFile(self.key).read()
        assert present.former is None
        assert not present.same_as(self.old)
        text = self.file.read_text()
        assert text.count("enc2:") == 2
        assert "enc:" not in text
        assert [line.partition("#")[2] for line in text.splitlines() if "#" in line] == [
            " ours", " a row that an operator wrote", " from the vault",
        ]  # fmt: skip
        with self.inside() as raw:
            for (sealed,) in raw.execute("SELECT ciphertext FROM plugin_state"):
                assert present.sealed_this(sealed)
        names = sorted(path.name for path in self.key.parent.iterdir())
        assert names == [".secret_key", "config.toml", "config.toml.lock", "data"]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def announced(house: House, reached: Callable[[str], None]) -> Rotation:
    """A rotation that says each of its steps."""
    return rotation_child.announced(house.rotate, reached)


def steps_of(house: House) -> list[str]:
    steps: list[str] = []
    announced(house, steps.append)
    return steps


def test_a_rotation_seals_everything_anew(house: House) -> None:
    assert house.rotate() == Rotation(secrets=2, rows=2, resumed=False)

    house.check_rotated()
    assert house.store().put(OTHER, "a", b"", 2) == 3
    again = house.rotate()
    assert (again.secrets, again.rows) == (2, 2)


def test_nothing_that_the_old_key_opens_is_left_in_the_files(house: House) -> None:
    with house.inside() as raw:
        before = [text for (text,) in raw.execute("SELECT ciphertext FROM plugin_state")]
    before += [line.split('"')[1] for line in house.file.read_text().splitlines() if "enc2:" in line]
    house.rotate()

    kept = b"".join(path.read_bytes() for path in house.key.parent.rglob("*") if path.is_file())
    assert len(before) == 3
    for sealed in before:
        assert sealed[5:45].encode() not in kept


def test_at_every_step_everything_can_be_read(house: House) -> None:
    """By a process that starts at that moment, and by a daemon that has been running since before."""
    source = ConfigSource(house.file, {})
    key_file, running = KeyFile(house.key), house.store()
    steps: list[str] = []

    def read(step: str) -> None:
        steps.append(step)
        entry = source.current().config.plugins.entry(DEMO.key)
        assert entry is not None
        assert key_file.read().unseal(entry.config["token"].get_secret_value()) == "the secret"
        assert running.get(DEMO, "a") == StateEntry(b"demo's", 1)
        if steps.count(step) == 1:
            house.check_readable()

    announced(house, read)

    house.check_rotated()
    read("afterwards")
    assert len(set(steps)) > 20


@pytest.mark.req("PLG-159")
def test_killed_at_any_step_it_is_finished_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    steps = steps_of(House(tmp_path / "first"))
    assert len(steps) > 25
    for number, step in enumerate(steps):
        root = tmp_path / str(number)
        root.mkdir()
        house = House(root)
        with warnings.catch_warnings():  # the child calls nothing that a thread of the parent may hold
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            left = [number]

            def die(_: str, left: list[int] = left) -> None:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

            try:
                announced(house, die)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, step

        house.check_readable()
        written = house.store().put(DEMO, "meanwhile", b"", None)
        house.config().commit(lambda draft: draft.set(ROW, "the secret"))
        house.check_readable()
        interrupted = KeyFile(house.key).rotating
        done = house.rotate()
        assert done.resumed is interrupted, step
        house.check_rotated()
        assert house.store().get(DEMO, "meanwhile") == StateEntry(b"", written), step


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_failed_at_any_step_it_is_finished_by_the_next(tmp_path: Path, number: int) -> None:
    (tmp_path / "first").mkdir()
    steps = [step for step in steps_of(House(tmp_path / "first")) if not step.startswith("state")]
    for count, step in enumerate(steps):
        root = tmp_path / str(count)
        root.mkdir()
        house = House(root)
        left = [count]

        def fail(reached: str, left: list[int] = left) -> None:
            if not reached.startswith("state"):
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(number, os.strerror(number))

        if "drop" in step:  # only what a sweep leaves behind is no failure, and the next one takes it away
            announced(house, fail)
        else:
            with pytest.raises(StorageError):
                announced(house, fail)
            house.check_readable()
        house.rotate()
        house.check_rotated()


def test_state_that_others_use_interrupts_it_without_harm(house: House) -> None:
    with house.inside() as raw:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError) as refused:
            house.rotate()
        assert refused.value.details["reason"] == "busy"
        raw.execute("ROLLBACK")

    assert KeyFile(house.key).rotating
    house.check_readable()
    assert house.rotate().resumed
    house.check_rotated()


def test_a_daemon_that_writes_on_the_way_loses_nothing(house: House) -> None:
    """State put, and secrets set, by others at every step at which they get their turn."""
    running = house.store(busy_seconds=0)
    kept: dict[str, int] = {}

    def put(step: str) -> None:
        if step.startswith("state"):
            return
        key = f"k{len(kept)}"
        try:
            kept[key] = running.put(DEMO, key, step.encode(), None)
        except StateFault:
            assert house.reasons == ["busy"]

    announced(house, put)

    assert len(kept) > 10
    for key, revision in kept.items():
        entry = house.store().get(DEMO, key)
        assert entry is not None
        assert entry.revision == revision
    house.check_rotated()


def refused(house: House, error: type[ZeroclawError]) -> ZeroclawError:
    """That a rotation is refused before anything of it was begun."""
    before = {
        path: path.read_bytes()
        for path in house.key.parent.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }
    with pytest.raises(error) as found:
        house.rotate()
    after = {
        path: path.read_bytes()
        for path in house.key.parent.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }
    assert after == before
    return found.value


@pytest.mark.req("PLG-159")
def test_a_secret_that_cannot_be_read_is_named_and_nothing_is_begun(house: House) -> None:
    lost = InstallKey(os.urandom(32)).seal("the secret")
    text = house.file.read_text().replace(house.file.read_text().split('token = "')[1].split('"')[0], lost)
    house.file.write_text(text)

    error = refused(house, SecretUnreadable)
    assert error.details == {"property": ROW}
    assert lost not in error.message


@pytest.mark.req("PLG-159")
def test_state_that_cannot_be_read_is_told_and_nothing_is_begun(house: House) -> None:
    with house.inside() as raw:
        raw.execute(
            "UPDATE plugin_state SET ciphertext = 'enc2:00' WHERE locator = (SELECT min(locator) FROM plugin_state)"
        )

    assert refused(house, StateUnreadable).details == {"rows": 1}
    for instance in (DEMO, OTHER):
        house.store().clear(instance)
    house.rotate()
    assert not KeyFile(house.key).read().same_as(house.old)


@pytest.mark.req("PLG-159")
@pytest.mark.parametrize("which", ["of an instance", "of nobody", "of all"])
@pytest.mark.parametrize("empty", [False, True])
def test_revisions_that_cannot_be_read_are_told_and_nothing_is_begun(
    house: House, which: str, empty: bool
) -> None:
    """With them it could not be finished."""
    owner = owner_of(house.old, DEMO)
    with house.inside() as raw:
        if empty:
            raw.execute("DELETE FROM plugin_state")
        if which == "of nobody":
            raw.execute("INSERT INTO plugin_state_revisions VALUES (x'00', 'text')")
        else:
            where = "" if which == "of all" else " WHERE owner = ?"
            raw.execute(
                "UPDATE plugin_state_revisions SET last_revision = 'text'" + where, (owner,) if where else ()
            )

    assert refused(house, StateUnreadable).details == {"rows": 2 if which == "of all" else 1}


@pytest.mark.req("PLG-159")
def test_revisions_that_are_damaged_once_it_has_begun_end_it_in_words(house: House) -> None:
    KeyFile(house.key).begin_rotation()
    with house.inside() as raw:
        raw.execute("DELETE FROM plugin_state")
        owner = mark_owner(KeyFile(house.key).read())
        raw.execute("INSERT INTO plugin_state_revisions VALUES (?, 'text')", (owner,))

    with pytest.raises(StateUnavailable):
        house.store().rekey()


def test_a_file_that_is_no_toml_stops_it_before_it_begins(house: House) -> None:
    house.file.write_text("[plugins\n")

    refused(house, ConfigSyntaxInvalid)


@pytest.mark.req("PLG-159")
def test_a_missing_key_is_not_made(house: House) -> None:
    house.key.unlink()

    refused(house, KeyUnavailable)
    assert not house.key.exists()


def test_without_state_or_configuration_the_key_alone_is_new(tmp_path: Path) -> None:
    key = KeyFile(tmp_path / ".secret_key").read_or_create()
    home = Home(tmp_path)
    config = ConfigStore(FileSource(tmp_path / "config.toml", {}), KeyFile(home.key))

    assert rotate(config, home.store()) == Rotation(secrets=0, rows=0, resumed=False)
    assert not KeyFile(home.key).read().same_as(key)
    assert not home.database.exists()


def test_revisions_of_an_instance_that_keeps_nothing_are_not_given_again(house: House) -> None:
    store = house.store()
    last = store.put(OTHER, "a", b"", 2)
    store.clear(OTHER)
    house.rotate()
    house.rotate()

    assert house.store().put(OTHER, "a", b"", None) > last


def test_a_rotation_between_a_look_at_the_rows_and_one_at_the_key_is_no_fault(house: House) -> None:
    class Overtaken(KeyFile):
        """Somebody rotates at the moment somebody else wants the key."""

        def read(self) -> InstallKey:
            if KeyFile(house.key).read().same_as(house.old):
                house.rotate()
            return super().read()

    store = DurableState(house.database, Overtaken(house.key), report=house.reports.append)

    assert store.get(DEMO, "a") == StateEntry(b"demo's", 1)
    assert house.reports == []
    house.check_rotated()
