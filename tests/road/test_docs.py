"""The documentation mentions what the code has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel

from zeroclaw_daemon.agent.directory import FixedAgents
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.dispatch import Method
from zeroclaw_daemon.rpc.errors import CODES
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.memory import MemoryListener
from zeroclaw_host.package.manifest import Capability, Manifest, Permission

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


async def served() -> list[Method]:
    server = Server(
        MemoryListener(), agents=FixedAgents(), authority=RosterAuthority(Config, None, 0), version="0"
    )
    return list(server.dispatcher.methods.values())


def test_the_generated_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_method_with_its_members_is_described() -> None:
    page = (DOCS / "rpc.md").read_text(encoding="utf-8")
    for method in anyio.run(served):
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{method.name}` |")]
        described, returned = row.split("|")[2:4]
        parameters: type[BaseModel] | None = method.params
        for name in parameters.model_fields if parameters is not None else ():
            assert f"`{camel(name)}`" in described, f"{method.name} takes {name}"
        for name in method.result.model_fields:
            assert f"`{camel(name)}`" in returned, f"{method.name} returns {name}"


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


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
