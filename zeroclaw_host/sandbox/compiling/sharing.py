"""A component without the core modules that it has in common with others.

All Python plugins of one componentize-py are the same interpreter with another memory: the code of CPython and of its C
library is byte for byte the same in each, and nearly all of the work of compiling one. So each such module is replaced,
where it stands, by an import of a module of its type. It is compiled once, under the digest of its bytes, and handed to
every component that had it.

Replacing in place keeps all indices: an import makes the same entry among the core modules as the module did. What it
adds is one core type each, and the component must have none of its own, nor speak of any. So whatever is valid stays
valid and means the same, and whatever was not is not made so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from zeroclaw_host.sandbox.compiling.component_types import (
    import_names,
    names_taken_from_core,
    skip_exports,
    skip_types,
)
from zeroclaw_host.sandbox.compiling.module_type import ModuleInterface, is_code_alone, names_asked_for
from zeroclaw_host.sandbox.compiling.sections import (
    COMPONENT_HEADER,
    Budget,
    Reader,
    Section,
    Unreadable,
    encoded,
    section,
    vector,
)

SHARED_BYTES: Final = 100_000
"""A module of fewer bytes is compiled sooner than it is looked up."""

IMPORT_PREFIX: Final = "core-module-x"
"""What the names of the imports begin with that stand in for modules."""


class _In(IntEnum):
    """Sections of a component."""

    CUSTOM = 0
    CORE_MODULE = 1
    CORE_INSTANCE = 2
    CORE_TYPE = 3
    COMPONENT = 4
    INSTANCE = 5
    ALIAS = 6
    TYPE = 7
    CANONICAL = 8
    START = 9
    IMPORT = 10
    EXPORT = 11


_ANYWAY: Final = frozenset({_In.CUSTOM, _In.CORE_INSTANCE, _In.INSTANCE, _In.CANONICAL})
"""Sections that can only speak of what is there by its index, so that they stay right unread."""

_IN_SHIM: Final = frozenset({_In.CUSTOM, _In.ALIAS, _In.TYPE, _In.IMPORT, _In.EXPORT})
"""What the nested components consist of that toolchains put around an exported interface, to name its types."""

MAX_MODULES: Final = 16
"""Modules shared of one component. A Python plugin has three."""

MAX_IMPORTS: Final = 1_000
"""Imports of a component. No component that has so many is accepted; and wasmtime-py lists them in the square of their
number."""

_CORE_MODULE_SORT: Final = b"\x00\x11"
_PLAIN_NAME: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class Shared:
    """A component whose shared modules were replaced by imports.

    :param component: its bytes. Never handed out, only compiled.
    :param modules: the bytes of each module, by the name of the import that stands for it.
    """

    component: bytes = field(repr=False)
    modules: Mapping[str, bytes] = field(repr=False)


def import_name(sha256: str) -> str:
    """The name under which a rewritten component imports the module of this digest (hex)."""
    return IMPORT_PREFIX + sha256


def module_digest(name: str) -> str:
    """The digest (hex) of the module that stands behind an import of :func:`import_name`."""
    return name.removeprefix(IMPORT_PREFIX)


def share(component: bytes, *, shared_bytes: int = SHARED_BYTES) -> Shared | None:
    """Replace the modules of a component that other components may have as well: large ones of code alone.

    A module with data of its own is one plugin's memory. Never raises for what the bytes are, and reads no more of them
    than :data:`~zeroclaw_host.sandbox.compiling.sections.MAX_ITEMS` items.

    :param shared_bytes: the least size of a module worth sharing.
    :returns: None when there is no such module, or when the component holds what this function does not know.
    """
    try:
        with memoryview(component) as data:
            return _Rewriting(shared_bytes).rewritten(data)
    except Unreadable:
        return None


class _Rewriting:
    """One component being rewritten."""

    def __init__(self, shared_bytes: int) -> None:
        self._shared_bytes = shared_bytes
        self._budget = Budget()
        self._wanted: set[bytes] = set()
        """Names that somebody in the component can ask a core instance for."""
        self._modules: dict[str, bytes] = {}
        self._imports = 0

    def rewritten(self, component: memoryview) -> Shared | None:
        sections = list(Reader(component, self._budget).sections(COMPONENT_HEADER))
        for found in sections:
            self._examine(found)
        parts = [self._replaced(found) or found.whole for found in sections]
        if not self._modules:
            return None
        return Shared(b"".join((COMPONENT_HEADER, *parts)), self._modules)

    def _examine(self, found: Section) -> None:
        """See that a section stays right when modules become imports, and what it asks core instances for."""
        if found.kind in _ANYWAY:
            return
        if found.kind == _In.CORE_MODULE:
            self._wanted |= names_asked_for(self._module(found))
            return
        if found.kind == _In.ALIAS:
            self._wanted |= names_taken_from_core(found.body)
        elif found.kind == _In.COMPONENT:
            _skip_shim(found.body)
        elif found.kind == _In.TYPE:
            skip_types(found.body)
        elif found.kind == _In.EXPORT:
            skip_exports(found.body)
        elif found.kind == _In.IMPORT:
            self._check_imports(import_names(found.body))
        else:
            raise Unreadable(f"section {found.kind} of a component")
        _at_end(found.body)

    def _check_imports(self, names: list[bytes]) -> None:
        self._imports += len(names)
        if self._imports > MAX_IMPORTS:
            raise Unreadable("more imports than any component may have")
        if any(name.startswith(IMPORT_PREFIX.encode()) for name in names):
            raise Unreadable("an import with a name of the host's own")

    def _replaced(self, found: Section) -> bytes | None:
        """The sections to put in the place of this one, if it is a module to share."""
        if found.kind != _In.CORE_MODULE or len(found.body.data) < self._shared_bytes:
            return None
        if not is_code_alone(self._module(found)):
            return None
        module = bytes(found.body.data)
        name = import_name(hashlib.sha256(module).hexdigest())
        if name in self._modules:
            return None  # a second copy stays; an import has its name once
        kind = ModuleInterface.read(self._module(found)).type(self._wanted)
        if len(self._modules) == MAX_MODULES:
            raise Unreadable("more modules than are kept apart")
        entry = (
            _PLAIN_NAME + encoded(len(name)) + name.encode() + _CORE_MODULE_SORT + encoded(len(self._modules))
        )
        self._modules[name] = module
        return section(_In.CORE_TYPE, vector([kind])) + section(_In.IMPORT, vector([entry]))

    def _module(self, found: Section) -> Reader:
        return Reader(found.body.data, self._budget)


def _skip_shim(component: Reader) -> None:
    for found in component.sections(COMPONENT_HEADER):
        if found.kind not in _IN_SHIM:
            raise Unreadable("a nested component with more than types")
        if found.kind == _In.ALIAS:
            names_taken_from_core(found.body)
        elif found.kind == _In.TYPE:
            skip_types(found.body)
        elif found.kind == _In.IMPORT:
            import_names(found.body)
        elif found.kind == _In.EXPORT:
            skip_exports(found.body)
        else:
            continue
        _at_end(found.body)


def _at_end(body: Reader) -> None:
    if not body.done():
        raise Unreadable("a section with something behind its end")
