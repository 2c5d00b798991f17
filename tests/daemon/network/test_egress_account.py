"""What is declared, granted and used, side by side; and the grant that would have done, which breaks nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.config.egress_standing import EgressStanding, standing_of
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.network.account import EgressAccount, account_of, narrower_grant
from zeroclaw_daemon.network.minimal_grant import MinimalGrant
from zeroclaw_daemon.network.usage import Outcome, UsedDestination
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.source import EgressRow
from zeroclaw_host.errors import RemedyAction
from zeroclaw_host.installation.rows import Declaration
from zeroclaw_host.instance import InstanceIdentity

WEATHER = InstanceIdentity.default_tool("weather")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def used(
    host: str | None,
    outcome: Outcome = Outcome.OPENED,
    *,
    port: int | None = 443,
    private: bool = False,
    tls_profile: str | None = None,
    reason: str | None = None,
) -> UsedDestination:
    return UsedDestination(
        transport="http", host=host, port=port, tls_profile=tls_profile, outcome=outcome, reason=reason, rule=None,
        count=1, bytes_sent=0, bytes_received=0, addresses=(), private=private, first=NOW, last=NOW,
    )  # fmt: skip


@pytest.fixture
def standing(tmp_path: Path) -> EgressStanding:
    return standing_of(WEATHER, Declaration(("a.example",), governed=True), load(tmp_path / "none", {}))


def account(
    standing: EgressStanding, declared: list[str], row: EgressRow, *uses: UsedDestination
) -> EgressAccount:
    policy = EgressPolicy.of(row.hosts, row.allow_private, tls_profiles=row.tls_profiles)
    return account_of(standing, declared, row, policy, uses)


def test_every_destination_is_told_with_the_entries_that_cover_it(standing: EgressStanding) -> None:
    row = EgressRow(("*.b.example", "a.example", "10.0.0.5", "old.example"), ("10.0.0.5", "*.b.example"))
    found = account(
        standing,
        ["a.example", "*.b.example", "new.example"],
        row,
        used("evil.example", Outcome.REFUSED, reason="host_not_granted"),
        used("x.b.example"),
        used("10.0.0.5", Outcome.FAILED, port=8080, reason="connect_failed"),
        used("fd00::1", Outcome.REFUSED, reason="host_not_granted"),
        used("no host", Outcome.REFUSED, reason="host_invalid"),
        used("*.b.example", port=None),
        used(None, Outcome.REFUSED, port=None, reason="host_not_granted"),
    )
    assert [(each.name, each.declared, each.granted, each.private) for each in found.destinations] == [
        ("others of *.b.example", "*.b.example", "*.b.example", True),
        ("10.0.0.5:8080", None, "10.0.0.5", True),
        ("x.b.example:443", "*.b.example", "*.b.example", True),
        ("a.example", "a.example", "a.example", False),
        ("new.example", "new.example", None, False),
        ("old.example", None, "old.example", False),
        ("others", None, None, False),
        ("evil.example:443", None, None, False),
        ("[fd00::1]:443", None, None, False),
        ("no host:443", None, None, False),
    ]
    assert [each.use is None for each in found.destinations] == [*[False] * 3, *[True] * 3, *[False] * 4]


def test_while_every_request_is_refused_nothing_counts_as_granted_and_nothing_is_narrowed(
    standing: EgressStanding,
) -> None:
    row = EgressRow(("*.com", "a.example", "b.example"))
    found = account_of(standing, ["a.example"], row, None, (used("a.example"),))
    assert [(each.name, each.granted) for each in found.destinations] == [("a.example:443", None)]
    assert found.minimal is None
    assert found.narrowing == ()


@pytest.mark.parametrize(
    ("row", "uses", "minimal"),
    [
        (EgressRow(("a.example", "b.example")), [used("a.example")], MinimalGrant(("a.example",), ())),
        (EgressRow(("*.a.example",)), [used("x.a.example")], MinimalGrant(("x.a.example",), ())),
        (EgressRow(("a.example", "b.example")), [], None),
        (EgressRow(("a.example",)), [used("b.example", Outcome.REFUSED)], None),
        (EgressRow(("a.example",)), [used("a.example")], None),
        # One entry says it all: the other is no more than a word.
        (EgressRow(("*.a.example", "x.a.example")), [used("*.a.example", port=None)], None),
        (
            EgressRow(("a.example", "10.0.0.5"), ("a.example", "10.0.0.5")),
            [used("a.example"), used("10.0.0.5", private=True)],
            MinimalGrant(("10.0.0.5", "a.example"), ("10.0.0.5",)),
        ),
        (
            EgressRow(("a.example", "b.example"), (), (TlsProfile("corp", ("b.example",)),)),
            [used("a.example")],
            None,  # the profile needs b.example
        ),
        (
            EgressRow(("a.example", "*.b.example", "c.example"), (), (TlsProfile("corp", ("x.b.example",)),)),
            [used("a.example")],
            MinimalGrant(("a.example", "x.b.example"), ()),
        ),
        (
            EgressRow(("a.example", "b.example"), (), (TlsProfile("corp", ("b.example", "never.example")),)),
            [used("a.example")],
            None,  # the profile is of no use, and would be of none for one reason more
        ),
        (
            EgressRow(
                ("a.example", "b.example", "c.example"), (), (TlsProfile("corp", ("b.example", "*.com")),)
            ),
            [used("a.example")],
            MinimalGrant(("a.example", "b.example"), ()),
        ),
    ],
)
def test_the_narrower_grant(
    row: EgressRow, uses: list[UsedDestination], minimal: MinimalGrant | None
) -> None:
    policy = EgressPolicy.of(row.hosts, row.allow_private, tls_profiles=row.tls_profiles)
    assert narrower_grant(row, policy, uses) == minimal


def test_carve_outs_are_narrowed_before_the_hosts_that_cover_them(standing: EgressStanding) -> None:
    row = EgressRow(("a.example", "b.example"), ("b.example",))
    found = account(standing, [], row, used("a.example"))
    assert [each.action for each in found.narrowing] == [RemedyAction.UNSET_CONFIG, RemedyAction.SET_CONFIG]
    assert [each.arguments["path"].rpartition(".")[2] for each in found.narrowing] == [
        "egress_allow_private",
        "egress_hosts",
    ]
    # Between the two commands the row is a policy as well.
    EgressPolicy.of(row.hosts, ())


HOSTS = ["a.example", "x.a.example", "y.a.example", "z.y.a.example", "b.example", "10.0.0.5", "::1"]
ENTRIES = st.sampled_from([*HOSTS, "*.a.example", "*.y.a.example", "*.b.example"])
USES = st.builds(
    used,
    st.sampled_from(HOSTS),
    st.sampled_from(Outcome),
    private=st.booleans(),
    tls_profile=st.sampled_from([None, "one", "two"]),
) | st.builds(used, ENTRIES, st.sampled_from(Outcome), port=st.none(), private=st.booleans())


@pytest.mark.req("PLG-359", "PLG-222")
@given(
    hosts=st.lists(ENTRIES, min_size=1, max_size=6),
    private=st.lists(ENTRIES, max_size=3),
    profiles=st.lists(st.lists(ENTRIES | st.just("*.com"), min_size=1, max_size=2), max_size=2),
    uses=st.lists(USES, max_size=6),
)
def test_what_is_proposed_breaks_nothing_that_worked(
    hosts: list[str], private: list[str], profiles: list[list[str]], uses: list[UsedDestination]
) -> None:
    granted = EgressPolicy.of(hosts)
    carved = [entry for entry in private if EgressPolicy.of([entry]) and _reached(granted, entry)]
    rows = tuple(TlsProfile(name, tuple(own)) for name, own in zip(("one", "two"), profiles, strict=False))
    policy = EgressPolicy.of(hosts, carved, tls_profiles=rows)
    row = EgressRow(tuple(hosts), tuple(carved), rows)
    found = narrower_grant(row, policy, uses)
    if found is None:
        return
    then = EgressPolicy.of(found.egress_hosts, found.egress_allow_private, tls_profiles=rows)
    assert all(policy.reaches(entry) for entry in then.hosts)
    assert all(any(old.contains(new) for old in policy.allow_private) for new in then.allow_private)
    assert then.profiles.usable == policy.profiles.usable
    assert then.profiles.faults == policy.profiles.faults
    for use in uses:
        if (
            use.outcome.permitted
            and use.port is not None
            and use.host is not None
            and policy.rule_for(use.host)
        ):
            assert then.rule_for(use.host)
            if use.private and policy.may_be_private(use.host):
                assert then.may_be_private(use.host)


def _reached(policy: EgressPolicy, entry: str) -> bool:
    return not policy.not_granted(EgressPolicy.of([entry]).hosts)
