"""A component with everything it imports: compared, linked once, ready to be instantiated any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wasmtime import WasmtimeError
from wasmtime.component import Component, ExportIndex, Linker, LinkerInstance, ResourceType

from zeroclaw_host.contract import InterfaceType, contract
from zeroclaw_host.errors import ComponentMismatch, Remedy, RemedyAction
from zeroclaw_host.sandbox.causes import chain
from zeroclaw_host.sandbox.conversion import CallExport, Conversion
from zeroclaw_host.sandbox.engine import Compiled
from zeroclaw_host.sandbox.gate import Gated, drop_resource
from zeroclaw_host.sandbox.interface import HostInterface, resource_id
from zeroclaw_host.sandbox.mismatch import refuse
from zeroclaw_host.sandbox.structure import Comparison, InstanceShape, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What one kind of plugin may import and has to export. Decided by the worlds, not here.

    :param interfaces: what is offered in Python, by interface name.
    :param native: interfaces that wasmtime itself answers. They have no resources, and nothing in them reaches outside.
    :param empty: interfaces that only name types.
    :param reasons: why the plugin is not offered an interface that exists.
    :param exports: interfaces the component must export.
    :param version_fits: whether the host answers an interface at a version.
    """

    interfaces: Mapping[str, HostInterface]
    native: frozenset[str]
    empty: frozenset[str]
    reasons: Mapping[str, str]
    exports: tuple[str, ...]
    version_fits: Callable[[str, str], bool]

    def offered(self) -> Mapping[str, frozenset[str]]:
        """The names of the functions a component may import, by interface."""
        known = contract()
        return {
            **{name: frozenset(interface.functions) for name, interface in self.interfaces.items()},
            **{name: frozenset(known.interface(name).functions) for name in self.native},
            **{name: frozenset[str]() for name in self.empty},
        }


@dataclass(frozen=True, slots=True)
class Export:
    """One function a component exports, ready to be called."""

    index: ExportIndex
    call: CallExport


@dataclass(frozen=True, slots=True)
class LinkedForm:
    """A compiled component together with its linker. May be instantiated from several threads at once."""

    compiled: Compiled
    linker: Linker
    exports: Mapping[tuple[str, str], Export] = field(repr=False)


@dataclass(slots=True, eq=False, weakref_slot=True)
class LinkedComponent:
    """A component that is ready to run, in the form that is best at the moment.

    :param sha256: the digest (hex) of the bytes it was delivered as.
    :param surface: what it was compared with.
    :param form: set anew when there is a better one. Whoever makes an instance reads it once, and keeps what it read.
    """

    sha256: str
    surface: Surface = field(repr=False)
    form: LinkedForm = field(repr=False)
    memories: int = 1
    """Shares into which its memory is divided; grows when it turns out to have more memories."""


def link(compiled: Compiled, surface: Surface, conversion: Conversion) -> LinkedForm:
    """Compare a component with the contract and link it.

    :raises ComponentMismatch: it imports what it is not offered, lacks an export, or a type differs.
    """
    try:
        return _link(compiled, surface, conversion)
    except WasmtimeError as error:  # none is known; but no component may bring down what loads it
        raise ComponentMismatch(
            "the component cannot be linked", remedy=Remedy(RemedyAction.REBUILD_PLUGIN)
        ) from chain(str(error))


def _link(compiled: Compiled, surface: Surface, conversion: Conversion) -> LinkedForm:
    shape = Shape.of(compiled.component, compiled.engine, supplied=compiled.modules.keys())
    comparison = Comparison(shape, contract(), surface.version_fits)
    refuse(comparison.imports(surface.offered(), surface.reasons) + comparison.exports(surface.exports))
    linker = Linker(compiled.engine)
    if any(instance.name in surface.native for instance in shape.imports):
        linker.allow_shadowing = True
        linker.add_wasip2()
    with linker.root() as root:
        for name, module in compiled.modules.items():
            root.add_module(name, module)
        for instance in shape.imports:
            if instance.name in surface.native:
                continue
            with root.add_instance(instance.full_name) as defined:
                interface = surface.interfaces.get(instance.name)
                if interface is not None:
                    _define(defined, instance, interface, comparison, conversion)
    return LinkedForm(compiled, linker, _exports(compiled.component, shape, comparison.agreed, conversion))


def _define(
    defined: LinkerInstance,
    instance: InstanceShape,
    interface: HostInterface,
    comparison: Comparison,
    conversion: Conversion,
) -> None:
    for name, kind in instance.resources.items():
        qualified = comparison.resource_name(kind)
        assert qualified is not None, "compared before"
        defined.add_resource(name, ResourceType.host(resource_id(qualified)), drop_resource)
    signatures = contract().interface(interface.name).functions
    for name in instance.functions:
        conversion.define(defined, name, Gated(interface.name, interface.functions[name]), signatures[name])


def _exports(
    component: Component, shape: Shape, agreed: Mapping[str, InterfaceType], conversion: Conversion
) -> Mapping[tuple[str, str], Export]:
    full_names = {instance.name: instance.full_name for instance in shape.exports}
    found: dict[tuple[str, str], Export] = {}
    for interface, known in agreed.items():
        outer = component.get_export_index(full_names[interface])
        for name, function in known.functions.items():
            index = None if outer is None else component.get_export_index(name, outer)
            if index is None:
                raise ComponentMismatch(f"the component does not export {interface}, function {name}")
            found[interface, name] = Export(index, conversion.export(function))
    return found
