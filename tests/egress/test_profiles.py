"""TLS profiles as they are configured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zeroclaw_host.egress.profiles import TlsProfile, read_profiles
from zeroclaw_host.package.hosts import parse_hosts

GOOD = TlsProfile("corp", ("imap.corp.example",), custom_ca_secret="ca")
GRANTED = parse_hosts(["imap.corp.example", "*.lab.example"])


def test_a_good_profile_can_be_used_for_its_hosts_alone() -> None:
    found = read_profiles([replace(GOOD, hosts=("imap.corp.example", "*.lab.example"))], GRANTED)
    assert not found.faults
    assert found.serves("corp", "imap.corp.example")
    assert found.serves("corp", "a.lab.example")
    assert not found.serves("corp", "lab.example")
    assert not found.serves("corp", "other.example")
    assert not found.serves("other", "imap.corp.example")


@pytest.mark.req("PLG-359", "PLG-357")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hosts": ()}, "hosts: is empty"),
        ({"hosts": ("other.example",)}, "not granted by egress_hosts"),
        ({"hosts": ("imap.corp.example", "other.example")}, "'other.example' is not granted"),
        ({"hosts": ("*.corp.example",)}, "not granted by egress_hosts"),
        ({"hosts": ("IMAP.corp.example",)}, "upper-case"),
        ({"hosts": ("imap.corp.example:993",)}, "names a port"),
        ({"name": ""}, "name:"),
        ({"name": "Corp"}, "name:"),
        ({"name": "-corp"}, "name:"),
        ({"name": "c" * 65}, "name:"),
        ({"name": "corp\n"}, "name:"),
        ({"system_roots": False, "custom_ca_secret": None}, "system_roots"),
        ({"client_certificate_secret": "cert"}, "without the other"),
        ({"client_private_key_secret": "key"}, "without the other"),
    ],
)
def test_a_faulty_profile_is_of_no_use_and_says_why(change: dict[str, object], reason: str) -> None:
    row = replace(GOOD, **change)  # type: ignore[arg-type]
    found = read_profiles([row, replace(GOOD, name="other")], GRANTED)
    assert set(found.usable) == {"other"}
    assert any(reason in fault for fault in found.faults[row.name])
    assert not found.serves(row.name, "imap.corp.example")


@pytest.mark.parametrize("name", ["c", "c" * 64, "0", "a_b-c"])
def test_a_name_at_its_limits_is_good(name: str) -> None:
    assert set(read_profiles([replace(GOOD, name=name)], GRANTED).usable) == {name}


@pytest.mark.parametrize("count", [2, 3])
def test_of_profiles_with_one_name_none_can_be_used(count: int) -> None:
    found = read_profiles([GOOD] * count, GRANTED)
    assert not found.usable
    assert set(found.faults) == {"corp"}


@pytest.mark.req("PLG-361")
def test_a_profile_names_the_secrets_that_only_the_host_reads() -> None:
    row = replace(GOOD, client_certificate_secret="cert", client_private_key_secret="key")
    assert row.secret_names == {"ca", "cert", "key"}
    assert TlsProfile("x", ("a.example",)).secret_names == frozenset()
