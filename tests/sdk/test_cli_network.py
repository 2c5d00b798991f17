"""A plugin's network as its author meets it on the command line: what is allowed, what is refused, what a check says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import origins
import peers
import pytest

from zeroclaw_host.egress.deadline import Deadline
from zeroclaw_host.egress.failures import EgressRefused
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.errors import UsageError
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_sdk.cli.run_command import print_refusals
from zeroclaw_sdk.trial_network import Reach, Refusal, TrialNetwork

Run = Callable[..., Any]


def ask(network: TrialNetwork, host: str, port: int = 443) -> Any:
    request = EgressRequest(
        identity=InstanceIdentity.default_tool("sample"),
        transport=Transport.HTTP,
        host=host,
        port=port,
        tls=TlsMode.NONE,
        tls_profile=None,
        permitted=True,
    )
    return network.dialer.open(request, Deadline(peers.PATIENCE))


@pytest.mark.req("PLG-178")
@pytest.mark.parametrize(
    ("reach", "host", "options"),
    [
        (Reach(), "api.example.com", ("--allow-host", "api.example.com")),
        (Reach(), "API.example.com.", ("--allow-host", "api.example.com")),
        (Reach(), "127.0.0.1", ("--allow-host", "127.0.0.1", "--allow-private")),
        (Reach(), "localhost", ("--allow-host", "localhost", "--allow-private")),
        (Reach(), "[::1]", ("--allow-host", "::1", "--allow-private")),
        (Reach(("localhost",)), "localhost", ("--allow-private",)),
        (Reach(("a.example",)), "b.example", ("--allow-host", "b.example")),
        (Reach(("*.example.com",)), "example.com", ("--allow-host", "example.com")),
        (Reach(("169.254.169.254",), private=True), "169.254.169.254", ()),
    ],
)
def test_a_refusal_names_the_options_that_lift_it(reach: Reach, host: str, options: tuple[str, ...]):
    network = TrialNetwork(reach)
    for _ in range(2):
        with pytest.raises(EgressRefused):
            ask(network, host)
    [refusal] = network.refusals
    assert refusal.options == options


def test_what_a_refusal_names_lifts_it():
    peer = peers.Peer(peers.say(b"hi"))
    try:
        network = TrialNetwork(Reach())
        with pytest.raises(EgressRefused):
            ask(network, "127.0.0.1", peer.port)
        [refusal] = network.refusals
        assert refusal.options == ("--allow-host", "127.0.0.1", "--allow-private")
        allowed = TrialNetwork(Reach((refusal.options[1],), private=True))
        ask(allowed, "127.0.0.1", peer.port).close()
        assert allowed.refusals == ()
    finally:
        peer.close()


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        (Reach(("Example.com",)), "--allow-host: 'Example.com'"),
        (Reach(("a.example", "*")), "--allow-host: '*'"),
        (Reach(("a.example:80",)), "--allow-host: 'a.example:80'"),
        (Reach(private=True), "--allow-private is about the hosts of --allow-host"),
    ],
)
def test_what_cannot_be_granted_is_a_mistake_of_the_command_line(reach: Reach, said: str):
    with pytest.raises(UsageError) as refused:
        TrialNetwork(reach)
    assert str(refused.value).startswith(said)


@pytest.mark.slow
def test_run_connects_to_what_is_allowed_and_says_what_was_refused(
    command: Run, built_plugin: Callable[[str], Path]
):
    network = built_plugin("network")
    with origins.Origin(lambda _: origins.Answer(body=b"hello")) as origin:
        arguments = json.dumps({"how": "failure", "url": origin.url})
        refused = command("zeroclaw-plugin", "run", arguments, cwd=network)
        assert json.loads(refused.out) == ["Denied", "internal-error"]
        assert f"refused http to 127.0.0.1:{origin.port}: host not granted" in refused.err
        assert "to do: run with --allow-host 127.0.0.1 --allow-private" in refused.err
        assert origin.requests == []
        options = ("--allow-host", "127.0.0.1", "--allow-private")
        allowed = command("zeroclaw-plugin", "run", arguments, *options, cwd=network)
        assert allowed.out == "hello\n"
        assert "refused" not in allowed.err
        report = command("zeroclaw-plugin", "run", arguments, "--json", cwd=network).json
        assert report["refusals"][0]["options"] == list(options)


@pytest.mark.req("PLG-178")
@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("tls_profile_unknown", "this command has no TLS profiles"),
        ("host_invalid", "nothing that can be granted"),
        ("port_invalid", "nothing that can be granted"),
        ("metadata_address", "no grant lifts this"),
        ("mixed_addresses", "no grant lifts this"),
    ],
)
def test_a_refusal_that_no_option_lifts_says_so(reason: str, said: str, capsys: pytest.CaptureFixture[str]):
    refusal = Refusal("sockets", "[evil]", 1, reason, ())
    print_refusals([refusal])
    shown = capsys.readouterr().err
    assert f"refused sockets to [evil]:1: {reason.replace('_', ' ')}\n" in shown
    assert said in shown
    assert "to do" not in shown


@pytest.mark.slow
def test_check_says_what_it_reaches(command: Run, plugin_copy: Callable[[str], Path]):
    network = plugin_copy("network")
    done = command("zeroclaw-plugin", "check", cwd=network)
    assert "network       http, websocket, socket to a.example\n" in done.out
    manifest = network / "manifest.toml"
    manifest.write_text(manifest.read_text().partition("[egress]")[0])
    done = command("zeroclaw-plugin", "check", cwd=network)
    assert "network       http, websocket, socket to what an operator grants" in done.out
    assert "declares no hosts ([egress] hosts)" in done.out
    report = command("zeroclaw-plugin", "check", "--json", cwd=network).json
    assert report["transports"] == ["http_client", "websocket_client", "socket_client"]
    assert report["declared_hosts"] == []


@pytest.mark.slow
def test_a_plugin_without_a_network_says_nothing_of_one(command: Run, plugin_copy: Callable[[str], Path]):
    hello = plugin_copy("hello")
    assert "network" not in command("zeroclaw-plugin", "check", cwd=hello).out
    with (hello / "manifest.toml").open("a") as manifest:
        manifest.write('\n[egress]\nhosts = ["a.example"]\n')
    done = command("zeroclaw-plugin", "check", cwd=hello)
    assert "declares hosts, and has no permission that reaches them" in done.out
