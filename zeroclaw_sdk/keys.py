"""Publisher keys on an author's machine.

A private key is an Ed25519 key in PKCS#8, written as PEM to a file only its owner can read, optionally under a
passphrase. PEM and DER are read. What a host trusts is the public half, 64 hexadecimal digits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)

from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.package.signature import publisher_key
from zeroclaw_sdk.errors import KeyFileError, KeyFileExists, PassphraseRefused
from zeroclaw_sdk.files import storage_error

KEY_FILE_LIMIT: Final = 64 * 1024
"""Bytes. A key file is a few hundred; anything larger is another file."""

AskPassphrase = Callable[[], bytes]
"""Called only when a key turns out to be protected."""


def generate_key(path: Path, *, passphrase: bytes | None = None) -> str:
    """Make a new key and write it, mode 0600. Never replaces anything.

    :returns: the public key in hexadecimal.
    :raises KeyFileExists: something is there already, be it a dangling link.
    :raises StorageError: it cannot be written; nothing is left behind.
    """
    key = Ed25519PrivateKey.generate()
    protection = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
    try:
        # O_EXCL also refuses a symbolic link, dangling or not.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise KeyFileExists(f"{path} exists; a key is never replaced", details={"path": str(path)}) from error
    except OSError as error:
        raise storage_error(path, "written", error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask took away or the directory's defaults added
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise storage_error(path, "written", error) from error
    return publisher_key(key)


def load_key(path: Path, ask: AskPassphrase | None = None) -> Ed25519PrivateKey:
    """Read a private key, PEM or DER.

    :param ask: asked for the passphrase of a protected key.
    :raises KeyFileError: it is a link, readable by others, or no Ed25519 key in PKCS#8.
    :raises PassphraseRefused: the key is protected, and there is no passphrase or it is wrong.
    :raises StorageError: it cannot be read.
    """
    data = _read(path)
    try:
        return _parse(path, data, None)
    except TypeError:
        pass  # cryptography's way to say that the key is protected
    if ask is None:
        raise PassphraseRefused(f"{path} is protected by a passphrase", details={"path": str(path)})
    try:
        return _parse(path, data, ask())
    except (KeyFileError, TypeError) as error:
        raise PassphraseRefused(
            f"the passphrase does not open {path}", details={"path": str(path)}
        ) from error


def read_passphrase(path: Path) -> bytes:
    """The passphrase in a file, without the end of its line.

    :raises KeyFileError: the file is a link, readable by others, or empty.
    :raises StorageError: it cannot be read.
    """
    passphrase = _read(path).rstrip(b"\r\n")
    if not passphrase:
        raise KeyFileError(f"{path} holds no passphrase", details={"path": str(path)})
    return passphrase


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise KeyFileError(f"{path} is a symbolic link", details={"path": str(path)}) from error
        raise storage_error(path, "read", error) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path} is no regular file", details={"path": str(path)})
        if status.st_mode & 0o077:
            raise KeyFileError(
                f"{path} can be read or written by others; its mode must be 0600",
                remedy=Remedy(RemedyAction.RESTRICT_FILE, {"path": str(path)}),
                details={"path": str(path)},
            )
        data = file.read(KEY_FILE_LIMIT + 1)
    if len(data) > KEY_FILE_LIMIT:
        raise KeyFileError(f"{path} is too large for a key", details={"path": str(path)})
    return data


def _parse(path: Path, data: bytes, passphrase: bytes | None) -> Ed25519PrivateKey:
    load = load_pem_private_key if data.lstrip().startswith(b"-----BEGIN") else load_der_private_key
    try:
        key = load(data, passphrase)
    except (ValueError, UnsupportedAlgorithm) as error:
        # The library's text can describe the key's inside; it stays in the chain of causes.
        raise KeyFileError(f"{path} holds no private key in PKCS#8", details={"path": str(path)}) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key that is not Ed25519", details={"path": str(path)})
    return key
