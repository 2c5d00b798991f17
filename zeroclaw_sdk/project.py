"""A plugin project: a directory with ``manifest.toml`` and the author's Python files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import Remedy, RemedyAction, StorageError
from zeroclaw_host.package.manifest import Manifest, parse_manifest
from zeroclaw_sdk.errors import ProjectInvalid

MANIFEST: Final = "manifest.toml"
ENTRY_MODULE: Final = "app"
"""The author's main module."""


@dataclass(frozen=True, slots=True)
class Project:
    """A plugin on its author's machine."""

    directory: Path
    manifest: Manifest
    manifest_bytes: bytes

    @classmethod
    def open(cls, directory: Path) -> Project:
        """Read the project in a directory.

        :raises ProjectInvalid: there is no manifest.
        :raises ManifestError: it breaks a rule.
        :raises StorageError: it cannot be read.
        """
        path = directory / MANIFEST
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise ProjectInvalid(
                f"there is no {MANIFEST} in {directory}",
                remedy=Remedy(RemedyAction.RUN_HELP, {"command": "new"}),
            ) from error
        except OSError as error:
            details = {"path": str(path), "errno": error.errno}
            raise StorageError(f"{path} cannot be read: {error.strerror}", details=details) from error
        return cls(directory, parse_manifest(data, path=str(path)), data)

    @property
    def component_path(self) -> Path:
        """Where the component is or will be: the manifest's ``wasm_path``, else ``build/<name>.wasm``."""
        return self.directory / (self.manifest.wasm_path or f"build/{self.manifest.name}.wasm")
