"""``zeroclaw plugin``: install, look at and remove plugins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.completing import complete_package
from zeroclaw_daemon.cli.egress_view import egress_json, report_of, say_egress, warn_egress
from zeroclaw_daemon.cli.environment import (
    Environment,
    JsonOption,
    environment,
    usable_snapshot,
    warned_snapshot,
)
from zeroclaw_daemon.cli.output import say_json, table, warn
from zeroclaw_daemon.cli.package_views import (
    list_json,
    package_json,
    say_list,
    say_package,
    say_verdict,
    verdict_json,
)
from zeroclaw_daemon.cli.plugin_bind import bind
from zeroclaw_daemon.cli.plugin_cache import app as cache_app
from zeroclaw_daemon.cli.plugin_egress import egress
from zeroclaw_daemon.cli.plugin_fsck import fsck
from zeroclaw_daemon.cli.plugin_install import install
from zeroclaw_daemon.cli.plugin_log import log
from zeroclaw_daemon.cli.plugin_migrate import migrate
from zeroclaw_daemon.cli.plugin_removal import removal_json, say_removed
from zeroclaw_daemon.cli.plugin_state import app as state_app
from zeroclaw_daemon.cli.plugin_state import kept_usage
from zeroclaw_daemon.cli.plugin_update import displaced_json, say_displaced, update
from zeroclaw_daemon.cli.progress import Activity
from zeroclaw_daemon.cli.readiness_view import (
    readiness_json,
    readiness_of,
    say_readiness,
    say_reload,
    say_unbound,
)
from zeroclaw_daemon.cli.registry import RegistryOption, registry_client
from zeroclaw_host.errors import Kind, RegistryError, Remedy, RemedyAction
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.activation.readiness import Readiness
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.network.report import EgressReport
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.discovery import InstalledPackage
    from zeroclaw_host.registry.client import RegistryClient
    from zeroclaw_host.registry.index import Index
    from zeroclaw_host.worlds.loading import LoadVerdict

app = typer.Typer(
    help="""Install, look at and remove plugins.

A plugin runs in a sandbox: it reaches only what its manifest asks for and what you grant. Nothing runs before
plugins.enabled is true; agents get the tools of installed plugins once plugins.auto_discover is true as well.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.add_typer(cache_app, name="cache")
app.add_typer(state_app, name="state")
app.command("install", short_help="Install a package from a directory, an archive or a registry.")(install)
app.command("bind", short_help="Bind the channel of an installed package to an alias.")(bind)
app.command("update")(update)
app.command("egress", short_help="Show what packages declare, are granted and use of the network.")(egress)
app.command("fsck", short_help="Explain what in the plugins directory is no package.")(fsck)
app.command("log", short_help="Show the record of installs, updates, removals and refusals.")(log)
app.command("migrate")(migrate)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The package's name, as `plugin list` shows it.",
        autocompletion=complete_package,
    ),
]


@app.command("search")
def search(
    context: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Part of a name or of a description; left out, everything.")
    ] = "",
    registry: RegistryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the registry. When it cannot be reached, what it offered last is searched, and that is said."""
    from zeroclaw_host.registry.location import RegistryNotNamed

    current = environment(context)
    current.json = as_json
    client = registry_client(current, registry, warned_snapshot(current))
    if client is None:
        raise RegistryNotNamed("no registry is named", remedy=Remedy(RemedyAction.NAME_REGISTRY))
    with Activity("reading the registry's index"):
        found = _index(client).search(query)
    if as_json:
        say_json([{"name": e.name, "version": e.version, "description": e.description or ""} for e in found])
    else:
        table(("NAME", "VERSION", "DESCRIPTION"), [(e.name, e.version, e.description or "") for e in found])


def _index(client: RegistryClient) -> Index:
    """What the registry offers; when it cannot be reached, what it offered last, and a warning."""
    try:
        return client.index()
    except RegistryError as error:
        last = client.last_index()
        if error.kind is not Kind.UNAVAILABLE or last is None:
            raise
        warn(f"{error.message}; this is what it offered on {last.fetched:%Y-%m-%d %H:%M} UTC")
        return last.index


@app.command("list")
def list_(
    context: typer.Context,
    verify: Annotated[
        bool, typer.Option("--verify", help="Try whether each one loads. Runs guest code, bounded.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the installed packages. Without --verify nothing is compiled and nothing runs.

    On standard error it names each instance whose row does not grant what its package declares, and the command that grants
    it; the configuration is never changed.

    With --verify, the exit status is 3 when one of them does not load, or a directory holds a package that is refused.
    """
    from zeroclaw_daemon.config.strays import strays
    from zeroclaw_daemon.plugins import plugins_dir, signature_policy
    from zeroclaw_host.installation.displaced import survey

    current = environment(context)
    current.json = as_json
    snapshot = warned_snapshot(current)
    verdicts: dict[str, LoadVerdict] | None = None
    surveyed = survey(plugins_dir(snapshot, current.paths), signature_policy(snapshot))
    found = surveyed.discovery
    if verify:
        with _host(current, snapshot) as host, Activity("trying every package"):
            verdicts = {each.installed.name: each.verdict for each in host.check_all()}
        # A package that went meanwhile has no verdict, and is not there.
        found = replace(found, packages=tuple(each for each in found.packages if each.name in verdicts))
    egress = report_of(found.manifests.values(), snapshot, current.config_store)
    if as_json:
        say_json(
            {
                **list_json(found, verdicts, snapshot.config),
                "egress": egress_json(egress, current.place),
                "displaced": displaced_json(surveyed, current.place),
                "rows_not_read": [stray.facts() for stray in strays(snapshot.config, found.manifests)],
            }
        )
    else:
        say_list(found, verdicts)
        warn_egress(egress, current.place)
        for stray in strays(snapshot.config, found.manifests):
            if stray.key is None:  # the others are told with the steps out of it
                warn(stray.message)
        say_displaced(surveyed, current.place)
        if found.rejected and snapshot.plugins_dropped:
            warn(
                "while [plugins] cannot be read no publisher is trusted, and only the default directory is looked at"
            )
        if found.packages and not snapshot.config.plugins.enabled and not snapshot.plugins_dropped:
            warn("plugins are off: plugins.enabled is false")
    if verdicts is not None and (found.rejected or not all(verdict.loads for verdict in verdicts.values())):
        raise typer.Exit(Kind.INVALID.value)


@app.command("info", short_help="Show one installed package, and whether it loads.")
def info(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one installed package, whether it loads, as the daemon tries when it starts, and what each instance of it lacks.

    The exit status is that of the reason when it does not load. A configuration that is missing or does not fit is told, and
    does not count for it. While [plugins] cannot be read nobody can say where packages are and whom you trust: then it is
    told where the mistake is.
    """
    from zeroclaw_daemon.config.strays import strays

    current = environment(context)
    current.json = as_json
    snapshot = usable_snapshot(current)
    with _host(current, snapshot) as host:
        found = host.discover()
        installed = found.get(name)
        with Activity(f"trying whether {visible(name)} loads"):
            verdict = host.check(name)
    egress = report_of([installed.manifest], snapshot, current.config_store)
    outdated = current.config_store.is_outdated()
    reports = readiness_of(
        installed.manifest, found, snapshot, current.key_file, tool=True, outdated=outdated
    )
    unread = [
        stray
        for stray in strays(snapshot.config, {name: installed.manifest})
        if stray.name in _names(installed, snapshot)
    ]
    if as_json:
        say_json(
            {
                **package_json(installed, snapshot.config),
                **verdict_json(verdict, current.place),
                "instances": [readiness_json(report, current.place) for report in reports],
                "egress_refusal": egress_json(egress, current.place)["refusal"],
                "rows_not_read": [stray.facts() for stray in unread],
            }
        )
    else:
        say_package(installed, snapshot.config)
        say_verdict(verdict, current.place)
        _say_instances(installed, reports, egress, current)
        for stray in unread:
            if stray.key is None:
                warn(stray.message)
    if verdict.applicable and not verdict.loads:
        raise typer.Exit(verdict.error.kind.value if verdict.error is not None else 1)


def _say_instances(
    installed: InstalledPackage, reports: list[Readiness], egress: EgressReport, current: Environment
) -> None:
    """What each instance lacks, and how a channel that has none is bound (PLG-137, PLG-277)."""
    from zeroclaw_host.package.manifest import Capability

    for report in reports:
        say_readiness(report, current.place, gap=egress.refusal is None)
    say_egress(egress.only([]), current.place)
    if Capability.CHANNEL in installed.manifest.capabilities:
        if any(report.identity.capability is Capability.CHANNEL for report in reports):
            say_reload(current.place)
        else:
            say_unbound(installed.manifest, current.place)


def _names(installed: InstalledPackage, snapshot: Snapshot) -> frozenset[str]:
    """What a row of this package may have been named before 1.0: after it, or after an alias bound to it."""
    bound = snapshot.config.channels.plugin.items()
    return frozenset({installed.name, *(alias for alias, each in bound if each.package == installed.name)})


@app.command("remove")
def remove(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove an installed package. Its configuration, grants and stored state stay.

    What an interrupted install left under the name is removed as well; anything else that is there stays, and the reason
    is told.
    """
    from zeroclaw_daemon.config.remains import remains

    current = environment(context)
    current.json = as_json
    snapshot = usable_snapshot(current)
    with _host(current, snapshot) as host:
        report = host.remove(name)
    left = remains(report.name, report.manifest, snapshot.config)
    if as_json:
        say_json(removal_json(report, left, kept_usage(current, report.name)))
    else:
        say_removed(report, left, current.place, kept_usage(current, report.name))


def _host(current: Environment, snapshot: Snapshot) -> PluginHost:
    from zeroclaw_daemon.plugins import open_host

    return open_host(snapshot, current.paths)
