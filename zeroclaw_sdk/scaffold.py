"""A new plugin from a template."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from zeroclaw_host.package.manifest import MANIFEST_NAME, is_package_name, parse_manifest
from zeroclaw_sdk import guest
from zeroclaw_sdk.errors import PackageNameInvalid, ScaffoldConflict
from zeroclaw_sdk.files import storage_error

TEMPLATES: Final = ("tool", "channel", "memory")
"""Kinds of plugin that can be started from a template."""

_RENAMED: Final = {"gitignore": ".gitignore"}
"""Template names that a packaging tool would read for itself."""


def new_plugin(kind: str, name: str, parent: Path) -> Path:
    """Write a new plugin project to ``parent / name``; all of it or nothing.

    :param kind: one of :data:`TEMPLATES`.
    :param name: the package name, by the rules of a manifest.
    :returns: the new directory.
    :raises PackageNameInvalid: the name is not one a manifest may have.
    :raises ScaffoldConflict: something of that name is there and is no empty directory.
    :raises StorageError: the files cannot be written.
    """
    if not is_package_name(name):
        raise PackageNameInvalid(
            f"{name!r} is no name of a package: 1 to 128 characters of a-z, 0-9, '.', '_' and '-' that start and end "
            "with a-z or 0-9 are wanted",
            details={"name": name},
        )
    words = {"name": name, "class_name": class_name(name), "function_name": re.sub(r"[^a-z0-9_-]", "_", name)}
    contents = {
        path: _fill(text, words)
        for path, text in _read(files("zeroclaw_sdk").joinpath("templates", kind), "").items()
    }
    target = parent / name
    parse_manifest(contents[MANIFEST_NAME].encode(), path=str(target / MANIFEST_NAME))
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise ScaffoldConflict(
            f"{target} exists and is not an empty directory", details={"path": str(target)}
        )
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=parent) as scratch:
            staged = Path(scratch, "project")
            for path, text in contents.items():
                file = staged / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            shutil.copymode(parent, staged)
            staged.rename(target)  # onto nothing or onto an empty directory
    except OSError as error:
        raise storage_error(target, "written", error) from error
    return target


_TAKEN: Final = frozenset({*guest.__all__, "Config"})
"""Names that the templates' files have already, or may want to import from the SDK."""


def class_name(name: str) -> str:
    """The Python class name for a package name: ``send-mail`` becomes ``SendMail``."""
    joined = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^a-z0-9]+", name) if part)
    return joined if joined[:1].isalpha() and joined not in _TAKEN else f"Plugin{joined}"


def _read(directory: Traversable, prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in directory.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                found |= _read(entry, f"{prefix}{entry.name}/")
        else:
            found[prefix + _RENAMED.get(entry.name, entry.name)] = entry.read_text(encoding="utf-8")
    return found


def _fill(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)
