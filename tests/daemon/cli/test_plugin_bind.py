"""``zeroclaw plugin bind`` and ``plugin install --channel-alias``: from a package to a channel that has a name."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tomllib
from pathlib import Path

import anyio
import pytest
from channel_guests import asking, silent

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.plugins import open_host
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.sealing import KeyFile

pytestmark = pytest.mark.usefixtures("compile_cache")

KEY = InstanceIdentity("acme", Capability.CHANNEL, "ops").key
TOOL_KEY = InstanceIdentity.default_tool("acme").key
HEAD = "schema_version = 1\n"
HOSTS = 'permissions = ["http_client"]\n[egress]\nhosts = ["a.example", "b.example"]\n'
SCHEMA = (
    'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
    'required = ["greeting", "token"]\n[config_schema.properties.greeting]\ntype = "string"\n'
    '[config_schema.properties.token]\ntype = "string"\nx-secret = true\n'
)


@pytest.fixture
def channel(package):
    """Writes the source directory of a channel package."""

    def write(name: str = "acme", *, more: str = "", component: bytes | None = None, **options) -> str:
        options.setdefault("capabilities", ("channel",))
        return str(package(name, more=more, component=component or silent(), **options))

    return write


def commands(text: str) -> list[list[str]]:
    """The commands a text prints, as arguments behind the program's name."""
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("zeroclaw --config-dir ")]


def config(home) -> dict:
    return tomllib.loads(home.config_file.read_text())


@pytest.mark.req("PLG-134", "PLG-228", "PLG-252", "PLG-276")
def test_an_installed_channel_is_bound_and_a_second_run_changes_no_byte(home, zeroclaw, channel) -> None:
    installed = zeroclaw("plugin", "install", channel(more='permissions = ["socket_client"]'))
    assert installed.status == 0, installed.err
    assert not home.config_file.exists(), "a plain install makes no row for a channel"
    outcome = zeroclaw("plugin", "bind", "acme", "--channel-alias", "ops")
    assert outcome.status == 0, outcome.err
    assert "bound channels.plugin.ops to acme" in outcome.out
    assert f"instance {KEY}: its row in plugins.entries was made" in outcome.out
    assert outcome.out.rstrip().endswith("reload")
    assert config(home)["channels"] == {"plugin": {"ops": {"package": "acme", "enabled": True}}}
    assert config(home)["plugins"] == {"entries": [{"name": KEY, "egress_hosts": []}]}
    before = home.config_file.read_bytes()
    again = zeroclaw("plugin", "bind", "acme", "--channel-alias", "ops", "--egress", "declared")
    assert again.status == 0
    assert "stays as it is" in again.out
    assert "--egress was not applied" in again.out
    assert home.config_file.read_bytes() == before


@pytest.mark.req("PLG-229", "PLG-230", "PLG-232", "PLG-246", "PLG-247")
@pytest.mark.parametrize(("egress", "granted"), [("declared", ["a.example", "b.example"]), ("none", [])])
def test_an_install_binds_as_well_and_its_tool_follows_its_own_rule(
    home, zeroclaw, channel, egress: str, granted: list[str]
) -> None:
    source = channel(more=HOSTS, capabilities=("channel", "tool"))
    outcome = zeroclaw(
        "plugin", "install", source, "--no-verify", "--channel-alias", "ops", "--egress", egress
    )
    assert outcome.status == 0, outcome.err
    rows = {row["name"]: row["egress_hosts"] for row in config(home)["plugins"]["entries"]}
    assert rows == {TOOL_KEY: ["a.example", "b.example"], KEY: granted}
    assert config(home)["channels"]["plugin"]["ops"]["package"] == "acme"
    assert ("reaches nothing; it declares a.example, b.example" in outcome.out) == (egress == "none")
    [later] = [
        c
        for c in commands(outcome.out)
        if c[-2:] == [f"plugins.entries.{KEY}.egress_hosts", "a.example,b.example"]
    ]
    assert zeroclaw(*later).status == 0
    rows = {row["name"]: row["egress_hosts"] for row in config(home)["plugins"]["entries"]}
    assert sorted(rows[KEY]) == ["a.example", "b.example"]


@pytest.mark.req("PLG-231", "PLG-232", "PLG-238", "PLG-239", "PLG-242")
@pytest.mark.parametrize(
    ("alias", "options", "text", "more", "status"),
    [
        ("Ops", [], None, "", 3),
        ("ops", [], HEAD + '[channels.plugin.ops]\npackage = "other"\n', "", 6),
        ("ops", [], None, HOSTS, 4),
        ("ops", ["--egress", "all"], None, "", 2),
    ],
)
def test_a_refused_binding_installs_nothing(
    home, zeroclaw, channel, alias, options, text, more, status
) -> None:
    if text is not None:
        home.configure(text)
    outcome = zeroclaw("plugin", "install", channel(more=more), "--channel-alias", alias, *options)
    assert (outcome.status, outcome.out) == (status, ""), outcome.err
    assert not (home.plugins / "acme").exists()
    assert (home.config_file.read_text() if home.config_file.exists() else None) == text


@pytest.mark.req("PLG-197", "PLG-200", "PLG-231", "PLG-242")
@pytest.mark.parametrize("installed", [True, False])
def test_what_an_undecided_binding_prints_is_that_command_once_for_each_decision(
    home, zeroclaw, channel, installed: bool
) -> None:
    """With both pasted, the first one has bound, and nothing is reached."""
    source = channel(more=HOSTS)
    tried = ["plugin", "bind", "acme", "--channel-alias", "ops"]
    if installed:
        assert zeroclaw("plugin", "install", source, "--no-verify").status == 0
    else:
        relative = os.path.relpath(source, home.path)
        tried = ["plugin", "install", relative, "--no-verify", "--channel-alias", "ops"]
    refused = zeroclaw(*tried)
    assert refused.status == 4
    assert [line.split(":")[0] for line in refused.err.splitlines()[1:4:2]] == ["  to do", "  or"]
    printed = commands(refused.err)
    assert [command[command.index("--egress") + 1] for command in printed] == ["none", "declared"]
    assert source in printed[0] or installed
    assert zeroclaw(*printed[0]).status == 0
    assert config(home)["channels"]["plugin"]["ops"]["package"] == "acme"
    zeroclaw(*printed[1])
    assert config(home)["plugins"]["entries"] == [{"name": KEY, "egress_hosts": []}]


@pytest.mark.req("PLG-232")
def test_an_install_whose_binding_cannot_be_written_changes_nothing(home, zeroclaw, channel) -> None:
    home.config_file.parent.mkdir(parents=True)
    home.config_file.with_name("config.toml.lock").mkdir()
    outcome = zeroclaw("plugin", "install", channel(), "--channel-alias", "ops")
    assert outcome.status == 7
    assert not (home.plugins / "acme").exists()
    assert not home.config_file.exists()


@pytest.mark.req("PLG-229")
def test_egress_is_of_no_use_without_an_alias_and_bind_needs_one(zeroclaw, channel) -> None:
    assert zeroclaw("plugin", "install", channel(), "--egress", "none").status == 2
    assert zeroclaw("plugin", "bind", "acme").status == 2


@pytest.mark.req("PLG-228", "PLG-237")
def test_what_is_not_installed_or_no_channel_is_not_bound(home, zeroclaw, package) -> None:
    assert zeroclaw("plugin", "bind", "acme", "--channel-alias", "ops").status == 5
    zeroclaw("plugin", "install", str(package()))
    outcome = zeroclaw("plugin", "bind", "wat-echo", "--channel-alias", "ops")
    assert outcome.status == 3
    assert "provides no channel" in outcome.err
    assert not home.config_file.exists()


@pytest.mark.req("PLG-123", "PLG-237", "PLG-238", "PLG-240", "PLG-241", "PAINS-25")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (HEAD + '[plugins]\nenabled = true\n[plugins.entries]\nname = "x"\n', ":4:1: plugins.entries"),
        (HEAD + "[plugins\n", ":2:9: "),
        (HEAD + "[channels.plugin.ops]\npackage = 1\n", ":3:1: channels.plugin.ops.package"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_place_after_the_package_and_the_alias(
    home, zeroclaw, channel, package, text: str, place: str
) -> None:
    zeroclaw("plugin", "install", channel())
    zeroclaw("plugin", "install", str(package()))
    home.configure(text)
    refusals = [
        (("wat-echo", "Ops"), "provides no channel"),
        (("acme", "Ops"), "a channel cannot be named"),
        (("acme", "ops"), f"{home.config_file}{place}"),
    ]
    for (name, alias), told in refusals:
        outcome = zeroclaw("plugin", "bind", name, "--channel-alias", alias)
        assert outcome.status == 3
        assert told in outcome.err
    assert home.config_file.read_text() == text


@pytest.mark.req("PLG-199", "PLG-200", "PLG-234")
def test_an_install_prints_how_its_channel_is_bound_and_the_commands_do_it(home, zeroclaw, channel) -> None:
    outcome = zeroclaw("plugin", "install", channel(more=HOSTS))
    found = [command for command in commands(outcome.out) if "bind" in command]
    assert [command[-2:] for command in found] == [["--egress", "none"], ["--egress", "declared"]]
    refused = zeroclaw(*found[0])
    assert refused.status == 3
    assert not home.config_file.exists()
    for command in found:
        assert zeroclaw(*("ops" if part == "ALIAS" else part for part in command)).status == 0
    assert config(home)["plugins"]["entries"] == [{"name": KEY, "egress_hosts": []}]


@pytest.mark.req("PLG-136", "PLG-137", "PLG-277")
def test_info_prints_the_key_of_the_tool_and_of_every_bound_alias_and_a_report_on_each(
    home, zeroclaw, channel
) -> None:
    source = channel(more='permissions = ["socket_client"]', capabilities=("channel", "tool"))
    zeroclaw("plugin", "install", source, "--no-verify")
    for alias in ("ops", "dev"):
        assert zeroclaw("plugin", "bind", "acme", "--channel-alias", alias).status == 0
    info = zeroclaw("plugin", "info", "acme")
    dev = InstanceIdentity("acme", Capability.CHANNEL, "dev").key
    keys = [line.split()[1] for line in info.out.splitlines() if line.startswith("  instance ")]
    assert keys == [TOOL_KEY, dev, KEY]
    reports = [line.strip() for line in info.out.splitlines() if line.startswith(("  channel ", "  tool "))]
    assert reports == ["tool acme", "channel dev", "channel ops"]
    assert zeroclaw("plugin", "info", "acme", "--json").json["keys"] == keys


@pytest.mark.req("PLG-136", "PLG-137")
def test_a_channel_that_owns_no_state_has_a_report_and_no_key(home, zeroclaw, channel) -> None:
    zeroclaw("plugin", "install", channel(), "--channel-alias", "ops")
    info = zeroclaw("plugin", "info", "acme")
    assert "  channel ops\n" in info.out
    assert "zpi1_" not in info.out
    told = zeroclaw("plugin", "info", "acme", "--json").json
    assert told["keys"] == []
    assert [each["key"] for each in told["instances"]] == [None]


@pytest.mark.req("PLG-258", "PLG-259", "PLG-263", "PLG-264", "PLG-270", "PLG-274")
def test_the_report_leads_from_a_binding_to_a_channel_that_starts(home, zeroclaw, channel) -> None:
    """Everything the report asks for is done with what it prints, and then it says that the channel starts."""
    bound = zeroclaw("plugin", "install", channel(more=SCHEMA, component=asking()), "--channel-alias", "ops")
    assert bound.status == 0, bound.err
    assert "required      greeting: missing" in bound.out
    assert "required      token: missing" in bound.out
    assert "configuration package acme: the configuration does not fit its schema" in bound.out
    assert "not active: plugins are off" in bound.out
    secret = "planted-secret-4711"
    asked = [command for command in commands(bound.out) if ".config." in command[-1]]
    assert {command[-1].rpartition(".")[2] for command in asked} == {"greeting", "token"}
    for command in {tuple(command) for command in asked}:
        value = secret if command[-1].endswith("token") else "hello"
        assert zeroclaw(*command, value).status == 0
    assert secret not in home.config_file.read_text()
    info = zeroclaw("plugin", "info", "acme")
    assert "required      token: set" in info.out
    assert "configuration as its schema wants it" in info.out
    [enable] = [command for command in commands(info.out) if "plugins.enabled" in command]
    assert zeroclaw(*enable).status == 0
    assert "no enabled agent lists plugin.ops" in zeroclaw("plugin", "info", "acme").out
    home.config_file.write_text(home.config_file.read_text() + '\n[agents.ada]\nchannels = ["plugin.ops"]\n')
    last = zeroclaw("plugin", "info", "acme")
    assert "it is there at the daemon's next start or reload, if its component loads" in last.out
    told = zeroclaw("plugin", "info", "acme", "--json")
    [report] = told.json["instances"]
    assert (report["starts"], report["configuration"], report["activation"]["unmet"]) == (
        True,
        {"fits": True},
        None,
    )
    for outcome in (bound, info, last, told):
        assert secret not in outcome.out + outcome.err


@pytest.mark.req("PLG-135", "PLG-169", "PLG-113", "PLG-145")
def test_the_daemon_s_channel_reads_what_the_commands_wrote_and_a_rotation_shows_whole_at_the_next_call(
    home, zeroclaw, channel
) -> None:
    """Real wasm over the real file: between two host calls of one frame the file is edited."""
    zeroclaw("plugin", "install", channel(more=SCHEMA, component=asking()), "--channel-alias", "ops")
    for name, value in (("greeting", "revision 1"), ("token", "1")):
        assert zeroclaw("config", "set", f"plugins.entries.{KEY}.config.{name}", value).status == 0
    paths = Paths.resolve(None, home.environment())
    revision = 1
    resolver = EntryResolver(lambda: load(home.config_file), KeyFile(Path(paths.key_file)))
    rotated: list[int] = []

    class Rotating:
        """The daemon's resolver; as soon as a frame has its configuration, the operator changes both values."""

        def resolve(self, scope):
            nonlocal revision
            found = resolver.resolve(scope)
            revision += 1
            rotated.append(revision)
            patch = {"greeting": f"revision {revision}", "token": str(revision)}
            for name, value in patch.items():
                assert zeroclaw("config", "set", f"plugins.entries.{KEY}.config.{name}", value).status == 0
            return found

    services = InstanceServices(config=Rotating(), log=MemoryLogSink())
    snapshot = load(home.config_file)
    with open_host(snapshot, paths, services=services) as host:
        loaded = host.load_channel(host.discover().get("acme"), "ops")
        assert json.loads(loaded.self_handle or "")["greeting"].startswith("revision ")
        started = len(rotated)
        # The guest ends itself unless greeting and token are of one revision.
        answers = [anyio.run(loaded.request_choice, "which?", [], 1) for _ in range(3)]
        assert answers == [str(started + number) for number in (1, 2, 3)]
        assert len(rotated) == started + 3, "one resolution a frame"


@pytest.mark.req("PLG-161", "PLG-233")
def test_another_package_of_the_name_has_the_bindings_and_what_was_configured(
    home, zeroclaw, channel, package
) -> None:
    zeroclaw("plugin", "install", channel(more=SCHEMA, component=asking()), "--channel-alias", "ops")
    for name in ("greeting", "token"):
        zeroclaw("config", "set", f"plugins.entries.{KEY}.config.{name}", "planted-4711")
    before = home.config_file.read_bytes()
    removed = zeroclaw("plugin", "remove", "acme")
    assert "channels.plugin.ops stays, and is still bound to it" in removed.out
    assert f"its configuration stays in plugins.entries, under {KEY}" in removed.out
    assert "Any package installed as acme has all of this" in removed.out
    assert home.config_file.read_bytes() == before
    shutil.rmtree(home.path / "sources" / "acme")
    other = package("acme", version="9", capabilities=("channel",), component=silent(), more=SCHEMA)
    installed = zeroclaw("plugin", "install", str(other))
    assert "  channel ops\n" in installed.out
    assert "required      token: set" in installed.out
    assert "ALIAS" not in installed.out
    assert "planted-4711" not in installed.out
    snapshot = load(home.config_file)
    paths = Paths.resolve(None, home.environment())
    with open_host(snapshot, paths) as host:
        scope = host.load_channel(host.discover().get("acme"), "ops").scope
    resolver = EntryResolver(lambda: snapshot, KeyFile(Path(paths.key_file)))
    assert resolver.resolve(scope).secrets == {"token": "planted-4711"}
