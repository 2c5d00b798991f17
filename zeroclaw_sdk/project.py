"""A plugin project: a directory with ``manifest.toml`` and the author's Python files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.package.manifest import MANIFEST_NAME, Manifest, parse_manifest
from zeroclaw_sdk.errors import ProjectInvalid
from zeroclaw_sdk.files import read_file

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
        path = directory / MANIFEST_NAME
        if not path.exists():
            raise ProjectInvalid(
                f"there is no {MANIFEST_NAME} in {directory}",
                remedy=Remedy(RemedyAction.RUN_HELP, {"command": "new"}),
            )
        data = read_file(path)
        return cls(directory, parse_manifest(data, path=str(path)), data)

    def require_built(self) -> None:
        """Make sure that the component is there, if the package has one.

        :raises ProjectInvalid: it is not built yet.
        """
        if self.manifest.wasm_path is not None and not self.component_path.exists():
            raise ProjectInvalid(
                f"{self.component_path} is not built yet",
                remedy=Remedy(RemedyAction.REBUILD_PLUGIN),
                details={"path": str(self.component_path)},
            )

    @property
    def component_path(self) -> Path:
        """Where the component is or will be: the manifest's ``wasm_path``, else ``build/<name>.wasm``."""
        return self.directory / (self.manifest.wasm_path or f"build/{self.manifest.name}.wasm")
