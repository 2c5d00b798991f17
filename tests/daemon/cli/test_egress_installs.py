"""What installing, binding and updating do to a grant: a row they make is seeded by a rule, a row that is there is compared."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from channel_guests import silent
from prepared_grants import HEAD, bound, channel_key, row, tool_key

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.network import granted
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.source import RowPolicies
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import HostPattern
from zeroclaw_host.services.state_store import DurableState

pytestmark = pytest.mark.usefixtures("compile_cache")

KEY = tool_key("weather")
PATH = f"plugins.entries.{KEY}.egress_hosts"
OPS = channel_key("chat", "ops")
REFUSED_AT_ALL = "[plugins.limits]\nmax_connections_per_instance = 0\n"

Source = Callable[..., str]


@pytest.fixture
def weather(home, package) -> Source:
    """The source directory of one version of a tool; its component is tried only where that matters."""

    def write(
        *hosts: str, version: str = "1.0.0", permissions: tuple[str, ...] = ("http_client",), more: str = ""
    ) -> str:
        lines = [f"permissions = {json.dumps(list(permissions))}"]
        lines += ["[egress]", f"hosts = {json.dumps(list(hosts))}"] if hosts else []
        made = package("weather", version=version, more="\n".join([*lines, more]))
        return str(made.rename(home.path / f"weather-{len(list(home.path.iterdir()))}"))

    return write


@pytest.fixture
def chat(home, package) -> Source:
    """The source directory of one version of a channel."""

    def write(*hosts: str, version: str = "1.0.0", **options: Any) -> str:
        more = f'permissions = ["websocket_client"]\n[egress]\nhosts = {json.dumps(list(hosts))}\n'
        options.setdefault("capabilities", ("channel",))
        made = package("chat", version=version, more=more, component=silent(), **options)
        return str(made.rename(home.path / f"chat-{len(list(home.path.iterdir()))}"))

    return write


def rows(home) -> dict[str, list[str]]:
    entries = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    return {each["name"]: each.get("egress_hosts", []) for each in entries}


def policy(home, key: str) -> EgressPolicy:
    snapshot = load(home.config_file)
    return RowPolicies(lambda who: granted(snapshot, who)).policy(InstanceIdentity.parse(key))


def commands(text: str) -> list[list[str]]:
    """The commands a text prints, as arguments behind the program's name."""
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("zeroclaw --config-dir ")]


def block(zeroclaw, label: str) -> list[str]:
    """What the listing says of one instance: its lines, and the steps below them."""
    found: list[str] = []
    inside = False
    for line in zeroclaw("plugin", "list").err.splitlines():
        inside = line.startswith(f"{label}: ") or (inside and line.startswith("  "))
        found += [line] if inside else []
    return found


def contains(text: str, lines: list[str]) -> bool:
    """Whether the lines stand in a text, one below the other."""
    return "\n" + "\n".join(lines) + "\n" in f"\n{text}"


@pytest.mark.req("PLG-185", "PLG-186")
@pytest.mark.parametrize(
    ("permissions", "hosts", "seeded"),
    [
        (("http_client",), ("b.example", "a.example"), ["a.example", "b.example"]),
        (("http_client", "socket_client"), ("a.example",), ["a.example"]),
        (("socket_client",), ("a.example",), []),
        (("websocket_client",), ("a.example",), []),
        ((), ("a.example",), []),
    ],
)
def test_a_tool_s_new_row_is_seeded_only_with_what_http_reaches_and_says_so(
    home, zeroclaw, weather, permissions: tuple[str, ...], hosts: tuple[str, ...], seeded: list[str]
) -> None:
    outcome = zeroclaw("plugin", "install", weather(*hosts, permissions=permissions), "--no-verify")
    assert outcome.status == 0, outcome.err
    assert rows(home) == {KEY: seeded}
    told = [line.removeprefix("  may reach ") for line in outcome.out.splitlines() if "may reach " in line]
    assert told == seeded
    later = [each for each in commands(outcome.out) if PATH in each]
    if seeded:
        [command] = later
        assert command[2:] == ["config", "set", PATH, ",".join(seeded)]
        assert zeroclaw(*command).status == 0
        assert zeroclaw(*command[:-1], "mine.example").status == 0
        assert rows(home) == {KEY: ["mine.example"]}
    else:
        assert later == []
        assert "a.example" not in outcome.out


@pytest.mark.req("PLG-186", "PLG-197", "PLG-198")
def test_a_tool_that_declares_nothing_is_told_the_command_that_lacks_the_hosts(
    home, zeroclaw, weather
) -> None:
    outcome = zeroclaw("plugin", "install", weather(), "--no-verify")
    assert rows(home) == {KEY: []}
    [command] = [each for each in commands(outcome.out) if PATH in each]
    assert command[2:] == ["config", "set", "--no-interactive", PATH]
    before = home.config_file.read_bytes()
    assert zeroclaw(*command).status != 0
    assert home.config_file.read_bytes() == before
    assert zeroclaw(*command, "a.example,b.example").status == 0
    assert rows(home) == {KEY: ["a.example", "b.example"]}


@pytest.mark.req("PLG-187", "PLG-188", "PLG-189", "PLG-190", "PLG-212", "PLG-227")
@pytest.mark.parametrize(
    ("granted_hosts", "private"),
    [
        (("mine.example", "a.example"), ()),
        (("*.com", "mine.example"), ()),
        ((" mine.example",), ()),
        (("mine.example",), ("lan.example",)),
    ],
)
def test_a_row_that_is_there_is_compared_in_the_list_s_words_and_no_byte_of_it_changes(
    home, zeroclaw, weather, granted_hosts: tuple[str, ...], private: tuple[str, ...]
) -> None:
    home.configure(HEAD + row(KEY, *granted_hosts, private=private))
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "install", weather("a.example", "b.example"))
    assert outcome.status == 0, outcome.err
    assert "its row was there and stays as it is" in outcome.out
    assert "may reach" not in outcome.out
    listed = block(zeroclaw, "weather")
    assert any("it declares " in line and "b.example" in line for line in listed)
    assert contains(outcome.out, listed)
    newer = zeroclaw("plugin", "update", "weather", "--from", weather("a.example", "b.example", version="2"))
    assert newer.status == 0, newer.err
    assert contains(newer.out, listed)
    beyond = "weather: its row grants what it does not declare: mine.example"
    if "mine.example" in granted_hosts:
        assert beyond in outcome.out.splitlines()
        assert beyond in newer.out.splitlines()
    assert "does not declare" not in "\n".join(listed)
    assert home.config_file.read_bytes() == before

    kept = [host for host in granted_hosts if host in ("mine.example", "a.example")]
    [command] = [each for each in commands(outcome.out) if PATH in each]
    assert zeroclaw(*command).status == 0
    assert rows(home)[KEY] == sorted({*kept, "a.example", "b.example"})


@pytest.mark.req("PLG-187", "PLG-325")
def test_a_newer_version_widens_nothing_by_itself(home, zeroclaw, weather) -> None:
    assert zeroclaw("plugin", "install", weather("a.example")).status == 0
    before = home.config_file.read_bytes()
    outcome = zeroclaw(
        "plugin", "update", "weather", "--from", weather("a.example", "new.example", version="2")
    )
    assert outcome.status == 0, outcome.err
    assert home.config_file.read_bytes() == before
    assert policy(home, KEY).rule_for("new.example") is None
    assert (
        "weather: it declares new.example, which its row does not grant, so requests there are refused"
        in (outcome.out.splitlines())
    )
    [command] = commands(outcome.out)
    assert zeroclaw(*command).status == 0
    assert policy(home, KEY).rule_for("new.example") is not None
    assert zeroclaw("plugin", "remove", "weather").status == 0
    again = zeroclaw("plugin", "install", weather("a.example", "third.example", version="3"), "--no-verify")
    assert policy(home, KEY).rule_for("third.example") is None
    assert contains(again.out, block(zeroclaw, "weather"))


@pytest.mark.req("PLG-189", "PLG-191", "PLG-212")
def test_what_a_version_no_longer_declares_is_listed_without_a_command_and_never_by_the_list(
    home, zeroclaw, weather
) -> None:
    home.configure(HEAD + row(KEY, "a.example"))
    line = "weather: its row grants what it does not declare: a.example"
    for outcome in (
        zeroclaw("plugin", "install", weather()),
        zeroclaw("plugin", "update", "weather", "--from", weather(version="2")),
    ):
        assert outcome.status == 0, outcome.err
        assert line in outcome.out.splitlines()
        assert [each for each in commands(outcome.out) if PATH in each] == []
    assert block(zeroclaw, "weather") == []
    assert rows(home) == {KEY: ["a.example"]}


@pytest.mark.req("PLG-186", "PLG-188", "PLG-191")
def test_a_wildcard_that_covers_what_is_declared_lacks_nothing(home, zeroclaw, weather) -> None:
    home.configure(HEAD + row(KEY, "*.example.com"))
    outcome = zeroclaw("plugin", "install", weather("api.example.com"), "--no-verify")
    assert "requests there are refused" not in outcome.out
    assert [each for each in commands(outcome.out) if PATH in each] == []


@pytest.mark.req("PLG-325", "PLG-324")
def test_an_update_makes_a_missing_row_that_grants_nothing_and_tells_the_difference(
    home, zeroclaw, weather
) -> None:
    assert zeroclaw("plugin", "install", weather("a.example")).status == 0
    assert zeroclaw("config", "delete", f"plugins.entries.{KEY}").status == 0
    outcome = zeroclaw("plugin", "update", "weather", "--from", weather("a.example", version="2"))
    assert outcome.status == 0, outcome.err
    assert rows(home) == {KEY: []}
    assert f"instance {KEY}: its row in plugins.entries was made, and grants nothing" in outcome.out
    assert contains(outcome.out, block(zeroclaw, "weather"))
    [command] = commands(outcome.out)
    assert zeroclaw(*command).status == 0
    assert rows(home) == {KEY: ["a.example"]}


@pytest.mark.req("PLG-325", "PLG-209")
def test_an_update_tells_of_every_channel_as_well(home, zeroclaw, chat) -> None:
    assert zeroclaw("plugin", "install", chat("a.example"), "--no-verify").status == 0
    home.configure(HEAD + bound("ops", "chat") + bound("spare", "chat") + row(OPS, "a.example"))
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "update", "chat", "--from", chat("a.example", "b.example", version="2"))
    assert outcome.status == 0, outcome.err
    assert home.config_file.read_bytes() == before
    for label in ("chat (plugin.ops)", "chat (plugin.spare)"):
        told = block(zeroclaw, label)
        assert told
        assert contains(outcome.out, told)
    for command in commands(outcome.out):
        assert zeroclaw(*command).status == 0
    for alias in ("ops", "spare"):
        reached = policy(home, channel_key("chat", alias))
        assert reached.not_granted([HostPattern("a.example"), HostPattern("b.example")]) == ()


@pytest.mark.req("PLG-185", "PLG-227", "PLG-249", "PLG-250")
@pytest.mark.parametrize("how", ["bind", "install"])
def test_binding_an_alias_whose_row_is_there_says_what_the_list_says(home, zeroclaw, chat, how: str) -> None:
    source = chat("a.example", "b.example")
    home.configure(HEAD + row(OPS, "mine.example", "a.example"))
    option = ("--channel-alias", "ops", "--egress", "declared")
    if how == "bind":
        assert zeroclaw("plugin", "install", source, "--no-verify").status == 0
        assert rows(home) == {OPS: ["mine.example", "a.example"]}
        outcome = zeroclaw("plugin", "bind", "chat", *option)
    else:
        outcome = zeroclaw("plugin", "install", source, "--no-verify", *option)
    assert outcome.status == 0, outcome.err
    assert rows(home) == {OPS: ["mine.example", "a.example"]}
    assert "--egress was not applied" in outcome.out
    listed = block(zeroclaw, "chat (plugin.ops)")
    assert listed
    assert contains(outcome.out, listed)
    assert outcome.out.count(listed[0]) == 1
    assert "chat (plugin.ops): its row grants what it does not declare: mine.example" in outcome.out
    [command] = [each for each in commands(outcome.out) if f"plugins.entries.{OPS}.egress_hosts" in each]
    assert zeroclaw(*command).status == 0
    assert rows(home) == {OPS: ["a.example", "b.example", "mine.example"]}


@pytest.mark.req("PLG-200", "PLG-199", "PLG-185")
def test_pasting_both_decisions_leaves_no_network(home, zeroclaw, chat) -> None:
    outcome = zeroclaw("plugin", "install", chat("a.example"), "--no-verify")
    assert not home.config_file.exists(), "a plain install makes no row of a channel"
    binds = [each for each in commands(outcome.out) if each[2:4] == ["plugin", "bind"]]
    assert [each[-2:] for each in binds] == [["--egress", "none"], ["--egress", "declared"]]
    for command in binds:
        assert zeroclaw(*command).status == 3
        assert not home.config_file.exists()
    for command in binds:
        assert zeroclaw(*("ops" if word == "ALIAS" else word for word in command)).status == 0
    assert rows(home) == {OPS: []}


LEGACY = [
    pytest.param(("a.example",), (), id="covers"),
    pytest.param(("mine.example",), (), id="gap"),
    pytest.param(("*.com", "a.example"), (), id="refused"),
    pytest.param(("a.example",), ("lan.example",), id="carve-out"),
]


@pytest.mark.req("PLG-192", "PLG-194", "PLG-327", "PLG-214", "PLG-216")
@pytest.mark.parametrize(("hosts", "private"), LEGACY)
def test_a_row_of_before_1_0_refuses_install_and_update_with_the_list_s_steps_and_they_work(
    home, zeroclaw, weather, hosts: tuple[str, ...], private: tuple[str, ...]
) -> None:
    home.configure(HEAD + row("weather", *hosts, private=private))
    before = home.config_file.read_bytes()
    refused = zeroclaw("plugin", "install", weather("a.example"))
    assert (refused.status, refused.out) == (6, ""), refused.err
    assert not (home.plugins / "weather").exists()
    assert not [path for path in home.plugins.iterdir() if not path.name.startswith(".")]
    assert home.config_file.read_bytes() == before

    shutil.copytree(weather("a.example"), home.plugins / "weather")
    listed = [line for line in block(zeroclaw, "weather") if line.startswith("  ")]
    assert contains(refused.err, listed)
    update = zeroclaw("plugin", "update", "weather", "--from", weather("a.example", version="2"))
    assert (update.status, update.out) == (6, "")
    assert contains(update.err, listed)
    [reason] = [line for line in refused.err.splitlines() if line.startswith("error: ")]
    assert reason in update.err.splitlines()
    for line in block(zeroclaw, "weather"):
        if not line.startswith("  "):
            assert line.removeprefix("weather: ") in reason
    assert 'version = "1.0.0"' in (home.plugins / "weather" / "manifest.toml").read_text()
    assert home.config_file.read_bytes() == before

    shutil.rmtree(home.plugins / "weather")
    for command in commands(refused.err):
        assert zeroclaw(*command).status == 0
    if private:
        home.config_file.write_text(
            home.config_file.read_text().replace('egress_allow_private = ["lan.example"]\n', "")
        )
    again = zeroclaw("plugin", "install", weather("a.example"))
    assert again.status == 0, again.err
    assert policy(home, KEY).rule_for("a.example") is not None
    assert block(zeroclaw, "weather") == []


@pytest.mark.req("PLG-192", "PLG-231")
def test_a_row_of_before_1_0_refuses_an_install_that_binds_as_well(home, zeroclaw, chat) -> None:
    home.configure(HEAD + row("chat", "mine.example"))
    before = home.config_file.read_bytes()
    both = chat("a.example", capabilities=("channel", "tool"))
    refused = zeroclaw(
        "plugin", "install", both, "--no-verify", "--channel-alias", "ops", "--egress", "declared"
    )
    assert (refused.status, refused.out) == (6, "")
    assert [step[2:4] for step in commands(refused.err)] == [["config", "set"]]
    assert "before 1.0" in refused.err
    assert home.config_file.read_bytes() == before
    assert not (home.plugins / "chat").exists()


@pytest.mark.req("PLG-192", "PLG-368")
def test_in_a_file_of_an_earlier_layout_the_steps_begin_with_its_migration(home, zeroclaw, weather) -> None:
    home.configure(row("weather", "mine.example"))
    refused = zeroclaw("plugin", "install", weather("a.example"))
    assert refused.status == 6
    steps = commands(refused.err)
    assert [step[2:4] for step in steps] == [["config", "migrate"], ["config", "set"], ["config", "set"]]
    for command in steps:
        assert zeroclaw(*command).status == 0
    assert zeroclaw("plugin", "install", weather("a.example")).status == 0
    assert rows(home) == {KEY: ["a.example", "mine.example"]}


@pytest.mark.req("PLG-193", "PLG-194")
def test_what_refuses_the_whole_deployment_is_told_alone_in_place_of_the_steps(
    home, zeroclaw, weather
) -> None:
    home.configure(HEAD + REFUSED_AT_ALL + row("weather", "*.com"))
    before = home.config_file.read_bytes()
    install = zeroclaw("plugin", "install", weather("a.example"))
    shutil.copytree(weather("a.example"), home.plugins / "weather")
    update = zeroclaw("plugin", "update", "weather", "--from", weather("a.example", version="2"))
    for outcome in (install, update):
        assert (outcome.status, outcome.out) == (3, "")
        assert outcome.err.count("no plugin reaches anything") == 1
        assert KEY not in outcome.err
        assert "before 1.0" not in outcome.err
        [command] = commands(outcome.err)
        assert command[2:] == ["config", "set", "plugins.limits.max_connections_per_instance"]
    assert home.config_file.read_bytes() == before
    assert zeroclaw(*commands(install.err)[0], "16").status == 0
    assert "before 1.0" in zeroclaw("plugin", "update", "weather", "--from", weather(version="3")).err


@pytest.mark.req("PLG-193", "PLG-226", "PLG-227")
def test_beside_a_row_that_is_there_it_is_told_once_and_no_line_about_the_row(
    home, zeroclaw, weather, chat
) -> None:
    home.configure(HEAD + REFUSED_AT_ALL + row(KEY, "*.com") + row(OPS, "*.com"))
    install = zeroclaw("plugin", "install", weather("a.example"), "--no-verify")
    assert zeroclaw("plugin", "install", chat("a.example"), "--no-verify").status == 0
    for outcome in (
        install,
        zeroclaw("plugin", "bind", "chat", "--channel-alias", "ops"),
        zeroclaw("plugin", "update", "chat", "--from", chat("a.example", version="2")),
    ):
        assert outcome.status == 0, outcome.err
        assert outcome.out.count("no plugin reaches anything") == 1
        assert "*.com" not in outcome.out
        assert "which its row does not grant" not in outcome.out
        [first] = [line for line in outcome.out.splitlines() if line.startswith("no plugin reaches anything")]
        assert first in zeroclaw("plugin", "list").err.splitlines()


@pytest.mark.req("PLG-324")
def test_an_update_keeps_profiles_secrets_private_hosts_and_state_to_the_byte(
    home, zeroclaw, weather
) -> None:
    schema = (
        '[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.ca]\ntype = "string"\nx-secret = true\n'
    )
    permissions = ("http_client", "config_read")
    assert (
        zeroclaw("plugin", "install", weather("a.example", permissions=permissions, more=schema)).status == 0
    )
    assert zeroclaw("config", "set", f"plugins.entries.{KEY}.config.ca", "PEM").status == 0
    with home.config_file.open("a") as file:
        file.write(
            '[[plugins.entries.tls_profiles]]\nname = "own"\nhosts = ["a.example"]\ncustom_ca_secret = "ca"\n'
        )
    assert zeroclaw("config", "set", f"plugins.entries.{KEY}.egress_allow_private", "a.example").status == 0
    before = home.config_file.read_bytes()
    assert b"enc2:" in before
    state = DurableState(home.data / "plugin-state.db", home.key_file)
    state.put(InstanceIdentity.parse(KEY), "seen", b"42", None)
    newer = weather("a.example", version="2", permissions=permissions, more=schema)
    outcome = zeroclaw("plugin", "update", "weather", "--from", newer)
    assert (outcome.status, outcome.out) == (0, "updated weather 1.0.0 to 2\n"), outcome.err
    assert home.config_file.read_bytes() == before
    kept = state.get(InstanceIdentity.parse(KEY), "seen")
    assert kept is not None
    assert kept.value == b"42"
    [profile] = policy(home, KEY).profiles.rows
    assert (profile.name, profile.custom_ca_secret) == ("own", "ca")


@pytest.mark.req("PLG-227")
def test_programs_are_told_the_same_instances(home, zeroclaw, weather) -> None:
    home.configure(HEAD + row(KEY, "*.com"))
    install = zeroclaw("plugin", "install", weather("a.example"), "--json").json
    update = zeroclaw(
        "plugin", "update", "weather", "--from", weather("a.example", version="2"), "--json"
    ).json
    listed = zeroclaw("plugin", "list", "--json").json
    assert install["egress"] == update["egress"] == listed["egress"]
    [each] = listed["egress"]["instances"]
    assert each["refusals"] == [
        {"field": "egress_hosts", "entry": "*.com", "reason": "needs at least two labels after the wildcard"}
    ]
    assert Path(shlex.split(each["steps"][0]["command"])[2]) == home.config_file.parent
