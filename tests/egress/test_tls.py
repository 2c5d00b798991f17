"""TLS with real peers: whom a connection trusts, what it presents, and that the host's name is always checked."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from zeroclaw_host.egress.anchors import (
    PROCESS_ANCHORS,
    AnchorStore,
    client_context,
    pem_certificates,
    read_anchors,
)
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import (
    ConnectionBroken,
    EgressRefused,
    TlsConfigurationFailed,
    TlsFailed,
)
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import TlsMode, Transport
from zeroclaw_host.egress.tls import TlsMaterial, no_material, profile_context
from zeroclaw_host.errors import ZeroclawError

Make = Callable[..., Any]
CORP = TlsProfile("corp", ("a.example",), system_roots=False, custom_ca_secret="ca")
CLIENT = TlsProfile(
    "client",
    ("a.example",),
    system_roots=False,
    custom_ca_secret="ca",
    client_certificate_secret="cert",
    client_private_key_secret="key",
)


def soon() -> Deadline:
    return Deadline(peers.PATIENCE)


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def said(connection: Connection) -> bytes:
    with connection:
        return connection.receive(100, soon())


def secrets(authority: trustme.CA, clients: trustme.CA | None = None) -> dict[str, str]:
    found = {"ca": pem(authority)}
    if clients is not None:
        issued = clients.issue_cert("client.example")
        found["cert"] = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
        found["key"] = issued.private_key_pem.bytes().decode()
    return found


def reader(values: dict[str, str]) -> Callable[[TlsProfile], TlsMaterial]:
    return lambda profile: TlsMaterial.of(profile, values)


# --- whom it trusts -----------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-353", "PLG-355")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("transport", Transport)
def test_an_authority_of_the_machine_counts_for_every_transport(
    ask: Make, network: Make, peer: Make, secure: Make, transport: Transport
) -> None:
    server = peer(peers.say(b"hello"), tls=secure())
    net = network({"a.example": [["127.0.0.1"]]})
    connection = net.dialer.open(ask("a.example", server.port, transport=transport), soon())
    assert connection.secured
    assert said(connection) == b"hello"


@pytest.mark.req("PLG-353", "PLG-354")
def test_an_authority_that_nobody_trusts_does_not_count(
    ask: Make, network: Make, peer: Make, secure: Make
) -> None:
    server = peer(peers.say(b"hello"), tls=secure())
    net = network({"a.example": [["127.0.0.1"]]})
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        net.dialer.open(ask("a.example", server.port), soon())
    assert net.slots.held(ask("a.example").identity) == 0


@pytest.mark.req("PLG-354", "PLG-356")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("profile", [None, "corp"])
@pytest.mark.parametrize("mode", [TlsMode.DIRECT, TlsMode.LATER])
def test_a_certificate_for_another_host_is_refused(
    ask: Make,
    network: Make,
    peer: Make,
    secure: Make,
    authority: trustme.CA,
    profile: str | None,
    mode: TlsMode,
) -> None:
    server = peer(peers.say(b"hello"), tls=secure("b.example"))
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[CORP])
    request = ask("a.example", server.port, tls=mode, tls_profile=profile)

    def later(connection: Connection, deadline: Deadline) -> None:
        if mode is TlsMode.LATER:
            connection.start_tls(deadline)

    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        net.dialer.open(request, soon(), material=reader(secrets(authority)), establish=later)


@pytest.mark.req("PLG-354")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("names", "good"), [(["127.0.0.1"], True), (["a.example"], False), (["127.0.0.2"], False)]
)
def test_the_certificate_of_an_address_has_to_be_for_the_address(
    ask: Make, network: Make, peer: Make, secure: Make, names: list[str], good: bool
) -> None:
    server = peer(peers.say(b"hello"), tls=secure(*names))
    net = network({"127.0.0.1": []})
    if good:
        assert said(net.dialer.open(ask("127.0.0.1", server.port), soon())) == b"hello"
    else:
        with pytest.raises(TlsFailed):
            net.dialer.open(ask("127.0.0.1", server.port), soon())


@pytest.mark.req("PLG-354")
@pytest.mark.usefixtures("trusted")
def test_a_trusted_peer_of_a_host_that_is_not_granted_is_not_connected_to(
    ask: Make, network: Make, peer: Make, secure: Make
) -> None:
    server = peer(peers.say(b"hello"), tls=secure("b.example"))
    net = network({"a.example": [["127.0.0.1"]]})
    with pytest.raises(EgressRefused):
        net.dialer.open(ask("b.example", server.port), soon())
    assert server.accepted == 0


@pytest.mark.usefixtures("trusted")
def test_a_peer_that_speaks_no_tls_is_refused(ask: Make, network: Make, peer: Make) -> None:
    for handler in (peers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), lambda connection: None):
        server = peer(handler)
        net = network({"a.example": [["127.0.0.1"]]})
        with peers.nothing_left(), pytest.raises(TlsFailed):
            net.dialer.open(ask("a.example", server.port), soon())


@pytest.mark.usefixtures("trusted")
def test_an_old_version_of_tls_is_refused(ask: Make, network: Make, peer: Make, secure: Make) -> None:
    context: ssl.SSLContext = secure()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    server = peer(peers.say(b"hello"), tls=context)
    net = network({"a.example": [["127.0.0.1"]]})
    with pytest.raises(TlsFailed):
        net.dialer.open(ask("a.example", server.port), soon())


# --- profiles -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("PLG-356", "PLG-357")
@pytest.mark.usefixtures("trusted")
def test_a_profile_without_system_roots_trusts_its_own_authority_alone(
    ask: Make, network: Make, peer: Make, secure: Make, authority: trustme.CA
) -> None:
    private = trustme.CA()
    values = secrets(private)
    own = peer(peers.say(b"own"), tls=secure(issuer=private))
    common = peer(peers.say(b"common"), tls=secure())
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[CORP])
    request = ask("a.example", own.port, tls_profile="corp")
    assert said(net.dialer.open(request, soon(), material=reader(values))) == b"own"
    with pytest.raises(TlsFailed):
        net.dialer.open(ask("a.example", own.port), soon())
    assert said(net.dialer.open(ask("a.example", common.port), soon())) == b"common"
    with pytest.raises(TlsFailed):
        net.dialer.open(ask("a.example", common.port, tls_profile="corp"), soon(), material=reader(values))


@pytest.mark.req("PLG-356")
@pytest.mark.usefixtures("trusted")
def test_a_profile_with_system_roots_trusts_both(ask: Make, network: Make, peer: Make, secure: Make) -> None:
    private = trustme.CA()
    both = TlsProfile("both", ("a.example",), custom_ca_secret="ca")
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[both])
    for context in (secure(issuer=private), secure()):
        server = peer(peers.say(b"hello"), tls=context)
        request = ask("a.example", server.port, tls_profile="both")
        assert said(net.dialer.open(request, soon(), material=reader(secrets(private)))) == b"hello"


@pytest.mark.req("PLG-356")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_peer_that_demands_a_client_certificate_gets_it_with_the_profile_alone(
    ask: Make, network: Make, peer: Make, secure: Make, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    clients = trustme.CA()
    context: ssl.SSLContext = secure(clients=clients)
    context.minimum_version = context.maximum_version = version
    server = peer(peers.say(b"hello"), tls=context)
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[CORP, CLIENT])
    values = secrets(authority, clients)
    with peers.nothing_left():
        request = ask("a.example", server.port, tls_profile="client")
        assert said(net.dialer.open(request, soon(), material=reader(values))) == b"hello"
        # Without it: refused in the handshake, or, as TLS 1.3 has it, when the first byte is read.
        with pytest.raises((TlsFailed, ConnectionBroken)):
            said(
                net.dialer.open(
                    ask("a.example", server.port, tls_profile="corp"), soon(), material=reader(values)
                )
            )
        strangers = secrets(authority, trustme.CA())
        with pytest.raises((TlsFailed, ConnectionBroken)):
            said(net.dialer.open(request, soon(), material=reader(strangers)))


@pytest.mark.req("PLG-356")
def test_a_rotated_secret_counts_for_the_next_connection(
    ask: Make, network: Make, peer: Make, secure: Make
) -> None:
    before, after = trustme.CA(), trustme.CA()
    server = peer(peers.say(b"hello"), tls=secure(issuer=after))
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[CORP])
    request = ask("a.example", server.port, tls_profile="corp")
    values = secrets(before)
    with pytest.raises(TlsFailed):
        net.dialer.open(request, soon(), material=reader(values))
    values.update(secrets(after))
    assert said(net.dialer.open(request, soon(), material=reader(values))) == b"hello"


@pytest.mark.req("PLG-374", "PLG-360")
@pytest.mark.parametrize(
    ("host", "profile"), [("b.example", "client"), ("a.example", "unknown"), ("c.example", "client")]
)
def test_a_profile_that_does_not_serve_the_host_is_neither_read_nor_replaced(
    ask: Make, network: Make, peer: Make, secure: Make, host: str, profile: str
) -> None:
    server = peer(peers.say(b"hello"), tls=secure("a.example", "b.example"))
    net = network({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}, tls_profiles=[CLIENT])
    with pytest.raises(EgressRefused):
        net.dialer.open(
            ask(host, server.port, tls_profile=profile),
            soon(),
            material=lambda _: pytest.fail("read the secrets"),
        )
    assert server.accepted == 0
    assert net.resolver.asked == []


@pytest.mark.parametrize("secret", ["ca", "cert", "key"])
@pytest.mark.parametrize(
    "value",
    [None, "", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\0", "é"],
)
def test_a_secret_that_is_missing_or_no_pem_fails_before_anything_is_dialled(
    ask: Make, network: Make, peer: Make, authority: trustme.CA, secret: str, value: str | None
) -> None:
    server = peer()
    net = network({"a.example": [["127.0.0.1"]]}, tls_profiles=[CLIENT])
    values = secrets(authority, authority)
    values.pop(secret)
    if value is not None:
        values[secret] = value
    with peers.nothing_left(), pytest.raises(TlsConfigurationFailed) as caught:
        net.dialer.open(ask("a.example", server.port, tls_profile="client"), soon(), material=reader(values))
    assert server.accepted == 0
    assert net.slots.held(ask("a.example").identity) == 0
    shows_no_secret(caught.value, values)


def shows_no_secret(error: ZeroclawError, values: dict[str, str]) -> None:
    told = [str(error), repr(error), *error.causes(), repr(error.details)]
    for text in values.values():
        lines = [line for line in text.splitlines() if len(line) > 20 and not line.startswith("-----")]
        assert not any(line in words for line in lines for words in told)


def locked(key: str) -> str:
    """The same key under a password."""
    return (
        load_pem_private_key(key.encode(), None)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        .decode()
    )


def test_a_key_that_is_another_certificates_or_under_a_password_is_refused_unasked(
    authority: trustme.CA,
) -> None:
    values = secrets(authority, authority)
    foreign = secrets(authority, authority)["key"]
    for bad in (foreign, locked(values["key"])):
        with peers.nothing_left(), pytest.raises(TlsConfigurationFailed) as caught:
            profile_context(CLIENT, TlsMaterial.of(CLIENT, values | {"key": bad}), AnchorStore())
        shows_no_secret(caught.value, values | {"key": bad})


ON_A_TERMINAL = """
import os, sys
os.open(os.ttyname(0), os.O_RDWR)  # the new session's terminal, from here on
from zeroclaw_host.egress.anchors import AnchorStore
from zeroclaw_host.egress.failures import TlsConfigurationFailed
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.tls import TlsMaterial, profile_context
profile = TlsProfile("p", ("a.example",), client_certificate_secret="cert", client_private_key_secret="key")
try:
    profile_context(profile, TlsMaterial(None, open(sys.argv[1]).read(), open(sys.argv[2]).read()), AnchorStore())
except TlsConfigurationFailed:
    print("refused")
"""


def test_nobody_is_asked_for_a_keys_password_on_the_terminal(authority: trustme.CA, tmp_path: Path) -> None:
    values = secrets(authority, authority)
    (tmp_path / "cert.pem").write_text(values["cert"])
    (tmp_path / "key.pem").write_text(locked(values["key"]))
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        try:
            assert process.wait(peers.PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
        assert os.read(ours, 65_536).split() == [b"refused"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_instance_whose_secrets_cannot_be_read_has_no_profile() -> None:
    with pytest.raises(TlsConfigurationFailed):
        no_material(CORP)


@pytest.mark.req("PLG-361")
def test_a_clients_key_is_never_in_a_named_file(authority: trustme.CA) -> None:
    values = secrets(authority, authority)
    opened: list[tuple[Any, ...]] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open":
            opened.append(arguments)

    sys.addaudithook(watch)
    with peers.nothing_left():
        profile_context(CLIENT, TlsMaterial.of(CLIENT, values), AnchorStore())
    watching = False
    writable = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    assert not [found for found in opened if isinstance(found[2], int) and found[2] & writable]


def test_material_is_not_shown() -> None:
    assert "PRIVATE" not in repr(TlsMaterial("ca", "cert", "-----BEGIN PRIVATE KEY-----"))


# --- later TLS ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trusted")
def test_a_connection_goes_on_under_tls_in_place(ask: Make, network: Make, peer: Make, secure: Make) -> None:
    context: ssl.SSLContext = secure()

    def negotiate(connection: Any) -> None:
        connection.sendall(b"ready")
        assert connection.recv(8) == b"STARTTLS"
        connection.sendall(b"go")
        with context.wrap_socket(connection, server_side=True) as secured:
            peers.echo(secured)

    server = peer(negotiate)
    net = network({"a.example": [["127.0.0.1"]]})
    with net.dialer.open(ask("a.example", server.port, tls=TlsMode.LATER), soon()) as connection:
        assert connection.receive(5, soon()) == b"ready"
        assert not connection.secured
        connection.send(b"STARTTLS", soon())
        assert connection.receive(2, soon()) == b"go"
        connection.start_tls(soon())
        assert connection.secured
        connection.send(b"hello", soon())
        assert connection.receive(5, soon()) == b"hello"
        with pytest.raises(TlsFailed):
            connection.start_tls(soon())


@pytest.mark.usefixtures("trusted")
def test_a_connection_that_cannot_go_on_under_tls_does_not_go_on(
    ask: Make, network: Make, peer: Make, secure: Make
) -> None:
    server = peer(peers.echo)
    net = network({"a.example": [["127.0.0.1"]]})
    for mode in (TlsMode.LATER, TlsMode.NONE):
        request = ask("a.example", server.port, tls=mode)
        with peers.nothing_left():
            connection = net.dialer.open(request, soon())
            with pytest.raises(TlsFailed):
                connection.start_tls(soon())
            assert connection.closed
        assert net.slots.held(request.identity) == 0


# --- read once ------------------------------------------------------------------------------------------------------------


def store_at(path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(pem(authority))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


@pytest.mark.req("PLG-362")
def test_the_roots_are_read_once_and_anew_by_the_next_process(
    ask: Make, network: Make, peer: Make, secure: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = trustme.CA(), trustme.CA()
    servers = [peer(peers.say(b"hello"), tls=secure(issuer=one)) for one in (first, second)]
    store_at(tmp_path / "roots.pem", first, monkeypatch)
    running = network({"a.example": [["127.0.0.1"]]})

    def trusts(net: Any) -> list[bool]:
        found: list[bool] = []
        for server in servers:
            try:
                found.append(said(net.dialer.open(ask("a.example", server.port), soon())) == b"hello")
            except TlsFailed:
                found.append(False)
        return found

    assert trusts(running) == [True, False]
    store_at(tmp_path / "roots.pem", second, monkeypatch)
    assert trusts(running) == [True, False]
    restarted = network({"a.example": [["127.0.0.1"]]})
    assert trusts(restarted) == [False, True]
    (record,) = [
        record for record in running.log.records if record.error_key == "plugin_egress_trust_anchors"
    ]
    assert record.attributes["machine_loaded"] is True
    assert record.level == "info"


@pytest.mark.req("PLG-362", "PLG-373")
def test_a_store_that_could_not_be_read_is_not_read_later(
    ask: Make,
    network: Make,
    peer: Make,
    secure: Make,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = peer(peers.say(b"hello"), tls=secure())
    path = tmp_path / "roots.pem"
    store_at(path, authority, monkeypatch)
    path.unlink()
    unlucky = network({"a.example": [["127.0.0.1"]]})
    for _ in range(2):
        with pytest.raises(TlsFailed):
            unlucky.dialer.open(ask("a.example", server.port), soon())
        store_at(path, authority, monkeypatch)
    assert unlucky.anchors.anchors().bundled
    (record,) = [
        record for record in unlucky.log.records if record.error_key == "plugin_egress_trust_anchors"
    ]
    assert record.level == "warn"
    assert record.attributes["machine_loaded"] is False
    assert record.attributes["bundled"] > 50
    assert str(path) in str(record.attributes["problems"])
    restarted = network({"a.example": [["127.0.0.1"]]})
    assert said(restarted.dialer.open(ask("a.example", server.port), soon())) == b"hello"


@pytest.mark.req("PLG-362", "PLG-373")
def test_a_new_process_reads_the_store_of_its_machine(authority: trustme.CA, tmp_path: Path) -> None:
    path = tmp_path / "roots.pem"
    program = (
        "from zeroclaw_host.egress.anchors import PROCESS_ANCHORS as store\n"
        "import sys\n"
        "print(len(store.anchors().machine))\n"
        "open(sys.argv[1], 'w').write(open(sys.argv[2]).read())\n"
        "print(len(store.anchors().machine))\n"
    )
    other = tmp_path / "authority.pem"
    other.write_text(pem(authority))
    for expected in ("0\n0\n", "1\n1\n"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(path), str(other)],
            env={**os.environ, "SSL_CERT_FILE": str(path), "SSL_CERT_DIR": ""},
            capture_output=True,
            text=True,
            check=True,
            timeout=peers.PATIENCE,
        )
        assert done.stdout == expected


@pytest.mark.req("PLG-353")
@pytest.mark.parametrize("kind", ["directory", "both", "two directories"])
def test_directories_of_certificates_are_read(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = trustme.CA()
    for name, one in (("a", authority), ("b", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.pem").write_text(f"a comment\n{pem(one)}")
        (tmp_path / name / "same.0").symlink_to("one.pem")
        (tmp_path / name / "README").write_text("no certificate")
        (tmp_path / name / "folder").mkdir()
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "a"))
    if kind == "both":
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "b" / "one.pem"))
    if kind == "two directories":
        monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    found = read_anchors()
    assert len(found.machine) == (1 if kind == "directory" else 2)
    assert found.problems == ()


@pytest.mark.req("PLG-373")
@pytest.mark.parametrize("damage", ["missing", "directory", "damaged", "one damaged", "a key", "empty"])
def test_what_of_a_store_cannot_be_read_is_said_and_the_rest_counts(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    path = tmp_path / "roots.pem"
    store_at(path, authority, monkeypatch)
    damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    if damage in ("missing", "directory"):
        path.unlink()
    if damage == "directory":
        path.mkdir()
    if damage == "damaged":
        path.write_text(damaged)
    if damage == "one damaged":
        path.write_text(damaged + pem(authority))
    if damage == "a key":
        path.write_text(authority.private_key_pem.bytes().decode())
    if damage == "empty":
        path.write_text("")
    found = read_anchors()
    assert len(found.machine) == (1 if damage == "one damaged" else 0)
    assert found.problems
    assert found.machine_loaded is (damage == "one damaged")


def test_every_bundled_authority_can_be_used() -> None:
    found = PROCESS_ANCHORS.anchors()
    context = client_context()
    context.load_verify_locations(cadata=b"".join(found.certificates))
    assert context.cert_store_stats()["x509"] == len(found.certificates)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_text_holds_certificates_among_other_things(authority: trustme.CA) -> None:
    text = f"Subject: x\n{pem(authority)}\n# end\n{pem(authority)}garbage"
    assert len(list(pem_certificates(text))) == 2
    assert list(pem_certificates("nothing")) == []
