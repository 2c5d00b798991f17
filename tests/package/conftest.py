"""Packages at rest, built for these tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

COMPONENT = b"\0asm\r\0\1\0 the bytes of a component"

ManifestText = Callable[..., bytes]
PackageDirectory = Callable[..., Path]


@pytest.fixture(scope="session")
def component() -> bytes:
    """The component of the packages built here. Admission never looks inside."""
    return COMPONENT


@pytest.fixture(scope="session")
def manifest_text() -> ManifestText:
    """Makes a manifest: a tool called ``demo``, with keys changed, added, or left out (None)."""

    def make(**changes: Any) -> bytes:
        keys: dict[str, Any] = {
            "name": "demo",
            "version": "1.0.0",
            "capabilities": ["tool"],
            "wasm_path": "plugin.wasm",
        }
        keys |= changes
        return tomlkit.dumps({key: value for key, value in keys.items() if value is not None}).encode()

    return make


@pytest.fixture
def package_directory(tmp_path: Path, manifest_text: ManifestText) -> PackageDirectory:
    """Writes a package and returns its directory."""

    def make(
        manifest: bytes | None = None,
        *,
        component: bytes | None = COMPONENT,
        skills: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> Path:
        directory = tmp_path / "package"
        directory.mkdir()
        (directory / "manifest.toml").write_bytes(manifest_text(**changes) if manifest is None else manifest)
        if component is not None:
            (directory / "plugin.wasm").write_bytes(component)
        for path, text in (skills or {}).items():
            target = directory / "skills" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return directory

    return make


@pytest.fixture(scope="session")
def signing_key() -> Ed25519PrivateKey:
    """A publisher's key, the same in every run."""
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
