"""TLS contexts: the common one, and one for each connection under a profile.

A profile's certificates are read from the instance's secrets when a connection is built, so that a rotated secret counts
for the next one (PLG-356). A client's private key goes to the TLS library, which takes keys from files alone, by way of
memory that has no name in any file system.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from zeroclaw_host.egress.anchors import AnchorStore, Report, client_context, load, pem_certificates
from zeroclaw_host.egress.failures import TlsConfigurationFailed
from zeroclaw_host.egress.profiles import TlsProfile


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The texts behind a profile's secrets, in PEM form. Shown by no ``repr``."""

    custom_ca: str | None = field(default=None, repr=False)
    client_certificate: str | None = field(default=None, repr=False)
    client_private_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, profile: TlsProfile, secrets: Mapping[str, str]) -> TlsMaterial:
        """The texts a profile names.

        :param secrets: the instance's secrets, those that only the host reads among them.
        :raises TlsConfigurationFailed: one is not set.
        """

        def text(name: str | None) -> str | None:
            if name is not None and not secrets.get(name):
                raise TlsConfigurationFailed(
                    f"the TLS profile {profile.name} names the secret {name}, which is not set"
                )
            return None if name is None else secrets[name]

        return cls(
            text(profile.custom_ca_secret),
            text(profile.client_certificate_secret),
            text(profile.client_private_key_secret),
        )


MaterialSource = Callable[[TlsProfile], TlsMaterial]
"""Reads the texts of a profile at the time of a connection.

Raises :class:`~zeroclaw_host.egress.failures.TlsConfigurationFailed` where one is missing.
"""


def no_material(profile: TlsProfile) -> TlsMaterial:
    """For an instance whose secrets cannot be read: no profile can be used."""
    raise TlsConfigurationFailed(f"the secrets of the TLS profile {profile.name} cannot be read")


def profile_context(
    profile: TlsProfile, material: TlsMaterial, store: AnchorStore, report: Report | None = None
) -> ssl.SSLContext:
    """A context for one connection under a profile.

    :raises TlsConfigurationFailed: a text is no PEM of its kind, or certificate and key do not belong together.
    """
    context = client_context()
    if profile.system_roots:
        load(context, store.anchors(report).certificates)
    if material.custom_ca is not None:
        _trust(context, profile, material.custom_ca)
    if material.client_certificate is not None and material.client_private_key is not None:
        _present(context, profile, material.client_certificate, material.client_private_key)
    return context


def _trust(context: ssl.SSLContext, profile: TlsProfile, text: str) -> None:
    certificates = list(pem_certificates(text))
    wrong = TlsConfigurationFailed(
        f"custom_ca_secret of the TLS profile {profile.name} holds no usable certificate"
    )
    if not certificates or not all(certificates):
        raise wrong
    try:
        load(context, certificates)
    except ssl.SSLError:
        raise wrong from None  # the library's words could quote the text


def _present(context: ssl.SSLContext, profile: TlsProfile, certificate: str, key: str) -> None:
    try:
        with _Anonymous(certificate) as certificate_path, _Anonymous(key) as key_path:
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
    except (OSError, ValueError, _Locked):  # SSLError is an OSError; its words could quote the text
        raise TlsConfigurationFailed(
            f"the client certificate and key of the TLS profile {profile.name} cannot be used: they must be PEM, belong "
            "together, and the key must not be protected by a password"
        ) from None


class _Locked(Exception):
    """The key is protected by a password."""


def _no_password() -> NoReturn:
    """Without this the library would ask on the terminal."""
    raise _Locked


_MEMORY_NAME: Final = "zeroclaw-tls"


class _Anonymous:
    """A text in memory that the library can open as a file, and that no directory holds. Gone with the block."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._descriptor = -1

    def __enter__(self) -> str:
        if sys.platform != "linux":
            raise TlsConfigurationFailed(
                "client certificates need memory files, which this system does not have"
            )
        data = self._text.encode("utf-8")
        self._descriptor = os.memfd_create(_MEMORY_NAME, os.MFD_CLOEXEC)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BaseException:
            os.close(self._descriptor)
            raise
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        size = os.fstat(self._descriptor).st_size
        os.pwrite(self._descriptor, b"\0" * size, 0)
        os.close(self._descriptor)
