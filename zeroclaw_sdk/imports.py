"""Which imports of a plugin cannot work inside a component, found before it is built (PAINS-15).

A component has no files: what its modules import while it is built is all there will ever be, and only pure Python
among it. So an import inside a function is too late, and a compiled extension module cannot be loaded at all. Both are
found by reading the sources, without running them.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from zeroclaw_sdk.guest_python import MISSING_MODULES, PRESENT_MODULES, STDLIB_MODULES
from zeroclaw_sdk.import_sites import ImportSite, import_sites


class Problem(StrEnum):
    """Why an import cannot work."""

    LAZY = "lazy"
    """It runs inside a function, when the module can no longer be found."""
    NATIVE = "native"
    """The module is compiled code for this machine, or a part of the standard library the sandbox's Python lacks."""
    MISSING = "missing"
    """There is no such module here."""
    UNPERMITTED = "unpermitted"
    """The manifest does not ask for what the module needs."""
    SYNTAX = "syntax"
    """The file is no Python."""


class Severity(StrEnum):
    """What a problem means for the build."""

    ERROR = "error"
    """The build would fail."""
    WARNING = "warning"
    """The component builds, and fails when it gets there."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One import that cannot work.

    ``via`` is the import in the author's own files that leads to it, as ``file:line``, when it is in somebody else's.
    """

    file: str
    line: int
    module: str
    problem: Problem
    severity: Severity
    message: str
    via: str | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    module: str
    package: str
    path: Path
    own: bool
    via: str | None
    certain: bool
    """Whether the file is read while building, whatever happens: no guard or condition on the way to it."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What reading a plugin's sources showed. ``sources`` are the files whose code runs while building, sorted."""

    findings: tuple[Finding, ...]
    sources: tuple[Path, ...]


def audit(
    entry: str, root: Path, libraries: Sequence[Path], withheld: Mapping[str, str] | None = None
) -> Audit:
    """Find every import of a plugin that cannot work, in order of file and line.

    :param entry: the name of the author's main module, below ``root``.
    :param root: the plugin's directory; files below it are the author's own and are named relative to it.
    :param libraries: where other packages are found, searched after ``root``.
    :param withheld: modules of the SDK that this plugin has no use of, and why (:func:`~zeroclaw_sdk.world.withheld_modules`).
    """
    return _Auditor(root.resolve(), [path.resolve() for path in libraries], withheld or {}).run(entry)


class _Auditor:
    def __init__(self, root: Path, libraries: Sequence[Path], withheld: Mapping[str, str]) -> None:
        self._root = root
        self._withheld = withheld
        self._search = [str(root), *map(str, libraries)]
        self._queue: deque[_Source] = deque()
        self._loaded: set[str] = set()
        self._sources: set[Path] = set()
        self._late: list[tuple[_Source, ImportSite]] = []
        self._findings: set[Finding] = set()
        self._specs: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def run(self, entry: str) -> Audit:
        spec = self._find(entry)
        if spec is None or spec.origin is None:
            return Audit((_missing_entry(entry),), ())
        self._enqueue(entry, spec, via=None, certain=True)
        while self._queue:
            self._read(self._queue.popleft())
        for source, site in self._late:
            self._judge_late(source, site)
        return Audit(tuple(sorted(self._findings)), tuple(sorted(self._sources)))

    def _read(self, source: _Source) -> None:
        try:
            tree = ast.parse(source.path.read_bytes(), str(source.path))
        except (SyntaxError, ValueError) as error:
            if source.own:
                line = getattr(error, "lineno", None) or 1
                why = error.msg if isinstance(error, SyntaxError) else error
                message = f"not Python {sys.version_info.major}.{sys.version_info.minor}: {why}"
                self._add(source, line, source.module, Problem.SYNTAX, Severity.ERROR, message)
            return
        for site in import_sites(tree, source.package):
            if self._judge_withheld(source, site):
                continue
            if site.lazy:
                self._late.append((source, site))
            else:
                self._follow(source, site)

    def _follow(self, source: _Source, site: ImportSite) -> None:
        """Take an import that runs while building: judge its modules and go on into them."""
        certain = source.certain and not site.guarded and not site.conditional
        via = f"{self._shown(source.path)}:{site.line}" if source.own else source.via
        for name in self._modules(site):
            if name in self._loaded:
                continue
            self._loaded.add(name)
            verdict = self._verdict(name)
            if verdict is not None:
                if not site.guarded:
                    severity = Severity.ERROR if certain else Severity.WARNING
                    if source.own or verdict[0] is Problem.NATIVE:
                        self._add(source, site.line, name, verdict[0], severity, verdict[1])
                return  # nothing below a module that does not load
            spec = self._find(name)
            if spec is not None:
                self._enqueue(name, spec, via=via, certain=certain)

    def _judge_withheld(self, source: _Source, site: ImportSite) -> bool:
        """Whether an import is of a module that this plugin has no use of. It would build, and fail with each call."""
        if source.module.startswith("zeroclaw_sdk."):
            return False
        wanted = (site.module, *(f"{site.module}.{name}" for name in site.names))
        for name, why in self._withheld.items():
            if any(each == name or each.startswith(f"{name}.") for each in wanted):
                certain = source.certain and not (site.guarded or site.conditional or site.lazy)
                severity = Severity.ERROR if certain else Severity.WARNING
                self._add(source, site.line, name, Problem.UNPERMITTED, severity, why)
                return True
        return False

    def _judge_late(self, source: _Source, site: ImportSite) -> None:
        if site.guarded or not source.own:
            return
        for name in self._modules(site):
            if name in self._loaded or name in PRESENT_MODULES:
                continue
            verdict = self._verdict(name)
            problem = Problem.LAZY if verdict is None else verdict[0]
            text = (
                "imported inside a function, when the built component can no longer find it; "
                "import it at the top of the file"
            )
            self._add(
                source, site.line, name, problem, Severity.WARNING, text if verdict is None else verdict[1]
            )
            return

    def _modules(self, site: ImportSite) -> Iterator[str]:
        """The modules an import statement loads, parents first; names that are attributes are left out."""
        parts = site.module.split(".")
        for end in range(1, len(parts) + 1):
            yield ".".join(parts[:end])
        for name in site.names:
            child = f"{site.module}.{name}"
            if parts[0] not in STDLIB_MODULES and self._find(child) is not None:
                yield child

    def _verdict(self, name: str) -> tuple[Problem, str] | None:
        """What is wrong with loading this module, if anything."""
        top = name.partition(".")[0]
        if name in MISSING_MODULES or top in MISSING_MODULES:
            return (
                Problem.NATIVE,
                "needs compiled code or an operating system that the sandbox's Python does not have",
            )
        if top in STDLIB_MODULES or top in ("zeroclaw_sdk", "wit_world", "componentize_py_types"):
            return None
        spec = self._find(name)
        if spec is None:
            return (
                Problem.MISSING,
                "there is no module of this name beside the plugin or among the installed packages",
            )
        if isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
            return Problem.NATIVE, "a compiled extension module, which cannot run inside a component"
        return None

    def _find(self, name: str) -> importlib.machinery.ModuleSpec | None:
        if name not in self._specs:
            parent, _, _ = name.rpartition(".")
            search: Sequence[str] | None = self._search
            if parent:
                above = self._find(parent)
                search = None if above is None else above.submodule_search_locations
            self._specs[name] = (
                None if search is None else importlib.machinery.PathFinder.find_spec(name, list(search))
            )
        return self._specs[name]

    def _enqueue(
        self, name: str, spec: importlib.machinery.ModuleSpec, *, via: str | None, certain: bool
    ) -> None:
        self._loaded.add(name)
        if not spec.has_location or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return
        path = Path(str(spec.origin))
        is_package = spec.submodule_search_locations is not None
        package = name if is_package else name.rpartition(".")[0]
        own = path.is_relative_to(self._root)
        self._sources.add(path)
        self._queue.append(_Source(name, package, path, own, via, certain))

    def _add(
        self, source: _Source, line: int, module: str, problem: Problem, severity: Severity, message: str
    ) -> None:
        via = None if source.own else source.via
        self._findings.add(Finding(self._shown(source.path), line, module, problem, severity, message, via))

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)


def _missing_entry(entry: str) -> Finding:
    file = entry.replace(".", "/") + ".py"
    return Finding(file, 1, entry, Problem.MISSING, Severity.ERROR, "the plugin's main module is not there")
