"""``zeroclaw config``, ``zeroclaw prompt`` and the rules every command keeps."""

from __future__ import annotations

import json
import subprocess
import tomllib

import pytest

KEY = "zpi1_WyJ3Iiw0XQ"


@pytest.mark.req("PLG-119", "PLG-122")
def test_a_value_that_is_set_can_be_got_and_is_listed(home, zeroclaw) -> None:
    for name, value in (("call_fuel", "7"), ("call_timeout_ms", "8"), ("max_memory_mb", "9")):
        path = f"plugins.limits.{name}"
        assert zeroclaw("config", "set", path, value).out == f"{path} = {value}\n"
        assert zeroclaw("config", "get", path).out == f"{value}\n"
    assert zeroclaw("config", "set", "plugins.enabled", "true").status == 0
    listed = zeroclaw("config", "list", "plugins").out
    assert "plugins.enabled\ttrue\t" in listed
    assert "plugins.limits.max_memory_mb\t9\t" in listed
    assert tomllib.loads(home.config_file.read_text())["plugins"]["limits"]["call_timeout_ms"] == 8


@pytest.mark.req("PLG-119")
def test_json_says_everything_about_a_property(zeroclaw) -> None:
    found = zeroclaw("config", "get", "plugins.security.signature_mode", "--json").json
    assert found.pop("description")
    assert found == {
        "path": "plugins.security.signature_mode",
        "kind": "enum",
        "value": "disabled",
        "default": "disabled",
        "populated": False,
        "is_secret": False,
        "is_env_overridden": False,
        "enum_variants": ["disabled", "permissive", "strict"],
    }
    listed = zeroclaw("config", "list", "--json").json
    assert {"plugins.enabled", "rpc.max_local_connections"} <= {each["path"] for each in listed}


def test_secrets_are_masked_everywhere(home, zeroclaw) -> None:
    home.configure(
        f'schema_version = 1\n[[plugins.entries]]\nname = "{KEY}"\n[plugins.entries.config]\ntoken = "hunter2"\n'
        '[providers.models.openai.main]\napi_key = "hunter2"\n'
    )
    outcomes = [
        zeroclaw("config", "list"),
        zeroclaw("config", "list", "--json"),
        zeroclaw("config", "get", f"plugins.entries.{KEY}.config.token"),
        zeroclaw("config", "get", f"plugins.entries.{KEY}.config.token", "--json"),
        zeroclaw("config", "set", "providers.models.openai.main.api_key", "hunter2x"),
        zeroclaw("config", "set", "providers.models.openai.main.api_key", "hunter2", "--json"),
    ]
    assert [outcome.status for outcome in outcomes] == [0] * len(outcomes)
    assert "hunter2" not in "".join(outcome.out + outcome.err for outcome in outcomes)


def test_an_unknown_property_names_the_closest(zeroclaw) -> None:
    for command in (["get", "plugins.enabld"], ["set", "plugins.enabld", "true"], ["list", "plugins.enabld"]):
        outcome = zeroclaw("config", *command)
        assert outcome.status == 5
        assert "Unknown property plugins.enabld; the closest are plugins.enabled" in outcome.err


def test_a_bad_value_is_refused_and_nothing_is_written(home, zeroclaw) -> None:
    for path, value in (
        ("plugins.enabled", "yes"),
        ("plugins.limits.call_fuel", "0"),
        ("agents.default.model", "m"),
    ):
        outcome = zeroclaw("config", "set", path, value)
        assert outcome.status == 3
        assert path in outcome.err
    assert not home.config_file.exists()


@pytest.mark.req("PLG-198")
@pytest.mark.parametrize("option", [[], ["--no-interactive"]])
def test_without_a_value_and_without_a_person_nothing_is_written(
    home, zeroclaw_process, option: list[str]
) -> None:
    outcome = zeroclaw_process("config", "set", *option, "gateway.port")
    assert outcome.status == 2
    assert "a value for gateway.port is missing" in outcome.err
    assert "config set --help" in outcome.err
    assert not home.config_file.exists()


def test_what_cannot_be_listed_is_told(home, zeroclaw) -> None:
    home.configure('schema_version = 1\n[[plugins.entries]]\nname = "old.package"\n')
    outcome = zeroclaw("config", "list", "gateway")
    assert outcome.status == 0
    assert "plugins.entries: 'old.package' is not listed" in outcome.err
    assert "gateway.port" in outcome.out


def test_append_adds_to_a_list_and_to_nothing_else(zeroclaw) -> None:
    path = "plugins.security.trusted_publisher_keys"
    zeroclaw("config", "set", path, "aa")
    assert zeroclaw("config", "set", "--append", path, "bb").out == f'{path} = ["aa", "bb"]\n'
    outcome = zeroclaw("config", "set", "--append", "plugins.enabled", "true")
    assert outcome.status == 3
    assert "is no list" in outcome.err


def test_an_override_is_shown_beside_the_file_and_does_not_reach_it(home, zeroclaw) -> None:
    env = {"ZEROCLAW_gateway__port": "99"}
    got = zeroclaw("config", "get", "gateway.port", env=env)
    assert got.out == "99\n"
    assert "ZEROCLAW_gateway__port; without it, it would be 42617" in got.err
    outcome = zeroclaw("config", "set", "gateway.port", "5", env=env)
    assert outcome.out == "gateway.port = 5\n"
    assert "the environment variable ZEROCLAW_gateway__port wins over the file" in outcome.err
    assert tomllib.loads(home.config_file.read_text())["gateway"]["port"] == 5
    found = zeroclaw("config", "get", "gateway.port", "--json", env=env).json
    assert (found["value"], found["file_value"], found["env_variable"]) == (99, 5, "ZEROCLAW_gateway__port")
    assert found["is_env_overridden"] is True
    assert zeroclaw("config", "get", "gateway.port").out == "5\n"


def test_a_secret_that_a_variable_sets_is_masked_as_well(home, zeroclaw) -> None:
    home.configure('schema_version = 1\n[providers.models.openai.main]\napi_key = "hunter2"\n')
    env = {"ZEROCLAW_providers__models__openai__main__api_key": "hunter3"}
    path = "providers.models.openai.main.api_key"
    for outcome in (
        zeroclaw("config", "get", path, env=env),
        zeroclaw("config", "get", path, "--json", env=env),
        zeroclaw("config", "list", "--json", env=env),
    ):
        assert outcome.status == 0
        assert "hunter" not in outcome.out + outcome.err
    assert "file_value" not in zeroclaw("config", "get", path, "--json", env=env).json


@pytest.mark.req("PAINS-25", "RPC-249")
def test_a_broken_file_is_named_with_its_place_and_kept(home, zeroclaw) -> None:
    home.configure("[gateway]\nport = \n")
    for command in (["get", "gateway.port"], ["list"], ["set", "gateway.port", "1"]):
        outcome = zeroclaw("config", *command)
        assert outcome.status == 3
        assert f"{home.config_file}:2:8: " in outcome.err
        assert f"Mend {home.config_file}, line 2, column 8." in outcome.err
    assert home.config_file.read_text() == "[gateway]\nport = \n"


def test_errors_are_json_where_json_was_asked_for(zeroclaw) -> None:
    outcome = zeroclaw("config", "get", "nothing.here", "--json")
    assert outcome.out == ""
    assert json.loads(outcome.err)["error"]["code"] == "unknown_property"


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["config"], ["config", "get"], ["plugin", "install"], ["prompt"], ["--config-dir"]],
)
def test_a_command_that_is_not_well_formed_is_status_2(zeroclaw, arguments: list[str]) -> None:
    assert zeroclaw(*arguments).status == 2


def test_a_blank_directory_is_no_directory(zeroclaw) -> None:
    outcome = zeroclaw("--config-dir", " ", "config", "list")
    assert outcome.status == 2
    assert "--config-dir is blank" in outcome.err


def test_help_and_version_need_no_home(zeroclaw) -> None:
    from importlib.metadata import version

    assert zeroclaw("--version").out == f"zeroclaw {version('zeroclaw-daemon')}\n"
    assert "zeroclaw plugin install" in zeroclaw("--help").out
    for command in ("daemon", "status", "prompt", "plugin", "config"):
        assert "Usage: " in zeroclaw(command, "--help").out


def test_a_reader_that_goes_away_is_no_traceback(home, zeroclaw_process) -> None:
    done = subprocess.run(
        "zeroclaw config list --json | head -c 1",
        shell=True,
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[", "")


# Prompts.


def test_an_answer_goes_to_standard_output_and_everything_else_beside_it(start_daemon, zeroclaw) -> None:
    start_daemon()
    assert zeroclaw("prompt", "hello there").out == "hello there\n"
    thinking = zeroclaw("prompt", "/think deeply")
    assert (thinking.out, thinking.err) == ("done\n", "… deeply\n")
    assert zeroclaw("prompt", "/chunks 3 \x1b[2Jabc").out == "\\x1b[2Jabc\n"
    assert zeroclaw("status", "--json").json["sessionIds"] == []


def test_json_shows_every_event_and_then_the_result(start_daemon, zeroclaw) -> None:
    start_daemon()
    events = [json.loads(line) for line in zeroclaw("prompt", "--json", "/chunks 2 abcd").out.splitlines()]
    assert [event["type"] for event in events] == [
        "agent_message_chunk", "agent_message_chunk", "turn_complete", "result",
    ]  # fmt: skip
    assert "".join(event["text"] for event in events[:2]) == "abcd"
    assert (events[3]["stopReason"], events[3]["content"]) == ("end_turn", "abcd")


def test_a_named_session_goes_on_where_it_was(start_daemon, zeroclaw) -> None:
    start_daemon()
    for _ in range(2):
        assert zeroclaw("prompt", "--session", "mine", "hello").out == "hello\n"
    assert zeroclaw("status", "--json").json["sessionIds"] == ["mine"]


def test_a_failed_turn_is_an_error_and_leaves_no_session(start_daemon, zeroclaw) -> None:
    start_daemon()
    outcome = zeroclaw("prompt", "/fail no luck")
    assert outcome.status == 7
    assert "no luck" in outcome.err
    assert zeroclaw("status", "--json").json["sessionIds"] == []


def test_without_an_agent_the_only_one_is_meant(home, start_daemon, zeroclaw) -> None:
    home.configure("schema_version = 1\n[agents.ada]\n")
    start_daemon()
    assert zeroclaw("prompt", "hello").out == "hello\n"
    zeroclaw("config", "set", "agents.bob.model", "m")
    outcome = zeroclaw("prompt", "hello")
    assert outcome.status == 2
    assert "ada, bob" in outcome.err
    assert zeroclaw("prompt", "--agent", "bob", "/model").out == "m\n"


def test_an_agent_of_a_provider_that_cannot_be_asked_says_so(home, start_daemon, zeroclaw) -> None:
    home.configure(
        '[agents.ada]\nprovider = "openai.main"\n[providers.models.openai.main]\nuri = "far"\nmodel = "m"\n'
    )
    start_daemon()
    outcome = zeroclaw("prompt", "hello")
    assert outcome.status == 7
    assert "openai.main" in outcome.err
    assert "config set 'providers.models.openai.main.uri'" in outcome.err


def test_a_blank_prompt_is_refused_before_anybody_is_asked(zeroclaw) -> None:
    assert zeroclaw("prompt", " ").status == 2


def test_an_override_without_which_the_file_cannot_be_used_is_shown_as_well(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n[gateway]\nport = 70000\n")
    env = {"ZEROCLAW_gateway__port": "80"}
    got = zeroclaw("config", "get", "gateway.port", env=env)
    assert (got.status, got.out) == (0, "80\n")
    assert "without it, there would be none" in got.err
    assert zeroclaw("config", "get", "gateway.port").status == 3
