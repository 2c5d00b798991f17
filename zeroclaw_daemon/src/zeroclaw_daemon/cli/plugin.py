"""``zeroclaw plugin``: install, look at and remove plugins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import Environment, environment, warned_snapshot
from zeroclaw_daemon.cli.output import error_json, say, say_json, table, warn
from zeroclaw_daemon.cli.progress import Activity
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.cli.text import visible, visible_lines
from zeroclaw_host.errors import Remedy, RemedyAction

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_host.host import PluginHost
    from zeroclaw_host.installation.discovery import Discovery, InstalledPackage
    from zeroclaw_host.installation.install import InstallReport
    from zeroclaw_host.installation.rows import RowStore
    from zeroclaw_host.registry.client import RegistryClient
    from zeroclaw_host.worlds.loading import LoadVerdict

app = typer.Typer(
    help="""Install, look at and remove plugins.

A plugin runs in a sandbox: it reaches only what its manifest asks for and what you grant. Nothing runs before
plugins.enabled is true; agents get the tools of installed plugins once plugins.auto_discover is true as well.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The registry: an http(s) or file URL, or a path. Wins over ZEROCLAW_PLUGIN_REGISTRY_URL, "
        "which wins over plugins.registry_url.",
    ),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The package's name, as `plugin list` shows it.")
]


@app.command("install")
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
    as_json: JsonOption = False,
) -> None:
    """Install a package: check it, try whether it loads, and publish it in one step.

    Its signature, schema and digest are checked by the rules of plugins.security. If anything is wrong, nothing changes.
    """
    from zeroclaw_daemon.config.entries import ConfigRowStore

    current = environment(context)
    current.json = as_json
    snapshot = _usable(current)
    rows = ConfigRowStore(current.config_file)
    with _host(current, snapshot, rows) as host, Activity(f"installing {visible(source)}") as activity:
        report = host.install(
            source,
            registry=_registry(registry, snapshot),
            verify=not no_verify,
            on_download=activity.downloaded,
            on_compile=activity.compiling,
        )
    if as_json:
        say_json(_report_json(report))
    else:
        _say_installed(report, snapshot, current.place)
    for notice in report.notices:
        warn(notice.message)


@app.command("search")
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Part of a name or of a description.")],
    registry: RegistryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the registry."""
    from zeroclaw_host.registry.location import RegistryNotNamed

    current = environment(context)
    current.json = as_json
    client = _registry(registry, warned_snapshot(current))
    if client is None:
        raise RegistryNotNamed("no registry is named", remedy=Remedy(RemedyAction.NAME_REGISTRY))
    with Activity("reading the registry's index"):
        found = client.index().search(query)
    if as_json:
        say_json([{"name": e.name, "version": e.version, "description": e.description or ""} for e in found])
    else:
        table(("NAME", "VERSION", "DESCRIPTION"), [(e.name, e.version, e.description or "") for e in found])


@app.command("list")
def list_(
    context: typer.Context,
    verify: Annotated[
        bool, typer.Option("--verify", help="Try whether each one loads. Runs guest code, bounded.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the installed packages. Without --verify nothing is compiled and nothing runs."""
    current = environment(context)
    current.json = as_json
    snapshot = warned_snapshot(current)
    with _host(current, snapshot) as host:
        if verify:
            with Activity("trying every package"):
                found = host.discover()
                verdicts = {each.installed.name: each.verdict for each in host.check_all()}
        else:
            found, verdicts = host.discover(), None
    if as_json:
        say_json(_list_json(found, verdicts))
        return
    _say_list(found, verdicts)
    if found.packages and not snapshot.config.plugins.enabled and not snapshot.plugins_dropped:
        warn("plugins are off: plugins.enabled is false")


@app.command("info")
def info(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show one installed package, and try whether it loads, as the daemon does when it starts.

    The exit status is that of the reason when it does not load.
    """
    current = environment(context)
    current.json = as_json
    with _host(current, warned_snapshot(current)) as host:
        installed = host.discover().get(name)
        with Activity(f"trying whether {visible(name)} loads"):
            verdict = host.check(name)
    if as_json:
        say_json({**_package_json(installed), **_verdict_json(verdict, current.place)})
    else:
        _say_package(installed)
        _say_verdict(verdict, current.place)
    if verdict.applicable and not verdict.loads:
        raise typer.Exit(verdict.error.kind.value if verdict.error is not None else 1)


@app.command("remove")
def remove(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove an installed package. Its configuration, grants and stored state stay."""
    current = environment(context)
    current.json = as_json
    snapshot = _usable(current)
    with _host(current, snapshot) as host:
        report = host.remove(name)
    kept = (
        report.key
        if report.key is not None and snapshot.config.plugins.entry(report.key) is not None
        else None
    )
    if as_json:
        say_json({"name": report.name, "version": report.version, "removed": True, "kept_row": kept})
        return
    say(f"removed {visible(report.name)} {visible(report.version)}")
    if kept is not None:
        say(f"  its configuration and grants stay in plugins.entries, under {kept}")
    if report.leftover is not None:
        warn(f"what could not be deleted is in {report.leftover} and does no harm")


def _usable(current: Environment) -> Snapshot:
    """The configuration, whole: no package may come or go by a section that cannot be read.

    :raises ConfigFileInvalid: ``[plugins]`` cannot be read.
    """
    from zeroclaw_daemon.config.problems import ConfigFileInvalid

    snapshot = current.snapshot()
    if snapshot.problems:
        raise ConfigFileInvalid(snapshot.problems)
    for notice in snapshot.notices:
        warn(notice)
    return snapshot


def _host(current: Environment, snapshot: Snapshot, rows: RowStore | None = None) -> PluginHost:
    from zeroclaw_daemon.plugins import open_host

    return open_host(snapshot, current.paths, rows=rows)


def _registry(flag: str | None, snapshot: Snapshot) -> RegistryClient | None:
    from zeroclaw_daemon.plugins import registry_location

    location = registry_location(flag, os.environ, snapshot)
    if location is None:
        return None
    from zeroclaw_host.registry.client import RegistryClient
    from zeroclaw_host.registry.location import Location

    return RegistryClient(Location.parse(location))


def _say_installed(report: InstallReport, snapshot: Snapshot, place: Place) -> None:
    say(f"installed {visible(report.name)} {visible(report.version)} in {visible(str(report.directory))}")
    say(f"  signature {report.signature.status.value}: {visible(report.signature.reason)}")
    if report.key is not None:
        row = (
            "its row in plugins.entries was made"
            if report.row_created
            else "its row was there and stays as it is"
        )
        say(f"  instance {report.key}: {row}")
    if report.egress_hosts:
        for host in report.egress_hosts:
            say(f"  may reach {visible(host)}")
        say("  to change what it may reach:")
        path = f"plugins.entries.{report.key}.egress_hosts"
        say(f"    {place.command('config set', path, ','.join(report.egress_hosts))}")
    plugins = snapshot.config.plugins
    for switch, is_on in (
        ("plugins.enabled", plugins.enabled),
        ("plugins.auto_discover", plugins.auto_discover),
    ):
        if not is_on:
            say(f"  {switch} is false, so no agent has it yet; to let agents use it:")
            say(f"    {place.command('config set', switch, 'true')}")


def _report_json(report: InstallReport) -> dict[str, object]:
    return {
        "name": report.name,
        "version": report.version,
        "directory": str(report.directory),
        "signature": report.signature.status.value,
        "key": report.key,
        "row_created": report.row_created,
        "egress_hosts": list(report.egress_hosts),
        "notices": [notice.message for notice in report.notices],
    }


def _say_list(found: Discovery, verdicts: dict[str, LoadVerdict] | None) -> None:
    headings = ["NAME", "VERSION", "CAPABILITIES", "SIGNATURE", "DESCRIPTION"]
    rows = [
        [p.name, p.version, _capabilities(p), p.signature.status.value, p.manifest.description or ""]
        for p in found.packages
    ]
    if verdicts is not None:
        headings.insert(4, "LOADS")
        for row in rows:
            row.insert(4, _in_a_word(verdicts[row[0]]))
    table(headings, rows)
    for rejected in found.rejected:
        warn(
            f"{rejected.directory} is not loaded: {': '.join((rejected.error.message, *rejected.error.causes()))}"
        )


def _list_json(found: Discovery, verdicts: dict[str, LoadVerdict] | None) -> dict[str, object]:
    return {
        "packages": [
            {**_package_json(p), **(_verdict_json(verdicts[p.name], None) if verdicts is not None else {})}
            for p in found.packages
        ],
        "rejected": [
            {"directory": str(r.directory), "name": r.name, **error_json(r.error, None)}
            for r in found.rejected
        ],
    }


def _package_json(installed: InstalledPackage) -> dict[str, object]:
    manifest = installed.manifest
    return {
        "name": installed.name,
        "version": installed.version,
        "description": manifest.description,
        "author": manifest.author,
        "directory": str(installed.directory),
        "capabilities": [capability.value for capability in manifest.capabilities],
        "permissions": [permission.value for permission in manifest.permissions],
        "wasm_path": manifest.wasm_path,
        "wasm_sha256": installed.component_sha256,
        "signature": installed.signature.status.value,
        "publisher_key": installed.signature.publisher_key,
        "keys": list(_keys(installed)),
    }


def _say_package(installed: InstalledPackage) -> None:
    manifest = installed.manifest
    say(f"{visible(installed.name)} {visible(installed.version)}")
    facts = [
        ("description", manifest.description),
        ("author", manifest.author),
        ("directory", str(installed.directory)),
        ("capabilities", _capabilities(installed)),
        ("permissions", ", ".join(permission.value for permission in manifest.permissions) or "none"),
        ("declares", ", ".join(manifest.egress.hosts)),
        ("component", manifest.wasm_path),
        ("sha256", installed.component_sha256),
        ("signature", f"{installed.signature.status.value}: {installed.signature.reason}"),
        ("publisher", installed.signature.publisher_key),
        *(("instance", key) for key in _keys(installed)),
    ]
    for label, value in facts:
        if value:
            say(f"  {label:<13} {visible(value)}")


def _say_verdict(verdict: LoadVerdict, place: Place) -> None:
    """The verdict, every cause of it, and what to do about it (PLG-041, PLG-045)."""
    if not verdict.applicable:
        say("  loads         not applicable: a bundle of skills has no code")
        return
    if verdict.loads:
        say("  loads         yes")
        return
    say("  loads         no")
    for cause in verdict.causes:
        say("    because: " + visible_lines(cause).replace("\n", "\n             "))
    advice = advise(_remedy_of(verdict), place)
    say(f"    to do: {visible(advice.words)}")
    if advice.command is not None:
        say(f"      {advice.command}")


def _verdict_json(verdict: LoadVerdict, place: Place | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "loads": verdict.loads if verdict.applicable else None,
        "causes": list(verdict.causes),
    }
    if place is not None and not verdict.loads:
        advice = advise(_remedy_of(verdict), place)
        facts["remedy"] = {"words": advice.words, "command": advice.command}
    return facts


def _remedy_of(verdict: LoadVerdict) -> Remedy:
    own = verdict.error.remedy if verdict.error is not None else None
    return own or Remedy(RemedyAction.REBUILD_PLUGIN)


def _in_a_word(verdict: LoadVerdict) -> str:
    """A cell: the verdict, or the first line of its first cause (PLG-043)."""
    if not verdict.applicable:
        return "not applicable"
    if verdict.loads:
        return "yes"
    first: Sequence[str] = verdict.causes[0].splitlines() if verdict.causes else []
    return f"no: {first[0] if first else 'it does not load'}"


def _capabilities(installed: InstalledPackage) -> str:
    return ", ".join(capability.value for capability in installed.manifest.capabilities)


def _keys(installed: InstalledPackage) -> tuple[str, ...]:
    """The keys of the rows this package owns, as far as they exist without a bound channel (PLG-136)."""
    from zeroclaw_host.installation.rows import seed_for

    seed = seed_for(installed.manifest)
    return () if seed is None else (seed.key,)
