"""How the readiness of plugin instances is shown: as lines for a person, as JSON for a program.

No configured value is ever shown, only names of properties (PLG-263).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroclaw_daemon.cli.egress_view import standing_json, standing_lines
from zeroclaw_daemon.cli.output import error_json, say
from zeroclaw_daemon.cli.remedies import Place, advise, bind_command
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.activation.readiness import Readiness, RequiredKey
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_host.installation.discovery import Discovery
    from zeroclaw_host.package.manifest import Manifest
    from zeroclaw_host.services.sealing import KeyFile

_BOTH = ("none", "declared")
"""The order in which both decisions are printed: pasting both leaves no network (PLG-200)."""


def readiness_of(
    manifest: Manifest,
    found: Discovery,
    snapshot: Snapshot,
    key_file: KeyFile,
    *,
    tool: bool,
    outdated: bool = False,
) -> list[Readiness]:
    """The reports on every bound channel of a package and, if it is wanted, on its tool.

    :param outdated: whether the file has the layout of an earlier release.
    """
    from zeroclaw_daemon.activation.plan import ActivationPlan
    from zeroclaw_daemon.activation.readiness import Examiner
    from zeroclaw_daemon.config.instances import bound_channels
    from zeroclaw_daemon.config.resolver import EntryResolver
    from zeroclaw_host.instance import InstanceIdentity
    from zeroclaw_host.package.manifest import Capability

    manifests = {manifest.name: manifest, **found.manifests}
    examiner = Examiner(
        snapshot,
        EntryResolver(lambda: snapshot, key_file),
        lambda: ActivationPlan.of(snapshot.config, manifests),
        outdated=outdated,
    )
    identities = list(bound_channels(manifest, snapshot.config))
    if tool and Capability.TOOL in manifest.capabilities:
        identities.insert(0, InstanceIdentity.default_tool(manifest.name))
    return [examiner.examine(identity, manifest) for identity in identities]


def say_readiness(report: Readiness, place: Place, *, gap: bool) -> None:
    """The report on one instance, in its fixed order (PLG-256 to PLG-276).

    :param gap: whether it is told how the grant stands beside the declaration (PLG-269).
    """
    identity = report.identity
    say(f"  {identity.capability.value} {visible(identity.binding)}")
    if report.row is not None or report.row_is_missing:
        _fact("key", identity.key)
    _fact("permissions", ", ".join(report.permissions) or "none")
    _say_required(report, place)
    _say_fault(report, place)
    if gap:
        _say_gap(report, place)
    _say_placement(report, place)


def say_reload(place: Place) -> None:
    """When what was changed takes effect (PLG-276)."""
    say("  a running daemon starts and ends channels when it is started anew or told to reload:")
    _command(place.data_command("reload"))


def say_unbound(manifest: Manifest, place: Place) -> None:
    """How the channel of a package is bound, once for each decision there is to make (PLG-234)."""
    from zeroclaw_daemon.config.bindings import usable_declaration

    declared = usable_declaration(manifest)
    say("  its channel runs once it is bound to an alias, which takes the place of ALIAS:")
    if declared:
        say(
            f"  it declares that it reaches {visible(', '.join(declared))}; bind it without that, or with it:"
        )
    for egress in _BOTH if declared else (None,):
        _command(bind_command(place, manifest.name, None, egress))


def _fact(label: str, value: str) -> None:
    say(f"    {label:<13} {visible(value)}")


def _command(command: str | None) -> None:
    if command is not None:
        say(f"      {command}")


def _say_required(report: Readiness, place: Place) -> None:
    missing = [key for key in report.required if not key.present]
    for key in report.required:
        _fact("required", f"{key.name}: {'set' if key.present else 'missing'}")
        if not key.present and not report.row_is_missing:
            _say_key(report, key, place)
    if missing and report.row_is_missing:
        if report.egress.alias_fault is not None:
            for line in standing_lines(report.egress, place):
                say(f"    {line}")
        elif report.identity.capability.value == "channel":
            say("    they are set in the row of the instance, which this makes:")
            for egress in _BOTH if report.declared else (None,):
                _command(bind_command(place, report.identity.package, report.identity.binding, egress))
        else:
            say(f"    they are set in a row of plugins.entries named {report.identity.key}, which is missing")


def _say_key(report: Readiness, key: RequiredKey, place: Place) -> None:
    if key.path is not None:
        _command(place.command("config set", key.path))
    else:
        say(
            f"      set it by hand, in the config of the row {report.identity.key}: no command can take a name like that"
        )


def _say_fault(report: Readiness, place: Place) -> None:
    fault = report.fault
    if fault is None:
        _fact("configuration", "as its schema wants it")
        return
    _fact("configuration", ": ".join((fault.message, *fault.causes())))
    if fault.remedy is not None:
        advice = advise(fault.remedy, place)
        say(f"      {visible(advice.words)}")
        _command(advice.command)


def _say_gap(report: Readiness, place: Place) -> None:
    """The gap, as the list tells it. Without a row it is told how that is made, and not that it grants nothing (PLG-268)."""
    if report.egress.row is not None:
        for line in standing_lines(report.egress, place):
            say(f"    {line}")


def _say_placement(report: Readiness, place: Place) -> None:
    placement = report.placement
    if report.plan_fault is not None:
        _fact("activation", f"not known: {report.plan_fault.message}")
    elif placement is None:
        _fact("activation", "nothing is planned for it")
    elif placement.admitted:
        when = "at the daemon's next start or reload" if placement.is_channel else "at the next turn"
        _fact("activation", f"it is there {when}, if its component loads")
    else:
        _fact("activation", f"not active: {placement.reason}")
        if placement.remedy is not None:
            _command(advise(placement.remedy, place).command)


def readiness_json(report: Readiness, place: Place) -> dict[str, object]:
    """The same for programs."""
    placement = report.placement
    return {
        "key": report.identity.key if report.row is not None or report.row_is_missing else None,
        "capability": report.identity.capability.value,
        "binding": report.identity.binding,
        "row": report.row is not None,
        "permissions": list(report.permissions),
        "required": [
            {"name": key.name, "set": key.present, "secret": key.secret, "path": key.path}
            for key in report.required
        ],
        "configuration": {
            "fits": report.fault is None,
            **(error_json(report.fault, place) if report.fault is not None else {}),
        },
        "egress": standing_json(report.egress, place) if report.egress.row is not None else None,
        "activation": {
            "admitted": placement is not None and placement.admitted,
            "unmet": placement and placement.unmet,
            "reason": placement.reason if placement is not None else "",
            "error": report.plan_fault and report.plan_fault.message,
        },
        "starts": report.starts,
    }
