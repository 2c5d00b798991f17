"""What ``status`` tells of plugins, and what waits for ``zeroclaw reload``."""

from __future__ import annotations

import logging
import shutil
import signal
from pathlib import Path

import pytest
from channel_guests import silent

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.plugin_tools import PluginTools
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.services.sealing import KeyFile

pytestmark = pytest.mark.usefixtures("compile_cache")

ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"
ADA = '[agents.ada]\nchannels = ["plugin.ops"]\n'
BAD_ROWS = '[plugins]\nenabled = true\n\n[plugins.entries]\nname = "x"\n'


@pytest.fixture
def channel(package) -> str:
    """The source directory of a channel package named acme."""
    return str(package("acme", capabilities=("channel",), component=silent()))


def plugins(zeroclaw) -> dict[tuple[str, str | None], str]:
    found = zeroclaw("status", "--json").json["plugins"]
    return {(each["package"], each["binding"]): each["state"] for each in found}


@pytest.mark.req("PLG-276", "PLG-129")
def test_a_channel_bound_beside_a_running_daemon_waits_for_the_reload(
    home, zeroclaw, start_daemon, channel
) -> None:
    home.configure("schema_version = 1\n[plugins]\nenabled = true\n" + ADA)
    zeroclaw("plugin", "install", channel)
    start_daemon()
    bound = zeroclaw("plugin", "bind", "acme", "--channel-alias", "ops")
    assert bound.status == 0, bound.err
    assert "told to reload" in bound.out
    status = zeroclaw("status", "--json").json
    assert ("acme", "ops") not in plugins(zeroclaw)
    assert status["reloadPending"] is True
    assert status["configRevision"] != status["planRevision"], "the change was noticed"
    assert "`zeroclaw reload`" in zeroclaw("status").out
    reloaded = zeroclaw("reload")
    assert reloaded.status == 0, reloaded.err
    assert reloaded.out.splitlines() == ["reloaded", "  the channel ops of acme is active"]
    assert plugins(zeroclaw)[("acme", "ops")] == "admitted"
    assert zeroclaw("status", "--json").json["reloadPending"] is False
    assert zeroclaw("reload").out == "reloaded: the same instances run as before\n"
    assert zeroclaw("reload", "--json").json["changes"] == []


def test_a_hang_up_reloads_nothing(home, zeroclaw, start_daemon, channel) -> None:
    home.configure("schema_version = 1\n[plugins]\nenabled = true\n" + ADA)
    daemon = start_daemon()
    zeroclaw("plugin", "install", channel, "--channel-alias", "ops")
    daemon.process.send_signal(signal.SIGHUP)
    assert zeroclaw("status", "--json").json["reloadPending"] is True
    assert ("acme", "ops") not in plugins(zeroclaw)


def test_without_a_daemon_there_is_nothing_to_reload(zeroclaw) -> None:
    assert zeroclaw("reload").status == 7


@pytest.mark.req("PAINS-25")
def test_a_file_that_cannot_be_used_reloads_nothing_and_is_named_with_its_place(
    home, zeroclaw, start_daemon, channel
) -> None:
    home.configure(ON + ADA + '[channels.plugin.ops]\npackage = "acme"\n')
    zeroclaw("plugin", "install", channel)
    start_daemon()
    before = plugins(zeroclaw)
    assert before[("acme", "ops")] == "admitted"
    home.configure("[agents.ada\n")
    outcome = zeroclaw("reload")
    assert outcome.status == 3
    assert f"{home.config_file}:1:12" in outcome.err
    assert plugins(zeroclaw) == before


@pytest.mark.req("PLG-123", "PAINS-25")
def test_a_plugins_section_that_cannot_be_read_is_named_everywhere_and_turns_plugins_off(
    home, zeroclaw, start_daemon, package
) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(BAD_ROWS)
    daemon = start_daemon()
    where = f"{home.config_file}:4:1: plugins.entries"
    assert where in daemon.ready, "at the start, on the terminal"
    [logged] = [r for r in home.log() if r["event"]["action"] == "config_section_dropped"]
    assert where in logged["message"]
    told = {
        command: zeroclaw(*command.split())
        for command in ("status", "config validate", "plugin list", "plugin info wat-echo", "reload")
    }
    for command, outcome in told.items():
        assert where in outcome.out + outcome.err, command
        assert "[[plugins.entries]]" in outcome.out + outcome.err, command
    assert {command: outcome.status for command, outcome in told.items() if outcome.status} == {
        "config validate": 3,
        "plugin info wat-echo": 3,
        "reload": 3,
    }
    assert "plugins   off" in told["status"].out
    assert "no publisher is trusted" in told["plugin list"].err, (
        "why a package is refused that was not before"
    )
    assert "to do: Mend " in told["plugin info wat-echo"].err, "trusting a key is no help"
    refused = zeroclaw("plugin", "bind", "wat-echo", "--channel-alias", "ops")
    assert refused.status != 0
    assert home.config_file.read_text() == BAD_ROWS


def test_status_tells_what_is_loaded_refused_missing_and_off(
    home, zeroclaw, start_daemon, package, channel
) -> None:
    zeroclaw("plugin", "install", str(package()))
    zeroclaw("plugin", "install", str(package("broken", component=b"\0asm\x0d\0\x01\0")), "--no-verify")
    zeroclaw("plugin", "install", channel)
    shutil.copytree(home.plugins / "wat-echo", home.plugins / "spoiled")
    (home.plugins / "spoiled" / "manifest.toml").write_text('name = "spoiled"\n')
    home.configure(
        ON + ADA + '[channels.plugin.ops]\npackage = "acme"\n[channels.plugin.idle]\npackage = "acme"\n'
        '[channels.plugin.lost]\npackage = "gone"\n[agents.bob]\nchannels = ["plugin.lost"]\n'
        '[memory]\nbackend = "plugin:nowhere"\n'
    )
    start_daemon()
    zeroclaw("prompt", "--agent", "ada", "hello")
    assert plugins(zeroclaw) == {
        ("acme", "ops"): "admitted",
        ("acme", "idle"): "inactive",
        ("gone", "lost"): "missing",
        ("wat-echo", "wat-echo"): "loaded",
        ("broken", "broken"): "failed",
        ("spoiled", None): "refused",
        ("nowhere", None): "missing",
    }
    status = zeroclaw("status")
    for told in ("gone", "broken", "spoiled", "nowhere"):
        assert f"warning: plugin {told}" in status.err
    assert "acme 1.0.0 (channel idle) inactive: no enabled agent lists plugin.idle" in status.out


@pytest.mark.req("PLG-171", "PLG-172")
def test_rows_that_nobody_reads_are_told_at_the_start_in_status_and_by_list_and_info(
    home, zeroclaw, start_daemon, package
) -> None:
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.word]\ntype = "string"\n'
    )
    zeroclaw("plugin", "install", str(package(more=schema)))
    [row] = [line for line in home.config_file.read_text().splitlines() if line.startswith("name")]
    key = row.split('"')[1]
    home.configure(
        "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"
        '[[plugins.entries]]\nname = "wat-echo"\n[plugins.entries.config]\nword = "old"\n'
        '[[plugins.entries]]\nname = "operations"\negress_hosts = ["a.example"]\n'
    )
    daemon = start_daemon()
    assert "the row wat-echo of plugins.entries is read by nobody" in daemon.ready
    assert "the row operations of plugins.entries is read by nobody" in daemon.ready
    assert zeroclaw("prompt", '/tool wat_echo {"n": 1}').out == '{"n": 1}\n', "it has no configuration"
    for command in (("status",), ("plugin", "list"), ("plugin", "info", "wat-echo")):
        answer = zeroclaw(*command)
        told = answer.out + answer.err
        assert (f"rename it to {key}" if command == ("status",) else f"until it is named {key}") in told
        assert ("operations" in told) == (command[-1] != "wat-echo"), command
    home.configure(home.config_file.read_text().replace('"wat-echo"', f'"{key}"'))
    asked = zeroclaw("prompt", '/tool wat_echo {"n": 1}')
    assert '"__config": {"word": "old"}' in asked.out.replace('":{', '": {')


def test_channels_of_the_plan_take_their_slots_before_tools(
    home, zeroclaw, start_daemon, package, channel
) -> None:
    zeroclaw("plugin", "install", str(package()))
    zeroclaw("plugin", "install", channel)
    home.configure(ON + "max_active_instances = 1\n" + ADA + '[channels.plugin.ops]\npackage = "acme"\n')
    start_daemon()
    assert "there is no tool wat_echo" in zeroclaw("prompt", "--agent", "ada", "/tool wat_echo {}").out
    assert plugins(zeroclaw) == {("acme", "ops"): "admitted", ("wat-echo", "wat-echo"): "inactive"}
    assert zeroclaw("config", "set", "channels.plugin.ops.enabled", "false").status == 0
    assert "there is no tool wat_echo" in zeroclaw("prompt", "--agent", "ada", "/tool wat_echo {}").out
    assert "the channel ops of acme is not active" in zeroclaw("reload").out
    assert zeroclaw("prompt", "--agent", "ada", '/tool wat_echo {"n": 1}').out == '{"n": 1}\n'
    assert plugins(zeroclaw) == {("acme", "ops"): "inactive", ("wat-echo", "wat-echo"): "loaded"}


def test_a_reload_tries_once_more_what_did_not_load_and_loads_nothing_twice(
    home, zeroclaw, package, caplog: pytest.LogCaptureFixture
) -> None:
    zeroclaw("plugin", "install", str(package()))
    zeroclaw("plugin", "install", str(package("broken", component=b"\0asm\x0d\0\x01\0")), "--no-verify")
    home.configure(ON)
    snapshot = load(home.config_file)
    paths = Paths.resolve(None, home.environment())
    key_file = KeyFile(Path(paths.key_file))
    services = InstanceServices(config=EntryResolver(lambda: snapshot, key_file), log=MemoryLogSink())

    def tried() -> int:
        return sum("broken does not load" in message for message in caplog.messages)

    tools = PluginTools(paths, services)
    try:
        with caplog.at_level(logging.WARNING):
            first = tools.tools(snapshot)
            assert (list(tools.tools(snapshot)), tried()) == (list(first), 1)
            tools.refresh()
            again = tools.tools(snapshot)
            assert ([id(tool) for tool in again], tried()) == ([id(tool) for tool in first], 2)
            tools.tools(snapshot)
            assert tried() == 2
        found = tools.toolset(snapshot)
        assert found is not None
        assert (found.loaded, set(found.failed)) == ({"wat-echo"}, {"broken"})
    finally:
        tools.close()


@pytest.mark.req("PLG-123", "PLG-349")
def test_status_says_why_no_plugin_is_listed(home, zeroclaw, start_daemon, package) -> None:
    home.configure("schema_version = 1\n")
    zeroclaw("plugin", "install", str(package("acme")))
    start_daemon()
    assert "  plugins   off: plugins.enabled is false\n" in zeroclaw("status").out
    zeroclaw("config", "set", "plugins.enabled", "true")
    assert zeroclaw("status", "--json").json["pluginsState"] == "unseen"
    assert "  plugins   on; what is installed is looked at by " in zeroclaw("status").out
    zeroclaw("reload")
    status = zeroclaw("status", "--json").json
    assert (status["pluginsState"], plugins(zeroclaw)) == ("on", {("acme", "acme"): "inactive"})
    assert "plugins.auto_discover is false" in zeroclaw("status").out


@pytest.mark.req("PLG-123", "PLG-129")
def test_a_section_that_cannot_be_read_any_more_leaves_no_tool_admitted(
    home, zeroclaw, start_daemon, package
) -> None:
    home.configure(ON)
    zeroclaw("plugin", "install", str(package("acme")))
    start_daemon()
    home.configure(BAD_ROWS)
    status = zeroclaw("status")
    assert "  plugins   off: [plugins] cannot be read\n" in status.out
    assert plugins(zeroclaw) == {("acme", "acme"): "inactive"}
    assert f"{home.config_file}:4:1" in status.err
