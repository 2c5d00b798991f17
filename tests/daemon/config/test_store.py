"""Commits: one order, one save, all or nothing, and in force at once."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from config_stores import COMMENTED, Broken, command, key_of, left_behind, live

from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.file import Snapshot, load
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid, ConfigFileInvalid, ConfigSyntaxInvalid
from zeroclaw_daemon.config.properties import UnknownProperty
from zeroclaw_daemon.config.saving import ConfigBusy, write_lock
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.errors import ZeroclawError


class Refused(Exception):
    """Somebody said no."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(COMMENTED)
    return path


def test_a_commit_has_one_order(file: Path) -> None:
    told: list[str] = []
    steps = Broken("none")
    store = live(file, steps=steps)

    def authorise(snapshot: Snapshot) -> None:
        told.append(f"authorise {snapshot.config.gateway.port}")

    def change(draft: Draft) -> None:
        told.append(f"change {draft.snapshot.config.gateway.port}")
        draft.set("gateway.port", 2)

    def prepare(snapshot: Snapshot) -> object:
        told.append(f"prepare {snapshot.config.gateway.port} {steps.done}")

        def install() -> None:
            told.append(f"install {store.current().config.gateway.port} {steps.done[-1]}")
            with pytest.raises(ConfigBusy), write_lock(file, wait=0):
                pass

        return install

    before = store.current()
    snapshot = store.commit(change, authorise=authorise, prepare=prepare)  # type: ignore[arg-type]
    assert told == ["authorise 1", "change 1", "prepare 2 []", "install 2 sync directory"]
    assert store.current() is snapshot
    assert snapshot.revision != before.revision
    assert snapshot == load(file)


@pytest.mark.req("RPC-076")
@pytest.mark.parametrize("at", ["authorise", "change", "prepare"])
def test_whoever_refuses_on_the_way_leaves_everything_as_it_was(file: Path, at: str) -> None:
    steps = Broken("none")
    store = live(file, steps=steps)
    before = store.current()

    def refuse(_: object) -> None:
        raise Refused

    def change(draft: Draft) -> None:
        draft.set("gateway.port", 2)
        if at == "change":
            raise Refused

    with pytest.raises(Refused):
        store.commit(
            change,
            authorise=refuse if at == "authorise" else None,
            prepare=refuse if at == "prepare" else None,  # type: ignore[arg-type]
        )
    assert file.read_text() == COMMENTED
    assert steps.done == []
    assert store.current() is before
    store.commit(lambda draft: draft.set("gateway.port", 3))
    assert store.current().config.gateway.port == 3


@pytest.mark.req("RPC-076")
@pytest.mark.parametrize(
    ("bad", "value", "error"),
    [
        ("gateway.prot", 1, UnknownProperty),
        ("gateway.port", 70_000, ZeroclawError),
        ("users.ada.uid", 7, ConfigCandidateInvalid),
        ("agents.ada.provider", "openai.none", ConfigCandidateInvalid),
    ],
)
def test_a_bad_entry_after_good_ones_changes_nothing(
    file: Path, bad: str, value: object, error: type[ZeroclawError]
) -> None:
    store = live(file)
    before = store.current()

    def change(draft: Draft) -> None:
        draft.set("gateway.port", 2)
        draft.set(bad, value)

    with pytest.raises(error):
        store.commit(change)
    assert file.read_text() == COMMENTED
    assert store.current() is before


@pytest.mark.req("RPC-074", "RPC-249")
def test_a_batch_of_fifty_replaces_the_file_once(file: Path) -> None:
    steps = Broken("none")
    store = live(file, steps=steps)
    inode = file.stat().st_ino

    def change(draft: Draft) -> None:
        for number in range(50):
            draft.set(f"agents.a{number}.model", f"m{number}")

    store.commit(change)
    assert steps.done == ["create", "write", "sync", "rename", "sync directory"]
    assert file.stat().st_ino != inode
    assert len(load(file).config.agents) == 50
    assert file.read_text().startswith(COMMENTED)
    again = file.stat()
    store.commit(change)
    assert file.stat() == again, "what is said already is not written again"


@pytest.mark.req("RPC-249")
def test_a_change_by_hand_since_is_kept_with_its_comment(file: Path) -> None:
    store = live(file)
    assert store.current().config.rpc.max_local_connections == 1
    file.write_text(COMMENTED.replace("max_local_connections = 1", "max_local_connections = 9 # by hand"))
    snapshot = store.commit(lambda draft: draft.set("gateway.port", 2))
    assert (snapshot.config.gateway.port, snapshot.config.rpc.max_local_connections) == (2, 9)
    assert "max_local_connections = 9 # by hand" in file.read_text()
    assert "port = 2 # the old one" in file.read_text()


@pytest.mark.req("RPC-249", "PAINS-25")
def test_a_file_that_does_not_parse_keeps_its_bytes_and_the_last_good_snapshot_stays(file: Path) -> None:
    store = live(file)
    before = store.current()
    file.write_text(COMMENTED + "[gateway\n")
    with pytest.raises(ConfigSyntaxInvalid) as caught:
        store.commit(lambda draft: draft.set("gateway.port", 2))
    assert {name: caught.value.details[name] for name in ("path", "line", "column")} == {
        "path": str(file),
        "line": 8,
        "column": 9,
    }
    assert file.read_text() == COMMENTED + "[gateway\n"
    assert store.current() is before


@pytest.mark.req("PLG-123")
def test_nobody_writes_beside_a_plugins_section_that_cannot_be_read_except_to_mend_it(file: Path) -> None:
    text = COMMENTED + "[plugins]\nenabled = true\nmax_active_instances = 0\n"
    file.write_text(text)
    store = live(file)
    with pytest.raises(ConfigFileInvalid, match=rf"{file}:10:1: plugins.max_active_instances"):
        store.commit(lambda draft: draft.set("gateway.port", 2))
    assert file.read_text() == text
    assert not store.current().config.plugins.enabled
    assert store.commit(lambda draft: draft.set("plugins.max_active_instances", 5)).config.plugins.enabled


def test_a_policy_that_cannot_be_read_authorises_nobody(file: Path) -> None:
    file.write_text(COMMENTED + "[security]\ntrust_daemon_uid = 1\n")
    store = command(file)

    def mend(draft: Draft) -> None:
        draft.set("security.trust_daemon_uid", True)

    with pytest.raises(ConfigFileInvalid, match="trust_daemon_uid"):
        store.commit(mend, authorise=lambda snapshot: None)
    assert store.commit(mend).config.security.trust_daemon_uid


OVERRIDES = {"ZEROCLAW_gateway__port": "99", "ZEROCLAW_agents__eve__model": "theirs"}


def test_what_the_environment_says_counts_and_never_reaches_the_disk(file: Path) -> None:
    store = live(file, OVERRIDES)
    seen: list[int] = []
    snapshot = store.commit(
        lambda draft: draft.set("gateway.port", 2),
        authorise=lambda found: seen.append(found.config.gateway.port),
    )
    assert seen == [99], "rights are judged by what is in force"
    assert snapshot.config.gateway.port == 99
    assert snapshot.overridden == {"gateway.port", "agents.eve.model"}
    assert file.read_text() == COMMENTED.replace("port = 1 ", "port = 2 ")
    assert "theirs" not in file.read_text()


def test_a_change_must_fit_with_the_environment_and_without_it(file: Path) -> None:
    needed = {"ZEROCLAW_providers__models__openai__x__model": "m"}
    with pytest.raises(ConfigCandidateInvalid, match=r"openai\.x"):
        command(file, needed).commit(lambda draft: draft.set("agents.ada.provider", "openai.x"))
    in_the_way = {"ZEROCLAW_agents__ada__provider": "openai.x"}

    def both(draft: Draft) -> None:
        draft.set("providers.models.openai.x.model", "m")
        draft.set("agents.ada.model", "m")

    store = command(file, in_the_way)
    store.commit(both)
    with pytest.raises(ConfigCandidateInvalid, match=r"openai\.x"):
        store.commit(lambda draft: draft.delete_key("providers.models.openai", "x"))


def test_waiting_for_another_writer_ends_and_says_for_which_file(file: Path) -> None:
    store = ConfigStore(FileSource(file, {}), key_of(file), lock_wait=0)
    with write_lock(file), pytest.raises(ConfigBusy) as caught:
        store.commit(lambda draft: draft.set("gateway.port", 2))
    assert str(file) in caught.value.message
    assert store.commit(lambda draft: draft.set("gateway.port", 2)).config.gateway.port == 2


def test_two_names_of_one_file_are_one_lock(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "config.toml"
    other.parent.mkdir()
    other.symlink_to(file)
    store = ConfigStore(FileSource(other, {}), key_of(other), lock_wait=0)
    with write_lock(file), pytest.raises(ConfigBusy):
        store.commit(lambda draft: draft.set("gateway.port", 2))


def test_what_was_written_is_taken_back_to_the_byte_unless_somebody_wrote_since(file: Path) -> None:
    store = live(file)
    written = store.write(lambda draft: draft.set("gateway.port", 2))
    assert store.take_back(written)
    assert file.read_text() == COMMENTED
    assert store.current().config.gateway.port == 1
    written = store.write(lambda draft: draft.set("gateway.port", 2))
    store.commit(lambda draft: draft.set("gateway.port", 3))
    assert not store.take_back(written)
    assert store.current().config.gateway.port == 3
    nothing = store.write(lambda draft: None)
    assert store.take_back(nothing)
    file.unlink()
    made = store.write(lambda draft: draft.set("gateway.port", 4))
    assert store.take_back(made)
    assert not file.exists()


def test_a_form_that_cannot_be_edited_is_refused_and_not_mangled(file: Path) -> None:
    """tomlkit would write the header between the dotted keys, where it swallows the second."""
    text = 'schema_version = 1\nagents.ada.model = "m"\nagents.bob.model = "b"\n'
    file.write_text(text)

    def raw(draft: Draft) -> None:
        draft.document["agents"]["eve"] = {"model": "e"}  # type: ignore[index]

    with pytest.raises(ConfigCandidateInvalid, match="form"):
        command(file).commit(raw)
    assert file.read_text() == text
    command(file).commit(lambda draft: draft.set("agents.eve.model", "e"))
    assert file.read_text().startswith(text)
    assert tomllib.loads(file.read_text())["agents"] == {
        n: {"model": n[0] if n != "ada" else "m"} for n in ("ada", "bob", "eve")
    }
    assert left_behind(file) == []


def test_a_file_never_grows_beyond_what_can_be_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 1000
    for module in ("store", "file"):
        monkeypatch.setattr(f"zeroclaw_daemon.config.{module}.MAX_BYTES", most)
    start = "schema_version = 1\n"
    file.write_text(start)
    room = most - len(f'{start}\n[memory]\nbackend = ""\n')
    store = command(file)
    with pytest.raises(ConfigCandidateInvalid, match=f"would be larger than {most} bytes"):
        store.commit(lambda draft: draft.set("memory.backend", "é" + "y" * (room - 1)))
    assert file.read_text() == start
    store.commit(lambda draft: draft.set("memory.backend", "é" + "y" * (room - 2)))
    assert file.stat().st_size == most
    assert len(store.read().config.memory.backend) == room - 1
    store.commit(lambda draft: draft.set("memory.backend", "small"))


@pytest.mark.req("RPC-249")
@pytest.mark.parametrize("how", ["in place", "renamed", "removed"])
def test_what_an_editor_saves_while_a_commit_is_made_stays_and_the_commit_is_made_on_top(
    file: Path, how: str
) -> None:
    edited, seen = "schema_version = 1\n[gateway] # edited\nport = 7\n", list[int]()

    def prepare(snapshot: Snapshot) -> Callable[[], None]:
        seen.append(snapshot.config.gateway.port)
        if len(seen) == 1 and how == "in place":
            file.write_text(edited)
        elif len(seen) == 1 and how == "renamed":
            file.with_name("new").write_text(edited)
            file.with_name("new").replace(file)
        elif len(seen) == 1:
            file.unlink()
        return lambda: seen.append(-1)

    snapshot = command(file).commit(lambda draft: draft.set("memory.backend", "x"), prepare=prepare)
    assert snapshot.config.memory.backend == "x"
    assert load(file).revision == snapshot.revision
    assert seen[-2:] == [load(file).config.gateway.port, -1]
    assert ("port = 7" in file.read_text()) == (how != "removed")
    assert left_behind(file) == []


def test_an_editor_that_saves_again_and_again_is_not_overwritten(file: Path) -> None:
    def prepare(snapshot: Snapshot) -> Callable[[], None]:
        file.write_text(f"schema_version = 1\n# {time.monotonic_ns()}\n")
        return lambda: None

    with pytest.raises(ConfigBusy, match="at the same time"):
        command(file).commit(lambda draft: draft.set("memory.backend", "x"), prepare=prepare)
    assert "backend" not in file.read_text()
    assert left_behind(file) == []
