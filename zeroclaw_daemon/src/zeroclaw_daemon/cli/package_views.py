"""How packages, verdicts and reports are shown: as lines for a person, as JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeroclaw_daemon.cli.egress_view import say_seeded
from zeroclaw_daemon.cli.output import error_json, evidence_lines, say, table, warn
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.visible import visible, visible_lines

if TYPE_CHECKING:
    from zeroclaw_daemon.config.file import Snapshot
    from zeroclaw_daemon.config.schema import Config
    from zeroclaw_host.installation.discovery import Discovery, InstalledPackage
    from zeroclaw_host.installation.install import InstallReport
    from zeroclaw_host.worlds.loading import LoadVerdict


def say_installed(report: InstallReport, snapshot: Snapshot, place: Place) -> None:
    """What an install did, where its instance is configured, and the commands that come next (PLG-132, PLG-186)."""
    from zeroclaw_host.installation.rows import seed_for

    say(f"installed {visible(report.name)} {visible(report.version)} in {visible(str(report.directory))}")
    say(f"  signature {report.signature.status.value}: {visible(report.signature.reason)}")
    if report.key is not None:
        row = (
            "its row in plugins.entries was made"
            if report.row_created
            else "its row was there and stays as it is"
        )
        say(f"  instance {report.key}: {row}")
    seed = seed_for(report.manifest)
    if seed is not None and report.row_created:
        say_seeded(seed, place)
    plugins = snapshot.config.plugins
    for switch, is_on in (
        ("plugins.enabled", plugins.enabled),
        ("plugins.auto_discover", plugins.auto_discover),
    ):
        if not is_on:
            _say_command(
                f"no agent has it yet: {switch} is false", place.command("config set", switch, "true")
            )


def _say_command(words: str, command: str | None) -> None:
    say(f"  {words}{':' if command is not None else ''}")
    if command is not None:
        say(f"    {command}")


def report_json(report: InstallReport) -> dict[str, object]:
    """What an install did."""
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


def say_list(found: Discovery, verdicts: dict[str, LoadVerdict] | None) -> None:
    """One row a package; what was left out, and why, on standard error."""
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


def list_json(found: Discovery, verdicts: dict[str, LoadVerdict] | None, config: Config) -> dict[str, object]:
    """Every package and every directory that was left out."""
    return {
        "packages": [
            {
                **package_json(p, config),
                **(verdict_json(verdicts[p.name], None) if verdicts is not None else {}),
            }
            for p in found.packages
        ],
        "rejected": [
            {"directory": str(r.directory), "name": r.name, **error_json(r.error, None)}
            for r in found.rejected
        ],
    }


def package_json(installed: InstalledPackage, config: Config) -> dict[str, object]:
    """What a package is."""
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
        "keys": list(_keys(installed, config)),
    }


def say_package(installed: InstalledPackage, config: Config) -> None:
    """What a package is, one fact a line."""
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
        *(("instance", key) for key in _keys(installed, config)),
    ]
    for label, value in facts:
        if value:
            say(f"  {label:<13} {visible(value)}")


def say_verdict(verdict: LoadVerdict, place: Place) -> None:
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
    for line in evidence_lines(verdict.error, "    ") if verdict.error is not None else ():
        say(line)
    advice = advise(_remedy_of(verdict), place)
    say(f"    to do: {visible(advice.words)}")
    if advice.command is not None:
        say(f"      {advice.command}")


def verdict_json(verdict: LoadVerdict, place: Place | None) -> dict[str, object]:
    """The verdict; with a place, what to do about it as well."""
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


def _keys(installed: InstalledPackage, config: Config) -> tuple[str, ...]:
    """The keys of the rows this package owns: its tool's, and one for each alias its channel is bound to (PLG-136)."""
    from zeroclaw_daemon.config.instances import owned_instances

    return tuple(identity.key for identity in owned_instances(installed.manifest, config))
