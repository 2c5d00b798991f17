"""Key files: written once, readable by their owner alone, read in the usual forms."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_host.errors import StorageError
from zeroclaw_host.package.signature import publisher_key
from zeroclaw_sdk.errors import KeyFileError, KeyFileExists, PassphraseRefused
from zeroclaw_sdk.keys import KEY_FILE_LIMIT, generate_key, load_key, read_passphrase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "publisher.pem"


def write_private(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def test_a_new_key_is_pkcs8_pem_for_its_owner_alone(path: Path):
    before = os.umask(0)
    try:
        public = generate_key(path)
    finally:
        os.umask(before)
    assert re.fullmatch("[0-9a-f]{64}", public)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")
    assert publisher_key(load_key(path)) == public


def test_a_key_can_be_protected(path: Path):
    public = generate_key(path, passphrase=b"tea")
    assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert publisher_key(load_key(path, lambda: b"tea")) == public
    with pytest.raises(PassphraseRefused):
        load_key(path)
    with pytest.raises(PassphraseRefused):
        load_key(path, lambda: b"coffee")


def test_nobody_is_asked_about_an_open_key(path: Path):
    generate_key(path)

    def ask() -> bytes:
        raise AssertionError

    load_key(path, ask)


@pytest.mark.parametrize("make", ["file", "link", "dangling link", "directory"])
def test_a_key_never_replaces_anything(path: Path, tmp_path: Path, make: str):
    other = tmp_path / "other"
    match make:
        case "file":
            path.write_text("precious")
        case "link":
            other.write_text("precious")
            path.symlink_to(other)
        case "dangling link":
            path.symlink_to(other)
        case _:
            path.mkdir()
    with pytest.raises(KeyFileExists):
        generate_key(path)
    assert make != "dangling link" or not other.exists()
    assert make not in ("file", "link") or path.read_text() == "precious"


def test_a_key_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    with pytest.raises(StorageError):
        generate_key(tmp_path / "nowhere" / "key.pem")


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize("protection", [NoEncryption(), BestAvailableEncryption(b"tea")])
def test_pem_and_der_are_read(path: Path, encoding: Encoding, protection: NoEncryption):
    key = Ed25519PrivateKey.generate()
    write_private(path, key.private_bytes(encoding, PrivateFormat.PKCS8, protection))
    assert publisher_key(load_key(path, lambda: b"tea")) == publisher_key(key)


def test_another_kind_of_key_is_refused(path: Path):
    key = generate_private_key(SECP256R1())
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(KeyFileError, match="not Ed25519"):
        load_key(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_key_others_can_reach_is_refused(path: Path, mode: int):
    generate_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="0600") as raised:
        load_key(path)
    assert raised.value.remedy is not None


def test_a_link_to_a_key_is_refused(path: Path, tmp_path: Path):
    generate_key(path)
    link = tmp_path / "link.pem"
    link.symlink_to(path)
    with pytest.raises(KeyFileError, match="symbolic link"):
        load_key(link)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(KeyFileError, match="regular file"):
        load_key(pipe)


def test_a_file_of_the_limit_is_read_and_one_byte_more_is_not(path: Path):
    write_private(path, b"x" * KEY_FILE_LIMIT)
    with pytest.raises(KeyFileError, match="PKCS#8"):
        load_key(path)
    path.write_bytes(b"x" * (KEY_FILE_LIMIT + 1))
    with pytest.raises(KeyFileError, match="too large"):
        load_key(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([b"", b"-----BEGIN PRIVATE KEY-----\n"]))
def test_no_bytes_are_taken_for_a_key(path: Path, data: bytes, prefix: bytes):
    write_private(path, prefix + data)
    with pytest.raises(KeyFileError):
        load_key(path, lambda: b"tea")


def test_a_passphrase_file_loses_its_line_end_only(tmp_path: Path):
    file = write_private(tmp_path / "pass", b" two words \r\n")
    assert read_passphrase(file) == b" two words "
    file.write_bytes(b"\n")
    with pytest.raises(KeyFileError):
        read_passphrase(file)


def test_no_error_shows_key_or_passphrase(path: Path):
    generate_key(path, passphrase=b"hunter2")
    with pytest.raises(PassphraseRefused) as raised:
        load_key(path, lambda: b"hunter3")
    text = f"{raised.value} {raised.value.causes()} {raised.value.details}"
    assert "hunter" not in text
    assert "BEGIN" not in text
