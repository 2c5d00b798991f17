"""The plugins under measurement: the example ``redact`` and the guests beside this file, built once and kept by their inputs."""

from __future__ import annotations

import shutil
from pathlib import Path

from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.services.bundle import InstanceServices
from zeroclaw_host.services.config import SchemaConfigResolver
from zeroclaw_host.services.logging import MemoryLogSink
from zeroclaw_host.worlds.tool import ToolPlugin
from zeroclaw_sdk.build import build
from zeroclaw_sdk.project import Project

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "benchmarks"
ARGUMENTS = {"text": "Write to ada@example.org, the key is sk-abcdefghijklmnopqrstuvwx. " * 4}

SOURCES = {
    "redact": ROOT / "example-plugins" / "redact",
    "churn": ROOT / "benchmarks" / "guests" / "churn",
    "mailbox": ROOT / "benchmarks" / "guests" / "mailbox",
    "notebook": ROOT / "benchmarks" / "guests" / "notebook",
    "courier": ROOT / "benchmarks" / "guests" / "courier",
}


def built(name: str) -> Path:
    """A directory with the built package."""
    target = CACHE / name
    shutil.copytree(SOURCES[name], target, dirs_exist_ok=True)
    build(Project.open(target))
    return target


def admitted(name: str) -> AdmittedPackage:
    """The built package, read."""
    return admit(DirectoryReader(built(name)), SignaturePolicy(SignatureMode.DISABLED, frozenset()))


def component_of(package: AdmittedPackage) -> bytes:
    """The package's component."""
    assert package.component is not None
    return package.component


def cache_directory() -> Path:
    """Where compiled components are kept between runs."""
    directory = CACHE / "compiled"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory


def compiled_sandbox(*packages: AdmittedPackage) -> Sandbox:
    """A sandbox in which these packages are compiled as they are: the form every plugin soon has."""
    sandbox = Sandbox(cache_directory(), share_core_modules=False)
    for package in packages:
        sandbox.cache.load(component_of(package))
    return sandbox


def scope_of(package: AdmittedPackage, capability: Capability = Capability.TOOL) -> InstanceScope:
    """An instance of the package."""
    return InstanceScope.admit(
        InstanceIdentity(package.manifest.name, capability, "benchmark"), package.manifest
    )


def services_of(package: AdmittedPackage) -> InstanceServices:
    """Services with nothing in them."""
    return InstanceServices(
        config=SchemaConfigResolver(lambda _: package.config_schema, lambda _: {}), log=MemoryLogSink()
    )


def load_tool(sandbox: Sandbox, package: AdmittedPackage, limits: Limits | None = None) -> ToolPlugin:
    """The package's tool."""
    return ToolPlugin.load(sandbox, package, scope_of(package), services_of(package), limits or Limits())
