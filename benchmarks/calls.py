"""A fresh-store call of a Python plugin, beside the same component driven by wasmtime-py alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

from wasmtime import Store, WasiConfig
from wasmtime.component import Component, Linker

from benchmarks.harness import Measurement, alternate
from benchmarks.plugin import ARGUMENTS, cache_directory, redact_directory
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import SchemaConfigResolver
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.tool import ToolPlugin

GOAL = 1.25
ROUNDS = 150


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
    """The same call both ways, alternately."""
    package = admit(DirectoryReader(redact_directory()), SignaturePolicy(SignatureMode.DISABLED, frozenset()))
    assert package.component is not None
    services = InstanceServices(
        config=SchemaConfigResolver(lambda _: package.config_schema, lambda _: {}), log=MemoryLogSink()
    )
    with Sandbox(cache_directory()) as sandbox:
        scope = InstanceScope.admit(InstanceIdentity.default_tool("redact"), package.manifest)
        tool = ToolPlugin.load(sandbox, package, scope, services, Limits())
        bare = BareTool(sandbox, sandbox.cache.load(package.component))
        text = json.dumps(ARGUMENTS)
        assert "ada@example.org" not in tool.execute_sync(ARGUMENTS).output
        medians = alternate(
            {
                "sandboxed call (limits, WASI, gate, log)": lambda: tool.execute_sync(ARGUMENTS),
                "bare wasmtime-py, native WASI": lambda: bare.call(text),
            },
            rounds=ROUNDS,
        )
    ratio = medians["sandboxed call (limits, WASI, gate, log)"] / medians["bare wasmtime-py, native WASI"]
    yield Measurement("fresh-store call of redact", medians, f"≤ {GOAL}×", ratio <= GOAL)
