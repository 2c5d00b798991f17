"""``zeroclaw plugin install``: check a package, publish it, and bind its channel where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.egress_view import egress_json, report_of, say_egress
from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, usable_snapshot
from zeroclaw_daemon.cli.output import say_json, warn
from zeroclaw_daemon.cli.package_views import report_json, say_installed
from zeroclaw_daemon.cli.plugin_bind import AliasOption, EgressOption, bound_json, egress_of, say_bound
from zeroclaw_daemon.cli.progress import Activity
from zeroclaw_daemon.cli.readiness_view import (
    readiness_json,
    readiness_of,
    say_readiness,
    say_reload,
    say_unbound,
)
from zeroclaw_daemon.cli.registry import RegistryOption, registry_client
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroclaw_daemon.config.bindings import BindingChange, Bound
    from zeroclaw_host.installation.install import InstallReport
    from zeroclaw_host.package.manifest import Manifest


def install(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A package directory or archive (with a / or a leading . or ~), or NAME or NAME@VERSION of a registry.",
        ),
    ],
    registry: RegistryOption = None,
    no_verify: Annotated[
        bool,
        typer.Option("--no-verify", help="Do not try whether the component loads. All other checks stay."),
    ] = False,
    channel_alias: AliasOption = None,
    egress: EgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install a package: check it, try whether it loads, and publish it in one step.

    Its signature, schema and digest are checked by the rules of plugins.security. If anything is wrong, nothing changes. With
    --channel-alias its channel is bound as well, as `plugin bind` does it.
    """
    from zeroclaw_daemon.config.entries import ConfigRowStore
    from zeroclaw_daemon.plugins import open_host

    current = environment(context)
    current.json = as_json
    binding = _binding(current, channel_alias, egress, lambda: _named(source, registry, no_verify=no_verify))
    snapshot = usable_snapshot(current)
    rows = ConfigRowStore(current.config_store)
    with (
        open_host(snapshot, current.paths, rows=rows) as host,
        Activity(f"installing {visible(source)}") as activity,
    ):
        report = host.install(
            source,
            registry=registry_client(current, registry, snapshot),
            verify=not no_verify,
            prepare_row=binding,
            on_download=activity.downloaded,
            on_compile=activity.compiling,
        )
    _tell_installed(report, binding.change.bound if binding is not None and binding.change else None, current)
    for notice in report.notices:
        warn(notice.message)


class _Binding:
    """What binds the channel of a package that is installed, and remembers what it did."""

    def __init__(self, prepare: Callable[[Manifest], BindingChange]) -> None:
        self._prepare = prepare
        self.change: BindingChange | None = None

    def __call__(self, manifest: Manifest) -> BindingChange:
        self.change = self._prepare(manifest)
        return self.change


def _named(source: str, registry: str | None, *, no_verify: bool) -> dict[str, str]:
    """What was named of an install, for whoever is to run it again, from wherever that is."""
    from zeroclaw_host.installation.source import LocalSource, parse_source
    from zeroclaw_host.registry.location import Location

    found = parse_source(source)
    named = {"source": str(found.path.absolute()) if isinstance(found, LocalSource) else source}
    if registry is not None:
        named["registry"] = Location.parse(registry).without_credentials
    return {**named, "unverified": "true"} if no_verify else named


def _binding(
    current: Environment, alias: str | None, egress: str | None, named: Callable[[], dict[str, str]]
) -> _Binding | None:
    """What an install is to bind; what can be refused without the package is refused here (PLG-229, PLG-231)."""
    from zeroclaw_daemon.config.bindings import Egress, require_alias, with_binding

    decision = egress_of(egress, "plugin install")
    if alias is None:
        if decision is not None:
            raise UsageError(
                "--egress decides about the row of a channel: pass --channel-alias as well",
                remedy=Remedy(RemedyAction.RUN_HELP, {"command": "plugin install"}),
            )
        return None
    require_alias(alias)

    def deciding(decided: Egress) -> Remedy:
        return Remedy(RemedyAction.INSTALL_PLUGIN, {**named(), "alias": alias, "egress": decided.value})

    return _Binding(with_binding(current.config_store, alias, decision, deciding))


def _tell_installed(report: InstallReport, bound: Bound | None, current: Environment) -> None:
    """What an install did; of a channel also how it is bound, and what its instances lack (PLG-233, PLG-234)."""
    from zeroclaw_daemon.plugins import installed
    from zeroclaw_host.package.manifest import Capability

    snapshot = current.snapshot()  # the rows may have been written just now
    found = installed(snapshot, current.paths)
    channels = readiness_of(report.manifest, found, snapshot, current.key_file, tool=False)
    egress = report_of([report.manifest], snapshot, current.config_store)
    egress = egress.only([s.identity for s in egress.standings if s.row not in _made(report, bound)])
    if current.json:
        say_json(
            {
                **report_json(report),
                "egress": egress_json(egress, current.place),
                "binding": bound_json(bound) if bound is not None else None,
                "channels": [readiness_json(each, current.place) for each in channels],
            }
        )
        return
    say_installed(report, snapshot, current.place)
    if bound is not None:
        say_bound(bound, current.place)
    say_egress(egress, current.place)
    for each in channels:
        say_readiness(each, current.place, gap=False)
    if channels:
        say_reload(current.place)
    elif Capability.CHANNEL in report.manifest.capabilities:
        say_unbound(report.manifest, current.place)


def _made(report: InstallReport, bound: Bound | None) -> set[str | None]:
    """The rows that were made just now: what they grant is told, and compared with nothing."""
    tool = report.key if report.row_created else ""
    return {tool, bound.identity.key if bound is not None and bound.row is not None else ""}
