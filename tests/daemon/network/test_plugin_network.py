"""Connections of plugins in a daemon: granted by the file as it is now, told to the log, counted in the ledger."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import peers
import pytest

from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.network.log import MOST_TOLD
from zeroclaw_daemon.network.usage import Key, Outcome, Tally
from zeroclaw_daemon.network.usage_file import UsageFile
from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import ConnectFailed, ConnectionLimit, EgressRefused, ResolutionFailed
from zeroclaw_host.egress.request import Transport
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

WEATHER = InstanceIdentity.default_tool("weather")
OPS = InstanceIdentity("mail", Capability.CHANNEL, "ops")
ROW = f"plugins.entries.{WEATHER.key}"

Make = Callable[..., Any]


def refusal(net: Any, host: str = "a.example", **how: Any) -> str:
    """The word for which a connection is refused."""
    with pytest.raises(EgressRefused) as caught:
        net.open(host, **how)
    reason = caught.value.decision.reason
    assert reason is not None
    return reason.value


@pytest.mark.req("PLG-184")
def test_a_refusal_is_a_record_of_who_where_why_and_what_to_do(net: Make, server: peers.Peer) -> None:
    mine = net()
    mine.configure(f'[[plugins.entries]]\nname = "{OPS.key}"\negress_hosts = ["b.example"]\n')
    assert refusal(mine, port=993, transport=Transport.SOCKETS, identity=OPS) == "host_not_granted"
    (record,) = mine.records()
    assert record["severity_text"] == "WARN"
    assert record["event"] == {"action": "connect", "category": "egress", "outcome": "failure"}
    assert record["zeroclaw"] == {
        "plugin": "mail",
        "plugin_capability": "channel",
        "plugin_binding": "ops",
    }
    told = record["attributes"]
    remedy = told.pop("remedy")
    assert told == {
        "error_key": "plugin_egress_denied",
        "transport": "sockets",
        "host": "a.example",
        "port": 993,
        "tls_profile": None,
        "reason": "host_not_granted",
        "rule": None,
        "steps": [
            "permission passed: socket_client",
            "policy passed: the instance's row",
            "destination passed: a.example",
            "grant refused: no entry of egress_hosts",
        ],
    }
    assert f"plugins.entries.{OPS.key}.egress_hosts" in remedy["command"]
    assert "a.example,b.example" in remedy["command"]


@pytest.mark.req("PLG-184", "PLG-183")
def test_a_refusal_that_no_setting_lifts_has_no_command(net: Make) -> None:
    mine = net({"meta.example": [["169.254.169.254"]]})
    mine.grant("meta.example")
    assert refusal(mine, "meta.example") == "metadata_address"
    assert refusal(mine, "169.254.169.254") == "metadata_address"
    for record in mine.records():
        assert not {"remedy", "remedies"} & record["attributes"].keys()


@pytest.mark.req("PAINS-17", "PLG-184", "PLG-206")
@pytest.mark.parametrize("row", ["none", "empty", "another host"])
def test_the_command_of_a_refusal_makes_the_same_connection_pass_without_a_restart(
    net: Make, server: peers.Peer, row: str
) -> None:
    mine = net()
    if row != "none":
        mine.grant(*(["b.example"] if row == "another host" else []))
    for expected in ("host_not_granted", "private_address", None):
        if expected is None:
            mine.open("a.example", server.port).close()
            break
        assert refusal(mine, port=server.port) == expected
        assert server.accepted == 0
        _, remedies = mine.told[-1]
        assert remedies
        commands = commands_of(mine, expected)
        for command in commands:
            done = mine.paste(command)
            assert done.returncode == 0, done.stderr
    assert peers.eventually(lambda: server.accepted == 1)
    if row == "another host":
        (entry,) = mine.source.current().config.plugins.entries
        assert set(entry.egress_hosts) == {"a.example", "b.example"}  # nothing that was granted is dropped


def commands_of(mine: Any, reason: str) -> list[str]:
    """The commands of the last refusal, as the daemon log has them."""
    found: list[Mapping[str, Any]] = []

    def written() -> bool:
        lines = mine.log_path.read_text().splitlines()
        found[:] = [json.loads(line)["attributes"] for line in lines]
        return any(each.get("reason") == reason for each in found)

    assert peers.eventually(written)
    (last,) = [each for each in found if each.get("reason") == reason]
    return [each["command"] for each in last.get("remedies", [last["remedy"]])]


@pytest.mark.req("PLG-176", "PLG-369")
@pytest.mark.parametrize("transport", Transport)
def test_a_grant_that_is_withdrawn_counts_for_the_next_connection_and_one_that_is_given_too(
    net: Make, server: peers.Peer, transport: Transport
) -> None:
    mine = net()
    mine.grant("a.example")
    first = mine.open("a.example", server.port, transport=transport)
    mine.grant("b.example")
    assert refusal(mine, port=server.port, transport=transport) == "host_not_granted"
    first.send(b"still here", Deadline(peers.PATIENCE))  # what is open stays open
    assert first.receive(100, Deadline(peers.PATIENCE)) == b"still here"
    first.close()
    mine.grant("a.example", private=[])
    assert refusal(mine, port=server.port, transport=transport) == "private_address"
    mine.grant("a.example")
    mine.open("a.example", server.port, transport=transport).close()
    assert peers.eventually(lambda: server.accepted == 2)


@pytest.mark.req("PLG-171", "PLG-214", "PLG-178")
@pytest.mark.parametrize("name", ["weather", "operations", "a.example"])
def test_a_row_under_another_name_grants_nothing(net: Make, server: peers.Peer, name: str) -> None:
    mine = net()
    grant = 'egress_hosts = ["a.example"]\negress_allow_private = ["a.example"]\n'
    mine.configure(f'[[plugins.entries]]\nname = "{name}"\n{grant}')
    assert refusal(mine, port=server.port) == "host_not_granted"
    mine.configure(f'[[plugins.entries]]\nname = "{OPS.key}"\n{grant}')
    assert refusal(mine, port=server.port) == "host_not_granted"
    mine.open("a.example", server.port, identity=OPS).close()
    assert peers.eventually(lambda: server.accepted == 1)


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize(
    "setting",
    [
        '[security]\nnat64_prefixes = ["64:ff9b::/95"]',
        '[security]\nnat64_prefixes = ["none"]',
        "[plugins.limits]\nmax_connections_per_instance = 0",
    ],
)
def test_settings_that_refuse_all_refuse_each_plugin_over_each_transport_until_mended(
    net: Make, server: peers.Peer, transport: Transport, setting: str
) -> None:
    mine = net()
    mine.grant("a.example", more=setting)
    for identity in (WEATHER, OPS, InstanceIdentity.default_tool("third")):
        how = {"port": server.port, "transport": transport, "identity": identity}
        assert refusal(mine, **how) == "policy_invalid"
    assert server.accepted == 0
    mine.grant("a.example")
    mine.open("a.example", server.port, transport=transport).close()


@pytest.mark.req("PLG-220", "PLG-221", "PLG-222")
@pytest.mark.parametrize(
    "lists",
    [
        'egress_hosts = ["*.com", "a.example"]',
        'egress_hosts = [" b.example", "a.example"]',
        'egress_hosts = ["a.example"]\negress_allow_private = ["a.example", "b.example"]',
    ],
)
def test_a_list_with_one_bad_entry_refuses_every_request_of_its_instance(
    net: Make, server: peers.Peer, lists: str
) -> None:
    mine = net()
    mine.configure(f'[[plugins.entries]]\nname = "{WEATHER.key}"\n{lists}\n')
    assert mine.source.current().problems == ()
    assert refusal(mine, port=server.port) == "policy_invalid"
    assert server.accepted == 0


@pytest.mark.req("PLG-123")
def test_while_the_section_cannot_be_read_everything_is_refused_and_a_broken_file_changes_nothing(
    net: Make, server: peers.Peer
) -> None:
    mine = net()
    mine.grant("a.example")
    good = mine.config_file.read_text()
    mine.open("a.example", server.port).close()
    mine.config_file.write_text(f"{good}colour = 1\n")
    assert refusal(mine, port=server.port) == "policy_unavailable"
    mine.config_file.write_text(good)
    mine.open("a.example", server.port).close()
    mine.config_file.write_text(f"{good}[[[")
    mine.open("a.example", server.port).close()  # the last good one is in force (D-17)
    assert isinstance(mine.source.error, ConfigFileInvalid)


def test_everything_that_was_used_is_in_the_ledger(net: Make, server: peers.Peer) -> None:
    mine = net({"a.in.example": [["127.0.0.1"]], "b.in.example": [["127.0.0.1"]]})
    mine.grant("*.in.example", more="[plugins.limits]\nmax_connections_per_instance = 1")
    with mine.open("A.In.Example.", server.port) as connection:
        connection.send(b"12345", Deadline(peers.PATIENCE))
        received = connection.receive(100, Deadline(peers.PATIENCE))
        (open_now,) = mine.used()
        assert (open_now.count, open_now.bytes_sent) == (1, 0)
        with pytest.raises(ConnectionLimit):
            mine.open("a.in.example", server.port)
    with pytest.raises(ResolutionFailed):
        mine.open("nowhere.in.example")
    refusal(mine, "c.other", port=7)
    server.close()
    with pytest.raises(ConnectFailed):
        mine.open("b.in.example", server.port)
    found = {(each.host, each.outcome): each for each in mine.used()}
    assert found.keys() == {
        ("a.in.example", Outcome.OPENED),
        ("a.in.example", Outcome.LIMITED),
        ("nowhere.in.example", Outcome.FAILED),
        ("c.other", Outcome.REFUSED),
        ("b.in.example", Outcome.FAILED),
    }
    used = found["a.in.example", Outcome.OPENED]
    assert (used.count, used.bytes_sent, used.bytes_received) == (1, 5, len(received))
    assert (used.rule, used.addresses, used.private) == ("*.in.example", ("127.0.0.1",), True)
    assert found["nowhere.in.example", Outcome.FAILED].reason == "resolution_failed"
    assert found["b.in.example", Outcome.FAILED].reason == "connect_failed"
    assert found["c.other", Outcome.REFUSED].reason == "host_not_granted"
    assert found["c.other", Outcome.REFUSED].port == 7
    assert mine.used(OPS) == ()
    keys = [record["attributes"]["error_key"] for record in mine.records()]
    assert keys == [
        "plugin_egress_opened",
        "plugin_egress_connection_limit",
        "plugin_egress_connection",
        "plugin_egress_failed",
        "plugin_egress_denied",
        "plugin_egress_failed",
    ]


def test_a_plugin_that_makes_up_hosts_fills_no_screen_and_hides_nothing(
    net: Make, server: peers.Peer
) -> None:
    mine = net()
    mine.grant("a.example")
    mine.open("a.example", server.port).close()
    for number in range(2_000):
        refusal(mine, f"h{number}.other\x1b[31m")
        refusal(mine, f"h{number}.other")
    refusal(mine, "h0.other")
    assert len(mine.told) == MOST_TOLD
    assert all("\x1b" not in words for words, _ in mine.told)
    refusal(mine, "b.example", identity=OPS)
    assert len(mine.told) == MOST_TOLD + 1
    found = mine.used()
    assert sum(each.count for each in found) == 4_002
    assert [each.host for each in found if each.outcome is Outcome.OPENED] == ["a.example"]


@pytest.mark.req("PLG-184")
def test_no_answer_of_a_resolver_and_no_row_makes_a_record_too_large_to_be_written(
    net: Make, server: peers.Peer
) -> None:
    many = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(12_000)]
    mine = net({"a.example": [many]})
    mine.grant("a.example")
    mine.open("a.example", server.port).close()
    bad = [f"*.bad{number}" for number in range(3_000)]
    mine.grant("a.example", *bad, private=[])
    assert refusal(mine, port=server.port) == "policy_invalid"
    hosts = [f"host{number}.of-a-long-row.example" for number in range(3_000)]
    mine.grant(*hosts)
    assert refusal(mine, port=server.port) == "host_not_granted"
    told = [record["attributes"] for record in mine.records()]
    assert [each.get("error_key") for each in told] == [
        "plugin_egress_opened",
        "plugin_egress_connection",
        "plugin_egress_denied",
        "plugin_egress_denied",
    ]
    assert (told[0]["address"], told[0]["address_count"]) == (many[0], len(many))
    assert told[0]["addresses"] == many[: len(told[0]["addresses"])]
    assert all(host in told[3]["remedy"]["command"] for host in hosts)


def test_a_ledger_that_cannot_be_written_and_a_disk_that_hangs_hold_no_connection_up(
    net: Make, server: peers.Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = net()
    mine.grant("a.example")
    free = threading.Event()
    add = UsageFile.add

    def stuck(self: UsageFile, tallies: Mapping[Key, Tally]) -> None:
        assert free.wait(peers.PATIENCE)
        add(self, tallies)

    monkeypatch.setattr(UsageFile, "add", stuck)
    mine.usage_path.write_text("no database " * 100)
    mine.usage_path.chmod(0o600)
    for _ in range(50):
        mine.open("a.example", server.port).close()
    free.set()
    assert not mine.ledger.settle(peers.PATIENCE)
    assert [error.details["path"] for error in mine.failures] == [str(mine.usage_path)]
    mine.open("a.example", server.port).close()
    mine.usage_path.unlink()
    mine.close()
    assert mine.usage_path.exists()
