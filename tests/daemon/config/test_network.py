"""What the network authority refuses of a configuration that can be loaded all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroclaw_daemon.config.file import Snapshot, parse
from zeroclaw_daemon.config.network import findings, granted
from zeroclaw_host.egress.policy import PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.source import EgressRow, RowPolicies
from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")
OTHER = InstanceIdentity.default_tool("other")
ROW = f"plugins.entries.{WEATHER.key}"


def snapshot(text: str) -> Snapshot:
    return parse(text.encode(), Path("config.toml"))


def row(text: str, identity: InstanceIdentity = WEATHER) -> str:
    return f'[[plugins.entries]]\nname = "{identity.key}"\n{text}\n'


def told(text: str) -> list[str]:
    read = snapshot(text)
    assert read.problems == ()
    return [finding.message for finding in findings(read.config)]


def refused(read: Snapshot, identity: InstanceIdentity) -> bool:
    try:
        RowPolicies(lambda who: granted(read, who)).policy(identity)
    except PolicyInvalid:
        return True
    return False


@pytest.mark.req("PLG-220", "PLG-221", "PLG-222", "PLG-219")
@pytest.mark.parametrize(
    ("lists", "field", "why"),
    [
        ('egress_hosts = ["a.example", "*.com"]', "egress_hosts", "'*.com' needs at least two labels"),
        ('egress_hosts = [" a.example"]', "egress_hosts", "' a.example' contains whitespace"),
        ('egress_hosts = ["a.example "]', "egress_hosts", "'a.example ' contains whitespace"),
        ('egress_hosts = ["a.example:443"]', "egress_hosts", "names a port"),
        (
            'egress_hosts = ["a.example"]\negress_allow_private = ["b.example"]',
            "egress_allow_private",
            "'b.example' is covered by no granted host",
        ),
        ('egress_allow_private = ["b.example"]', "egress_allow_private", "is covered by no granted host"),
    ],
)
def test_a_row_that_the_runtime_refuses_loads_with_a_finding_that_names_path_and_reason(
    lists: str, field: str, why: str
) -> None:
    (message,) = told(row(lists))
    assert message.startswith(f"{ROW}.{field}: ")
    assert why in message
    assert message.endswith("every connection of the instance is refused")
    read = snapshot(row(lists) + row('egress_hosts = ["a.example"]', OTHER))
    assert refused(read, WEATHER)
    assert not refused(read, OTHER)


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('[security]\nnat64_prefixes = ["64:ff9b::/95"]\n', "security.nat64_prefixes"),
        (
            "[plugins.limits]\nmax_connections_per_instance = 0\n",
            "plugins.limits.max_connections_per_instance",
        ),
    ],
)
def test_a_setting_that_refuses_every_instance_is_told_once(text: str, path: str) -> None:
    rows = "".join(
        row('egress_hosts = ["a.example"]', InstanceIdentity.default_tool(name)) for name in ("a", "b", "c")
    )
    (message,) = told(text + rows)
    assert message.startswith(f"{path}: ")
    assert message.endswith("every plugin's connections are refused")
    read = snapshot(text + rows)
    assert all(
        refused(read, InstanceIdentity.default_tool(name)) for name in ("a", "b", "c", "without a row")
    )


PROFILE = '[[plugins.entries.tls_profiles]]\nname = "inner"\nhosts = ["mail.example"]\n'


@pytest.mark.req("PLG-359")
@pytest.mark.parametrize(
    ("granted_hosts", "profile", "why"),
    [
        ('["a.example"]', PROFILE, "inner: hosts: 'mail.example' is not granted by egress_hosts"),
        ('["*.mail.example"]', PROFILE, "'mail.example' is not granted by egress_hosts"),
        ('["mail.example"]', PROFILE + "system_roots = false\n", "names no other authority"),
        ('["mail.example"]', PROFILE + 'client_certificate_secret = "c"\n', "one is of no use without"),
        # The list refuses everything; what is wrong with the profile is told beside it.
        ('["*.com", "a.example"]', PROFILE, "'mail.example' is not granted by egress_hosts"),
    ],
)
def test_a_profile_that_cannot_be_used_is_a_finding(granted_hosts: str, profile: str, why: str) -> None:
    messages = told(row(f"egress_hosts = {granted_hosts}") + profile)
    assert messages[-1].startswith(f"{ROW}.tls_profiles: ")
    assert why in messages[-1]
    assert messages[-1].endswith("every connection that names this profile is refused")


@pytest.mark.req("PLG-359", "PLG-222")
def test_nothing_is_found_where_all_is_well() -> None:
    assert told("") == []
    assert told(row('egress_hosts = ["*.example", "b.example"]')) != []
    lists = 'egress_hosts = ["mail.example", "*.b.example"]\negress_allow_private = ["x.b.example"]'
    assert told('[security]\nnat64_prefixes = ["2600:64::/32"]\n' + row(lists) + PROFILE) == []


@pytest.mark.req("PLG-171", "PLG-214", "PLG-175")
def test_only_the_row_under_the_instances_own_key_is_a_grant() -> None:
    text = (
        '[[plugins.entries]]\nname = "weather"\negress_hosts = ["a.example"]\n'
        '[[plugins.entries]]\nname = "operations"\negress_hosts = ["a.example"]\n'
    )
    assert granted(snapshot(text), WEATHER)[1] is None
    mine = snapshot(text + row('egress_hosts = ["b.example"]\negress_allow_private = ["b.example"]'))
    assert granted(mine, WEATHER)[1] == EgressRow(("b.example",), ("b.example",))
    assert granted(mine, OTHER)[1] is None


@pytest.mark.req("PLG-123")
def test_a_section_that_cannot_be_read_grants_and_denies_nothing() -> None:
    read = snapshot(row('egress_hosts = ["a.example"]') + "colour = 1\n")
    assert read.plugins_dropped
    with pytest.raises(PolicyUnavailable, match="cannot be read"):
        granted(read, WEATHER)


def test_a_finding_has_no_more_of_an_entry_than_one_may_be_long() -> None:
    [said] = told(row(f'egress_hosts = ["{"_" * 65_536}"]'))
    assert len(said) < 1024
    assert f"'{'_' * 253}'\u2026 " in said
