"""Secrets at rest: sealed by every commit, whoever wrote them, and never lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit
from config_stores import command, key_of, live

from zeroclaw_daemon.config.coercion import PropertyError
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.sealed import secrets_in
from zeroclaw_host.services.sealing import KeyUnavailable

HEAD = "schema_version = 1\n"
SECRET = "hunter2 ünïcode"
ROW = f"""{HEAD}
[[plugins.entries]] # the row
name = "zpi1_a"
egress_hosts = []

[plugins.entries.config]
# how it is reached
token = "{SECRET}" # the token
plain = "also a secret at rest"

[[plugins.entries]]
name = "zpi1_b"
config = {{ token = "{SECRET}" }} # inline

[providers.models.openai.x]
api_key = "{SECRET}" # of the team
"""
LATER = "gateway.port"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def legacy(file: Path, text: str) -> str:
    """The text as early releases sealed it: XOR with the key, repeated, as hexadecimal digits."""
    key = bytes.fromhex(file.with_name(".secret_key").read_text())
    raw = text.encode()
    return "enc:" + bytes(byte ^ key[index % len(key)] for index, byte in enumerate(raw)).hex()


def unsealed(file: Path, key: str, name: str) -> str:
    entry = load(file).config.plugins.entry(key)
    assert entry is not None
    return key_of(file).read().unseal(entry.config[name].get_secret_value())


@pytest.mark.req("PLG-139")
def test_a_value_of_a_plugin_is_sealed_in_the_file(file: Path) -> None:
    file.write_text(f'{HEAD}[[plugins.entries]]\nname = "zpi1_a"\n')
    snapshot = command(file).commit(lambda draft: draft.set("plugins.entries.zpi1_a.config.token", SECRET))
    text = file.read_text()
    assert 'token = "enc2:' in text
    assert "hunter2" not in text
    assert "hunter2" not in repr(snapshot)
    assert unsealed(file, "zpi1_a", "token") == SECRET
    assert file.with_name(".secret_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("PLG-139")
def test_every_commit_seals_what_was_written_by_hand_and_keeps_the_text_around_it(file: Path) -> None:
    file.write_text(ROW)
    command(file).commit(lambda draft: draft.set(LATER, 2))
    text = file.read_text()
    assert "hunter2" not in text
    assert "also a secret" not in text
    assert text.count("enc2:") == 4
    for comment in ("# the row", "# how it is reached", "# the token", "# inline", "# of the team"):
        assert comment in text
    assert unsealed(file, "zpi1_a", "token") == unsealed(file, "zpi1_b", "token") == SECRET
    assert unsealed(file, "zpi1_a", "plain") == "also a secret at rest"
    command(file).commit(lambda draft: draft.set(LATER, 3))
    assert file.read_text() == text.replace("port = 2", "port = 3"), "what is sealed is not sealed again"


@pytest.mark.req("PLG-139")
@pytest.mark.parametrize("by", ["file", "environment"])
def test_an_operator_who_wants_it_plain_gets_it_plain(file: Path, by: str) -> None:
    off = "[secrets]\nencrypt = false\n" if by == "file" else ""
    env = {"ZEROCLAW_secrets__encrypt": "false"} if by == "environment" else {}
    file.write_text(ROW + off)
    command(file, env).commit(lambda draft: draft.set(LATER, 2))
    assert file.read_text().count(SECRET) == 3
    assert not key_of(file).exists
    if by == "file":
        command(file).commit(lambda draft: draft.set("secrets.encrypt", True))
        assert SECRET not in file.read_text()


def test_no_key_is_made_before_there_is_a_secret(file: Path) -> None:
    command(file).commit(lambda draft: draft.set(LATER, 2))
    assert not key_of(file).exists


@pytest.mark.parametrize("mask", ["", "****", "***MASKED***", None])
def test_a_mask_or_an_empty_value_never_overwrites_a_secret(file: Path, mask: object) -> None:
    file.write_text(ROW)
    store = command(file)
    store.commit(lambda draft: draft.set(LATER, 2))
    before = file.read_bytes()
    for path in ("plugins.entries.zpi1_a.config.token", "providers.models.openai.x.api_key"):
        with pytest.raises(PropertyError):
            store.commit(lambda draft, path=path: draft.set(path, mask))
    assert file.read_bytes() == before


@pytest.mark.req("PLG-139")
def test_what_early_releases_sealed_is_sealed_anew_and_what_cannot_be_read_stays(file: Path) -> None:
    key_of(file).read_or_create()
    old, broken = legacy(file, SECRET), "enc:zz"
    file.write_text(
        f'{HEAD}[[plugins.entries]]\nname = "zpi1_a"\nconfig = {{ token = "{old}", other = "{broken}" }} # kept\n'
    )
    command(file).commit(lambda draft: draft.set(LATER, 2))
    text = file.read_text()
    assert old not in text
    assert f'other = "{broken}"' in text
    assert "# kept" in text
    assert unsealed(file, "zpi1_a", "token") == SECRET


def test_beside_sealed_texts_a_missing_key_is_lost_and_none_is_made_in_its_place(file: Path) -> None:
    file.write_text(ROW)
    store = live(file)
    store.commit(lambda draft: draft.set(LATER, 2))
    file.with_name(".secret_key").unlink()
    before = file.read_bytes()
    with pytest.raises(KeyUnavailable):
        store.commit(lambda draft: draft.set("providers.models.openai.y.api_key", "another"))
    assert not key_of(file).exists
    assert file.read_bytes() == before
    assert store.commit(lambda draft: draft.set(LATER, 3)).config.gateway.port == 3, "nothing is to be sealed"


def test_a_key_that_is_no_key_stops_what_needs_it_and_nothing_else(file: Path) -> None:
    file.with_name(".secret_key").write_text("garbage")
    file.with_name(".secret_key").chmod(0o600)
    store = live(file)
    store.commit(lambda draft: draft.set(LATER, 2))
    before = file.read_bytes()
    with pytest.raises(KeyUnavailable) as caught:
        store.commit(lambda draft: draft.set("providers.models.openai.x.api_key", SECRET))
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert file.read_bytes() == before
    assert store.current().config.gateway.port == 2


def test_a_reference_is_no_secret_and_is_left_alone(file: Path) -> None:
    text = f'{HEAD}[providers.models.openai.x]\napi_key = "op://vault/item"\n[gateway]\nport = 1\n'
    file.write_text(text)
    command(file).commit(lambda draft: draft.set(LATER, 2))
    assert file.read_text() == text.replace("port = 1", "port = 2")


def test_nothing_on_the_way_to_the_disk_shows_a_secret(file: Path) -> None:
    file.write_text(ROW)
    draft_secrets = [repr(secret) for secret in secrets_in(tomlkit.parse(ROW))]
    written = command(file).write(lambda draft: draft.set(LATER, 2))
    assert len(draft_secrets) == 4
    assert "hunter2" not in repr(written) + "".join(draft_secrets)
