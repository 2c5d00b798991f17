"""``zeroclaw config patch``, ``validate`` and ``schema``."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import pytest

from zeroclaw_host.instance import InstanceIdentity

KEY = InstanceIdentity.default_tool("notes").key
START = """\
schema_version = 1

[agents.ada]
model = "m" # hers

[gateway]
port = 80
"""


def patched(zeroclaw, *operations: object, more: tuple[str, ...] = ()):
    return zeroclaw("config", "patch", json.dumps(operations), *more)


@pytest.mark.req("PLG-206")
def test_a_patch_makes_a_row_that_is_missing_already_granted(home, zeroclaw) -> None:
    grant = {"op": "add", "path": f"/plugins/entries/{KEY}/egress_hosts", "value": ["a.example", "b.example"]}
    outcome = patched(zeroclaw, grant)
    assert (outcome.status, outcome.out) == (0, f"plugins.entries.{KEY}.egress_hosts: set\n")
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row == {"name": KEY, "egress_hosts": ["a.example", "b.example"]}
    more = {"op": "add", "path": f"/plugins/entries/{KEY}/egress_hosts/-", "value": "c.example"}
    assert (
        patched(zeroclaw, more, grant | {"path": f"/plugins/entries/{KEY}/egress_allow_private"}).status == 0
    )
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row["egress_hosts"] == ["a.example", "b.example", "c.example"]


def test_a_patch_is_one_step_and_keeps_comments(home, zeroclaw) -> None:
    home.configure(START)
    outcome = patched(
        zeroclaw,
        {"op": "test", "path": "/gateway/port", "value": 80},
        {"op": "replace", "path": "/agents/ada/max_steps", "value": 3},
        {"op": "remove", "path": "/gateway/port"},
        {"op": "add", "path": "/agents/bob", "value": {"model": "n", "tools": ["x"]}},
        {"op": "add", "path": "/permission_profiles/op", "value": {"grants": {"config": ["read"]}}},
        {"op": "add", "path": "/users/eve", "value": {"uid": 1, "permission_profiles": ["op"]}},
        more=("--json",),
    )
    assert outcome.status == 0
    assert outcome.json["props"][:3] == ["gateway.port", "agents.ada.max_steps", "gateway.port"]
    text = home.config_file.read_text()
    assert 'model = "m" # hers' in text
    assert tomllib.loads(text) == {
        "schema_version": 1,
        "agents": {"ada": {"model": "m", "max_steps": 3}, "bob": {"model": "n", "tools": ["x"]}},
        "gateway": {},
        "permission_profiles": {"op": {"grants": {"config": ["read"]}}},
        "users": {"eve": {"uid": 1, "permission_profiles": ["op"]}},
    }
    assert patched(zeroclaw, {"op": "add", "path": "/agents/bob", "value": {"model": "o"}}).status == 0
    assert tomllib.loads(home.config_file.read_text())["agents"]["bob"] == {"model": "o"}


GOOD = {"op": "replace", "path": "/agents/ada/model", "value": "n"}


@pytest.mark.parametrize(
    ("bad", "status", "words"),
    [
        ({"op": "replace", "path": "/gateway/port", "value": "x"}, 3, "gateway.port: must be a whole number"),
        (
            {"op": "replace", "path": "/gateway/port", "value": 70000},
            3,
            "gateway.port: must be at most 65535",
        ),
        ({"op": "replace", "path": "/gateway/prot", "value": 1}, 5, "the closest are gateway.port"),
        ({"op": "replace", "path": "/gateway", "value": {"port": 1}}, 5, "it is a section"),
        ({"op": "add", "path": "/agents/ada", "value": {"modle": "x"}}, 5, "agents.ada.model"),
        ({"op": "add", "path": "/agents/default", "value": {}}, 3, "reserved"),
        ({"op": "add", "path": "/plugins/entries/notes/egress_hosts", "value": ["a"]}, 3, "notes"),
        ({"op": "replace", "path": f"/plugins/entries/{KEY}/egress_hosts", "value": ["a"]}, 5, "no row"),
        ({"op": "remove", "path": "/agents/nobody"}, 5, "agents has no key nobody; there is ada"),
        ({"op": "remove", "path": "/gateway"}, 5, "it is a section"),
        (
            {"op": "test", "path": "/gateway/port", "value": 81},
            6,
            "gateway.port is not what the patch was made",
        ),
        ({"op": "test", "path": "/gateway/port", "value": True}, 6, "gateway.port"),
        ({"op": "add", "path": "/users/eve", "value": {"uid": 1}}, 3, "users.eve.permission_profiles"),
        ({"op": "move", "path": "/a", "from": "/b"}, 3, "operation 1 of the patch must have an op of add"),
        ({"op": "add", "path": "agents", "value": 1}, 3, "must have a path that begins with /"),
        ({"op": "add", "path": "", "value": 1}, 3, "must have a path that begins with /"),
        ({"op": "add", "path": "/agents/ada/model"}, 3, "must have a value"),
        ({"op": "remove", "path": "/agents/ada/model", "value": 1}, 3, "must have no value"),
        ({"op": "remove", "path": "/agents/ada/model", "form": 1}, 3, "a member that is not taken: form"),
        ("remove", 3, "operation 1 of the patch is no JSON object"),
    ],
)
def test_a_patch_that_cannot_be_made_as_a_whole_changes_nothing(home, zeroclaw, bad, status, words) -> None:
    home.configure(START)
    outcome = patched(zeroclaw, GOOD, bad)
    assert outcome.status == status
    assert words in outcome.err
    assert home.config_file.read_text() == START


@pytest.mark.parametrize("text", ["", "{}", "[]", "[", "null", '"x"', json.dumps([GOOD] * 257)])
def test_what_is_no_patch_is_refused(home, zeroclaw, text: str) -> None:
    home.configure(START)
    assert zeroclaw("config", "patch", text).status == 3
    assert home.config_file.read_text() == START


def test_a_patch_of_as_many_operations_as_may_be_is_made(home, zeroclaw) -> None:
    home.configure(START)
    assert patched(zeroclaw, *([GOOD] * 256)).status == 0


def test_a_secret_is_not_compared(home, zeroclaw) -> None:
    home.configure(START + '[providers.models.openai.main]\napi_key = "hunter2"\n')
    test = {"op": "test", "path": "/providers/models/openai/main/api_key", "value": "hunter2"}
    outcome = patched(zeroclaw, test)
    assert outcome.status == 3
    assert "cannot be compared" in outcome.err
    assert "hunter2" not in outcome.err


def test_a_patch_comes_from_standard_input(home) -> None:
    secret = {"op": "add", "path": "/providers/models/openai/main/api_key", "value": "hunter2"}
    done = subprocess.run(
        ["zeroclaw", "config", "patch", "-"],
        env=home.environment(),
        input=json.dumps([secret]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "providers.models.openai.main.api_key: set\n"
    assert "hunter2" not in home.config_file.read_text()


@pytest.mark.req("PAINS-25", "PLG-123")
@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("[gateway]\nport = \n", "2:8", "not TOML"),
        ('[gateway]\nport = "x"\n', "2:1", "gateway.port: a whole number is wanted here"),
        ("[gateway]\nprot = 1\n", "2:1", "did you mean port?"),
        ("[plugins.entries]\nname = 1\n", "1:1", "[[plugins.entries]]"),
        ("[agents.ada]\nprovider = 'openai.x'\n", "2:1", "there is no provider openai.x; there is echo"),
        ("[users.a]\nuid = 1\npermission_profiles = ['p']\n", "3:1", "no permission profile p"),
    ],
)
def test_validate_names_what_is_wrong_with_its_place(
    home, zeroclaw, text: str, where: str, words: str
) -> None:
    home.configure(text)
    outcome = zeroclaw("config", "validate")
    assert outcome.status == 3
    assert outcome.out.startswith(f"{home.config_file}:{where}: ")
    assert words in outcome.out
    found = zeroclaw("config", "validate", "--json")
    assert found.status == 3
    assert found.json["valid"] is False
    [problem] = found.json["problems"]
    assert f"{problem['line']}:{problem['column']}" == where
    assert home.config_file.read_text() == text


def test_validate_names_everything_that_is_wrong(home, zeroclaw) -> None:
    home.configure("colour = 1\n[gateway]\nport = 70000\n")
    assert [line.split(": ")[1] for line in zeroclaw("config", "validate").out.splitlines()] == [
        "colour",
        "gateway.port",
    ]


def test_validate_of_a_good_file_and_of_none(home, zeroclaw) -> None:
    outcome = zeroclaw("config", "validate")
    assert (outcome.status, outcome.out) == (0, f"there is no {home.config_file}; all is at its default\n")
    home.configure(START)
    assert zeroclaw("config", "validate").out == f"{home.config_file} is valid\n"
    assert zeroclaw("config", "validate", "--json").json == {
        "valid": True,
        "file": str(home.config_file),
        "problems": [],
        "notices": [],
    }


@pytest.mark.parametrize("version", ["", "schema_version = 0\n"])
def test_validate_tells_that_commands_do_not_change_a_file_of_an_earlier_release(
    home, zeroclaw, version: str
) -> None:
    home.configure(f"{version}[gateway]\nport = 1\n")
    outcome = zeroclaw("config", "validate")
    assert outcome.status == 0
    assert "earlier release" in outcome.err
    assert "zeroclaw config migrate" in outcome.err
    assert zeroclaw("config", "migrate").status == 0
    assert zeroclaw("config", "validate").err == ""


def test_a_version_that_cannot_be_is_no_earlier_release(home, zeroclaw) -> None:
    home.configure("schema_version = -1\n")
    outcome = zeroclaw("config", "set", "gateway.port", "2")
    assert outcome.status == 3
    assert "1:1: schema_version: must be at least 0" in outcome.err


def test_validate_looks_at_another_file_without_the_environment(home, zeroclaw) -> None:
    other = home.path / "other.toml"
    other.write_text("[gateway]\nport = 1\n")
    env = {"ZEROCLAW_gateway__port": "many"}
    assert zeroclaw("config", "validate", str(other), env=env).status == 0
    mine = zeroclaw("config", "validate", env=env)
    assert mine.status == 3
    assert "the environment variable ZEROCLAW_gateway__port" in mine.out
    assert zeroclaw("config", "validate", str(home.path / "none.toml")).status == 2


def test_validate_tells_of_rows_that_nobody_reads(home, zeroclaw) -> None:
    home.configure(START + '[[plugins.entries]]\nname = "weather"\n')
    outcome = zeroclaw("config", "validate")
    assert outcome.status == 0
    assert "the row weather of plugins.entries is read by nobody" in outcome.err


def test_validate_tells_of_instances_that_do_not_run(home, zeroclaw, package, compile_cache) -> None:
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        'required = ["depth"]\n[config_schema.properties.depth]\ntype = "integer"\n'
    )
    home.configure(START)
    assert zeroclaw("plugin", "install", str(package(more=schema))).status == 0
    outcome = zeroclaw("config", "validate")
    assert outcome.status == 0
    assert "property depth is required" in outcome.err
    assert "does not run until it does" in outcome.err


def test_the_schema_is_json_schema_with_secrets_write_only(zeroclaw) -> None:
    import jsonschema_rs

    schema = zeroclaw("config", "schema").json
    jsonschema_rs.meta.validate(schema)
    key = schema["$defs"]["ModelProvider"]["properties"]["api_key"]["anyOf"][0]
    assert key["writeOnly"] is True
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid(tomllib.loads(START))
    assert not check.is_valid({"gateway": {"prot": 1}})
    assert not check.is_valid({"gateway": {"port": 70000}})
    told = [each["description"] for each in schema["$defs"].values()]
    assert "`[agents.<alias>]`: who answers a prompt." in told
    assert not [words for words in told if "``" in words or re.search(r"[A-Z]-\d", words)]


@pytest.mark.req("PLG-368", "PLG-172")
def test_a_file_of_an_earlier_release_is_migrated_and_then_written(
    home, zeroclaw, package, compile_cache
) -> None:
    schema = (
        'permissions = ["config_read"]\n[config_schema]\ntype = "object"\nadditionalProperties = false\n'
        '[config_schema.properties.depth]\ntype = "integer"\n'
    )
    assert zeroclaw("plugin", "install", str(package(more=schema))).status == 0
    old = (
        '# mine\n[[plugins.entries]]\nname = "wat-echo" # the old way\nconfig = { depth = "4" }\n'
        '[[plugins.entries]]\nname = "elsewhere"\n'
    )
    home.configure(old)
    refused = zeroclaw("config", "set", "gateway.port", "80")
    assert refused.status == 6
    assert "config migrate" in refused.err
    assert home.config_file.read_text() == old
    done = zeroclaw("config", "migrate")
    key = InstanceIdentity.default_tool("wat-echo").key
    assert done.out == f"{home.config_file} has the layout 1\nrow wat-echo is now {key}\n1 secret sealed\n"
    assert f"{home.config_file}:6:1: the row elsewhere was left as it is" in done.err
    text = home.config_file.read_text()
    assert text.startswith("schema_version = 1\n")
    assert "# mine" in text
    assert "# the old way" in text
    assert zeroclaw("config", "set", "gateway.port", "80").status == 0
    text = home.config_file.read_text()
    again = zeroclaw("config", "migrate", "--json").json
    assert (again["changed"], again["renamed"]) == (False, [])
    assert home.config_file.read_text() == text


@pytest.mark.req("PLG-172")
def test_a_row_that_was_named_after_a_channel_gets_that_channels_key(home, zeroclaw) -> None:
    home.configure('[channels.plugin.ops]\npackage = "relay"\n[[plugins.entries]]\nname = "ops"\n')
    [row] = zeroclaw("config", "migrate", "--json").json["renamed"]
    identity = InstanceIdentity.parse(row["to"])
    assert (row["from"], identity.package, identity.binding) == ("ops", "relay", "ops")


def test_a_migration_of_nothing_writes_nothing(home, zeroclaw) -> None:
    assert zeroclaw("config", "migrate").status == 0
    assert not home.config_file.exists()
