"""The contract's shape, its counts and the data generated from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zeroclaw_host.contract import contract, ungated_wit, wit_directory
from zeroclaw_host.contract.types import EnumType, FlagsType, RecordType, VariantType

ROOT = Path(__file__).resolve().parents[2]
WASM_TOOLS = Path(sys.executable).with_name("wasm-tools")


def resolved(directory: Path, *options: str) -> str:
    command = [str(WASM_TOOLS), "component", "wit", *options, str(directory)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def plugin_interfaces() -> dict[str, object]:
    return {name: face for name, face in contract().interfaces.items() if name.startswith("zeroclaw:plugin/")}


def test_the_source_parses_with_every_feature_and_holds_twelve_interfaces_and_three_worlds() -> None:
    parsed = json.loads(resolved(wit_directory() / "v0", "--all-features", "--json"))
    names = {interface["name"] for interface in parsed["interfaces"]}
    assert names == {
        "types", "plugin-info", "logging", "secrets", "config", "state", "inbound", "sockets", "websocket",
        "tool", "channel", "memory",
    }  # fmt: skip
    assert {world["name"] for world in parsed["worlds"]} == {"tool-plugin", "channel-plugin", "memory-plugin"}


def test_without_its_features_the_source_is_empty() -> None:
    assert "interface" not in resolved(wit_directory() / "v0")


@pytest.mark.parametrize(
    ("interface", "functions"),
    [
        ("types", 0), ("plugin-info", 2), ("logging", 1), ("secrets", 1), ("config", 1), ("state", 3),
        ("inbound", 2), ("sockets", 8), ("websocket", 5), ("tool", 4), ("channel", 29), ("memory", 23),
    ],
)  # fmt: skip
def test_each_interface_has_its_number_of_functions(interface: str, functions: int) -> None:
    assert len(contract().interface(f"zeroclaw:plugin/{interface}").functions) == functions


@pytest.mark.parametrize(
    ("interface", "kind", "cases"),
    [
        ("logging", "log-level", 5), ("logging", "plugin-action", 38), ("logging", "plugin-outcome", 2),
        ("secrets", "secret-error", 3), ("config", "config-error", 2), ("state", "state-error", 6),
        ("sockets", "connect-mode", 3), ("sockets", "socket-error", 12), ("sockets", "close-reason", 4),
        ("sockets", "receive-event", 3), ("websocket", "close-code", 12), ("websocket", "websocket-error", 17),
        ("websocket", "event", 3), ("channel", "channel-capabilities", 23), ("channel", "approval-response", 4),
        ("memory", "memory-capabilities", 11), ("memory", "memory-category", 4), ("memory", "memory-entry", 12),
        ("channel", "approval-request", 3), ("logging", "plugin-event", 6), ("tool", "tool-result", 3),
        ("inbound", "host-inbound-message", 10), ("channel", "inbound-message", 11), ("channel", "send-message", 6),
    ],
)  # fmt: skip
def test_each_type_has_its_number_of_cases_or_fields(interface: str, kind: str, cases: int) -> None:
    match contract().interface(f"zeroclaw:plugin/{interface}").types[kind]:
        case EnumType(found) | VariantType(found) | FlagsType(found) | RecordType(found):
            assert len(found) == cases
        case other:
            pytest.fail(f"{kind} is {other}")


@pytest.mark.req("PLG-028", "PLG-029")
@pytest.mark.parametrize(
    ("world", "imports", "own"),
    [
        ("tool-plugin", ["logging", "secrets", "state", "sockets", "websocket"], "tool"),
        (
            "channel-plugin",
            ["logging", "config", "secrets", "state", "inbound", "sockets", "websocket"],
            "channel",
        ),
        ("memory-plugin", ["logging"], "memory"),
    ],
)
def test_each_world_imports_logging_and_exports_plugin_info(world: str, imports: list[str], own: str) -> None:
    found = contract().world(world)
    assert [name.partition("/")[2] for name in found.imports] == ["types", *imports]
    assert [name.partition("/")[2] for name in found.exports] == ["plugin-info", own]


def test_the_orders_that_a_component_depends_on_are_the_specified_ones() -> None:
    flags = contract().interface("zeroclaw:plugin/channel").types["channel-capabilities"]
    assert isinstance(flags, FlagsType)
    assert (flags.labels[0], flags.labels[-1]) == ("health-check", "webhook-ingress")
    assert list(contract().interface("zeroclaw:plugin/sockets").functions) == [
        "[method]connection.send",
        "[method]connection.receive",
        "[method]connection.send-negotiation",
        "[method]connection.receive-negotiation",
        "[method]connection.pending",
        "[method]connection.upgrade-tls",
        "connect",
        "close",
    ]
    assert contract().interface("zeroclaw:plugin/channel").functions["configure"].params == ()


def test_the_generated_data_is_what_the_source_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "contract.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_ungated_copy_resolves_to_the_same_contract() -> None:
    def without_gates(text: str) -> list[str]:
        return re.sub(r"@unstable\([^)]*\)", "", text).split()

    source = without_gates(resolved(wit_directory() / "v0", "--all-features"))
    assert without_gates(resolved(ungated_wit())) == source
    assert "@unstable" not in (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")


def test_nothing_in_the_contract_is_stable_yet() -> None:
    for path in sorted((wit_directory() / "v0").glob("*.wit")):
        text = path.read_text(encoding="utf-8")
        for word in re.findall(r"^(?:interface|world) ([a-z-]+)", text, flags=re.MULTILINE):
            assert re.search(
                rf"@unstable\(feature = plugins-wit-v0[a-z-]*\)\n(?:interface|world) {word}", text
            ), word
