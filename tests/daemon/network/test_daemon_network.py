"""The daemon as it is wired: its plugins' connections are judged by its file, and told to its log and its ledger."""

from __future__ import annotations

import json
from pathlib import Path

import peers
import pytest

from zeroclaw_daemon.app import Daemon
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.network.usage import Outcome
from zeroclaw_daemon.network.usage_file import read_usage
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import EgressRefused
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")


def request(port: int) -> EgressRequest:
    return EgressRequest(
        identity=WEATHER, transport=Transport.HTTP, host="127.0.0.1", port=port, permitted=True
    )


@pytest.mark.req("PLG-176", "PLG-184")
def test_a_daemons_plugins_have_the_network_that_its_file_grants(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = peers.Peer(peers.hold)
    paths = Paths.resolve(None, {"HOME": str(tmp_path)})
    config = Path(paths.config_file)
    config.parent.mkdir(mode=0o700)
    config.write_text("schema_version = 1\n")
    try:
        with Daemon(paths, {}) as daemon:
            network = daemon._tools._services.network
            with pytest.raises(EgressRefused):
                network.open(request(server.port), Deadline(peers.PATIENCE))
            config.write_text(
                f'schema_version = 1\n[[plugins.entries]]\nname = "{WEATHER.key}"\n'
                'egress_hosts = ["127.0.0.1"]\negress_allow_private = ["127.0.0.1"]\n'
            )
            network.open(request(server.port), Deadline(peers.PATIENCE)).close()
    finally:
        server.close()
    found = {each.outcome: each for each in read_usage(Path(paths.usage_file), WEATHER)}
    assert found.keys() == {Outcome.REFUSED, Outcome.OPENED}
    records = [json.loads(line) for line in Path(paths.log_file).read_text().splitlines()]
    (denied,) = [each for each in records if each["attributes"].get("error_key") == "plugin_egress_denied"]
    assert denied["zeroclaw"]["plugin"] == "weather"
    command = denied["attributes"]["remedy"]["command"]
    assert WEATHER.key in command
    said = capfd.readouterr().err
    assert "http to 127.0.0.1" in said
    assert command in said, "whoever sits at the terminal can paste it"
