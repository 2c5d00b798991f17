"""TLS profiles in a daemon: rows of the file, certificates among the sealed secrets, both as they are at each connection."""

from __future__ import annotations

import ssl
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import peers
import pytest
import trustme
from forge import Forge
from plugin_parts import manifest_text

from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import ConnectionBroken, EgressRefused, TlsConfigurationFailed, TlsFailed
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import TlsMode
from zeroclaw_host.egress.tls import TlsMaterial
from zeroclaw_host.errors import GuestFailure
from zeroclaw_host.host import PluginHost
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, parse_manifest
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.kinds import SendMessage

Make = Callable[..., Any]
COMPILED = Path(__file__).parents[3] / ".cache" / "compiled"
OPS = InstanceIdentity("forged", Capability.CHANNEL, "ops")
SECRETS = ("ca", "certificate", "key", "token")
SCHEMA = '[config_schema]\ntype = "object"\nadditionalProperties = false\n' + "".join(
    f'[config_schema.properties.{name}]\ntype = "string"\nx-secret = true\n' for name in SECRETS
)
MANIFEST = manifest_text(Capability.CHANNEL, []).replace("[]", '["config_read"]') + SCHEMA
SCOPE = InstanceScope.admit(OPS, parse_manifest(MANIFEST.encode()))
ROW = f"plugins.entries.{OPS.key}"
FILE = f"""
[[plugins.entries]]
name = "{OPS.key}" # the operations room
egress_hosts = ["a.example", "b.example"]
egress_allow_private = ["a.example", "b.example"]

# Ours, and no other.
[[plugins.entries.tls_profiles]]
name = "inner"
hosts = ["a.example"] # b is public
system_roots = false
custom_ca_secret = "ca"
client_certificate_secret = "certificate"
client_private_key_secret = "key"
"""
PROFILE = TlsProfile("inner", ("a.example",), False, "ca", "certificate", "key")


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


class Installation:
    """An installation whose channel has a profile, and the ways its operator has to change a secret."""

    def __init__(self, net: Any) -> None:
        self.net = net
        net.configure(FILE)
        self.store = ConfigStore(FileSource(net.config_file, {}), net.key_file)

    def set(self, **secrets: str) -> None:
        """As ``zeroclaw config set`` does, in a process of its own."""
        self.store.commit(
            lambda draft: [draft.set(f"{ROW}.config.{name}", text) for name, text in secrets.items()]
        )

    def material(self, profile: TlsProfile) -> TlsMaterial:
        return TlsMaterial.of(profile, self.net.configs.resolve(SCOPE).secrets)

    def connect(self, port: int, host: str = "a.example", profile: str | None = "inner") -> None:
        """Exchange a byte with the peer: only then has it accepted a client's certificate."""
        with self.net.open(
            host,
            port,
            identity=OPS,
            tls=TlsMode.DIRECT,
            tls_profile=profile,
            material=self.material,
        ) as connection:
            assert connection.receive(1, Deadline(peers.PATIENCE)) == b"x"


@pytest.fixture
def installation(net: Make) -> Installation:
    return Installation(net({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}))


@pytest.fixture
def start() -> Iterator[Make]:
    """Starts servers that say one byte to each client they accept."""
    made: list[peers.Peer] = []

    def server(authority: trustme.CA, clients: trustme.CA | None = None, name: str = "a.example") -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(context)
        if clients is not None:
            clients.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        made.append(peers.Peer(peers.say(b"x"), tls=context))
        return made[-1].port

    yield server
    for one in made:
        one.close()


def client(authority: trustme.CA) -> dict[str, str]:
    """A client's certificate and its key, as secrets."""
    issued = authority.issue_cert("client.example")
    chain = "".join(part.bytes().decode() for part in issued.cert_chain_pems)
    return {"certificate": chain, "key": issued.private_key_pem.bytes().decode()}


@pytest.mark.req("PLG-175", "PLG-356")
def test_profiles_and_grants_are_rows_of_the_file_and_stay_as_they_are_written(
    installation: Installation,
) -> None:
    file = installation.net.config_file
    before = file.read_text()
    installation.store.commit(lambda draft: draft.set("gateway.port", 1234))
    assert file.read_text().startswith(before)
    (entry,) = installation.store.current().config.plugins.entries
    assert entry.egress_hosts == ("a.example", "b.example")
    (profile,) = entry.tls_profiles
    assert TlsProfile(**profile.model_dump()) == PROFILE
    rows = [{"name": "other", "hosts": ["b.example"], "system_roots": True, "custom_ca_secret": "ca"}]
    installation.store.commit(lambda draft: draft.set(f"{ROW}.tls_profiles", rows))
    (written,) = tomllib.loads(file.read_text())["plugins"]["entries"]
    assert written["tls_profiles"] == rows
    assert installation.store.current().config.plugins.entries[0].tls_profiles[0].name == "other"


@pytest.mark.req("PLG-358", "PLG-182")
def test_certificates_lie_sealed_in_the_file_beside_hosts_that_can_be_read(
    installation: Installation,
) -> None:
    authority = trustme.CA()
    secrets = {"ca": pem(authority), **client(authority)}
    installation.set(**secrets)
    text = installation.net.config_file.read_text()
    assert "BEGIN" not in text
    for secret in secrets.values():
        assert not any(line in text for line in secret.splitlines())
    (row,) = tomllib.loads(text)["plugins"]["entries"]
    assert row["egress_hosts"] == ["a.example", "b.example"]
    assert all(sealed.startswith("enc2:") for sealed in row["config"].values())
    assert dict(installation.net.configs.resolve(SCOPE).secrets) == secrets


@pytest.mark.req("PLG-356", "PLG-357")
def test_a_server_that_demands_a_certificate_gets_the_profiles_and_none_without_it(
    installation: Installation, start: Make
) -> None:
    authority, clients = trustme.CA(), trustme.CA()
    port = start(authority, clients)
    installation.set(ca=pem(authority), **client(clients))
    installation.connect(port)
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        installation.connect(port, profile=None)
    bare = {"name": "bare", "hosts": ["a.example"], "custom_ca_secret": "ca"}
    whole = tomllib.loads(FILE)["plugins"]["entries"][0]["tls_profiles"]
    installation.store.commit(lambda draft: draft.set(f"{ROW}.tls_profiles", [*whole, bare]))
    with pytest.raises((TlsFailed, ConnectionBroken)) as caught:
        installation.connect(port, profile="bare")
    assert "certificate is not accepted" not in str(caught.value)
    installation.connect(port)
    with pytest.raises(TlsFailed):
        installation.connect(start(authority, clients, "c.example"))
    with pytest.raises(EgressRefused):
        installation.connect(port, host="b.example")
    for kept in (installation.net.log_path, installation.net.usage_path):
        installation.net.close()
        assert b"BEGIN" not in kept.read_bytes()


@pytest.mark.req("PLG-356")
def test_a_secret_that_is_replaced_is_the_one_of_the_next_connection(
    installation: Installation, start: Make
) -> None:
    first, second, clients, others = (trustme.CA() for _ in range(4))
    old, new = start(first, clients), start(second, others)
    installation.set(ca=pem(first), **client(clients))
    installation.connect(old)
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        installation.connect(new)
    installation.set(ca=pem(second))
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        installation.connect(old)
    with pytest.raises((TlsFailed, ConnectionBroken)) as caught:  # trusted now, and not trusted itself
        installation.connect(new)
    assert "certificate is not accepted" not in str(caught.value)
    installation.set(**client(others))
    installation.connect(new)


@pytest.mark.req("PLG-356", "PLG-358")
def test_a_secret_that_is_missing_or_no_certificate_ends_the_connection_before_anything_is_sent(
    installation: Installation, start: Make
) -> None:
    authority = trustme.CA()
    port = start(authority)
    with pytest.raises(TlsConfigurationFailed, match="ca"):
        installation.connect(port)
    installation.set(ca="no certificate", **client(authority))
    with pytest.raises(TlsConfigurationFailed) as caught:
        installation.connect(port)
    assert "no certificate" not in str(caught.value)


def asking_for(*names: str) -> bytes:
    """A channel whose ``send`` asks for these secrets and answers with a letter for each: ``k`` for a text, else the number
    of the error's case."""
    asks = "".join(
        f"""
        (call $secrets.get (i32.const {64 + 32 * index}) (i32.const {len(name)}) (i32.const 512))
        (i32.store8 (i32.const {600 + index})
          (if (result i32) (i32.load8_u (i32.const 512))
            (then (i32.add (i32.const 48) (i32.load8_u (i32.const 516))))
            (else (i32.const 107))))"""
        for index, name in enumerate(names)
    )
    data = "".join(f'(data (i32.const {64 + 32 * index}) "{name}")' for index, name in enumerate(names))
    return Forge("channel-plugin").component(
        imports=("secrets.get",),
        extra=data,
        bodies={
            "channel.configure": "(i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)",
            "channel.send": f"""{asks}
              (i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const 600))
              (i32.store (i32.const 24) (i32.const {len(names)})) (i32.const 16)""",
        },
    )


@pytest.mark.req("PLG-361")
def test_a_guest_never_gets_what_a_profile_names_and_gets_its_other_secrets(
    installation: Installation,
) -> None:
    net = installation.net
    authority = trustme.CA()
    installation.set(ca=pem(authority), token="hush", **client(authority))
    directory = net.place / "plugins" / "forged"
    directory.mkdir(parents=True)
    (directory / "manifest.toml").write_text(MANIFEST)
    (directory / "forged.wasm").write_bytes(asking_for(*SECRETS))
    services = InstanceServices(config=net.configs, log=MemoryLogSink(), network=net.dialer)
    with PluginHost(net.place / "plugins", COMPILED, services=services) as host:
        channel = host.load_channel(host.discover().get("forged"), "ops")

        def answer() -> str:
            with pytest.raises(GuestFailure) as caught:
                anyio.run(channel.send, SendMessage(content="hello", recipient="room"))
            return caught.value.message.rpartition(" ")[2]

        denied = "0"
        assert answer() == 3 * denied + "k"
        # The row as it is now decides: a profile that is taken out gives back what it alone named.
        keep = [{"name": "inner", "hosts": ["a.example"], "custom_ca_secret": "ca"}]
        installation.store.commit(lambda draft: draft.set(f"{ROW}.tls_profiles", keep))
        assert answer() == denied + "kkk"
        rows = [*keep, {"name": "next", "hosts": ["a.example"], "custom_ca_secret": "token"}]
        installation.store.commit(lambda draft: draft.set(f"{ROW}.tls_profiles", rows))
        assert answer() == denied + "kk" + denied
