"""Reading the configuration for a call, and writing many properties at once."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Measurement, once
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.services.sealing import KeyFile

Entries = list[tuple[str, object]]

RESOLUTION_GOAL_MICROSECONDS = 50
BATCH_GOAL_MS = 100
ENTRIES = 256
ROWS = 32
CALLS = 2000
ROUNDS = 15

_SETTLED_NS = 60_000_000_000
"""Long enough after a file was written that its stamp is believed."""

_MANIFEST = b"""
name = "bench"
version = "1"
capabilities = ["tool"]
permissions = ["config_read"]
wasm_path = "a.wasm"
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties]
count = { type = "integer", minimum = 1 }
words = { type = "array", items = { type = "string" } }
token = { type = "string", x-secret = true }
"""


def measure() -> Iterator[Measurement]:
    """What a call pays for its configuration, and what a large batch takes until it is on the disk and in force."""
    with tempfile.TemporaryDirectory() as scratch:
        yield _resolution(Path(scratch) / "resolution")
        yield _batch(Path(scratch) / "agents", "of agents", _agents)
        yield _batch(Path(scratch) / "secrets", "of plugins' sealed values", _values)


def _resolution(root: Path) -> Measurement:
    identity = InstanceIdentity.default_tool("bench")
    path, key_file = _file(root, [identity.key, *_keys()])
    store = ConfigStore(ConfigSource(path, {}), key_file)
    prefix = f"plugins.entries.{identity.key}.config"
    store.commit(
        lambda draft: [
            draft.set(f"{prefix}.{name}", text)
            for name, text in (("count", "4"), ("words", '["a", "b"]'), ("token", "a secret"))
        ]
    )
    later = path.stat().st_ctime_ns + _SETTLED_NS
    resolver = EntryResolver(ConfigSource(path, {}, now=lambda: later).current, key_file)
    scope = InstanceScope.admit(identity, parse_manifest(_MANIFEST))
    if resolver.resolve(scope).secrets != {"token": "a secret"}:
        raise RuntimeError("the configuration was not resolved")
    times = [once(lambda: [resolver.resolve(scope) for _ in range(CALLS)]) / CALLS for _ in range(ROUNDS)]
    median = statistics.median(times) * 1000
    return Measurement(
        f"configuration of one call from an unchanged file of {ROWS} rows, one secret unsealed",
        {"resolution": median},
        f"< {RESOLUTION_GOAL_MICROSECONDS} µs",
        median < RESOLUTION_GOAL_MICROSECONDS,
        unit="µs",
    )


def _batch(root: Path, what: str, entries: Callable[[int], Entries]) -> Measurement:
    path, key_file = _file(root, _keys())
    store = ConfigStore(ConfigSource(path, {}), key_file)
    times: list[float] = []
    for number in range(ROUNDS + 1):
        values = entries(number)

        def change(draft: Draft, values: Entries = values) -> None:
            for dotted, value in values:
                draft.set(dotted, value)

        times.append(once(lambda change=change: store.commit(change)))
    median = statistics.median(times[1:])
    return Measurement(
        f"one batch of {ENTRIES} entries {what}, in a file of {path.stat().st_size // 1024} KiB",
        {"commit": median, "the first, which makes them": times[0]},
        f"< {BATCH_GOAL_MS} ms",
        median < BATCH_GOAL_MS,
        compared=False,
    )


def _agents(number: int) -> Entries:
    return [
        (f"agents.a{index // 4}.{_FIELDS[index % 4]}", _value(index % 4, number)) for index in range(ENTRIES)
    ]


_FIELDS = ("system_prompt", "max_steps", "tools", "model")


def _value(field: int, number: int) -> object:
    return (f"prompt {number}", number + 1, ["a", f"t{number}"], f"m{number}")[field]


def _values(number: int) -> Entries:
    keys = _keys()
    return [
        (f"plugins.entries.{keys[index % ROWS]}.config.p{index // ROWS}", f"text {number}")
        for index in range(ENTRIES)
    ]


def _keys() -> list[str]:
    return [InstanceIdentity.default_tool(f"p{index}").key for index in range(ROWS)]


def _file(root: Path, keys: list[str]) -> tuple[Path, KeyFile]:
    root.mkdir()
    path = root / "config.toml"
    rows = "\n".join(f'[[plugins.entries]]\nname = "{key}"\negress_hosts = ["api.example"]\n' for key in keys)
    path.write_text(f"schema_version = 1\n\n# What runs here.\n[plugins]\nenabled = true\n\n{rows}")
    return path, KeyFile(root / ".secret_key")
