"""Whom a plugin's TLS connections trust: the bundled authorities and those this machine trusts, read once a process.

A later change of a file or of the system's store counts from the next start on, and so does the repair of a store that
could not be read (PLG-362, PLG-373). Reading files at a handshake, as the TLS library does by itself, is therefore not
done: everything is taken into memory here.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import certifi

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s[^-]*-----END CERTIFICATE-----")
_LARGEST_FILE: Final = 16 * 1024 * 1024
"""No store is larger, and no device is read for ever."""

FILE_VARIABLE: Final = "SSL_CERT_FILE"
DIRECTORY_VARIABLE: Final = "SSL_CERT_DIR"


@dataclass(frozen=True, slots=True)
class TrustAnchors:
    """What was read. Certificates are in DER form; ``problems`` says what of the machine's store could not be read."""

    bundled: tuple[bytes, ...] = field(repr=False)
    machine: tuple[bytes, ...] = field(repr=False)
    problems: tuple[str, ...] = ()

    @property
    def machine_loaded(self) -> bool:
        """Whether any authority of the machine counts."""
        return bool(self.machine)

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.bundled, *self.machine)))


Report = Callable[[TrustAnchors], object]


class AnchorStore:
    """The anchors of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str | None, str | None], tuple[TrustAnchors, ssl.SSLContext]] = {}

    def anchors(self, report: Report | None = None) -> TrustAnchors:
        """What this process trusts, read at the first call.

        :param report: told of it if this is that call.
        """
        return self._read(report)[0]

    def context(self, report: Report | None = None) -> ssl.SSLContext:
        """A TLS context that trusts them, shared by all connections without a profile. Not to be changed."""
        return self._read(report)[1]

    def _read(self, report: Report | None) -> tuple[TrustAnchors, ssl.SSLContext]:
        # Which files were meant is a setting of the process; what is in them is not looked at again.
        key = (os.environ.get(FILE_VARIABLE), os.environ.get(DIRECTORY_VARIABLE))
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                return known
            anchors = read_anchors()
            context = client_context()
            load(context, anchors.certificates)
            self._known[key] = (anchors, context)
        if report is not None:
            report(anchors)
        return anchors, context


PROCESS_ANCHORS: Final = AnchorStore()
"""What this process trusts: two hosts in it trust the same."""


def client_context() -> ssl.SSLContext:
    """A context that trusts nobody yet. The chain and the host's name are always checked (PLG-354)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A peer that begins a second handshake and then waits would have the I/O loop try in vain to write, over and over.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def load(context: ssl.SSLContext, certificates: Iterable[bytes]) -> None:
    """Trust these authorities.

    :raises ssl.SSLError: one is no certificate.
    """
    joined = b"".join(certificates)
    if joined:
        context.load_verify_locations(cadata=joined)


def read_anchors() -> TrustAnchors:
    """Read the bundled authorities, and those of the machine as far as they can be read."""
    bundled = tuple(_usable(list(pem_certificates(Path(certifi.where()).read_text("ascii")))))
    problems: list[str] = []
    found: dict[bytes, None] = {}
    for path in _machine_files(problems):
        try:
            text = _read_file(path)
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
            continue
        certificates = list(pem_certificates(text))
        good = certificates if found.keys() >= set(certificates) else _usable(certificates)
        if len(good) < len(certificates):
            problems.append(
                f"{path}: {len(certificates) - len(good)} of {len(certificates)} are no certificates"
            )
        found.update(dict.fromkeys(good))
    if not found and not problems:
        problems.append("this machine has no certificate store")
    return TrustAnchors(bundled, tuple(found), tuple(problems))


def pem_certificates(text: str) -> Iterable[bytes]:
    """The certificates in a text, in DER form, empty where one is damaged. Whatever else is in it is passed over."""
    for match in _CERTIFICATE.finditer(text):
        try:
            yield ssl.PEM_cert_to_DER_cert(match[0])
        except ValueError:
            yield b""


def _machine_files(problems: list[str]) -> list[Path]:
    """The files of the machine's store: those the environment names, or else where the TLS library looks."""
    defaults = ssl.get_default_verify_paths()
    named = (os.environ.get(FILE_VARIABLE), os.environ.get(DIRECTORY_VARIABLE))
    file, directory = named if any(named) else (defaults.openssl_cafile, defaults.openssl_capath)
    files: list[Path] = []
    if file and (any(named) or Path(file).exists()):
        files.append(Path(file))
    for place in (directory or "").split(os.pathsep):
        if not place or not (any(named) or Path(place).exists()):
            continue
        try:
            files += sorted(path for path in Path(place).iterdir() if not path.is_dir())
        except OSError as error:
            problems.append(f"{place}: {error.strerror or error}")
    return files


def _read_file(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise OSError(0, "is too large for a certificate store")
    return data.decode("ascii", "replace")


def _usable(certificates: list[bytes]) -> list[bytes]:
    """Those that the TLS library can read."""
    found = [certificate for certificate in certificates if certificate]
    try:
        load(client_context(), found)
    except ssl.SSLError:
        if len(found) <= 1:
            return []
        # One of them is none: the library does not say which.
        half = len(found) // 2
        return [*_usable(found[:half]), *_usable(found[half:])]
    return found
