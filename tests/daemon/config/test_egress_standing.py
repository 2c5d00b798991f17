"""How a grant stands beside a declaration: the verdict is the runtime's, and the steps lead out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.config.egress_standing import EgressStanding, deployment_refusal, standing_of
from zeroclaw_daemon.config.file import Snapshot
from zeroclaw_daemon.config.network import granted
from zeroclaw_daemon.config.schema import Config
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid
from zeroclaw_host.egress.source import RowPolicies
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.installation.rows import Declaration
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern, parse_hosts
from zeroclaw_host.package.manifest import Capability

TOOL = InstanceIdentity.default_tool("weather")
CHANNEL = InstanceIdentity("chat", Capability.CHANNEL, "ops")
PATH = Path("/c/config.toml")

GOOD = ("a.example", "api.a.example", "*.a.example", "*.b.a.example", "b.example", "10.0.0.5")
BAD = ("*.com", " a.example", "a.example ", "a.example:443", "*", "A.example", "")
declared_lists = st.lists(st.sampled_from(GOOD), max_size=4, unique=True)
row_lists = st.lists(st.sampled_from(GOOD + BAD), max_size=4)

Rows = dict[str, dict[str, tuple[str, ...]]]


def snapshot(rows: Rows, **settings: Any) -> Snapshot:
    entries = tuple({"name": name, **lists} for name, lists in rows.items())
    limits = {"max_connections_per_instance": settings.pop("connections", 16)}
    found = {"plugins": {"entries": entries, "limits": limits}, **settings}
    return Snapshot(Config.model_validate(found), revision="", path=PATH)


def declaring(*hosts: str) -> Declaration:
    return Declaration(tuple(pattern.text for pattern in parse_hosts(hosts)), governed=True)


def judged(rows: Rows, *hosts: str, identity: InstanceIdentity = TOOL, **more: bool) -> EgressStanding:
    return standing_of(identity, declaring(*hosts), snapshot(rows), **more)


def runtime(rows: Rows, identity: InstanceIdentity = TOOL) -> EgressPolicy | PolicyInvalid:
    read = snapshot(rows)
    try:
        return RowPolicies(lambda who: granted(read, who)).policy(identity)
    except PolicyInvalid as error:
        return error


def done(rows: Rows, steps: tuple[Remedy, ...]) -> Rows:
    """The rows after somebody did what the steps say. A path finds only a row that is there."""
    rows = {name: dict(lists) for name, lists in rows.items()}
    for step in steps:
        arguments = step.arguments
        key, _, field = arguments.get("path", "").removeprefix("plugins.entries.").rpartition(".")
        match step.action:
            case RemedyAction.SET_CONFIG:
                assert key in rows
                rows[key][field] = tuple(arguments["value"].split(","))
            case RemedyAction.UNSET_CONFIG:
                del rows[key][field]
            case RemedyAction.CREATE_ROW:
                assert arguments["key"] not in rows
                rows[arguments["key"]] = {"egress_hosts": tuple(arguments["hosts"].split(","))}
            case RemedyAction.RENAME_ROW:
                assert arguments["path"] == str(PATH)
                assert arguments["new"] not in rows
                rows[arguments["new"]] = rows.pop(arguments["old"])
            case action:
                assert action is RemedyAction.MEND_CONFIG
                assert field == "egress_allow_private"
                del rows[key][field]
    return rows


@pytest.mark.req("PLG-190", "PLG-191", "PLG-219", "PLG-223", "PLG-224", "PLG-225")
@given(hosts=row_lists, private=row_lists, wanted=declared_lists, legacy=st.booleans())
def test_the_verdict_is_the_runtime_s_and_the_steps_lead_to_all_that_is_declared_and_revoke_nothing(
    hosts: list[str], private: list[str], wanted: list[str], legacy: bool
) -> None:
    lists = {"egress_hosts": tuple(hosts), "egress_allow_private": tuple(private)}
    under_its_key: Rows = {TOOL.key: lists}
    found = judged({"weather": lists} if legacy else under_its_key, *wanted)
    now = runtime(under_its_key)
    assert found.legacy == legacy
    assert bool(found.refusals) == isinstance(now, PolicyInvalid)
    accepted = EgressPolicy.of(now.accepted) if isinstance(now, PolicyInvalid) else now
    if isinstance(now, PolicyInvalid):
        assert found.refusals == now.faults
    assert set(found.not_granted) == {p.text for p in accepted.not_granted(map(HostPattern, wanted))}

    after = done({"weather": lists} if legacy else under_its_key, found.steps)
    then = runtime(after)
    assert isinstance(then, EgressPolicy)
    assert then.not_granted(map(HostPattern, wanted)) == ()
    assert {p.text for p in then.hosts} == {p.text for p in accepted.hosts} | set(found.not_granted)
    if not found.left:
        assert after[TOOL.key]["egress_allow_private"] == tuple(private)
    settled = judged(after, *wanted)
    assert (settled.verdict, settled.steps) == ((), ())
    assert bool(found.verdict) == bool(found.steps)


@pytest.mark.req("PLG-188", "PLG-189", "PLG-190", "PLG-191")
def test_the_comparison_is_by_what_is_reached_and_the_union_drops_nothing() -> None:
    found = judged(
        {TOOL.key: {"egress_hosts": ("mine.example", "*.example.com")}}, "api.example.com", "b.example"
    )
    assert found.not_granted == ("b.example",)
    assert found.not_declared == ("*.example.com", "mine.example")
    [step] = found.steps
    assert step.arguments["value"] == "*.example.com,b.example,mine.example"
    gone = judged({TOOL.key: {"egress_hosts": ("a.example",)}})
    assert (gone.verdict, gone.steps, gone.not_declared) == ((), (), ("a.example",))
    assert gone.beyond == "weather: its row grants what it does not declare: a.example"


@pytest.mark.req("PLG-208", "PLG-210")
def test_an_instance_without_a_governed_transport_lacks_nothing() -> None:
    for rows in ({}, {TOOL.key: {"egress_hosts": ("*.com",)}}):
        found = standing_of(TOOL, Declaration(), snapshot(rows))
        assert (found.verdict, found.steps) == ((), ())


@pytest.mark.req("PLG-209", "PLG-218")
def test_only_a_tool_s_row_can_have_its_former_name_and_a_channel_is_called_by_its_alias() -> None:
    for name in ("chat", "ops", "plugin.ops"):
        found = judged({name: {"egress_hosts": ("a.example",)}}, "a.example", identity=CHANNEL)
        assert found.row is None
        assert [step.action for step in found.steps] == [RemedyAction.CREATE_ROW]
        assert found.label == "chat (plugin.ops)"
    assert judged({}, "a.example").label == "weather"


@pytest.mark.req("PLG-211")
@pytest.mark.parametrize(
    ("alias", "table"),
    [
        ("ops-team", "channels.plugin.ops-team"),
        ("a.b", 'channels.plugin."a.b"'),
        ("Ops", "channels.plugin.Ops"),
        ("it's", 'channels.plugin."it\'s"'),
    ],
)
def test_an_alias_that_can_have_no_row_is_told_why_and_which_table_it_is(alias: str, table: str) -> None:
    identity = replace(CHANNEL, binding=alias)
    for hosts in ((), ("a.example",)):
        found = judged({}, *hosts, identity=identity)
        assert found.alias_fault is not None
        assert "1 to 63 lowercase letters" in found.verdict[0]
        assert found.steps == (Remedy(RemedyAction.RENAME_TABLE, {"path": str(PATH), "table": table}),)
    with_row = judged({identity.key: {"egress_hosts": ()}}, "a.example", identity=identity)
    assert with_row.alias_fault is None
    assert [step.action for step in with_row.steps] == [RemedyAction.SET_CONFIG]


@pytest.mark.req("PLG-192", "PLG-327")
@pytest.mark.parametrize(
    ("installed", "hosts", "actions"),
    [
        (True, ("a.example",), [RemedyAction.MIGRATE_CONFIG]),
        (True, (), [RemedyAction.MIGRATE_CONFIG, RemedyAction.SET_CONFIG]),
        (False, ("a.example",), [RemedyAction.MIGRATE_CONFIG, RemedyAction.RENAME_ROW]),
    ],
)
def test_a_migration_comes_first_and_renames_the_rows_of_what_is_installed(
    installed: bool, hosts: tuple[str, ...], actions: list[RemedyAction]
) -> None:
    rows: Rows = {"weather": {"egress_hosts": hosts}}
    found = judged(rows, "a.example", outdated=True, installed=installed)
    assert [step.action for step in found.steps] == actions
    ambiguous = standing_of(
        TOOL,
        declaring("a.example"),
        snapshot(rows, channels={"plugin": {"weather": {"package": "chat"}}}),
        outdated=True,
    )
    assert RemedyAction.RENAME_ROW in [step.action for step in ambiguous.steps], "a migration leaves that row"


@pytest.mark.req("PLG-193", "PLG-226")
def test_the_deployment_s_own_settings_are_told_with_both_paths_and_judge_no_row() -> None:
    rows: Rows = {TOOL.key: {"egress_hosts": ("a.example",)}}
    assert deployment_refusal(snapshot(rows).config) is None
    for broken, count in (
        ({"connections": 0}, 1),
        ({"security": {"nat64_prefixes": ("64:ff9b::/95",)}}, 1),
        ({"connections": 0, "security": {"nat64_prefixes": ("x",)}}, 2),
    ):
        read = snapshot(rows, **broken)
        refusal = deployment_refusal(read.config)
        assert refusal is not None
        assert len(refusal.remedies) == count
        for path in ("security.nat64_prefixes", "plugins.limits.max_connections_per_instance"):
            assert path in refusal.message
        assert standing_of(TOOL, declaring("a.example"), read).verdict == ()
