"""The least grant that would have sufficed: everything that was used still passes, and nothing less does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.network.minimal_grant import MinimalGrant, minimal_grant
from zeroclaw_daemon.network.usage import Outcome, UsedDestination
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.source import EgressRow
from zeroclaw_host.package.hosts import HostPattern

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def used(
    host: str | None,
    outcome: Outcome = Outcome.OPENED,
    *,
    port: int | None = 443,
    private: bool = False,
    tls_profile: str | None = None,
) -> UsedDestination:
    return UsedDestination(
        transport="http",
        host=host,
        port=port,
        tls_profile=tls_profile,
        outcome=outcome,
        reason=None,
        rule=None,
        count=1,
        bytes_sent=0,
        bytes_received=0,
        addresses=(),
        private=private,
        first=NOW,
        last=NOW,
    )


@pytest.mark.parametrize(
    ("granted", "destinations", "least"),
    [
        (["a.example", "b.example"], [used("a.example")], ["a.example"]),
        (["*.a.example"], [used("x.a.example"), used("y.a.example")], ["x.a.example", "y.a.example"]),
        (["*.a.example"], [], []),
        # Refused requests used no grant; those that failed or found no place did.
        (["a.example", "b.example"], [used("b.example", Outcome.REFUSED)], []),
        (["a.example"], [used("a.example", Outcome.FAILED)], ["a.example"]),
        (["a.example"], [used("a.example", Outcome.LIMITED)], ["a.example"]),
        # What is not granted any more is not granted again.
        (["a.example"], [used("a.example"), used("b.example")], ["a.example"]),
        # Hosts that are not kept singly need the entry that let them pass, and so do those below it.
        (["*.a.example", "x.a.example"], [used("*.a.example", port=None)], ["*.a.example"]),
        (["x.a.example"], [used("*.a.example", port=None)], ["x.a.example"]),
        (["10.0.0.5", "::1"], [used("10.0.0.5"), used("::1")], ["10.0.0.5", "::1"]),
        # Entries that the runtime refuses grant nothing and hide nothing.
        (["*.com", "a.example"], [used("a.example"), used("b.com")], ["a.example"]),
    ],
)
def test_the_hosts_that_were_used_remain(
    granted: list[str], destinations: list[UsedDestination], least: list[str]
) -> None:
    found = minimal_grant(EgressRow(tuple(granted)), destinations)
    assert found == MinimalGrant(tuple(least), ())


@pytest.mark.req("PLG-359")
def test_a_profile_that_was_used_keeps_the_hosts_without_which_it_is_of_no_use() -> None:
    profile = TlsProfile("inner", ("mail.a.example", "*.b.example"))
    row = EgressRow(("*.a.example", "*.b.example", "c.example"), (), (profile,))
    destination = used("mail.a.example", tls_profile="inner")
    least = minimal_grant(row, [destination])
    assert least.egress_hosts == ("*.b.example", "mail.a.example")
    assert EgressPolicy.of(least.egress_hosts, tls_profiles=[profile]).profiles.serves(
        "inner", "mail.a.example"
    )
    assert minimal_grant(row, [used("x.a.example")]).egress_hosts == ("x.a.example",)
    # One that cannot be used in any case keeps nothing.
    broken = EgressRow(("a.example", "c.example"), (), (TlsProfile("inner", ("c.example", "d.example")),))
    assert minimal_grant(broken, [used("a.example", tls_profile="inner")]).egress_hosts == ("a.example",)


def test_a_carve_out_remains_for_what_had_private_addresses() -> None:
    row = EgressRow(("*.lan.example", "api.example"), ("*.lan.example", "api.example"))
    destinations = [used("nas.lan.example", private=True), used("api.example")]
    assert minimal_grant(row, destinations) == MinimalGrant(
        ("api.example", "nas.lan.example"), ("nas.lan.example",)
    )
    many = [used("*.lan.example", port=None, private=True)]
    narrow = EgressRow(("*.lan.example",), ("nas.lan.example",))
    assert minimal_grant(narrow, many).egress_allow_private == ("nas.lan.example",)


LABELS = st.sampled_from(["a", "b", "c"])
HOSTS = st.lists(LABELS, min_size=1, max_size=3).map(lambda labels: ".".join([*labels, "example"]))
ENTRIES = st.one_of(HOSTS, HOSTS.map(lambda host: f"*.{host}"))
DESTINATIONS = st.builds(
    used,
    HOSTS,
    st.sampled_from(Outcome),
    private=st.booleans(),
    tls_profile=st.sampled_from([None, "inner"]),
)


@given(
    st.lists(ENTRIES, max_size=6),
    st.lists(ENTRIES, max_size=4),
    st.lists(ENTRIES, min_size=1, max_size=2),
    st.lists(DESTINATIONS, max_size=8),
)
def test_everything_that_was_used_still_passes_and_nothing_smaller_does(
    granted: list[str], carved: list[str], profiled: list[str], destinations: list[UsedDestination]
) -> None:
    whole = EgressPolicy.of(granted)
    private = [entry for entry in carved if whole.reaches(HostPattern.parse(entry))]
    profile = TlsProfile("inner", tuple(profiled))
    before = EgressPolicy.of(granted, private, tls_profiles=[profile])
    least = minimal_grant(EgressRow(tuple(granted), tuple(private), (profile,)), destinations)
    after = EgressPolicy.of(least.egress_hosts, least.egress_allow_private, tls_profiles=[profile])

    assert all(before.reaches(entry) for entry in after.hosts)
    assert all(any(own.contains(entry) for own in before.allow_private) for entry in after.allow_private)

    permitted = [each for each in destinations if each.outcome.permitted]

    def unmet(policy: EgressPolicy) -> bool:
        """Whether something that passed before, as far as hosts and profiles decide, does not under these hosts."""
        return any(
            before.rule_for(each.host or "") is not None
            and (
                policy.rule_for(each.host or "") is None
                or (
                    each.tls_profile is not None
                    and before.profiles.serves(each.tls_profile, each.host or "")
                    and not policy.profiles.serves(each.tls_profile, each.host or "")
                )
            )
            for each in permitted
        )

    def exposed(policy: EgressPolicy) -> bool:
        """Whether a private address that was used is not permitted any more."""
        return any(
            each.private
            and before.may_be_private(each.host or "")
            and not policy.may_be_private(each.host or "")
            for each in permitted
        )

    assert not unmet(after)
    assert not exposed(after)
    for entry in least.egress_hosts:
        fewer = [other for other in least.egress_hosts if other != entry]
        assert unmet(EgressPolicy.of(fewer, tls_profiles=[profile]))
    for entry in least.egress_allow_private:
        fewer = [other for other in least.egress_allow_private if other != entry]
        assert exposed(EgressPolicy.of(least.egress_hosts, fewer))
    assert all(entry in profiled for entry in least.egress_hosts if entry.startswith("*."))
    assert not any(entry.startswith("*.") for entry in least.egress_allow_private)
