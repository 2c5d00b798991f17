"""What the log is told."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable

import pytest

from zeroclaw_host.egress.anchors import TrustAnchors
from zeroclaw_host.egress.decision import decide
from zeroclaw_host.egress.failures import ConnectionLimit, EgressRefused
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.records import (
    EgressRecord,
    ErrorKey,
    StandardEgressLog,
    Usage,
    anchors_read,
    connection_ended,
    denial,
    limit_reached,
)
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.errors import Kind, Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

Asks = Callable[..., EgressRequest]
OPS = InstanceIdentity("mail", Capability.CHANNEL, "ops")


@pytest.mark.req("PLG-184")
def test_a_denial_says_who_wanted_to_go_where_and_why_not(ask: Asks) -> None:
    request = ask("a.example", 993, transport=Transport.SOCKETS, identity=OPS)
    record = denial(decide(request, EgressPolicy.of(["b.example"]), ()))
    assert record.error_key == "plugin_egress_denied"
    assert record.level == "warn"
    assert dict(record.attributes) == {
        "plugin": "mail",
        "plugin_capability": "channel",
        "plugin_binding": "ops",
        "transport": "sockets",
        "host": "a.example",
        "port": 993,
        "tls_profile": None,
        "reason": "host_not_granted",
        "rule": None,
        "steps": (
            "permission passed: socket_client",
            "policy passed: the instance's row",
            "destination passed: a.example",
            "grant refused: no entry of egress_hosts",
        ),
    }
    path = f"plugins.entries.{OPS.key}.egress_hosts"
    assert record.remedies == (
        Remedy(RemedyAction.SET_CONFIG, {"path": path, "value": "a.example,b.example"}),
    )


@pytest.mark.req("PLG-184")
@pytest.mark.parametrize("host", ["169.254.169.254", "no host", "::ffff:a9fe:a9fe"])
def test_a_denial_that_no_setting_lifts_has_no_remedy(ask: Asks, host: str) -> None:
    assert denial(decide(ask(host), EgressPolicy.of(["a.example"]), ())).remedies == ()


@pytest.mark.parametrize(
    "host", ["a\nb", "\x1b[31m.example", "\u202eexample", "\ud800", "a" * 100_000, "\n" * 300]
)
def test_what_a_guest_names_is_shown_short_and_harmless(ask: Asks, host: str) -> None:
    record = denial(decide(ask(host, tls_profile=host), EgressPolicy.of([]), ()))
    text = json.dumps(dict(record.attributes), ensure_ascii=False)
    assert text.isprintable()
    assert len(text) < 6_000
    text.encode()


def test_a_refusal_as_an_error_has_its_reason_and_first_remedy(ask: Asks) -> None:
    decision = decide(ask("localhost"), EgressPolicy.of([]), ())
    error = EgressRefused(decision)
    assert error.kind is Kind.REFUSED
    assert error.details["reason"] == "host_not_granted"
    assert error.remedy == decision.remedies[0]
    assert len(decision.remedies) == 2


@pytest.mark.req("PLG-126")
def test_a_full_count_is_no_denial(ask: Asks) -> None:
    record = limit_reached(ask("a.example"), ConnectionLimit(16, 16))
    assert record.error_key == "plugin_egress_connection_limit"
    assert record.attributes["limit"] == record.attributes["held"] == 16
    assert record.remedies == (Remedy(RemedyAction.RAISE_LIMIT, {"limit": "max_connections_per_instance"}),)


@pytest.mark.req("PLG-362")
@pytest.mark.parametrize(
    ("anchors", "level", "loaded"),
    [
        (TrustAnchors((b"x",), (b"y",)), "info", True),
        (TrustAnchors((b"x",), (b"y",), ("one file\n",)), "warn", True),
        (TrustAnchors((b"x",), (), ("no store",)), "warn", False),
    ],
)
def test_the_trusted_authorities_are_told_with_what_could_not_be_read(
    anchors: TrustAnchors, level: str, loaded: bool
) -> None:
    record = anchors_read(anchors)
    assert record.error_key == "plugin_egress_trust_anchors"
    assert record.level == level
    assert record.attributes["machine_loaded"] is loaded
    assert "\n" not in "".join(record.attributes["problems"])  # type: ignore[arg-type]


def test_an_ended_connection_tells_what_was_used(ask: Asks) -> None:
    policy = EgressPolicy.of(["*.example.com"])
    decision = decide(ask("api.example.com"), policy, [ipaddress.ip_address("1.1.1.1")])
    record = connection_ended(decision, Usage(address="1.1.1.1", sent=5, received=7, seconds=0.25))
    assert record.attributes["rule"] == "*.example.com"
    assert record.attributes["duration_ms"] == 250
    assert record.attributes["bytes_sent"] == 5
    assert record.attributes["bytes_received"] == 7


def test_a_program_without_a_log_of_its_own_finds_records_in_pythons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("DEBUG", logger="zeroclaw_host.egress"):
        for level in ("debug", "info", "warn"):
            StandardEgressLog().emit(
                EgressRecord(
                    ErrorKey.DENIED, level, "a plugin's connection was refused", {"host": "a.example"}
                )
            )
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO", "WARNING"]
    assert vars(caplog.records[0])["error_key"] == "plugin_egress_denied"
    assert vars(caplog.records[0])["egress"] == {"host": "a.example"}
