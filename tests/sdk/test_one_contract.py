"""Host and guests are bound to one copy of the contract."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_sdk.world import WORLD_NAME, write_world

ROOT = Path(__file__).resolve().parents[2]


def flattened(directory: Path) -> dict[str, Any]:
    """What a directory of WIT says, in the form in which the host keeps the contract."""
    spec = importlib.util.spec_from_file_location("contract_tool", ROOT / "tools" / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    program = Path(sys.executable).with_name("wasm-tools")
    command = [str(program), "component", "wit", "--all-features", "--json", str(directory)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return tool.Flattener(json.loads(printed)).flatten()


@pytest.mark.req("PLG-026")
@pytest.mark.parametrize("capability", [Capability.TOOL, Capability.CHANNEL, Capability.MEMORY])
def test_what_a_guest_is_built_from_is_what_the_host_compares_it_with(capability, tmp_path):
    source = flattened(ROOT / "wit" / "v0")["interfaces"]
    compared = json.loads((ROOT / "zeroclaw_host" / "contract" / "data" / "plugin.json").read_text())
    assert compared["interfaces"] == source
    permissions = [Permission.SOCKET_CLIENT, Permission.WEBSOCKET_CLIENT]
    write_world(tmp_path / "wit", [capability], permissions)
    built = flattened(tmp_path / "wit")
    used = {name: face for name, face in built["interfaces"].items() if name.startswith("zeroclaw:plugin/")}
    assert used == {name: source[name] for name in used}
    world = built["worlds"][WORLD_NAME]
    assert f"zeroclaw:plugin/{capability.value}" in world["exports"]
    assert set(world["imports"] + world["exports"]) <= set(built["interfaces"])
