"""A host program whose user presses Ctrl-C while a plugin works. Arguments: component, cache directory."""

import signal
import sys
import threading
from pathlib import Path

from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import ResolvedConfig
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.tool import ToolPlugin


class Reader:
    origin = "memory"

    def read_manifest(self):
        return b'name = "probe"\nversion = "1"\nwasm_path = "probe.wasm"\ncapabilities = ["tool"]\n'

    def read_component(self, wasm_path):
        return Path(sys.argv[1]).read_bytes()

    def read_skills(self):
        return SkillTree()


class NoConfig:
    def resolve(self, scope):
        return ResolvedConfig(scope, {}, {})


# Whoever starts this in the background of a script has it ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
package = admit(Reader(), SignaturePolicy.of(SignatureMode.DISABLED))
scope = InstanceScope.admit(InstanceIdentity.default_tool("probe"), package.manifest)
services = InstanceServices(config=NoConfig(), log=MemoryLogSink())
with Sandbox(Path(sys.argv[2])) as sandbox:
    tool = ToolPlugin.load(
        sandbox, package, scope, services, Limits(call_fuel=10**15, call_timeout_ms=600_000)
    )
    try:
        threading.Timer(0.2, lambda: print("running", flush=True)).start()
        tool.execute_sync({"do": "loop"})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    tool.execute_sync({"do": "echo"})
    print("works", flush=True)
