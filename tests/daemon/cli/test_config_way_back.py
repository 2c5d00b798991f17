"""What was set by mistake can be found and taken back with the same command."""

from __future__ import annotations

import pytest

from zeroclaw_host.instance import InstanceIdentity

KEY = InstanceIdentity.default_tool("redact").key
ROW = f'[[plugins.entries]]\nname = "{KEY}"\n\n[plugins.entries.config]\nreplacment = "***" # oops\npatterns = "[]"\n'


def test_a_misspelt_property_of_an_instance_can_be_unset(home, zeroclaw) -> None:
    home.configure(ROW)
    outcome = zeroclaw("config", "unset", f"plugins.entries.{KEY}.config.replacment")
    assert (outcome.status, outcome.out) == (0, f"plugins.entries.{KEY}.config.replacment = <unset>\n")
    assert home.config_file.read_text() == ROW.replace('replacment = "***" # oops\n', "")


def test_unsetting_brings_back_the_default_and_is_no_error_where_nothing_is_set(home, zeroclaw) -> None:
    home.configure("[plugins]\nenabled = true\n")
    for _ in range(2):
        outcome = zeroclaw("config", "unset", "plugins.enabled", "--json")
        assert outcome.status == 0
        assert outcome.json == {
            "prop": "plugins.enabled",
            "unset": True,
            "value": "false",
            "is_env_overridden": False,
        }


def test_only_what_the_schema_knows_can_be_unset(home, zeroclaw) -> None:
    home.configure("[plugins]\nenabled = true\n")
    assert zeroclaw("config", "unset", "plugins.enabld").status == 5
    assert zeroclaw("config", "unset", "plugins").status == 5
    assert home.config_file.read_text() == "[plugins]\nenabled = true\n"


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
