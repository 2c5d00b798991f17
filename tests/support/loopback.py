"""Fixtures of rooms whose tests talk to servers on loopback: peers, and a private authority for TLS.

A room takes those it needs into its ``conftest``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import peers
import pytest
import trustme


@pytest.fixture
def peer() -> Iterator[Callable[..., peers.Peer]]:
    """Servers of any kind that end with the test. One that is told nothing else echoes."""
    made: list[peers.Peer] = []

    def start(handler: peers.Handler = peers.echo, **how: object) -> peers.Peer:
        made.append(peers.Peer(handler, **how))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A private certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="session")
def secure(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """A server's TLS context, with a certificate for these names from this authority."""

    def make(
        *names: str, issuer: trustme.CA = authority, clients: trustme.CA | None = None
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issuer.issue_cert(*(names or ("a.example",))).configure_cert(context)
        if clients is not None:
            clients.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return make


@pytest.fixture
def trusted(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The machine trusts the private authority."""
    store = tmp_path_factory.mktemp("store") / "authorities.pem"
    store.write_bytes(authority.cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(store))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
