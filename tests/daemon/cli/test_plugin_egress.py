"""``zeroclaw plugin egress``: the account of a package over a real ledger, and the narrower grant that it prints."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from prepared_grants import HEAD, Prepared, channel_key, row, tool_key

from zeroclaw_daemon.config.egress_rows import egress_row, egress_settings, policy_of
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.network.usage import Key, Outcome, Tally
from zeroclaw_daemon.network.usage_file import UsageFile
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.instance import InstanceIdentity

KEY = tool_key("weather")
MOMENT = 1_780_000_000_000
"""Milliseconds since 1970: 2026-05-28 20:26:40."""


def use(
    host: str,
    outcome: Outcome = Outcome.OPENED,
    *,
    key: str = KEY,
    port: int = 443,
    reason: str = "",
    count: int = 1,
    address: str = "",
    private: bool = False,
    profile: str = "",
) -> tuple[Key, Tally]:
    tally = Tally(
        count=count,
        sent=100 * count,
        received=2000 * count,
        addresses=(address,) if address else (),
        private=private,
        rule=host,
        first=MOMENT,
        last=MOMENT,
    )
    return Key(key, outcome, "http", host, port, profile, reason), tally


@pytest.fixture
def ledger(home):
    """Writes the ledger as a daemon does."""

    def write(*uses: tuple[Key, Tally]) -> Path:
        home.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = UsageFile(home.data / "plugin-egress.db")
        file.add(dict(uses))
        file.close()
        return home.data / "plugin-egress.db"

    return write


@pytest.fixture
def weather(home):
    """Installs the package and configures it."""

    def prepare(config: str = "", **how) -> None:
        home.configure(f"{HEAD}{config}")
        Prepared("weather", **{"declares": ("*.weather.example", "api.example"), **how}).install(home.plugins)

    return prepare


def policy(home, key: str = KEY) -> EgressPolicy:
    config = load(home.config_file, {}).config
    entry = config.plugins.entry(key)
    assert entry is not None
    return policy_of(InstanceIdentity.parse(key), egress_settings(config), egress_row(entry))


def commands(text: str) -> list[list[str]]:
    """The commands that were printed, without the program's name."""
    return [shlex.split(line)[1:] for line in text.splitlines() if line.strip().startswith("zeroclaw ")]


def test_declared_granted_and_used_stand_side_by_side_and_the_least_grant_that_does_can_be_pasted(
    home, zeroclaw, weather, ledger
) -> None:
    weather(
        row(
            KEY,
            "*.weather.example",
            "api.example",
            "old.example",
            "10.0.0.5",
            private=["10.0.0.5", "old.example"],
        )
    )
    ledger(
        use("eu.weather.example", count=3, address="93.184.216.34"),
        use("10.0.0.5", port=8080, private=True, address="10.0.0.5"),
        use("eu.weather.example", Outcome.FAILED, reason="tls_failed"),
        use("evil.example", Outcome.REFUSED, reason="host_not_granted", count=7),
    )
    outcome = zeroclaw("plugin", "egress", "weather")
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    moment = "2026-05-28 20:26:40"
    assert [tuple(line.split("\t")) for line in lines[:6]] == [
        ("weather", "10.0.0.5:8080", "no", "yes, private", "http", "opened", "1", "100", "2000", moment, "10.0.0.5"),
        ("weather", "eu.weather.example:443", *["*.weather.example"] * 2, "http", "failed: tls_failed", "1", "100", "2000", moment, ""),
        ("weather", "eu.weather.example:443", *["*.weather.example"] * 2, "http", "opened", "3", "300", "6000", moment, "93.184.216.34"),
        ("weather", "api.example", "yes", "yes", "", "not used", *[""] * 5),
        ("weather", "old.example", "no", "yes, private", "", "not used", *[""] * 5),
        ("weather", "evil.example:443", "no", "no", "http", "refused: host_not_granted", "7", "700", "14000", moment, ""),
    ]  # fmt: skip
    assert lines[6] == "weather: less would have sufficed for all that it used."
    for command in commands(outcome.out):
        assert zeroclaw(*command).status == 0
        policy(home)  # and never a moment without one
    found = policy(home)
    assert [entry.text for entry in found.hosts] == ["10.0.0.5", "eu.weather.example"]
    assert [entry.text for entry in found.allow_private] == ["10.0.0.5"]
    again = zeroclaw("plugin", "egress", "weather")
    assert not commands(again.out)


@pytest.mark.req("PLG-359")
def test_no_grant_is_proposed_that_a_profile_or_a_carve_out_would_break(
    home, zeroclaw, weather, ledger
) -> None:
    profile = (
        '[[plugins.entries.tls_profiles]]\nname = "corp"\nhosts = ["corp.example"]\ncustom_ca_secret = "ca"\n'
    )
    weather(
        row(KEY, "api.example", "corp.example", "in.example", "x.example", private=["in.example"]) + profile
    )
    ledger(use("api.example"), use("in.example", private=True))
    for command in commands(zeroclaw("plugin", "egress", "weather").out):
        assert zeroclaw(*command).status == 0
    found = policy(home)
    assert [entry.text for entry in found.hosts] == ["api.example", "corp.example", "in.example"]
    assert found.may_be_private("in.example")
    assert found.profiles.serves("corp", "corp.example")


def test_each_instance_has_its_own_account(home, zeroclaw, ledger) -> None:
    keys = {alias: channel_key("irc", alias) for alias in ("dev", "ops")}
    home.configure(
        HEAD
        + row(keys["dev"], "irc.example")
        + "".join(f'[channels.plugin.{alias}]\npackage = "irc"\nenabled = true\n' for alias in keys)
    )
    Prepared("irc", ("socket_client",), ("irc.example",), channel=True).install(home.plugins)
    ledger(use("irc.example", key=keys["dev"], port=6697))
    found = zeroclaw("plugin", "egress", "irc", "--json")
    assert found.status == 0
    dev, ops = found.json["instances"]
    assert (dev["label"], ops["label"]) == ("irc (plugin.dev)", "irc (plugin.ops)")
    assert [(each["destination"], each["use"] is None) for each in dev["destinations"]] == [
        ("irc.example:6697", False)
    ]
    assert [(each["destination"], each["granted_by"]) for each in ops["destinations"]] == [
        ("irc.example", None)
    ]
    assert not dev["messages"]
    [step] = ops["steps"]
    assert zeroclaw(*shlex.split(step["command"])[1:]).status == 0
    assert policy(home, keys["ops"]).rule_for("irc.example")


@pytest.mark.req("PLG-226")
def test_what_refuses_the_whole_deployment_is_told_once_and_alone(home, zeroclaw, weather, ledger) -> None:
    weather(
        "plugins.limits.max_connections_per_instance = 0\n" + row(KEY, "*.com", "api.example", "b.example")
    )
    ledger(use("api.example"))
    outcome = zeroclaw("plugin", "egress", "weather")
    assert outcome.err.count("max_connections_per_instance") >= 1
    assert "less would have sufficed" not in outcome.out
    assert not any("entries" in word for command in commands(outcome.err + outcome.out) for word in command)
    found = zeroclaw("plugin", "egress", "weather", "--json").json
    assert found["refusal"]["steps"][0]["action"] == "raise_limit"
    [instance] = found["instances"]
    assert (instance["messages"], instance["steps"], instance["narrowing"]) == ([], [], [])
    assert {each["granted_by"] for each in instance["destinations"]} == {None}


@pytest.mark.req("PLG-214", "PLG-227")
def test_a_row_of_before_1_0_is_not_in_force_and_is_told_as_the_list_tells_it(
    home, zeroclaw, weather
) -> None:
    weather(row("weather", "api.example"))
    outcome = zeroclaw("plugin", "egress", "weather")
    assert [line.split("\t")[1:4] for line in outcome.out.splitlines()] == [
        ["*.weather.example", "yes", "no"],
        ["api.example", "yes", "no"],
    ]
    listed = zeroclaw("plugin", "list").err
    assert outcome.err.strip() in listed
    for command in commands(outcome.err):
        assert zeroclaw(*command).status == 0
    assert [entry.text for entry in policy(home).hosts] == ["*.weather.example", "api.example"]


def test_a_file_of_an_earlier_release_is_migrated_first(home, zeroclaw, weather, ledger) -> None:
    weather(row(KEY, "*.weather.example", "api.example"))
    home.configure(home.config_file.read_text().removeprefix(HEAD))
    ledger(use("api.example"))
    found = commands(zeroclaw("plugin", "egress", "weather").out)
    assert found[0][-2:] == ["config", "migrate"]
    for command in found:
        assert zeroclaw(*command).status == 0
    assert [entry.text for entry in policy(home).hosts] == ["api.example"]


def test_a_plugin_without_a_network_says_so(home, zeroclaw, weather) -> None:
    weather(permissions=(), declares=())
    outcome = zeroclaw("plugin", "egress", "weather")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == "weather declares no destination, is granted none, and used none\n"


def test_a_channel_that_nobody_bound_has_no_account(home, zeroclaw) -> None:
    home.configure(HEAD)
    Prepared("irc", ("socket_client",), ("irc.example",), channel=True).install(home.plugins)
    outcome = zeroclaw("plugin", "egress", "irc")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == "there is no instance of irc: it has no tool, and no alias is bound to it\n"
    assert zeroclaw("plugin", "egress", "irc", "--json").json["instances"] == []


def test_an_account_that_cannot_be_read_is_said_and_the_rest_is_told(home, zeroclaw, weather, ledger) -> None:
    weather(row(KEY, "api.example", "old.example"))
    ledger(use("api.example")).write_bytes(b"no ledger at all" * 1000)
    outcome = zeroclaw("plugin", "egress", "weather")
    assert outcome.status == 7
    lines = outcome.err.splitlines()
    [said] = [index for index, line in enumerate(lines) if "what was used is not known" in line]
    assert lines[said + 1].startswith("  to do: Look at ")
    assert shlex.split(lines[said + 2]) == ["ls", "-lA", str(home.data / "plugin-egress.db")]
    assert [(line.split("\t")[1], line.split("\t")[5]) for line in outcome.out.splitlines()] == [
        ("*.weather.example", "not known"),
        ("api.example", "not known"),
        ("old.example", "not known"),
    ]
    as_json = zeroclaw("plugin", "egress", "weather", "--json")
    assert (as_json.status, as_json.json["usage_known"]) == (7, False)
    assert as_json.json["usage_fault"]["message"] in lines[said]
    assert as_json.json["usage_fault"]["steps"][0]["command"] == lines[said + 2].strip()
    assert zeroclaw("plugin", "egress", "weather").err == outcome.err


def test_a_plugin_without_a_network_whose_account_cannot_be_read_is_not_said_to_have_used_none(
    home, zeroclaw, weather, ledger
) -> None:
    weather(permissions=(), declares=())
    ledger(use("api.example")).write_bytes(b"no ledger at all" * 1000)
    outcome = zeroclaw("plugin", "egress", "weather")
    assert outcome.status == 7
    assert outcome.out == "weather declares no destination, and is granted none\n"


def test_what_a_running_daemon_writes_is_told_as_it_comes(home, zeroclaw, weather) -> None:
    weather(row(KEY, "api.example"))
    home.data.mkdir(mode=0o700, parents=True)
    file = UsageFile(home.data / "plugin-egress.db")
    for count in (1, 2):
        file.add(dict([use("api.example")]))
        found = zeroclaw("plugin", "egress", "weather", "--json")
        assert found.status == 0
        [used] = [each["use"] for each in found.json["instances"][0]["destinations"] if each["use"]]
        assert (used["count"], used["bytes_sent"]) == (count, 100 * count)
    file.close()


def test_a_name_that_nothing_has_is_refused_with_those_that_are_like_it(home, zeroclaw, weather) -> None:
    weather()
    outcome = zeroclaw("plugin", "egress", "wether")
    assert outcome.status == 5
    assert outcome.err == "error: no package named wether is installed; the closest are weather\n"
    as_json = json.loads(zeroclaw("plugin", "egress", "wether", "--json").err)
    assert as_json["error"]["details"] == {"name": "wether", "suggestions": ["weather"]}
    assert zeroclaw("plugin", "egress", "x").err == "error: no package named x is installed\n"


def test_what_a_guest_named_is_shown_harmless(home, zeroclaw, weather, ledger) -> None:
    weather(row(KEY, "api.example"))
    ledger(use("\x1b[2J\u202eevil", Outcome.REFUSED, reason="host_invalid"))
    outcome = zeroclaw("plugin", "egress", "weather")
    assert "\\x1b[2J\\u202eevil:443" in outcome.out


def test_the_name_is_completed(home, weather) -> None:
    weather()
    line = "zeroclaw plugin egress wea"
    asked = {"COMP_WORDS": line, "COMP_CWORD": "3", "_ZEROCLAW_COMPLETE": "complete_bash"}
    done = subprocess.run(
        ["zeroclaw"],
        env={**home.environment(), **asked},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["weather"]


def test_it_teaches(zeroclaw) -> None:
    told = zeroclaw("plugin", "egress", "--help").out
    for word in ("DECLARED", "GRANTED", "egress_hosts", "egress_allow_private", "USED", "--json"):
        assert word in told
