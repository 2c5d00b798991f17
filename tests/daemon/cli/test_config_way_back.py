"""What was set by mistake can be found and taken back with the same command."""

from __future__ import annotations

import re
import tomllib

import pytest

from zeroclaw_host.instance import InstanceIdentity

KEY = InstanceIdentity.default_tool("redact").key
ROW = f'schema_version = 1\n\n[[plugins.entries]]\nname = "{KEY}"\n\n[plugins.entries.config]\nreplacment = "***" # oops\npatterns = "[]"\n'


def test_a_misspelt_property_of_an_instance_can_be_deleted(home, zeroclaw) -> None:
    home.configure(ROW)
    outcome = zeroclaw("config", "delete", f"plugins.entries.{KEY}.config.replacment")
    assert (outcome.status, outcome.out) == (0, f"plugins.entries.{KEY}.config.replacment = <unset>\n")
    kept = re.sub('patterns = "enc2:[0-9a-f]+"', 'patterns = "[]"', home.config_file.read_text())
    assert kept == ROW.replace('replacment = "***" # oops\n', "")


def test_deleting_brings_back_the_default_and_is_no_error_where_nothing_is_set(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n[plugins]\nenabled = true\n")
    for _ in range(2):
        outcome = zeroclaw("config", "delete", "plugins.enabled", "--json")
        assert outcome.status == 0
        assert outcome.json == {
            "prop": "plugins.enabled",
            "deleted": True,
            "value": "false",
            "is_env_overridden": False,
        }


def test_only_what_the_schema_knows_can_be_deleted(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n[plugins]\nenabled = true\n")
    assert zeroclaw("config", "delete", "plugins.enabld").status == 5
    assert zeroclaw("config", "delete", "plugins").status == 5
    assert home.config_file.read_text() == "schema_version = 1\n[plugins]\nenabled = true\n"


@pytest.mark.parametrize("path", ["plugins", "plugins.security", "plugins.entries", f"plugins.entries.{KEY}"])
def test_a_section_is_called_one_and_not_a_misspelt_property(home, zeroclaw, path: str) -> None:
    home.configure(ROW)
    outcome = zeroclaw("config", "get", path)
    assert outcome.status == 5
    assert outcome.err.startswith(f"error: Unknown property {path}: it is a section; in it there is {path}.")


def test_a_row_under_a_wrong_name_says_which_rows_there_are(home, zeroclaw) -> None:
    home.configure(ROW)
    outcome = zeroclaw("config", "set", "plugins.entries.redact.config.replacement", "x")
    assert outcome.status == 5
    assert f"there is no row redact; there is {KEY}\n" in outcome.err


def test_where_there_is_no_row_at_all_the_way_to_one_is_told(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n")
    outcome = zeroclaw("config", "set", "plugins.entries.redact.config.replacement", "x")
    assert outcome.status == 5
    assert "there is no row redact; there is none. Installing a package with a configuration" in outcome.err
    assert "`zeroclaw plugin info NAME`" in outcome.err


def test_what_an_operator_named_can_be_deleted_with_all_below_it(home, zeroclaw) -> None:
    home.configure(ROW + '[agents.ada]\nmodel = "m" # hers\n[agents.bob]\n')
    assert zeroclaw("config", "delete", "agents.ada").out == "agents.ada = <unset>\n"
    assert zeroclaw("config", "delete", f"plugins.entries.{KEY}").status == 0
    left = tomllib.loads(home.config_file.read_text())
    assert left["agents"] == {"bob": {}}
    assert not left.get("plugins", {}).get("entries")
    assert zeroclaw("config", "delete", "agents.ada").status == 5
    assert zeroclaw("config", "delete", f"plugins.entries.{KEY}").status == 5


def test_what_others_name_is_not_deleted(home, zeroclaw) -> None:
    text = (
        "schema_version = 1\n[permission_profiles.op]\nadmin = true\n"
        '[users.eve]\nuid = 1\npermission_profiles = ["op"]\n'
    )
    home.configure(text)
    outcome = zeroclaw("config", "delete", "permission_profiles.op")
    assert outcome.status == 3
    assert "users.eve.permission_profiles: there is no permission profile op" in outcome.err
    assert home.config_file.read_text() == text


def test_half_a_user_is_refused_with_the_way_to_a_whole_one(home, zeroclaw) -> None:
    home.configure("schema_version = 1\n")
    outcome = zeroclaw("config", "set", "users.ada.uid", "1")
    assert outcome.status == 3
    assert "users.ada.permission_profiles: this key is required" in outcome.err
    assert "config patch --help" in outcome.err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            '{"system": ["raed"]}',
            "system.0: must be one of 'create', 'read', 'update', 'delete', 'execute'",
        ),
        ('{"system": "read"}', "system: a list is wanted here"),
    ],
)
def test_what_is_wrong_inside_a_value_is_said_as_of_the_file(home, zeroclaw, value: str, said: str) -> None:
    home.configure("schema_version = 1\n")
    outcome = zeroclaw("config", "set", "permission_profiles.op.grants", value)
    assert outcome.status == 3
    assert f"permission_profiles.op.grants: {said}" in outcome.err
