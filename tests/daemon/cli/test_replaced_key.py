"""A key file that another one took the place of: what it does not open is told, stops nobody else, and can be set anew."""

from __future__ import annotations

import pytest

MAIN, OTHER = (f"providers.models.openai.{name}.api_key" for name in ("main", "other"))


@pytest.fixture
def replaced(home, zeroclaw) -> None:
    """An installation with one secret sealed with a former key, and one with the present."""
    assert zeroclaw("config", "set", MAIN, "hunter2").status == 0
    home.key_file.path.write_text("ab" * 32)
    assert zeroclaw("config", "set", OTHER, "hunter3").status == 0


def test_status_names_what_the_key_does_not_open_and_how_it_is_mended(home, zeroclaw, replaced) -> None:
    outcome = zeroclaw("secrets", "status")
    assert outcome.status == 3
    assert f"unreadable  {MAIN}," in outcome.out
    assert OTHER not in outcome.out
    assert f"config set '{MAIN}'" in outcome.err
    told = zeroclaw("secrets", "status", "--json")
    assert told.status == 3
    assert told.json["key"] == "usable"
    assert told.json["secrets"] == {"sealed": 2, "legacy": 0, "plain": [], "unreadable": [MAIN]}
    assert "hunter" not in outcome.out + outcome.err + told.out + told.err


def test_all_else_goes_on_and_the_secret_can_be_set_anew(home, zeroclaw, replaced) -> None:
    assert zeroclaw("config", "set", "gateway.port", "5").status == 0
    assert zeroclaw("config", "get", MAIN).out == "***MASKED***\n"
    before = home.config_file.read_bytes()
    refused = zeroclaw("secrets", "rotate")
    assert refused.status == 3
    assert MAIN in refused.err
    assert home.config_file.read_bytes() == before
    assert zeroclaw("config", "set", MAIN, "hunter4").status == 0
    assert zeroclaw("secrets", "status").status == 0
    assert zeroclaw("secrets", "rotate").status == 0


def test_a_secret_that_nobody_can_read_can_be_taken_out(home, zeroclaw, replaced) -> None:
    home.key_file.path.unlink()
    assert zeroclaw("secrets", "status").status == 7
    assert zeroclaw("config", "set", MAIN, "hunter4").status == 7
    for path in (MAIN, OTHER):
        assert zeroclaw("config", "delete", path).status == 0
    assert zeroclaw("config", "set", MAIN, "hunter4").status == 0
    assert zeroclaw("secrets", "status").status == 0
