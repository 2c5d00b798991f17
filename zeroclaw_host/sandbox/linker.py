"""A component with everything it imports: compared, linked once, ready to be instantiated any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component, ExportIndex, Linker, LinkerInstance, ResourceType

from zeroclaw_host.contract import contract
from zeroclaw_host.errors import ComponentMismatch, Remedy, RemedyAction
from zeroclaw_host.sandbox.causes import chain
from zeroclaw_host.sandbox.conversion import CallExport, Conversion
from zeroclaw_host.sandbox.gate import Gated, drop_resource
from zeroclaw_host.sandbox.interface import HostInterface, resource_id
from zeroclaw_host.sandbox.structure import Comparison, InstanceShape, Shape, refuse


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


@dataclass(slots=True)
class LinkedComponent:
    """A compiled component together with its linker. May be instantiated from several threads at once."""

    engine: Engine
    component: Component
    linker: Linker
    exports: Mapping[tuple[str, str], Export] = field(repr=False)
    memories: int = 1
    """Shares into which its memory is divided; grows when it turns out to have more memories."""


def link(engine: Engine, component: Component, surface: Surface, conversion: Conversion) -> LinkedComponent:
    """Compare a component with the contract and link it.

    :raises ComponentMismatch: it imports what it is not offered, lacks an export, or a type differs.
    """
    try:
        return _link(engine, component, surface, conversion)
    except WasmtimeError as error:  # none is known; but no component may bring down what loads it
        raise ComponentMismatch(
            "the component cannot be linked", remedy=Remedy(RemedyAction.REBUILD_PLUGIN)
        ) from chain(str(error))


def _link(engine: Engine, component: Component, surface: Surface, conversion: Conversion) -> LinkedComponent:
    shape = Shape.of(component, engine)
    comparison = Comparison(shape, contract(), surface.version_fits)
    refuse(comparison.imports(surface.offered(), surface.reasons) + comparison.exports(surface.exports))
    linker = Linker(engine)
    if any(instance.name in surface.native for instance in shape.imports):
        linker.allow_shadowing = True
        linker.add_wasip2()
    with linker.root() as root:
        for instance in shape.imports:
            if instance.name in surface.native:
                continue
            with root.add_instance(instance.full_name) as defined:
                interface = surface.interfaces.get(instance.name)
                if interface is not None:
                    _define(defined, instance, interface, comparison, conversion)
    return LinkedComponent(engine, component, linker, _exports(component, shape, surface, conversion))


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
    component: Component, shape: Shape, surface: Surface, conversion: Conversion
) -> Mapping[tuple[str, str], Export]:
    full_names = {instance.name: instance.full_name for instance in shape.exports}
    found: dict[tuple[str, str], Export] = {}
    for interface in surface.exports:
        outer = component.get_export_index(full_names[interface])
        for name, function in contract().interface(interface).functions.items():
            index = None if outer is None else component.get_export_index(name, outer)
            if index is None:
                raise ComponentMismatch(f"the component does not export {interface}, function {name}")
            found[interface, name] = Export(index, conversion.export(function))
    return found
