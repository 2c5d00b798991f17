"""A fresh-store call of a Python plugin, beside the same component driven by wasmtime-py alone, and beside a warm server."""

from __future__ import annotations

import json
from collections.abc import Iterator

from wasmtime import Store, WasiConfig
from wasmtime.component import Component, Linker

from benchmarks.harness import Measurement, alternate
from benchmarks.mcp_client import warm_tool
from benchmarks.plugin import ARGUMENTS, admitted, compiled_sandbox, component_of, load_tool
from zeroclaw_host.sandbox.sandbox import Sandbox

BARE_GOAL = 1.25
ROUNDS = 150
SERIES = 10
PAUSE_SECONDS = 0.1

OURS = "fresh sandbox a call (limits, WASI, gate, log)"
BARE = "bare wasmtime-py, native WASI, fresh store"
MCP = "MCP over stdio, the server kept warm"


class BareTool:
    """The same component with the library's own WASI and its stock import functions, under the same limits."""

    def __init__(self, sandbox: Sandbox, component: Component) -> None:
        self.engine = sandbox.engine
        self.component = component
        self.linker = Linker(self.engine)
        self.linker.add_wasip2()
        with self.linker.root() as root:
            for name, item in component.type.imports(self.engine).items():
                if name.startswith("zeroclaw:plugin/"):
                    with root.add_instance(name) as instance:
                        for function in item.ty.exports(self.engine):
                            instance.add_func(function, lambda _store, *_values: None)
        tool = component.get_export_index("zeroclaw:plugin/tool@0.1.0")
        self.execute = component.get_export_index("execute", tool)

    def call(self, arguments: str) -> object:
        store = Store(self.engine)
        store.set_fuel(1_000_000_000)
        store.set_limits(memory_size=256 << 20, table_elements=100_000, instances=64)
        store.set_epoch_deadline(1_000_000)
        store.set_wasi(WasiConfig())
        try:
            instance = self.linker.instantiate(store, self.component)
            function = instance.get_func(store, self.execute)
            return function(store, arguments)
        finally:
            store.close()


def measure() -> Iterator[Measurement]:
    """The same call all ways: one after the other, and with pauses, as agents make them."""
    package = admitted("redact")
    with compiled_sandbox(package) as sandbox, warm_tool("redact") as mcp:
        tool = load_tool(sandbox, package)
        bare = BareTool(sandbox, sandbox.cache.load(component_of(package)))
        text = json.dumps(ARGUMENTS)
        masked = tool.execute_sync(ARGUMENTS).output
        assert "ada@example.org" not in masked
        assert mcp(ARGUMENTS) == masked
        medians = alternate(
            {OURS: lambda: tool.execute_sync(ARGUMENTS), BARE: lambda: bare.call(text)}, rounds=ROUNDS
        )
        ratio = medians[OURS] / medians[BARE]
        yield Measurement("a call of redact", medians, f"≤ {BARE_GOAL}×", ratio <= BARE_GOAL)
        both = {OURS: lambda: tool.execute_sync(ARGUMENTS), MCP: lambda: mcp(ARGUMENTS)}
        medians = alternate(both, rounds=ROUNDS // SERIES, series=SERIES)
        yield Measurement(
            f"a call of redact, {SERIES} in a row", medians, "< 1×", medians[OURS] < medians[MCP]
        )
        medians = alternate(both, rounds=5, warmup=1, series=SERIES, pause=PAUSE_SECONDS)
        yield Measurement(
            f"a call of redact, one every {PAUSE_SECONDS * 1000:.0f} ms",
            medians,
            "< 1×",
            medians[OURS] < medians[MCP],
        )
