"""The documentation mentions what the code has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zeroclaw_daemon.rpc.errors import CODES
from zeroclaw_host.package.manifest import Capability, Manifest, Permission

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_generated_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.req("RPC-237")
def test_every_code_of_the_protocol_stands_in_both_pages() -> None:
    page = (DOCS / "rpc.md").read_text(encoding="utf-8")
    table = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for word, code in CODES.items():
        assert str(code) in page
        [row] = [line for line in table.splitlines() if line.startswith(f"| `{word}` |")]
        assert f"| {code} |" in row


def test_every_key_of_a_manifest_is_described() -> None:
    page = (DOCS / "manifest.md").read_text(encoding="utf-8")
    for name in Manifest.model_fields:
        assert f"`{name}`" in page or f"`{name}." in page, name
    for word in (*Capability, *Permission):
        assert f"`{word.value}`" in page, word


LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINKED = sorted({ROOT / "README.md", ROOT / "ARCHITECTURE.md", *DOCS.rglob("*.md")})


def anchors(page: Path) -> set[str]:
    """What can be linked to within a page, as the sites that show it name the headings."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f"(docs/{page.name})" in text, page.name
