"""What plugins' TLS trusts: read once a process, told once, and anew after a restart. Each daemon here is a process."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers
import pytest
import trustme

from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")

# A daemon's network, told on standard input which port of a.example to connect to under TLS. What the library brings as
# bundled authorities is the file given to it: no test reaches a public site.
_DAEMON = """
import sys
from pathlib import Path
import certifi
certifi.where = lambda: sys.argv[2]
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.daemon_log import LogFile
from zeroclaw_daemon.network.dialer import network_of
from zeroclaw_daemon.network.log import NetworkLog
from zeroclaw_daemon.network.usage_ledger import UsageLedger
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import TlsFailed
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.testing import ScriptedResolver
from zeroclaw_host.instance import InstanceIdentity
place = Path(sys.argv[1])
file = LogFile(place / "daemon.jsonl")
ledger = UsageLedger(place / "plugin-egress.db", report=print)
log = NetworkLog(file, ledger, advise=lambda remedy: {}, tell=lambda words, remedies: None)
dialer = network_of(
    ConfigSource(place / "config.toml", {}).current, log,
    resolver=ScriptedResolver({"a.example": [["127.0.0.1"]]}),
)
for line in sys.stdin:
    request = EgressRequest(
        identity=InstanceIdentity.default_tool("weather"), transport=Transport.HTTP,
        host="a.example", port=int(line), tls=TlsMode.DIRECT, permitted=True,
    )
    try:
        dialer.open(request, Deadline(60)).close()
        print("accepted", flush=True)
    except TlsFailed:
        print("refused", flush=True)
log.close()
ledger.close()
file.close()
"""


class RunningDaemon:
    """One process, and the servers it can be asked for."""

    def __init__(self, place: Path, bundled: Path, store: Path, ports: dict[str, int]) -> None:
        self._ports = ports
        environment = {name: each for name, each in os.environ.items() if not name.startswith("SSL_CERT_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _DAEMON, str(place), str(bundled)],
            env={**environment, "SSL_CERT_FILE": str(store)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def trusts(self) -> set[str]:
        """Whose servers it accepts now."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        found: set[str] = set()
        for name, port in self._ports.items():
            self._process.stdin.write(f"{port}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
            assert answer in ("accepted", "refused")
            if answer == "accepted":
                found.add(name)
        return found

    def stop(self) -> None:
        """End it, with everything written."""
        try:
            self._process.communicate(timeout=peers.PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()


class Machine:
    """A machine with an installation, a certificate store and servers under three authorities."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store = place / "store.pem"
        self._bundled = place / "bundled.pem"
        self.authorities = {name: trustme.CA() for name in ("public", "a", "b")}
        self._bundled.write_bytes(self.authorities["public"].cert_pem.bytes())
        self.servers = {name: self._server(authority) for name, authority in self.authorities.items()}
        lists = 'egress_hosts = ["a.example"]\negress_allow_private = ["a.example"]\n'
        (place / "config.toml").write_text(f'[[plugins.entries]]\nname = "{WEATHER.key}"\n{lists}')

    @staticmethod
    def _server(authority: trustme.CA) -> peers.Peer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("a.example").configure_cert(context)
        return peers.Peer(peers.hold, tls=context)

    def keep(self, name: str) -> None:
        """Its store holds this authority from now on."""
        self.store.write_bytes(self.authorities[name].cert_pem.bytes())

    def start(self) -> RunningDaemon:
        ports = {name: server.port for name, server in self.servers.items()}
        return RunningDaemon(self.place, self._bundled, self.store, ports)

    def told(self) -> list[dict[str, Any]]:
        """Every record about what is trusted, over all restarts."""
        lines = (self.place / "daemon.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [each for each in records if each["attributes"]["error_key"] == "plugin_egress_trust_anchors"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for server in made.servers.values():
        server.close()


@pytest.mark.req("PLG-362", "PLG-353")
def test_a_rewritten_store_counts_after_a_restart_and_not_before(machine: Machine) -> None:
    machine.keep("a")
    daemon = machine.start()
    assert daemon.trusts() == {"public", "a"}
    machine.keep("b")
    assert daemon.trusts() == {"public", "a"}
    daemon.stop()
    daemon = machine.start()
    assert daemon.trusts() == {"public", "b"}
    daemon.stop()
    told = machine.told()
    assert [(each["severity_text"], each["attributes"]["machine_loaded"]) for each in told] == [
        ("INFO", True)
    ] * 2
    assert told[0]["event"] == {"action": "load", "category": "egress", "outcome": "success"}


def unlinked(machine: Machine) -> None:
    machine.store.unlink()


def damaged(machine: Machine) -> None:
    machine.store.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def a_directory(machine: Machine) -> None:
    machine.store.unlink()
    machine.store.mkdir()


@pytest.mark.req("PLG-373", "PLG-362")
@pytest.mark.parametrize("broken", [unlinked, damaged, a_directory])
def test_a_store_that_could_not_be_read_leaves_the_bundled_ones_until_a_restart(
    machine: Machine, broken: Callable[[Machine], None]
) -> None:
    machine.keep("a")
    broken(machine)
    daemon = machine.start()
    assert daemon.trusts() == {"public"}
    if machine.store.is_dir():
        machine.store.rmdir()
    machine.keep("a")
    assert daemon.trusts() == {"public"}
    daemon.stop()
    daemon = machine.start()
    assert daemon.trusts() == {"public", "a"}
    daemon.stop()
    first, second = machine.told()
    assert (first["severity_text"], first["attributes"]["machine_loaded"]) == ("WARN", False)
    assert "alone" in first["message"]
    assert str(machine.store) in str(first["attributes"]["problems"])
    assert second["attributes"]["machine_loaded"] is True
