"""The standard interfaces under ``wit/deps``, compared with those of a real component and of a published copy."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zeroclaw_host.contract import contract, wit_directory

ROOT = Path(__file__).resolve().parents[2]
JCO = "1.35.0"


@pytest.fixture(scope="session")
def flattened() -> Callable[[Path], dict[str, Any]]:
    """The named interfaces of a WIT directory or a component, in the flat form of the contract's data."""
    spec = importlib.util.spec_from_file_location("contract_tool", ROOT / "tools" / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    tool: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def flatten(source: Path) -> dict[str, Any]:
        flattener = tool.Flattener(json.loads(tool.parse(source, "--json")))
        interfaces = flattener.resolved["interfaces"]
        return {name: flattener.interface(interfaces[index]) for index, name in flattener.names.items()}

    return flatten


@pytest.fixture(scope="session")
def ours(flattened: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    return flattened(wit_directory())


def test_every_interface_the_host_answers_is_in_the_contract(ours: dict[str, Any]) -> None:
    assert len(ours) == 29
    assert set(ours) <= set(contract().interfaces)
    named = set(contract().world("system").imports) | set(contract().world("http-client").imports)
    assert named == set(ours)


@pytest.mark.slow
@pytest.mark.req("PLG-038")
def test_a_python_component_imports_nothing_that_differs_from_our_definitions(
    ours: dict[str, Any],
    flattened: Callable[[Path], dict[str, Any]],
    python_guest: Callable[[str], bytes],
    tmp_path: Path,
) -> None:
    component = tmp_path / "probe.wasm"
    component.write_bytes(python_guest("probe"))
    found = {name: face for name, face in flattened(component).items() if name.startswith("wasi:")}
    assert len(found) > 20
    for name, face in found.items():
        for function, signature in face["functions"].items():
            assert ours[name]["functions"][function] == signature, f"{name}#{function}"
        assert set(face["resources"]) <= set(ours[name]["resources"])
        for type_name, definition in face["types"].items():
            assert ours[name]["types"][type_name] == definition, f"{name}#{type_name}"


@pytest.fixture(scope="session")
def published_wit(system_program: Callable[[str], str]) -> Path:
    """WASI 0.2.12 as the npm package of jco carries it, fetched once."""
    target = ROOT / ".cache" / "jco" / JCO
    if target.is_dir():
        return target
    npm = system_program("npm")
    work = target.with_name(f"{JCO}-{os.getpid()}")
    work.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"@bytecodealliance/jco@{JCO}", "--silent", "--pack-destination", str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
    if done.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"npm cannot fetch jco {JCO}: {done.stderr}")
        pytest.skip("needs npm's package @bytecodealliance/jco")
    with tarfile.open(next(work.glob("*.tgz"))) as package:
        package.extractall(work, filter="data")
    builtin = work / "package" / "lib" / "wit" / "builtin" / "0.2.12"
    try:
        builtin.rename(target)
    except OSError:  # another process was first
        assert target.is_dir()
    shutil.rmtree(work)
    return target


@pytest.mark.slow
def test_our_definitions_are_those_of_the_published_copy(
    ours: dict[str, Any],
    flattened: Callable[[Path], dict[str, Any]],
    published_wit: Path,
    tmp_path: Path,
) -> None:
    shutil.copy(wit_directory() / "wasi.wit", tmp_path)
    shutil.copytree(published_wit, tmp_path / "deps")
    published = flattened(tmp_path)
    for name, face in ours.items():
        assert face == published[name], name
        assert list(face["functions"]) == list(published[name]["functions"]), name
