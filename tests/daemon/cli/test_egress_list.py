"""``zeroclaw plugin list`` as a standing diagnostic: what instances declare and are not granted, and the commands that help."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from prepared_grants import HEAD, bound, install_all, prepared, row, tool_key

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.network import granted
from zeroclaw_host.egress.policy import EgressPolicy, PolicyInvalid
from zeroclaw_host.egress.source import RowPolicies
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern

SNAPSHOTS = Path(__file__).parent / "snapshots"
REVIEW = "ZEROCLAW_REVIEW_SNAPSHOTS"
"""Set, it writes the snapshots anew, for somebody to read before they are committed."""

BY_HAND = {"rename_table", "mend_config"}
"""What no command does."""

TROUBLED = (
    "carve-out-covered",
    "carve-out-left",
    "carve-out-only",
    "edge-space",
    "gap",
    "irc (plugin.ops)",
    "irc (plugin.spare)",
    "legacy-covers",
    "legacy-gap",
    "legacy-refused",
    "legacy.dotted",
    "mqtt (plugin.ops-team)",
    "rowless",
    "too-wide",
    "too-wide-alone",
)


@pytest.fixture
def config_file(home) -> Path:
    home.configure("")
    return home.config_file


def told(zeroclaw) -> dict[str, dict[str, Any]]:
    """What the listing says of each instance that something is wrong with, by its label."""
    outcome = zeroclaw("plugin", "list", "--json")
    assert outcome.status == 0, outcome.err
    return {each["label"]: each for each in outcome.json["egress"]["instances"]}


def policy(home, key: str) -> EgressPolicy:
    """The policy that the daemon would judge a request of this instance by, now."""
    snapshot = load(home.config_file)
    return RowPolicies(lambda who: granted(snapshot, who)).policy(InstanceIdentity.parse(key))


def passes(home, each: dict[str, Any]) -> bool:
    """Whether the daemon would let the instance reach everything it declares."""
    try:
        found = policy(home, each["key"])
    except PolicyInvalid:
        return False
    return not found.not_granted(map(HostPattern, each["declared"]))


def assert_snapshot(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if REVIEW in os.environ:
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.req(
    *(
        "PLG-197",
        "PLG-207",
        "PLG-208",
        "PLG-209",
        "PLG-210",
        "PLG-211",
        "PLG-212",
        "PLG-213",
        "PLG-214",
        "PLG-215",
    ),
    *("PLG-216", "PLG-218", "PLG-219", "PLG-223", "PLG-224", "PLG-225"),
)
def test_every_case_is_told_byte_for_byte_every_time_and_no_byte_is_changed(
    home, zeroclaw, config_file
) -> None:
    install_all(home.plugins, config_file)
    before = config_file.read_bytes()
    first, second = zeroclaw("plugin", "list"), zeroclaw("plugin", "list")
    assert (first.status, first) == (0, second)
    text = f"{first.out}\n--- standard error ---\n{first.err}".replace(str(home.path), "/home/op")
    assert_snapshot("plugin-list-every-case.txt", text)
    assert config_file.read_bytes() == before


@pytest.mark.req("PLG-207", "PLG-208", "PLG-209", "PLG-212", "PLG-213")
def test_programs_are_told_the_same_instances_and_no_others(home, zeroclaw, config_file) -> None:
    install_all(home.plugins, config_file)
    found = told(zeroclaw)
    assert tuple(sorted(found)) == TROUBLED
    words = zeroclaw("plugin", "list").err
    for each in found.values():
        for message in each["messages"]:
            assert message in words
        for step in each["steps"]:
            assert step["words"] in words
            assert step["command"] is None or f"\n    {step['command']}\n" in words


@pytest.mark.req(
    *(
        "PLG-190",
        "PLG-195",
        "PLG-197",
        "PLG-206",
        "PLG-210",
        "PLG-211",
        "PLG-214",
        "PLG-215",
        "PLG-216",
        "PLG-217",
    ),
    *("PLG-219", "PLG-223", "PLG-224", "PLG-225"),
)
@pytest.mark.parametrize("label", TROUBLED)
def test_what_is_refused_passes_once_every_printed_step_was_done(
    home, zeroclaw, config_file, label: str
) -> None:
    install_all(home.plugins, config_file)
    each = told(zeroclaw)[label]
    assert not passes(home, each)
    accepted = good_entries(each["granted"])
    for step in each["steps"]:
        if step["command"] is None:
            by_hand(config_file, step)
        else:
            assert step["action"] not in BY_HAND
            program, *arguments = shlex.split(step["command"])
            assert (program, arguments[:2]) == ("zeroclaw", ["--config-dir", str(config_file.parent)])
            done = zeroclaw(*arguments)
            assert done.status == 0, done.err
    if each["alias_fault"] is None:
        assert passes(home, each)
        assert {pattern.text for pattern in policy(home, each["key"]).hosts} >= accepted, "nothing is revoked"
        assert label not in told(zeroclaw)
    else:  # the instance has another name now, and a row can be made for it
        renamed = told(zeroclaw)["mqtt (plugin.ops_team)"]
        [step] = renamed["steps"]
        assert zeroclaw(*shlex.split(step["command"])[1:]).status == 0
        assert passes(home, renamed)


def good_entries(entries: list[str]) -> set[str]:
    try:
        return {pattern.text for pattern in EgressPolicy.of(entries).hosts}
    except PolicyInvalid as error:
        return set(error.accepted)


def by_hand(config_file: Path, step: dict[str, Any]) -> None:
    """What somebody does who reads a step that has no command."""
    arguments, text = step["arguments"], config_file.read_text()
    match step["action"]:
        case "rename_table":
            header = f"[{arguments['table']}]".replace("ops-team", '"ops-team"')
            assert header in text, "the table is written as its header can be"
            text = text.replace(header, "[channels.plugin.ops_team]")
        case "rename_row":
            assert "." in arguments["old"], "every other row is renamed by a command"
            text = text.replace(f'name = "{arguments["old"]}"', f'name = "{arguments["new"]}"')
        case action:
            assert action == "mend_config"
            assert arguments["path"].endswith(".egress_allow_private")
            text = text.replace('egress_allow_private = ["c.example"]\n', "")
    config_file.write_text(text)


@pytest.mark.req("PLG-216", "PLG-217", "PLG-224")
@pytest.mark.parametrize("label", ["legacy-gap", "legacy-refused"])
def test_a_grant_before_the_rename_is_refused_and_writes_nothing(
    home, zeroclaw, config_file, label: str
) -> None:
    install_all(home.plugins, config_file)
    before = config_file.read_bytes()
    rename, grant = (shlex.split(step["command"])[1:] for step in told(zeroclaw)[label]["steps"])
    early = zeroclaw(*grant)
    assert early.status != 0
    assert "Unknown property" in early.err
    assert config_file.read_bytes() == before
    assert zeroclaw(*rename).status == 0
    assert zeroclaw(*grant).status == 0


@pytest.mark.req("PLG-171", "PLG-214", "PLG-217")
@pytest.mark.parametrize(
    ("label", "actions"),
    [
        ("legacy-gap", ["migrate_config", "set_config"]),
        ("legacy-covers", ["migrate_config"]),
        ("legacy.dotted", ["migrate_config"]),
        ("gap", ["migrate_config", "set_config"]),
        ("rowless", ["migrate_config", "create_row"]),
    ],
)
def test_in_a_file_of_an_earlier_layout_the_migration_comes_first_and_renames(
    home, zeroclaw, config_file, label: str, actions: list[str]
) -> None:
    """Every other command is refused there, so a step that did not begin with it would not work as printed."""
    install_all(home.plugins, config_file, head="")
    each = told(zeroclaw)[label]
    assert [step["action"] for step in each["steps"]] == actions
    for step in each["steps"]:
        assert zeroclaw(*shlex.split(step["command"])[1:]).status == 0
    assert passes(home, each)


@pytest.mark.req("PLG-171", "PLG-218")
def test_a_former_row_beside_the_instance_s_own_is_never_to_be_renamed(home, zeroclaw, config_file) -> None:
    gap = next(each for each in prepared() if each.name == "gap")
    gap.install(home.plugins)
    home.configure(HEAD + row("gap", "other.example") + row(tool_key("gap"), *gap.declares))
    assert told(zeroclaw) == {}
    listed = zeroclaw("plugin", "list")
    assert "the row gap of plugins.entries is read by nobody" in listed.err
    assert "rename" not in listed.err


@pytest.mark.req("PLG-262", "PLG-267", "PLG-268")
@pytest.mark.parametrize(
    "name", ["gap", "too-wide", "carve-out-left", "irc", "legacy-gap", "rowless", "mqtt"]
)
def test_what_is_told_of_one_package_are_the_list_s_words(home, zeroclaw, config_file, name: str) -> None:
    install_all(home.plugins, config_file)
    shown = zeroclaw("plugin", "info", name)
    lines = [line.strip() for line in shown.out.splitlines()]
    for each in told(zeroclaw).values():
        if each["package"] == name:
            tells = each["row"] is not None
            for message in each["messages"]:
                assert (message in lines) == tells
            for step in each["steps"]:
                assert step["command"] is None or (step["command"] in lines) == tells
    assert f"the row {name} of" not in shown.err


NAT64 = '[security]\nnat64_prefixes = ["64:ff9b::/95"]\n'
NO_CONNECTION = "[plugins.limits]\nmax_connections_per_instance = 0\n"


@pytest.mark.req("PLG-193", "PLG-226")
@pytest.mark.parametrize(
    ("settings", "mends"),
    [
        (NAT64, {"security.nat64_prefixes": "64:ff9b::/96"}),
        (NO_CONNECTION, {"plugins.limits.max_connections_per_instance": "16"}),
        (
            NAT64 + NO_CONNECTION,
            {"security.nat64_prefixes": "", "plugins.limits.max_connections_per_instance": "1"},
        ),
    ],
)
def test_what_refuses_the_whole_deployment_is_told_once_and_alone(
    home, zeroclaw, config_file, settings: str, mends: dict[str, str]
) -> None:
    install_all(home.plugins, config_file, head=HEAD + settings)
    before = config_file.read_bytes()
    listed = zeroclaw("plugin", "list")
    assert listed.status == 0
    assert listed.err.count("no plugin reaches anything") == 1
    assert "security.nat64_prefixes" in listed.err
    assert "plugins.limits.max_connections_per_instance" in listed.err
    for each in prepared():
        assert f"{each.name}: " not in listed.err
        assert tool_key(each.name) not in listed.err
    assert config_file.read_bytes() == before
    found = zeroclaw("plugin", "list", "--json").json["egress"]
    assert found["instances"] == []
    assert len(found["refusal"]["steps"]) == len(mends)
    for step, (path, value) in zip(found["refusal"]["steps"], mends.items(), strict=True):
        *asked, named = shlex.split(step["command"])[1:]
        assert named == path
        assert zeroclaw(*asked, named, value).status == 0
    assert tuple(sorted(told(zeroclaw))) == TROUBLED


def test_a_deployment_without_a_plugin_that_has_a_network_is_told_nothing(home, zeroclaw) -> None:
    home.configure(HEAD + NO_CONNECTION)
    quiet = next(each for each in prepared() if each.name == "socket-tool")
    quiet.install(home.plugins)
    assert "reaches" not in zeroclaw("plugin", "list").err


@pytest.mark.req("PLG-123", "PLG-207")
def test_while_the_rows_cannot_be_read_nothing_is_said_of_them(home, zeroclaw, config_file) -> None:
    install_all(home.plugins, config_file, head=HEAD + "[plugins.limits]\ncall_fuel = 0\n")
    listed = zeroclaw("plugin", "list", "--json")
    assert listed.json["egress"] == {"refusal": None, "instances": []}


@pytest.mark.req("PLG-211", "PLG-278")
def test_an_alias_that_no_command_would_write_costs_its_own_channel_only(home, zeroclaw, config_file) -> None:
    install_all(home.plugins, config_file)
    listed = zeroclaw("plugin", "list")
    assert "rename or delete the table [channels.plugin.ops-team]" in listed.err
    assert r"'bad\x07bell' cannot name a channel" in listed.err
    for arguments in (
        ("config", "set", "channels.plugin.ops-team.enabled", "false"),
        ("config", "patch", '[{"op":"add","path":"/channels/plugin/new-one","value":{"package":"mqtt"}}]'),
    ):
        refused = zeroclaw(*arguments)
        assert refused.status == 3, refused.out
        assert "a name here is 1 to 63" in refused.err
    assert bound("ops-team", "mqtt") in config_file.read_text()
