"""``zeroclaw plugin``, and what a running daemon makes of the packages it installs."""

from __future__ import annotations

import gc
import json
import resource
import shlex
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.plugin_tools import PluginTools
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.archive import write_archive
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.logging import MemoryLogSink

KEY = InstanceIdentity.default_tool("wat-echo").key
EGRESS = 'permissions = ["http_client"]\n[egress]\nhosts = ["api.example.com", "*.example.org"]\n'
ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"
OTHER_COMPONENT = b"\0asm\x0d\0\x01\0"
"""An empty component: it has none of the exports of a tool."""

pytestmark = pytest.mark.usefixtures("compile_cache")


@pytest.mark.req("PLG-130", "PLG-132")
def test_install_prints_the_instance_and_seeds_its_row(home, zeroclaw, package) -> None:
    outcome = zeroclaw("plugin", "install", str(package(more=EGRESS)))
    assert outcome.status == 0, outcome.err
    assert f"installed wat-echo 1.0.0 in {home.plugins}/wat-echo" in outcome.out
    assert f"instance {KEY}: its row in plugins.entries was made" in outcome.out
    assert "may reach api.example.com" in outcome.out
    assert "may reach *.example.org" in outcome.out
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert (row["name"], set(row["egress_hosts"])) == (KEY, {"api.example.com", "*.example.org"})
    assert row["name"].startswith("zpi1_")
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600


@pytest.mark.req("PLG-133")
def test_a_package_that_owns_no_state_gets_no_row(home, zeroclaw, package) -> None:
    outcome = zeroclaw("plugin", "install", str(package()), "--json")
    assert outcome.json["key"] is None
    assert not home.config_file.exists()


def test_an_existing_row_is_left_as_it_is(home, zeroclaw, package) -> None:
    text = f'# mine\n[[plugins.entries]]\nname = "{KEY}"\negress_hosts = ["only.example.com"]\n'
    home.configure(text)
    outcome = zeroclaw("plugin", "install", str(package(more=EGRESS)))
    assert outcome.status == 0
    assert "stays as it is" in outcome.out
    assert "may reach" not in outcome.out
    assert home.config_file.read_text() == text


@pytest.mark.req("PLG-195", "PLG-196")
@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish"])
def test_every_command_an_install_prints_works_when_pasted(
    home, zeroclaw, package, shell: str, system_program: Callable[[str], str]
) -> None:
    directory = home.path / "it's a $HOME \\ dir"
    outcome = zeroclaw("--config-dir", str(directory), "plugin", "install", str(package(more=EGRESS)))
    commands = [line.strip() for line in outcome.out.splitlines() if line.strip().startswith("zeroclaw ")]
    assert len(commands) == 3
    for command in commands:
        assert command.startswith("zeroclaw --config-dir '")
        pasted = subprocess.run(
            [system_program(shell), "-c", command],
            env=home.environment(),
            cwd=home.path,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert pasted.returncode == 0, pasted.stderr
    plugins = tomllib.loads((directory / "config.toml").read_text())["plugins"]
    assert (plugins["enabled"], plugins["auto_discover"]) == (True, True)
    assert set(plugins["entries"][0]["egress_hosts"]) == {"api.example.com", "*.example.org"}
    assert not (home.path / ".zeroclaw").exists()


@pytest.mark.req("PLG-038", "PLG-039", "PLG-040", "PLG-041", "PLG-042")
def test_a_package_that_does_not_load_is_refused_or_installed_unverified_and_then_told_apart(
    home, zeroclaw, package
) -> None:
    source = str(package(component=OTHER_COMPONENT))
    refused = zeroclaw("plugin", "install", source)
    assert refused.status == 3
    assert "zeroclaw-plugin build" in refused.err
    assert not (home.plugins / "wat-echo").exists()
    assert zeroclaw("plugin", "install", source, "--no-verify").status == 0
    info = zeroclaw("plugin", "info", "wat-echo")
    assert info.status == 3
    lines = [line.strip() for line in info.out.splitlines()]
    assert "loads         no" in lines
    assert any(line.startswith("because: ") for line in lines)
    assert "zeroclaw-plugin build" in info.out
    as_json = zeroclaw("plugin", "info", "wat-echo", "--json")
    assert as_json.status == 3
    assert as_json.json["loads"] is False
    assert as_json.json["causes"]
    assert as_json.json["remedy"]["command"] == "zeroclaw-plugin build"


@pytest.mark.req("PLG-041")
def test_info_prints_every_cause_down_to_the_engine_s_own(zeroclaw, package, trapping_component) -> None:
    zeroclaw("plugin", "install", str(package(component=trapping_component)), "--no-verify")
    info = zeroclaw("plugin", "info", "wat-echo")
    lines = [line.strip() for line in info.out.splitlines()]
    assert lines[lines.index("loads         no") + 1] == "because: the plugin aborted (unreachable)"
    assert "because: wasm trap: wasm `unreachable` instruction executed" in lines
    assert any("boom" in line for line in lines[lines.index("where in the plugin, innermost first:") :])
    assert "zeroclaw-plugin build" in info.out
    assert info.status == 9


@pytest.mark.req("PLG-042")
def test_info_of_a_package_that_loads_ends_well_and_shows_what_it_is(zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package(more=EGRESS)))
    info = zeroclaw("plugin", "info", "wat-echo")
    assert info.status == 0
    for part in (
        "wat-echo 1.0.0",
        "Gives back its arguments.",
        "http_client",
        "echo.wasm",
        KEY,
        "loads         yes",
    ):
        assert part in info.out
    facts = zeroclaw("plugin", "info", "wat-echo", "--json").json
    assert (facts["loads"], facts["keys"], facts["signature"]) == (True, [KEY], "unsigned")


@pytest.mark.req("PLG-043", "PLG-045")
def test_list_verify_annotates_every_row(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package("good")))
    zeroclaw("plugin", "install", str(package("broken", component=OTHER_COMPONENT)), "--no-verify")
    skills = package("words", capabilities=("skill",), component=None)
    (skills / "skills" / "greet").mkdir(parents=True)
    (skills / "skills" / "greet" / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Greets.\n---\nHello.\n"
    )
    assert zeroclaw("plugin", "install", str(skills)).status == 0
    outcome = zeroclaw("plugin", "list", "--verify")
    assert outcome.status == 3, "a script notices as well"
    rows = {row.split("\t")[0]: row.split("\t")[4] for row in outcome.out.splitlines()}
    assert rows["good"] == "yes"
    assert rows["words"] == "not applicable"
    assert rows["broken"].startswith("no: ")
    assert len(outcome.out.splitlines()) == 3
    assert zeroclaw("plugin", "info", "words").status == 0


@pytest.mark.req("PLG-044")
def test_plain_list_reads_the_directory_and_starts_no_engine(
    home, zeroclaw, package, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeroclaw("plugin", "install", str(package(component=OTHER_COMPONENT)), "--no-verify")
    from zeroclaw_host.sandbox.sandbox import Sandbox

    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(Sandbox, "__init__", forbidden)
    outcome = zeroclaw("plugin", "list")
    assert outcome.status == 0
    assert outcome.out == "wat-echo\t1.0.0\ttool\tunsigned\tGives back its arguments.\n"
    assert zeroclaw("plugin", "list", "--json").json["packages"][0]["name"] == "wat-echo"


def test_list_says_what_it_left_out_and_why(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    shutil.copytree(home.plugins / "wat-echo", home.plugins / "copy")
    (home.plugins / "junk").mkdir()
    outcome = zeroclaw("plugin", "list")
    assert (outcome.status, outcome.out) == (0, "")
    for name in ("copy", "wat-echo", "junk"):
        assert f"{home.plugins / name} is not loaded" in outcome.err


def test_text_of_a_publisher_cannot_drive_the_terminal(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package(description="\x1b[2Jgone \u202etxt.exe")))
    for command in (["list"], ["info", "wat-echo"]):
        outcome = zeroclaw("plugin", *command)
        assert "\\x1b[2Jgone \\u202etxt.exe" in outcome.out
        assert "\x1b" not in outcome.out + outcome.err


def test_remove_keeps_the_row_and_says_so(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package(more=EGRESS)))
    before = home.config_file.read_bytes()
    outcome = zeroclaw("plugin", "remove", "wat-echo")
    assert outcome.status == 0
    assert KEY in outcome.out
    assert not (home.plugins / "wat-echo").exists()
    assert home.config_file.read_bytes() == before


@pytest.mark.parametrize("command", [["info", "nothing"], ["remove", "nothing"]])
def test_a_package_that_is_not_there_is_status_5(zeroclaw, command: list[str]) -> None:
    outcome = zeroclaw("plugin", *command)
    assert outcome.status == 5
    assert "nothing" in outcome.err


def test_an_installed_name_says_how_to_make_room(home, zeroclaw, package) -> None:
    source = str(package())
    zeroclaw("plugin", "install", source)
    outcome = zeroclaw("plugin", "install", source)
    assert outcome.status == 6
    assert f"zeroclaw --config-dir '{home.path}/.zeroclaw' plugin update 'wat-echo'" in outcome.err
    as_json = json.loads(zeroclaw("plugin", "install", source, "--json").err)
    assert as_json["error"]["kind"] == "conflict"
    assert shlex.split(as_json["error"]["remedy"]["command"])[-3:] == ["plugin", "update", "wat-echo"]


@pytest.mark.req("PLG-350")
def test_strict_mode_holds_for_install_and_the_answer_names_the_way_out(home, zeroclaw, package) -> None:
    home.configure('[plugins.security]\nsignature_mode = "strict"\n')
    outcome = zeroclaw("plugin", "install", str(package()), "--no-verify")
    assert outcome.status == 4
    assert "not signed" in outcome.err
    assert not (home.plugins / "wat-echo").exists()


def test_without_a_registry_a_name_says_how_to_name_one(home, zeroclaw) -> None:
    for command in (["install", "some-plugin"], ["search", "x"]):
        outcome = zeroclaw("plugin", *command)
        assert outcome.status == 2
        assert "--registry" in outcome.err
        assert "ZEROCLAW_PLUGIN_REGISTRY_URL" in outcome.err


@pytest.mark.parametrize("how", ["option", "variable", "configuration"])
def test_a_registry_is_found_by_option_then_variable_then_configuration(
    home, zeroclaw, package, how: str
) -> None:
    good = home.path / "registry"
    good.mkdir()
    (good / "wat-echo.zip").write_bytes(write_archive(admit(DirectoryReader(package()), SignaturePolicy())))
    entry = {"name": "wat-echo", "version": "1.0.0", "description": "Echo", "url": "wat-echo.zip"}
    (good / "registry.json").write_text(json.dumps({"plugins": [entry]}))
    bad = str(home.path / "missing")
    home.configure(f'[plugins]\nregistry_url = "{good if how == "configuration" else bad}"\n')
    env = (
        {}
        if how == "configuration"
        else {"ZEROCLAW_PLUGIN_REGISTRY_URL": str(good) if how == "variable" else bad}
    )
    option = ["--registry", str(good)] if how == "option" else []
    found = zeroclaw("plugin", "search", "ECHO", *option, env=env)
    assert found.out == "wat-echo\t1.0.0\tEcho\n", found.err
    assert zeroclaw("plugin", "search", *option, env=env).out == found.out
    assert zeroclaw("plugin", "search", "nothing", *option, env=env).out == ""
    assert zeroclaw("plugin", "install", "wat-echo@1.0.0", *option, env=env).status == 0
    unknown = zeroclaw("plugin", "install", "other", *option, env=env)
    assert unknown.status == 5


@pytest.mark.req("PLG-123", "PAINS-25")
@pytest.mark.parametrize("command", [["install", "./x"], ["remove", "x"], ["list"], ["info", "x"]])
def test_an_unreadable_plugins_section_is_named_by_every_plugin_command(
    home, zeroclaw, command: list[str]
) -> None:
    text = '[plugins]\nenabled = true\n[plugins.entries]\nname = "x"\n'
    home.configure(text)
    outcome = zeroclaw("plugin", *command)
    assert f"{home.config_file}:3:1: plugins.entries" in outcome.err
    assert (outcome.status == 0) == (command == ["list"])
    assert home.config_file.read_text() == text


def test_while_the_section_is_unreadable_nothing_unsigned_passes(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure('[plugins.security]\nsignature_mod = "permissive"\n')
    outcome = zeroclaw("plugin", "list")
    assert outcome.out == ""
    assert "not signed" in outcome.err


def test_an_install_whose_row_cannot_be_written_changes_nothing(home, zeroclaw, package) -> None:
    source = package(more=EGRESS)
    config = home.config_file
    config.parent.mkdir(parents=True)
    config.with_name("config.toml.lock").mkdir()
    outcome = zeroclaw("plugin", "install", str(source))
    assert outcome.status == 7
    assert "installed" not in outcome.out
    assert not (home.plugins / "wat-echo").exists()
    assert not config.exists()


# Beside a running daemon.


@pytest.mark.req("PLG-028", "PLG-116", "PAINS-13")
def test_a_plugin_installed_beside_a_running_daemon_is_there_at_the_next_turn(
    home, zeroclaw, start_daemon, package
) -> None:
    home.configure(ON)
    daemon = start_daemon(cwd=home.path.parent)
    before = zeroclaw("prompt", '/tool wat_echo {"n": 1}')
    assert "there is no tool wat_echo" in before.out
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.word]\ntype = "string"\n'
        '[config_schema.properties.token]\ntype = "string"\nx-secret = true\n'
    )
    assert zeroclaw("plugin", "install", str(package(more=schema))).status == 0
    for name, value in (("word", "hello"), ("token", "hunter2")):
        zeroclaw("config", "set", f"plugins.entries.{KEY}.config.{name}", value)
    asked = zeroclaw("prompt", '/tool wat_echo {"n": 1, "__config": "mine"}')
    assert asked.status == 0
    assert json.loads(asked.out) == {"n": 1, "__config": {"word": "hello"}}
    assert asked.err.splitlines()[0].startswith("→ wat_echo ")
    assert asked.err.splitlines()[1].startswith("← wat_echo ")
    assert zeroclaw("status", "--json").json["tools"] == ["wat_echo"]
    zeroclaw("plugin", "remove", "wat-echo")
    assert "there is no tool wat_echo" in zeroclaw("prompt", "/tool wat_echo {}").out
    assert daemon.stop()[0] == 0
    [record] = [r for r in home.log() if r["message"] == "the guest speaks"]
    assert record["severity_text"] == "WARN"
    assert record["zeroclaw"]["agent"] == "assistant"
    assert record["zeroclaw"]["tool"] == "wat_echo"
    assert record["zeroclaw"]["plugin"] == "wat-echo"
    assert record["attributes"]["plugin_fn"] == "execute"
    assert "hunter2" not in (home.data / "logs" / "daemon.jsonl").read_text()


@pytest.mark.req("PLG-127", "PLG-128", "PLG-348", "PLG-349")
@pytest.mark.parametrize(
    ("enabled", "auto_discover", "tools"),
    [(False, False, []), (True, False, []), (False, True, []), (True, True, ["wat_echo"])],
)
def test_only_both_switches_together_bring_a_tool_to_life(
    home, zeroclaw, start_daemon, package, enabled: bool, auto_discover: bool, tools: list[str]
) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(
        f"[plugins]\nenabled = {str(enabled).lower()}\nauto_discover = {str(auto_discover).lower()}\n"
        '[channels.plugin.ops]\npackage = "wat-echo"\n[memory]\nbackend = "plugin:wat-echo"\n'
    )
    daemon = start_daemon()
    answer = zeroclaw("prompt", '/tool wat_echo {"n": 1}')
    assert answer.out.startswith('{"n": 1}' if tools else "error: there is no tool wat_echo")
    assert zeroclaw("status", "--json").json["tools"] == tools
    listed = zeroclaw("plugin", "list")
    assert listed.out.startswith("wat-echo\t")
    assert ("plugins are off" in listed.err) == (not enabled)
    assert zeroclaw("plugin", "info", "wat-echo").status == 0
    daemon.stop()
    loaded = [record for record in home.log() if record["event"]["action"] == "plugin_loaded"]
    assert len(loaded) == len(tools)


def test_a_package_that_does_not_load_is_reported_and_the_others_work(
    home, zeroclaw, start_daemon, package
) -> None:
    zeroclaw("plugin", "install", str(package("broken", component=OTHER_COMPONENT)), "--no-verify")
    zeroclaw("plugin", "install", str(package()))
    home.configure(ON)
    daemon = start_daemon()
    assert zeroclaw("prompt", '/tool wat_echo {"n": 1}').out == '{"n": 1}\n'
    status, said = daemon.stop()
    assert status == 0
    assert "broken does not load" in said
    [record] = [r for r in home.log() if r["event"]["action"] == "plugin_left_out"]
    assert record["attributes"]["plugin"] == "broken"


def test_the_ceiling_of_active_instances_holds(home, zeroclaw, start_daemon, package) -> None:
    zeroclaw("plugin", "install", str(package("aaa")))
    zeroclaw("plugin", "install", str(package("bbb")))
    home.configure(ON + "max_active_instances = 1\n")
    daemon = start_daemon()
    zeroclaw("prompt", "/tool wat_echo {}")
    daemon.stop()
    assert [r["attributes"]["plugin"] for r in home.log() if r["event"]["action"] == "plugin_not_active"] == [
        "bbb"
    ]


def test_limits_of_the_configuration_bound_the_guest(home, zeroclaw, start_daemon, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(ON)
    daemon = start_daemon()
    assert zeroclaw("prompt", '/tool wat_echo {"n": 1}').out == '{"n": 1}\n'
    zeroclaw("config", "set", "plugins.limits.call_fuel", "1")
    assert "there is no tool wat_echo" in zeroclaw("prompt", "/tool wat_echo {}").out
    assert "1 of 1 units (call_fuel)" in daemon.stop()[1]


def test_an_agent_gets_the_tools_it_lists_and_runs_none_where_it_may_not(
    home, zeroclaw, start_daemon, package
) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(
        ON + '[agents.all]\n[agents.none]\ntools = []\n[agents.named]\ntools = ["wat_echo"]\n'
        '[agents.refuses]\napproval = "deny"\n[agents.off]\nenabled = false\n'
    )
    start_daemon()
    answers = {
        alias: zeroclaw("prompt", "--agent", alias, '/tool wat_echo {"n": 1}').out == '{"n": 1}\n'
        for alias in ("all", "none", "named", "refuses")
    }
    assert answers == {"all": True, "none": False, "named": True, "refuses": False}
    off = zeroclaw("prompt", "--agent", "off", "hello")
    assert off.status == 5
    assert "all, named, none, refuses" in off.err


def test_a_daemon_that_ends_gives_up_what_is_being_compiled(
    home, zeroclaw, package, large_component, tmp_path: Path
) -> None:
    zeroclaw("plugin", "install", str(package(component=large_component)), "--no-verify")
    home.configure(ON)
    paths = Paths.resolve(None, home.environment({"ZEROCLAW_CACHE_DIR": str(tmp_path / "empty")}))
    snapshot = load(home.config_file)
    services = InstanceServices(config=EntryResolver(lambda: snapshot, home.key_file), log=MemoryLogSink())
    tools = PluginTools(paths, services)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(tools.tools, snapshot)
        # The compiler's lock on this component is there as soon as it has begun.
        for _ in range(3_000):
            if list((tmp_path / "empty").glob(".*.lock")):
                break
            wait([loading], timeout=0.01)
        tools.stop()
        assert list(loading.result(timeout=60)) == []
    tools.close()
    assert [path for path in (tmp_path / "empty").iterdir() if path.stat().st_size > 1_000] == []


def test_a_package_that_could_not_be_read_is_a_tool_again_when_it_can_be(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(ON)
    snapshot = load(home.config_file)
    services = InstanceServices(config=EntryResolver(lambda: snapshot, home.key_file), log=MemoryLogSink())
    tools = PluginTools(Paths.resolve(None, home.environment()), services)
    [before] = tools.tools(snapshot)
    manifest = home.plugins / "wat-echo" / "manifest.toml"
    text = manifest.read_bytes()
    manifest.write_bytes(text + b"\n")  # so that it is looked at again
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert tools.tools(snapshot) == ()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [tool.name for tool in tools.tools(snapshot)] == [before.name]
    tools.close()


def test_settings_that_change_again_and_again_leave_nothing_behind(home, zeroclaw, package) -> None:
    zeroclaw("plugin", "install", str(package()))
    home.configure(ON)
    services = InstanceServices(
        config=EntryResolver(lambda: load(home.config_file), home.key_file), log=MemoryLogSink()
    )
    tools = PluginTools(Paths.resolve(None, home.environment()), services)

    def descriptors_and_threads() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    [held] = tools.tools(load(home.config_file))
    found: list[tuple[int, int]] = []
    for number in range(6):
        home.configure(f"{ON}[plugins.limits]\ncall_fuel = {1_000_000_000 + number}\n")
        tools.tools(load(home.config_file))
        gc.collect()
        found.append(descriptors_and_threads())
    assert all(last <= third for last, third in zip(found[-1], found[2], strict=True))
    # Whoever holds a tool of long ago can still use it.
    assert held.execute_sync({"a": 1}).output == '{"a": 1}'  # type: ignore[attr-defined]
    tools.close()


def test_a_package_whose_configuration_is_mended_comes_back_without_a_restart(
    home, zeroclaw, start_daemon, package
) -> None:
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.depth]\ntype = "integer"\nmaximum = 9\n'
    )
    home.configure(ON)
    installed = zeroclaw("plugin", "install", str(package(more=schema)), "--json")
    depth = f"plugins.entries.{installed.json['key']}.config.depth"
    # No command writes what the schema refuses, but a hand does.
    home.configure(home.config_file.read_text() + '[plugins.entries.config]\ndepth = "10"\n')
    start_daemon()
    assert "there is no tool wat_echo" in zeroclaw("prompt", "/tool wat_echo {}").out
    assert zeroclaw("config", "set", depth, "5").status == 0
    assert "there is no tool" not in zeroclaw("prompt", "/tool wat_echo {}").out
    assert zeroclaw("status", "--json").json["tools"] == ["wat_echo"]


def test_status_names_no_tool_that_the_operator_has_switched_off(
    home, zeroclaw, start_daemon, package
) -> None:
    home.configure(ON)
    assert zeroclaw("plugin", "install", str(package())).status == 0
    start_daemon()
    assert zeroclaw("prompt", "hello").status == 0
    assert zeroclaw("status", "--json").json["tools"] == ["wat_echo"]
    assert zeroclaw("config", "set", "plugins.auto_discover", "false").status == 0
    assert zeroclaw("status", "--json").json["tools"] == []
