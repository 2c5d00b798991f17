"""How the standing of network grants is shown: as lines for a person, as JSON for a program.

Every command that tells of a row that is there prints these lines, so that two of them never disagree (PLG-227).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from zeroclaw_daemon.cli.output import say
from zeroclaw_daemon.cli.remedies import Place, advice_lines, advise, remedy_json
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.egress_standing import DeploymentRefused, EgressStanding
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.store import ConfigStore
    from zeroclaw_daemon.network.report import EgressReport
    from zeroclaw_host.installation.rows import RowSeed
    from zeroclaw_host.package.manifest import Manifest


def report_of(manifests: Iterable[Manifest], snapshot: Snapshot, store: ConfigStore) -> EgressReport:
    """The report on these packages, with the file as it is on disk."""
    from zeroclaw_daemon.network.report import egress_report

    return egress_report(manifests, snapshot, outdated=store.is_outdated())


def warn_egress(report: EgressReport, place: Place) -> None:
    """What is wrong, on standard error. A grant that goes beyond the declaration is nothing wrong (PLG-212)."""
    for line in _lines(report, place, beyond=False):
        print(line, file=sys.stderr)


def say_egress(report: EgressReport, place: Place) -> None:
    """What is wrong, and what rows grant beyond the declarations (PLG-188 to PLG-191)."""
    for line in _lines(report, place, beyond=True):
        say(line)


def _lines(report: EgressReport, place: Place, *, beyond: bool) -> list[str]:
    if report.refusal is not None:
        return [visible(report.refusal.message), *_advice(report.refusal.remedies, place)]
    return [
        line
        for standing in report.standings
        for line in (
            *standing_lines(standing, place),
            *((visible(standing.beyond),) if beyond and standing.beyond is not None else ()),
        )
    ]


def standing_lines(standing: EgressStanding, place: Place) -> list[str]:
    """What is wrong with one instance, and below it what is to be done, in order. Empty where nothing is."""
    return [*map(visible, standing.verdict), *_advice(standing.steps, place)]


def _advice(remedies: Iterable[Remedy], place: Place) -> list[str]:
    return advice_lines([advise(remedy, place) for remedy in remedies], "  ")


def say_seeded(seed: RowSeed, place: Place) -> None:
    """What a row that was made just now grants, and how that is changed later (PLG-186, PLG-246 to PLG-248)."""
    from zeroclaw_host.egress.policy import PolicyField

    path = PolicyField.HOSTS.path(seed.identity)
    declared = seed.declaration.hosts
    for host in seed.egress_hosts:
        say(f"  may reach {visible(host)}")
    if seed.egress_hosts:
        say("  to change what it may reach:")
        _say_command(place.command("config set", path, ",".join(declared)))
    elif declared:
        say(f"  reaches nothing; it declares {visible(', '.join(declared))}. To grant that:")
        _say_command(place.command("config set", path, ",".join(declared)))
    elif seed.declaration.governed:
        say("  reaches nothing. To grant hosts, complete this with one list, commas between them:")
        _say_command(advise(Remedy(RemedyAction.COMPLETE_CONFIG, {"path": path}), place).command)


def _say_command(command: str | None) -> None:
    if command is not None:
        say(f"    {command}")


def egress_json(report: EgressReport, place: Place) -> dict[str, object]:
    """What refuses the whole deployment, and each instance that something is wrong with."""
    return {
        "refusal": refusal_json(report.refusal, place),
        "instances": [standing_json(standing, place) for standing in report.wanting],
    }


def refusal_json(refusal: DeploymentRefused | None, place: Place) -> dict[str, object] | None:
    """What refuses the whole deployment."""
    if refusal is None:
        return None
    return {"message": refusal.message, "steps": [remedy_json(step, place) for step in refusal.remedies]}


def standing_json(standing: EgressStanding, place: Place) -> dict[str, object]:
    """One instance."""
    identity = standing.identity
    return {
        "label": standing.label,
        "package": identity.package,
        "capability": identity.capability.value,
        "binding": identity.binding,
        "key": identity.key,
        "row": standing.row,
        "declared": list(standing.declared),
        "granted": list(standing.granted),
        "not_granted": list(standing.not_granted),
        "not_declared": list(standing.not_declared),
        "refusals": [
            {"field": fault.field.value, "entry": fault.entry, "reason": fault.reason}
            for fault in standing.refusals
        ],
        "alias_fault": standing.alias_fault,
        "messages": list(standing.verdict),
        "steps": [remedy_json(step, place) for step in standing.steps],
    }
