"""A plugin asks a service on the network: with its secret, where its operator lets it, and nowhere else."""

from __future__ import annotations

import json
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
import trustme
from operators import Operator, built_example, commands_of, eventually
from origins import Origin, WeatherService

SUNNY = "Lisbon, 2026-12-01 04:00 UTC: light rain, 12.5 °C, wind 4 m/s, humidity 81 %."
REFUSED = "error: this plugin may not reach 127.0.0.1"


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, built by its author."""
    return built_example("weather", tmp_path_factory.mktemp("weather"))


@pytest.fixture
def service() -> WeatherService:
    return WeatherService(f"key-{token_hex(8)}")


@pytest.fixture
def origin(service: WeatherService) -> Iterator[Origin]:
    with Origin(service) as origin:
        yield origin


@pytest.fixture
def operator(weather: Path, service: WeatherService, origin: Origin, short_path: Path) -> Operator:
    """Somebody who installed the plugin, gave it its key and a service on this machine, and granted nothing."""
    operator = Operator(short_path / "home", "weather")
    operator.types(f"zeroclaw plugin install '{weather}'")
    operator.types(f"printf %s {service.key} | zeroclaw config set {operator.row}.config.api_key -")
    operator.sets("config.base_url", origin.url)
    operator.types(f"zeroclaw config delete {operator.row}.egress_hosts")
    return operator


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-174", "PLG-177", "PLG-178", "PLG-184", "PAINS-16", "PAINS-17")
def test_what_a_denial_says_makes_the_next_call_pass_without_a_restart(
    operator: Operator, origin: Origin, service: WeatherService
) -> None:
    with operator.leaves_running("zeroclaw daemon"):
        assert operator.asks(place="Lisbon").startswith(REFUSED)
        assert origin.requests == [], "nothing was sent"
        [denied] = operator.records("plugin_egress_denied")
        assert (denied["plugin"], denied["plugin_capability"], denied["transport"], denied["host"]) == (
            "weather",
            "tool",
            "http",
            "127.0.0.1",
        )
        assert denied["reason"] == "host_not_granted"
        first, second = commands_of(denied)
        operator.types(first)
        assert operator.asks(place="Lisbon").startswith(REFUSED), "granted, and still a private address"
        assert commands_of(operator.records("plugin_egress_denied", 2)[1]) == [second]
        operator.types(second)
        assert operator.asks(place="Lisbon") == SUNNY
    [asked] = origin.requests
    assert asked.query == {"place": "Lisbon", "days": "0", "units": "metric"}
    assert asked.headers["authorization"] == f"Bearer {service.key}"
    nowhere_readable(operator.home, service.key)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-177", "PLG-352")
def test_three_calls_show_what_was_used_and_the_least_grant_that_does(
    operator: Operator, origin: Origin, service: WeatherService
) -> None:
    operator.sets("egress_hosts", "127.0.0.1,*.weather.example,unused.example")
    operator.sets("egress_allow_private", "127.0.0.1")
    with operator.leaves_running("zeroclaw daemon"):
        for place in ("Lisbon", "Porto", "Nowhere"):
            operator.asks(place=place, days=2)
        assert [asked.query["place"] for asked in origin.requests] == ["Lisbon", "Porto", "Nowhere"]
        assert eventually(lambda: used(operator) == {(f"127.0.0.1:{origin.port}", "opened"): 3})
    shown = operator.types("zeroclaw plugin egress weather")
    table = [line.split("\t") for line in shown.splitlines() if "\t" in line]
    assert [row[:6] for row in table] == [
        ["weather", f"127.0.0.1:{origin.port}", "no", "yes, private", "http", "opened"],
        ["weather", "*.weather.example", "no", "yes", "", "not used"],
        ["weather", "api.weather.example", "yes", "*.weather.example", "", "not used"],
        ["weather", "unused.example", "no", "yes", "", "not used"],
    ]
    [command] = [line.strip() for line in shown.splitlines() if " config set " in line]
    operator.types(command)
    [row] = rows(operator)
    assert row == {"egress_hosts": ["127.0.0.1"], "egress_allow_private": ["127.0.0.1"]}
    with operator.leaves_running("zeroclaw daemon"):
        assert operator.asks(place="Lisbon") == SUNNY
        service.key = "another one"
        assert "does not accept the API key" in operator.asks(place="Lisbon")
        operator.types(f"printf %s '{service.key}' | zeroclaw config set {operator.row}.config.api_key -")
        assert operator.asks(place="Lisbon") == SUNNY, "a new key is used without a restart"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-174", "PLG-353", "PLG-354")
def test_a_service_under_an_authority_of_this_machine_is_trusted_where_it_is_granted(
    operator: Operator, service: WeatherService, short_path: Path
) -> None:
    authority = trustme.CA()
    bundle = short_path / "roots.pem"
    authority.cert_pem.write_to_path(bundle)
    operator.environment["SSL_CERT_FILE"] = str(bundle)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example").configure_cert(other)

    with (
        Origin(service, tls=tls) as right,
        Origin(service, tls=other) as wrong,
        operator.leaves_running("zeroclaw daemon"),
    ):
        operator.sets("config.base_url", right.url)
        assert operator.asks(place="Lisbon").startswith(REFUSED), "trusted, and not granted"
        operator.sets("egress_hosts", "127.0.0.1")
        operator.sets("egress_allow_private", "127.0.0.1")
        assert operator.asks(place="Lisbon") == SUNNY
        operator.sets("config.base_url", wrong.url)
        assert "TLS" in operator.asks(place="Lisbon"), "granted, and not the host it says it is"
        assert (len(right.requests), len(wrong.requests)) == (1, 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-173", "PLG-186")
def test_a_signed_declaration_is_granted_by_the_install_and_cannot_grow_behind_the_signature(
    weather: Path, short_path: Path
) -> None:
    operator = Operator(short_path / "home", "weather")
    key = operator.types(f"cp -R '{weather}' plugin && zeroclaw-plugin keygen publisher.pem").split()[-1]
    operator.types("zeroclaw-plugin sign plugin --key publisher.pem && cp -R plugin changed")
    operator.types(f"zeroclaw config set plugins.security.trusted_publisher_keys {key}")
    operator.types("zeroclaw config set plugins.security.signature_mode strict")

    changed = operator.directory / "changed" / "manifest.toml"
    text = changed.read_text(encoding="utf-8")
    changed.write_text(text.replace('hosts = ["api', 'hosts = ["evil.example", "api'), encoding="utf-8")
    refused = operator.types("zeroclaw plugin install ./changed 2>&1 || echo refused with $?")
    assert "refused with" in refused
    assert "the publisher did not sign this manifest" in refused
    assert rows(operator) == []

    installed = operator.types("zeroclaw plugin install ./plugin 2>&1")
    assert "api.weather.example" in installed
    assert f"config set {operator.row}.egress_hosts" in installed.replace("'", "")
    assert [row["egress_hosts"] for row in rows(operator)] == [["api.weather.example"]]


def used(operator: Operator) -> dict[tuple[str, str], int]:
    """How often each destination was asked for, and with what outcome."""
    [account] = json.loads(operator.types("zeroclaw plugin egress weather --json"))["instances"]
    return {
        (each["destination"], each["use"]["outcome"]): each["use"]["count"]
        for each in account["destinations"]
        if each["use"] is not None
    }


def rows(operator: Operator) -> list[dict[str, list[str]]]:
    """What the rows of the configuration grant."""
    text = (operator.home / ".zeroclaw" / "config.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["plugins"].get("entries", [])
    return [
        {name: sorted(value) for name, value in row.items() if name.startswith("egress_")} for row in found
    ]


def nowhere_readable(home: Path, secret: str) -> None:
    """No file of the installation has the secret in clear, the logs included."""
    for path in (home / ".zeroclaw").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
