"""``zeroclaw plugin fsck``: what is in the plugins directory beside installed packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_daemon.cli.environment import JsonOption, environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_host.errors import Kind
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_host.installation.fsck import Finding


def fsck(
    context: typer.Context,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Clear away what interrupted commands left, and put back what a removal had moved aside.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Explain everything in the plugins directory that is not an installed package.

    Without --repair nothing changes. With it, only what is provably abandoned or already given up is deleted; everything
    else is left to you, with what to do about it. The exit status is 3 when something is left.
    """
    from zeroclaw_daemon.plugins import plugins_dir, signature_policy
    from zeroclaw_host.installation.fsck import fsck as examine
    from zeroclaw_host.installation.package_log import PackageLog

    current = environment(context)
    current.json = as_json
    snapshot = warned_snapshot(current)
    directory = plugins_dir(snapshot, current.paths)
    journal = PackageLog(Path(current.paths.package_log))
    findings = examine(directory, signature_policy(snapshot), repair=repair, journal=journal)
    if as_json:
        say_json(
            {
                "directory": str(directory),
                "findings": [_json(finding, current.place) for finding in findings],
            }
        )
    elif not findings:
        say(f"{visible(str(directory))} holds installed packages and nothing else")
    else:
        for finding in findings:
            _say(finding, current.place)
    if any(finding.remedy is not None and not finding.repaired for finding in findings):
        raise typer.Exit(Kind.INVALID.value)


def _say(finding: Finding, place: Place) -> None:
    about = f" (package {visible(finding.name)})" if finding.name is not None else ""
    say(f"{visible(str(finding.path))}")
    say(f"  {finding.kind.value.replace('_', ' ')}{about}: {visible(finding.explanation)}")
    if finding.repaired:
        say("  repaired")
    elif finding.remedy is not None:
        advice = advise(finding.remedy, place)
        say(f"  to do: {visible(advice.words)}")
        if advice.command is not None:
            say(f"    {advice.command}")


def _json(finding: Finding, place: Place) -> dict[str, object]:
    remedy = None
    if finding.remedy is not None:
        advice = advise(finding.remedy, place)
        remedy = {
            "action": finding.remedy.action.value,
            "arguments": dict(finding.remedy.arguments),
            "words": advice.words,
            "command": advice.command,
        }
    return {
        "kind": finding.kind.value,
        "path": str(finding.path),
        "name": finding.name,
        "explanation": finding.explanation,
        "remedy": remedy,
        "repairable": finding.repairable,
        "repaired": finding.repaired,
    }
