"""From an author's Python files to a component.

The work is componentize-py's, in a process of its own: it takes some 400 MB, and what it does to the environment stays
there. This module decides what goes in: the world the manifest asks for, the SDK's guest half, a generated entry module,
and the author's directory; nothing of the machine beyond that, unless the plugin imports installed packages.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import zeroclaw_sdk
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.package.manifest import MANIFEST_NAME
from zeroclaw_sdk.errors import BuildFailed, ExtraMissing
from zeroclaw_sdk.files import make_directory, replace_file
from zeroclaw_sdk.imports import Audit, Finding, Problem, Severity, audit
from zeroclaw_sdk.project import ENTRY_MODULE, Project
from zeroclaw_sdk.world import WORLD_NAME, code_capabilities, withheld_modules, write_world

ENTRY_NAME: Final = "zeroclaw_entry"
"""The generated module that componentize-py is pointed at."""

STAMP_SUFFIX: Final = ".inputs"
"""Beside the component: digests of what it was built from and of itself."""

_ENTRY: Final = """\
import json

import {module} as author
from zeroclaw_sdk.guest.exports import export_plugin

globals().update(
    export_plugin(
        author,
        name={name!r},
        version={version!r},
        capabilities={capabilities!r},
        config_schema=json.loads({schema!r}),
    )
)
"""

Progress = Callable[[str], None]
"""Told what happens next, one short sentence at a time."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """A finished build. ``fresh`` is false when the component was already built from the same inputs."""

    component: Path
    size: int
    sha256: str
    seconds: float
    fresh: bool
    findings: tuple[Finding, ...]


def build(
    project: Project, *, strict: bool = False, force: bool = False, progress: Progress = lambda _: None
) -> BuildReport:
    """Build a project's component.

    A component is not the same bytes when it is built twice: the interpreter's hash seed is part of its memory. So a
    component whose inputs did not change is left as it is, which also keeps its signature valid.

    :param strict: refuse imports that would fail when they are reached, not only those that fail the build.
    :param force: build even when nothing changed.
    :raises BuildFailed: imports that cannot work, or componentize-py's own refusal with the author's traceback.
    :raises ExtraMissing: componentize-py is not installed.
    :raises ProjectInvalid: the package holds nothing that is built from code.
    :raises StorageError: the component cannot be written.
    """
    started = time.monotonic()
    _require_builder()
    withheld = withheld_modules(project.manifest.capabilities, project.manifest.permissions)
    progress("reading imports")
    libraries = site_directories()
    audited = audit(ENTRY_MODULE, project.directory, libraries, withheld)
    findings = audited.findings
    refused = [each for each in findings if strict or each.severity is Severity.ERROR]
    if refused:
        raise _imports_refused(project, refused)
    target = project.component_path
    inputs = _inputs_digest(project, audited)
    if not force and (size_digest := _unchanged(target, inputs)):
        size, digest = size_digest
        return BuildReport(target, size, digest, time.monotonic() - started, fresh=False, findings=findings)
    make_directory(target.parent)
    with tempfile.TemporaryDirectory(prefix="zeroclaw-build-") as scratch:
        progress("building the component")
        component = _componentize(project, Path(scratch), _needed(libraries, audited))
        data = component.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    replace_file(target, data)
    replace_file(_stamp(target), json.dumps({"inputs": inputs, "sha256": digest}).encode())
    return BuildReport(target, len(data), digest, time.monotonic() - started, fresh=True, findings=findings)


def site_directories() -> list[Path]:
    """Where the packages of this Python environment are."""
    paths = sysconfig.get_paths()
    return [Path(path) for path in dict.fromkeys((paths["purelib"], paths["platlib"])) if Path(path).is_dir()]


def _require_builder() -> None:
    if importlib.util.find_spec("componentize_py") is None:
        raise ExtraMissing(
            "componentize-py is not installed",
            remedy=Remedy(RemedyAction.INSTALL_EXTRA, {"extra": "zeroclaw-host[sdk]"}),
            details={"extra": "sdk", "module": "componentize_py"},
        )


def _imports_refused(project: Project, refused: Sequence[Finding]) -> BuildFailed:
    first = refused[0]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    what = "" if first.problem is Problem.SYNTAX else f"import of {first.module} cannot work: "
    place = {"path": str(project.directory / first.file), "line": str(first.line)}
    if first.problem is Problem.UNPERMITTED:
        place = {"path": str(project.directory / MANIFEST_NAME)}
    return BuildFailed(
        f"{first.file}:{first.line}: {what}{first.message}{more}",
        remedy=Remedy(RemedyAction.EDIT_FILE, place),
        details={"findings": tuple(refused)},
    )


def _componentize(project: Project, scratch: Path, libraries: Sequence[Path]) -> Path:
    wit = scratch / "wit"
    write_world(wit, project.manifest.capabilities, project.manifest.permissions)
    staged = scratch / "staged"
    _stage(project, staged)
    output = scratch / "component.wasm"
    paths = [staged, project.directory.resolve(), *libraries]
    arguments = [
        "--all-features",
        "-d",
        str(wit),
        "-w",
        WORLD_NAME,
        "componentize",
        ENTRY_NAME,
        "-o",
        str(output),
    ]
    for path in paths:
        arguments += ["-p", str(path)]
    finished = subprocess.run(
        [sys.executable, "-c", _RUN_BUILDER, *arguments],
        env=_environment(scratch),
        cwd=scratch,
        capture_output=True,
        check=False,
    )
    if finished.returncode != 0 or not output.is_file():
        raise _builder_refused(project, finished)
    return output


_RUN_BUILDER: Final = "import sys; from componentize_py import script; sys.exit(script())"


def _stage(project: Project, staged: Path) -> None:
    """The SDK's guest half and the entry module. The rest of the SDK is not for the sandbox."""
    sdk = Path(zeroclaw_sdk.__file__).parent
    (staged / "zeroclaw_sdk").mkdir(parents=True)
    shutil.copyfile(sdk / "__init__.py", staged / "zeroclaw_sdk" / "__init__.py")
    shutil.copytree(
        sdk / "guest",
        staged / "zeroclaw_sdk" / "guest",
        ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
    )
    manifest = project.manifest
    schema = None if manifest.config_schema is None else dict(manifest.config_schema)
    entry = _ENTRY.format(
        module=ENTRY_MODULE,
        name=manifest.name,
        version=manifest.version,
        capabilities=[each.value for each in code_capabilities(manifest.capabilities)],
        schema=json.dumps(schema, default=str),
    )
    (staged / f"{ENTRY_NAME}.py").write_text(entry, encoding="utf-8")


def _needed(libraries: Sequence[Path], audited: Audit) -> list[Path]:
    """The package directories that the plugin imports something from."""
    return [
        each for each in libraries if any(path.is_relative_to(each.resolve()) for path in audited.sources)
    ]


def _environment(scratch: Path) -> dict[str, str]:
    """A small environment of its own, so that the machine's does not change what is built.

    componentize-py adds the packages of an active virtual environment, or of any python3 it finds, on its own account.
    An empty virtual environment keeps it from looking.
    """
    empty = scratch / "environment"
    (empty / "lib" / "python3" / "site-packages").mkdir(parents=True)
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"VIRTUAL_ENV": str(empty), "HOME": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}


def _builder_refused(project: Project, finished: subprocess.CompletedProcess[bytes]) -> BuildFailed:
    output = finished.stderr.decode(errors="replace") + finished.stdout.decode(errors="replace")
    if definition := _DEFINITION.search(output):
        # The traceback shows nothing but the inside of the SDK, and this is said of the author's own class.
        return BuildFailed(
            f"the component was not built: {definition['said']}",
            remedy=Remedy(RemedyAction.EDIT_FILE, {"path": str(project.directory / f"{ENTRY_MODULE}.py")}),
            details={"status": finished.returncode},
        )
    file, line, message = _blame(output)
    location = f"{file}:{line}: " if file else ""
    remedy = None
    if file:
        remedy = Remedy(RemedyAction.EDIT_FILE, {"path": str(project.directory / file), "line": str(line)})
    return BuildFailed(
        f"the component was not built: {location}{message}",
        remedy=remedy,
        details={"output": output, "status": finished.returncode},
    )


_DEFINITION: Final = re.compile(r"^[\w.]+\.DefinitionInvalid: (?P<said>.+)$", re.MULTILINE)
"""What the guest half of the SDK says of a class that cannot be made a plugin."""

_GUEST_FRAME: Final = re.compile(r'File "/1/(?P<file>[^"]+)", line (?P<line>\d+)')
"""A frame in the author's directory, which is the second path the builder is given."""


def _blame(output: str) -> tuple[str | None, int, str]:
    """The innermost line of the author's own files in a traceback, and what was raised."""
    frames = list(_GUEST_FRAME.finditer(output))
    raised = [
        line
        for line in output.splitlines()
        if re.match(r"^[\w.]+(Error|Exception|Invalid|Exit|Interrupt)\b", line)
    ]
    said = [line.strip() for line in output.splitlines() if line.strip()]
    message = raised[-1] if raised else (said[0] if said else "componentize-py ended without a word")
    return (frames[-1]["file"], int(frames[-1]["line"]), message) if frames else (None, 0, message)


def _inputs_digest(project: Project, audited: Audit) -> str:
    """A digest over everything that decides what the component does."""
    digest = hashlib.sha256()
    manifest = project.manifest
    facts = {
        "builder": importlib.metadata.version("componentize-py"),
        "name": manifest.name,
        "version": manifest.version,
        "capabilities": sorted(manifest.capabilities),
        "permissions": sorted(manifest.permissions),
        "config_schema": manifest.config_schema,
    }
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    own = project.directory.resolve()
    outside = [path for path in audited.sources if not path.is_relative_to(own)]
    for path in (*_input_files(Path(zeroclaw_sdk.__file__).parent / "guest"), *_input_files(own), *outside):
        # By name within its tree, not by place: a project that moved is the same project.
        digest.update(f"\0{path.relative_to(own) if path.is_relative_to(own) else path.name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


_NO_INPUT: Final = ("*.md", "*.wasm", "*" + STAMP_SUFFIX, "*.pyc", "*.zip", MANIFEST_NAME, ".*")
_NO_INPUT_FOLDERS: Final = frozenset({"build", "dist", "tests", "__pycache__", "node_modules"})


def _input_files(root: Path) -> Iterator[Path]:
    """Files that code may read while it is imported. The manifest counts by its facts: signing rewrites the file."""
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each not in _NO_INPUT_FOLDERS
        )
        for name in sorted(files):
            if not any(fnmatch(name, pattern) for pattern in _NO_INPUT):
                yield Path(directory, name)


def _stamp(target: Path) -> Path:
    return target.with_name(target.name + STAMP_SUFFIX)


def _unchanged(target: Path, inputs: str) -> tuple[int, str] | None:
    """Size and digest of the component, if it is there and was built from these inputs."""
    try:
        stamp = json.loads(_stamp(target).read_bytes())
        data = target.read_bytes()
    except (OSError, ValueError):
        return None
    digest = hashlib.sha256(data).hexdigest()
    return (len(data), digest) if stamp == {"inputs": inputs, "sha256": digest} else None
