"""A daemon's network without the rest of the daemon: a real configuration file, daemon log and ledger, and real peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import peers
import pytest

from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.daemon_log import LogFile
from zeroclaw_daemon.network.dialer import network_of
from zeroclaw_daemon.network.log import NetworkLog
from zeroclaw_daemon.network.usage import UsedDestination
from zeroclaw_daemon.network.usage_file import UsageUnavailable, read_usage
from zeroclaw_daemon.network.usage_ledger import UsageLedger
from zeroclaw_host.egress.connection import Connection
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.testing import Answer, ScriptedResolver
from zeroclaw_host.egress.tls import MaterialSource, no_material
from zeroclaw_host.errors import Remedy
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.sealing import KeyFile

WEATHER = InstanceIdentity.default_tool("weather")


class Net:
    """The network of one installation, in a directory of its own."""

    def __init__(self, place: Path, script: Mapping[str, Sequence[Answer]]) -> None:
        self.place = place
        self.config_file = place / "config.toml"
        self.log_path = place / "daemon.jsonl"
        self.usage_path = place / "plugin-egress.db"
        self.key_file = KeyFile(place / ".secret_key")
        self.told: list[tuple[str, Sequence[Remedy]]] = []
        self.failures: list[UsageUnavailable] = []
        if not self.config_file.exists():
            self.configure("")
        self.source = ConfigSource(self.config_file, {})
        self.resolver = ScriptedResolver(script)
        self._log = LogFile(self.log_path)
        self.ledger = UsageLedger(self.usage_path, report=self.failures.append)
        where = Place(str(place))
        self.network_log = NetworkLog(
            self._log,
            self.ledger,
            advise=lambda remedy: asdict(advise(remedy, where)),
            tell=lambda words, remedies: self.told.append((words, remedies)),
        )
        self.dialer = network_of(self.source.current, self.network_log, resolver=self.resolver)
        self.configs = EntryResolver(self.source.current, self.key_file)
        self._open = True

    def configure(self, text: str) -> None:
        """Write the file, as an editor does."""
        self.config_file.write_text(f"schema_version = 1\n{text}")

    def grant(self, *hosts: str, private: Sequence[str] | None = None, more: str = "") -> None:
        """Give the instance a row with this grant, private addresses included unless something else is said."""
        allowed = hosts if private is None else private
        self.configure(
            f'{more}\n[[plugins.entries]]\nname = "{WEATHER.key}"\n'
            f"egress_hosts = {json.dumps(hosts)}\negress_allow_private = {json.dumps(allowed)}\n"
        )

    def open(
        self,
        host: str,
        port: int = 443,
        *,
        transport: Transport = Transport.HTTP,
        tls: TlsMode = TlsMode.NONE,
        tls_profile: str | None = None,
        identity: InstanceIdentity = WEATHER,
        material: MaterialSource = no_material,
    ) -> Connection:
        request = EgressRequest(
            identity=identity,
            transport=transport,
            host=host,
            port=port,
            tls=tls,
            tls_profile=tls_profile,
            permitted=True,
        )
        return self.dialer.open(request, Deadline(peers.PATIENCE), material=material)

    def close(self) -> None:
        """End as a daemon does: everything is written."""
        if self._open:
            self._open = False
            self.network_log.close(seconds=peers.PATIENCE)
            self.ledger.close(seconds=peers.PATIENCE)
            self._log.close()

    def records(self) -> list[dict[str, Any]]:
        """The daemon log, at the end."""
        self.close()
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def used(self, identity: InstanceIdentity = WEATHER) -> tuple[UsedDestination, ...]:
        """The ledger, with everything so far in it."""
        assert self.ledger.settle(peers.PATIENCE)
        return read_usage(self.usage_path, identity)

    def paste(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a printed command in a shell, elsewhere, as a person does."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return subprocess.run(
            ["sh", "-c", command],
            env={"PATH": path, "HOME": "/nonexistent"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Callable[..., Net]]:
    """Networks that end with the test."""
    made: list[Net] = []

    def make(script: Mapping[str, Sequence[Answer]] | None = None) -> Net:
        place = tmp_path / f"installation {len(made)}"
        place.mkdir(mode=0o700)
        made.append(Net(place, script or {"a.example": [["127.0.0.1"]]}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def server() -> Iterator[peers.Peer]:
    """A server on loopback that sends everything back."""
    made = peers.Peer(peers.echo)
    yield made
    with suppress(OSError):
        made.close()
