"""Policies from rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zeroclaw_host.egress.decision import decide
from zeroclaw_host.egress.policy import PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.request import EgressRequest
from zeroclaw_host.egress.source import EgressRow, EgressSettings, RowPolicies
from zeroclaw_host.instance import InstanceIdentity

Asks = Callable[..., EgressRequest]
ONE, OTHER = InstanceIdentity.default_tool("one"), InstanceIdentity.default_tool("other")


@pytest.mark.req("PLG-171", "PLG-175", "PLG-176", "PLG-178")
def test_the_row_of_the_very_instance_counts_as_it_is_at_the_moment() -> None:
    rows = {ONE: EgressRow(("a.example",), ("a.example",), (TlsProfile("corp", ("a.example",)),))}
    settings = EgressSettings(("64:ff9b:1::/48",), 3)
    policies = RowPolicies(lambda identity: (settings, rows.get(identity)))
    policy = policies.policy(ONE)
    assert policy.rule_for("a.example")
    assert policy.may_be_private("a.example")
    assert set(policy.profiles.usable) == {"corp"}
    assert policy.max_connections == 3
    assert list(map(str, policy.nat64)) == ["64:ff9b:1::/48"]
    assert policies.policy(OTHER).hosts == ()
    rows[ONE] = EgressRow()
    assert policies.policy(ONE).hosts == ()


@pytest.mark.req("PLG-226")
@pytest.mark.parametrize("settings", [EgressSettings(("x",)), EgressSettings((), 0)])
def test_a_bad_setting_refuses_an_instance_without_a_row_too(settings: EgressSettings) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        RowPolicies(lambda _: (settings, None)).policy(ONE)
    assert caught.value.deployment_wide


def test_a_configuration_that_cannot_be_read_is_no_empty_row(ask: Asks) -> None:
    def unreadable(_: InstanceIdentity) -> tuple[EgressSettings, EgressRow | None]:
        raise PolicyUnavailable("the configuration cannot be read")

    with pytest.raises(PolicyUnavailable) as caught:
        RowPolicies(unreadable).policy(ONE)
    assert decide(ask("a.example"), caught.value, ()).reason == "policy_unavailable"
