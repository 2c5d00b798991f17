"""What a removal did, and what it left: as lines for a person, as JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeroclaw_daemon.cli.output import say, warn
from zeroclaw_daemon.cli.remedies import Place
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.remains import Remains
    from zeroclaw_host.installation.remove import RemoveReport
    from zeroclaw_host.services.state_queries import Usage


def say_removed(report: RemoveReport, left: Remains, place: Place, kept: Sequence[Usage] = ()) -> None:
    """What went, every binding and row that stays, and how a grant is taken away (PLG-160 to PLG-165)."""
    what = visible(report.version) if report.version is not None else "(what an install had left)"
    say(f"removed {visible(report.name)} {what}")
    for alias in left.bindings:
        say(f"  channels.plugin.{visible(alias)} stays, and is still bound to it")
    for key in left.rows:
        say(f"  its configuration stays in plugins.entries, under {key}")
    for grant in left.grants:
        say(f"  {grant.key} still grants {', '.join(map(visible, grant.egress_hosts))}; to take that away:")
        say(f"    {place.command('config delete', f'plugins.entries.{grant.key}.egress_hosts')}")
    for usage in kept:
        say(f"  what it stored stays: {usage.entries} entries of {usage.instance.key}; to delete them:")
        say(f"    {place.data_command('plugin state clear', usage.instance.key)}")
    if left.bindings or left.rows or kept:
        say(
            f"  Any package installed as {visible(report.name)} has all of this, and what the removed one had stored: delete "
            "it first if it is another one"
        )
    if report.leftover is not None:
        warn(f"what could not be deleted is in {report.leftover} and does no harm")
    for each in report.kept:
        warn(f"{each.path} stays: {each.because}")


def removal_json(report: RemoveReport, left: Remains, kept: Sequence[Usage] = ()) -> dict[str, object]:
    """The same for programs."""
    return {
        "name": report.name,
        "version": report.version,
        "removed": True,
        "kept_row": next((key for key in left.rows if key == report.key), None),
        "kept_rows": list(left.rows),
        "kept_bindings": list(left.bindings),
        "kept_grants": {grant.key: list(grant.egress_hosts) for grant in left.grants},
        "kept_state": {usage.instance.key: usage.entries for usage in kept},
        "kept_entries": [{"path": str(each.path), "because": each.because.value} for each in report.kept],
        "leftover": report.leftover and str(report.leftover),
    }
