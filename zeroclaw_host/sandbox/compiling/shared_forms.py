"""Components compiled without the core modules they share, and those modules compiled once.

A second Python plugin is compiled in a fiftieth of the time of the first, and its artifact is a third as large. The price
is a longer start of each instance, whose modules are checked against their types each time. So this form serves at
once, and for as long as the component is not compiled as it was delivered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from wasmtime import Module, WasmtimeError
from wasmtime.component import Component

from zeroclaw_host.errors import ComponentInvalid
from zeroclaw_host.sandbox.compiling.artifacts import ArtifactStore
from zeroclaw_host.sandbox.compiling.compile import CompileLimits, Progress, Source, compile_sources
from zeroclaw_host.sandbox.compiling.compiler import Form
from zeroclaw_host.sandbox.compiling.header import check_header
from zeroclaw_host.sandbox.compiling.private_directory import storage_errors
from zeroclaw_host.sandbox.compiling.sharing import IMPORT_PREFIX, module_digest, share
from zeroclaw_host.sandbox.compiling.shelf import ArtifactName
from zeroclaw_host.sandbox.engine import Compiled, Engines

SHARED: Final = "shared"
"""The kind of artifact made of a rewritten component, under the digest of the component as it was delivered."""

MODULE: Final = "module"
"""The kind of artifact made of a core module, under the digest of its bytes.

wasmtime compares a module it is given with the type that was asked for, and nothing else. That it is the right one rests
on this digest, which the host computed, and on the store's key."""

_MEMO_SIZE: Final = 32
"""Components kept loaded in one process though nobody uses them at the moment."""

_Loaded = TypeVar("_Loaded", Component, Module)


class SharedForms:
    """Finds and makes the shared forms of components. Safe to use from several threads.

    :param artifacts: where they are kept.
    :param engines: they are for the plain one; a component that needs the other has no shared form.
    """

    def __init__(self, artifacts: ArtifactStore, engines: Engines, limits: CompileLimits) -> None:
        self._artifacts = artifacts
        self._engines = engines
        self._limits = limits
        self._lock = threading.Lock()
        self._forms: OrderedDict[str, Compiled] = OrderedDict()
        self._modules: WeakValueDictionary[str, Module] = WeakValueDictionary()

    def find(self, digest: str) -> Compiled | None:
        """The shared form of the component of this SHA-256 (hex), if nothing of it needs to be compiled."""
        with self._lock:
            form = self._forms.get(digest) or self._from_disk(digest)
            if form is not None:
                self._remember(digest, form)
            return form

    def make(self, component: bytes, digest: str, *, progress: Progress | None = None) -> Compiled | None:
        """Compile what is missing of a component's shared form, in one run of the compiler.

        :param digest: the SHA-256 (hex) of exactly these bytes.
        :returns: None when the component has no such form. Whether it is valid at all is then still to be seen.
        :raises ComponentInvalid: its first bytes say that it is no component.
        :raises CompileLimit: it took more memory or time than allowed.
        :raises StorageError: an artifact cannot be written; nothing half-written is left.
        """
        check_header(component)
        shared = share(component)
        if shared is None:
            return None
        sources = {
            ArtifactName(MODULE, module_digest(name)): (Form.MODULE, module)
            for name, module in shared.modules.items()
        }
        sources[ArtifactName(SHARED, digest)] = (Form.COMPONENT, shared.component)
        patience = self._limits.of(sum(len(content) for _, content in sources.values())).seconds
        with self._artifacts.turn(*sources, seconds=patience, waiting=progress):
            found = self.find(digest)  # somebody else may have made it meanwhile
            return found or self._make(sources, digest, progress)

    def discard(self, digest: str) -> None:
        """Give up the shared form of a component that has a better one. Its modules stay, for others."""
        with self._lock:
            self._forms.pop(digest, None)
        self._artifacts.discard(ArtifactName(SHARED, digest))

    def _make(
        self, sources: Mapping[ArtifactName, tuple[Form, bytes]], digest: str, progress: Progress | None
    ) -> Compiled | None:
        with self._lock:
            modules = {name: self._module(name.digest) for name in sources if name.kind == MODULE}
        missing = [name for name in sources if modules.get(name) is None]
        with ExitStack() as files:
            drafts = [files.enter_context(self._artifacts.draft(name)) for name in missing]
            try:
                with storage_errors(self._artifacts.directory):
                    compile_sources(
                        [
                            Source(*sources[name], draft.descriptor)
                            for name, draft in zip(missing, drafts, strict=True)
                        ],
                        limits=self._limits,
                        progress=progress,
                    )
            except ComponentInvalid:
                return None  # perhaps in this form alone; the compiler will see it as it was delivered
            for draft in drafts:
                draft.publish()
            return self.find(digest)  # while all of them count as in use

    def _remember(self, digest: str, form: Compiled) -> None:
        self._forms[digest] = form
        self._forms.move_to_end(digest)
        while len(self._forms) > _MEMO_SIZE:
            self._forms.popitem(last=False)

    def _from_disk(self, digest: str) -> Compiled | None:
        component = self._load(ArtifactName(SHARED, digest), self._engines.open_component)
        if component is None:
            return None
        modules: dict[str, Module] = {}
        for name in component.type.imports(self._engines.plain):
            if name.startswith(IMPORT_PREFIX):
                module = self._module(module_digest(name))
                if module is None:
                    return None
                modules[name] = module
        return Compiled(component, self._engines.plain, modules)

    def _module(self, digest: str) -> Module | None:
        """The compiled module, the same object for all components that are loaded at a time."""
        module = self._modules.get(digest)
        if module is None:
            module = self._load(ArtifactName(MODULE, digest), self._engines.open_module)
            if module is not None:
                self._modules[digest] = module
        return module

    def _load(self, name: ArtifactName, open_artifact: Callable[[str], _Loaded]) -> _Loaded | None:
        with self._artifacts.open(name) as artifact:
            if artifact is None:
                return None
            try:
                loaded = open_artifact(artifact.path)
            except WasmtimeError:  # authentic, yet for another engine or release: as good as stale
                self._artifacts.discard(name)
                return None
            artifact.keep_while(loaded)
            return loaded
