"""The commands of the README and of the pages in ``docs/`` do what the pages say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import Block, Reader, blocks_of, not_printed

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    # A page on which a plugin is built takes its time.
    pytest.param(
        page,
        id=page.stem,
        marks=[pytest.mark.slow] if any(block.name == "author" for block in blocks_of(page)) else [],
    )
    for page in sorted((ROOT / "docs").glob("*.md"))
    if blocks_of(page)
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("RPC-223")
def test_every_command_of_the_readme_does_what_it_says(
    short_path: Path, system_program: Callable[[str], str]
) -> None:
    system_program("socat")
    printed = Reader(short_path / "home").follows(ROOT / "README.md")
    assert list(printed) == ["daemon", "client", "socket", "author", "maintainer", "operator"]
    assert "Hello, Ada" in printed["author"]
    assert "Hello, you\nAnd again\n" in printed["client"]
    assert printed["operator"].endswith("Hello, Ada.\n")
    first, second = printed["socket"].splitlines()
    assert '"protocolVersion":1' in first.replace(" ", "")
    assert '"id":2' in second.replace(" ", "")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_does_what_the_page_says(page: Path, short_path: Path) -> None:
    Reader(short_path / "home").follows(page)


def test_the_readme_names_the_test_command_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake test\n" in script


def test_blocks_are_read_in_order_with_what_they_show(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run: one -->\n```sh\necho a\necho b\n```\n\n```sh\nnot run\n```\n<!-- shows -->\n```text\na\n```\n"
        "text\n<!-- run: daemon -->\n\n```sh\nserve\n```\n"
    )
    assert blocks_of(page) == [Block("one", "echo a\necho b\n", ("a",)), Block("daemon", "serve\n")]


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ((), None),
        (("a", "c"), None),
        (("a…", "b 1… 3"), None),
        (("c", "a"), "a"),
        (("b",), "b"),
        (("b 1 2 3", "b 1 2 3"), "b 1 2 3"),
    ],
)
def test_what_a_page_shows_comes_in_its_order_and_as_whole_lines(
    shown: tuple[str, ...], missing: str | None
) -> None:
    assert not_printed(shown, "a\nb 1 2 3\nc\n") == missing
