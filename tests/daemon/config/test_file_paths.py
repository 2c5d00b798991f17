"""Properties that name a file or directory: what no path can be is refused with its place, before anything opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroclaw_daemon.config.file import parse
from zeroclaw_daemon.config.problems import ConfigFileInvalid
from zeroclaw_daemon.config.properties import find_value

LOCATED = ("agents.ada.workspace", "plugins.plugins_dir", "gateway.certificate", "gateway.private_key")


@pytest.mark.parametrize("path", LOCATED)
@pytest.mark.parametrize(
    ("written", "words"),
    [('"a\\u0000b"', "null characters"), ('"~other/x"', "only ~/"), ('"~~"', "only ~/")],
    ids=["a null character", "the home of another user", "two tildes"],
)
def test_what_no_path_can_be_is_a_located_fault(path: str, written: str, words: str) -> None:
    text = f"schema_version = 1\n{path} = {written}\n"
    try:
        problems = parse(text.encode(), Path("f")).problems
    except ConfigFileInvalid as error:
        problems = error.problems
    [problem] = problems
    assert (problem.property, problem.place and problem.place.line) == (path, 2)
    assert words in problem.message


@pytest.mark.parametrize("path", LOCATED)
@pytest.mark.parametrize("written", ["/a", "a/b", "~", "~/a", "a~", "a b", "/ä\t"])
def test_every_other_text_is_a_path(path: str, written: str) -> None:
    assert find_value(path).located
    assert parse(f"schema_version = 1\n{path} = '''{written}'''\n".encode(), Path("f")).problems == ()
