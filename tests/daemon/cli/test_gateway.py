"""The gateway of a daemon as it is configured: where it listens, what it needs, and what is told when it cannot be had."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import anyio
import pytest
from websockets.sync.client import connect

from zeroclaw_daemon import app
from zeroclaw_daemon.cli.output import duration
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.schema import Gateway
from zeroclaw_daemon.rpc.transport.absent import GatewayNotInstalled
from zeroclaw_daemon.rpc.transport.wss import WssListener

USER = (
    '[users.ada]\nuid = 4000000001\npermission_profiles = ["all"]\n[permission_profiles.all]\nadmin = true\n'
)
OFF = "schema_version = 1\n"


@pytest.mark.req("RPC-227")
def test_a_paired_client_is_served_beside_the_socket_and_status_tells_where(
    home, zeroclaw, start_daemon
) -> None:
    home.configure(
        f"{OFF}{USER}[gateway]\nenabled = true\nport = 0\n[providers.models.openai.main]\nuri = 'ftp://a'\n"
    )
    daemon = start_daemon()
    token = json.loads(zeroclaw("auth", "pair", "ada", "--json").out)["token"]
    gateway = zeroclaw("status", "--json").json["gateway"]
    assert (gateway["state"], gateway["connections"]) == ("listening", 0)
    with connect(gateway["endpoint"], proxy=None) as peer:
        for number, (method, params) in enumerate((("initialize", {"authToken": token}), ("status", {}))):
            peer.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": number}))
        assert [json.loads(peer.recv(60))["id"] for _ in range(2)] == [0, 1]
        said = zeroclaw("status").out
    assert f"  gateway   {gateway['endpoint']}, connections: 1\n" in said
    assert ", connections: 2\n" in said
    assert f"its gateway listens at {gateway['endpoint']}\n" in daemon.stop()[1]
    assert "  provider  openai.main unusable: providers.models.openai.main.uri " in said


@pytest.mark.req("RPC-227")
def test_a_taken_port_costs_the_gateway_alone(home, zeroclaw, start_daemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        home.configure(f"{OFF}[gateway]\nenabled = true\nport = {port}\n")
        daemon = start_daemon()
        answer = zeroclaw("status")
    assert f"port {port} of 127.0.0.1: Address already in use" in answer.err
    assert "does not listen" in answer.out
    assert f"the gateway cannot listen on port {port}" in daemon.ready


@pytest.mark.req("RPC-227")
def test_without_its_library_the_gateway_says_what_to_install(home, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths.resolve(None, {"HOME": str(home.path)})
    for module in ("served", "websocket", "wss"):
        monkeypatch.delitem(sys.modules, f"zeroclaw_daemon.rpc.transport.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "websockets.server", None)
    listener = app._gateway(Gateway(enabled=True), paths)
    assert listener is not None
    assert listener.endpoint == "127.0.0.1:42617"

    async def open_it() -> None:
        async with listener.opened():
            pytest.fail("it listens")

    with pytest.raises(GatewayNotInstalled) as raised:
        anyio.run(open_it)
    assert raised.value.details == {"module": "websockets.server"}
    assert raised.value.remedy is not None
    assert raised.value.remedy.arguments == {"distribution": "zeroclaw-daemon", "extra": "gateway"}


def test_the_gateway_is_off_until_it_is_switched_on(home) -> None:
    paths = Paths.resolve(None, {"HOME": str(home.path)})
    assert app._gateway(Gateway(), paths) is None
    listener = app._gateway(Gateway(enabled=True, port=0), paths)
    assert isinstance(listener, WssListener)
    assert listener.endpoint == "ws://127.0.0.1:0/rpc"


def test_paths_of_the_certificate_start_from_the_configuration(home, tmp_path: Path) -> None:
    paths = Paths.resolve(None, {"HOME": str(home.path)})
    settings = Gateway(enabled=True, host="::1", certificate="chain.pem", private_key=f"{tmp_path}/key.pem")
    listener = app._gateway(settings, paths)
    assert isinstance(listener, WssListener)
    assert listener.endpoint == "wss://[::1]:42617/rpc"
    assert listener._settings.certificate == f"{paths.config_dir}/chain.pem"
    assert listener._settings.private_key == f"{tmp_path}/key.pem"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('host = "0.0.0.0"', "other machines are served over TLS alone"),
        ('host = "::"', "other machines are served over TLS alone"),
        ('host = "0.0.0.0"\ncertificate = "a"', "other machines are served over TLS alone"),
        ('host = "0.0.0.0"\nprivate_key = "a"', "other machines are served over TLS alone"),
        ('host = "example.com"', "an IP address, or on localhost"),
        ('allowed_origins = ["https://A.example"]', "an origin is scheme://host"),
        ('allowed_origins = ["https://a.example/"]', "an origin is scheme://host"),
        ('allowed_origins = ["*"]', "an origin is scheme://host"),
        ("max_connections = 0", "max_connections"),
    ],
)
def test_what_would_let_others_read_is_refused_with_its_line(home, zeroclaw, lines: str, words: str) -> None:
    home.configure(f"{OFF}[gateway]\nenabled = true\n{lines}\n")
    outcome = zeroclaw("config", "get", "gateway.port")
    assert outcome.status == 3
    assert words in outcome.err
    assert "config.toml" in outcome.err


@pytest.mark.parametrize(
    "lines",
    [
        'enabled = true\nhost = "127.0.0.2"',
        'enabled = true\nhost = "::1"',
        'enabled = true\nhost = "localhost"\nallowed_origins = ["https://a.example:8443", "http://[::1]:80"]',
        'enabled = true\nhost = "0.0.0.0"\ncertificate = "a"\nprivate_key = "b"',
        'host = "0.0.0.0"\ncertificate = "a"',
        'enabled = true\ncertificate = "a"',
    ],
)
def test_what_is_safe_or_off_is_accepted(home, zeroclaw, lines: str) -> None:
    home.configure(f"{OFF}[gateway]\n{lines}\n")
    assert zeroclaw("config", "get", "gateway.port").out == "42617\n"


def test_a_time_is_told_by_its_two_largest_parts() -> None:
    assert [duration(t) for t in (0.4, 59.9, 60, 3_725, 90_061)] == [
        "0 s", "59 s", "1 min", "1 h 2 min", "1 d 1 h",
    ]  # fmt: skip
