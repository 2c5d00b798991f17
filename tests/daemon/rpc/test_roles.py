"""Who plays which role in the protocol, as ARCHITECTURE.md says it and as the tree has it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import zeroclaw_daemon

ROOT = Path(__file__).parents[3]
PACKAGE = Path(zeroclaw_daemon.__file__).parent
ROOMS = ("rpc", "sessions", "uploads", "attachments", "authority")
"""What the protocol is served with."""
SOCKETS = {"socket", "asyncio", "websockets", "select", "selectors", "ssl", "uvicorn", "starlette"}
ROLES = {
    "transport interface", "local transport", "WSS transport", "connection loop", "dispatcher", "turn executor",
    "session store", "attachment processing and marker", "attachment dedup", "upload staging",
}  # fmt: skip


def roles() -> list[tuple[str, str]]:
    """Every role that the page names, and its module."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    begin = text.index("The roles of the protocol")
    paragraph = text[begin : text.index("\n\n", begin)].replace("\n", " ")
    return re.findall(r"\*\*([^*]+)\*\*\s+`([\w/]+)`", paragraph)


def imported(module: Path) -> set[str]:
    """The top names of everything that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found


KNOWING = {
    # A process of its own that waits for two pipes, and talks to nobody.
    "agent/built_in/supervisor.py": {"select"},
    # Which certificates a model server may show; httpx has the connection.
    "agent/providers/remote.py": {"ssl"},
    # What a handler of a signal may use of the event loop has no other name.
    "cli/interrupts.py": {"asyncio"},
}
"""Modules outside of the transports that import one of these, each for a reason of its own."""


def outside_of_transport() -> list[Path]:
    """Every module of the daemon, but those of the transports."""
    transport = PACKAGE / "rpc" / "transport"
    return [module for module in sorted(PACKAGE.rglob("*.py")) if transport not in module.parents]


def named(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


@pytest.mark.req("RPC-226")
def test_every_role_has_one_module_and_the_page_names_it() -> None:
    found = roles()
    assert {role for role, _ in found} == ROLES
    assert len({module for _, module in found}) == len(found) == len(ROLES)
    for role, name in found:
        module = PACKAGE / f"{name}.py"
        assert module.is_file(), f"{role}: there is no {name}"
        assert any(isinstance(node, ast.ClassDef) for node in ast.parse(module.read_text()).body), role


@pytest.mark.req("RPC-224", "RPC-225", "RPC-226")
def test_sockets_are_known_to_the_transports_alone() -> None:
    modules = outside_of_transport()
    assert {module.relative_to(PACKAGE).parts[0] for module in modules} > {*ROOMS, "client", "cli", "app.py"}
    assert {named(module): known for module in modules if (known := imported(module) & SOCKETS)} == KNOWING
    transports = {module.name: imported(module) for module in (PACKAGE / "rpc" / "transport").glob("*.py")}
    assert {"socket", "ssl", "websockets"} <= set().union(*transports.values())
    assert not {"starlette", "uvicorn"} & set().union(*transports.values())
    # How long a socket stays registered with the event loop is nothing that anyio leaves open.
    assert [name for name, known in transports.items() if "asyncio" in known] == ["sockets.py"]


@pytest.mark.req("RPC-225")
def test_the_loop_that_reads_and_writes_exists_once() -> None:
    """Whatever carries the bytes, one module takes them from it and one gives them to it; the words of a refusal alone are
    written elsewhere.
    """
    calls: dict[str, set[str]] = {}
    for module in outside_of_transport():
        if module.relative_to(PACKAGE).parts[0] not in ROOMS:
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            match node:
                case ast.Await(ast.Call(ast.Attribute(carrier, "receive" | "send" as what))):
                    if "transport" in ast.unparse(carrier):
                        calls.setdefault(module.name, set()).add(what)
                case _:
                    pass
    assert calls == {"connection.py": {"receive"}, "writer.py": {"send"}, "intake.py": {"send"}}


@pytest.mark.req("RPC-225")
def test_one_type_is_the_transport_of_this_machine() -> None:
    """What is particular to a system is how it binds, accepts, names its peers and moves bytes."""
    made: dict[str, set[str]] = {}
    for name in ("unix", "pipe"):
        tree = ast.parse((PACKAGE / "rpc" / "transport" / f"{name}.py").read_text())
        made[name] = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id.endswith("Transport")
        }
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        assert not [each for each in classes if each.endswith("Transport")]
    assert made == {"unix": {"LocalTransport"}, "pipe": {"LocalTransport"}}
