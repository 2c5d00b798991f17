"""``zeroclaw-plugin run``: a built plugin called as a host calls it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeroclaw_host.errors import Kind, UsageError, ZeroclawError
from zeroclaw_host.package.manifest import Capability, Manifest, parse_manifest
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.visible import json_text, visible_lines
from zeroclaw_sdk.cli.options import HERE, Kinds, cache_directory
from zeroclaw_sdk.cli.output import Json, err, out, plain, print_error, print_json, shown, shown_lines
from zeroclaw_sdk.signing import open_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroclaw_host.package.admission import AdmittedPackage
    from zeroclaw_host.sandbox.sandbox import Sandbox
    from zeroclaw_host.services.logging import LogRecord
    from zeroclaw_sdk.run import RunReport
    from zeroclaw_sdk.run_warm import CallReport, WarmReport
    from zeroclaw_sdk.trial_network import Refusal


def run(
    arguments: Annotated[
        str, typer.Argument(help="A tool's arguments, or the calls of a channel or memory, as JSON.")
    ] = "{}",
    directory: Annotated[Path, typer.Option(help="The plugin's directory, or a package archive.")] = HERE,
    config: Annotated[
        list[str] | None,
        typer.Option(help="key=value: one configuration value, JSON unless it is a text. May be repeated."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option(help="Configuration values from a TOML or .json file.")
    ] = None,
    inbound: Annotated[
        str | None,
        typer.Option(
            help="Messages that wait for a channel: a JSON object with content, or an array of them."
        ),
    ] = None,
    kind: Annotated[
        Kinds | None, typer.Option("--as", help="Which of its kinds a plugin of several is called as.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host it may connect to, as in egress_hosts. May be repeated; none means no network."
        ),
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option("--allow-private", help="Those hosts may be this machine or have private addresses."),
    ] = False,
    timeout_ms: Annotated[
        int, typer.Option(help="Wall-clock limit of each call.")
    ] = Limits().call_timeout_ms,
    fuel: Annotated[int, typer.Option(help="Limit of the guest's work in each call.")] = Limits().call_fuel,
    as_json: Json = False,
) -> None:
    """Call the built plugin, in the sandbox a host runs it in.

    A tool is called once, with a JSON object of arguments; its output goes to standard output.

    A channel or memory is started once and then called as often as asked: an object names a function and its arguments,
    an array holds several, one after the other on the same instance. Each result is a line of JSON on standard output;
    the first failure ends the run. Without calls it only starts, and says what it can do.

    \b
      zeroclaw-plugin run '{"name": "Ada"}'
      zeroclaw-plugin run '{"send": {"message": {"content": "hi", "recipient": "ada"}}}'
      zeroclaw-plugin run --inbound '{"content": "hi"}' '{"poll_message": {}}'
      zeroclaw-plugin run '{"city": "Oslo"}' --allow-host api.example.com
      zeroclaw-plugin run '[{"store_entry": {"key": "a", "content": "tea", "category": "core"}}, {"count": {}}]'

    Functions and parameters are those of the host's own Channel and Memory; a wrong name lists them. Bytes are a text,
    {"base64": "..."} or {"file": "path"}. Log records and figures go to standard error. State lasts as long as the run. It
    connects to nothing but what --allow-host names; an operator grants that with egress_hosts.
    """
    # Here, because the sandbox takes longer to import than most commands take.
    from zeroclaw_host.sandbox.sandbox import Sandbox
    from zeroclaw_sdk.run import parse_arguments, parse_setting, read_config_file
    from zeroclaw_sdk.run import run as run_package
    from zeroclaw_sdk.run_warm import parse_calls, parse_inbound, run_calls
    from zeroclaw_sdk.trial import run_help
    from zeroclaw_sdk.trial_network import Reach

    values = read_config_file(config_file) if config_file else {}
    values |= dict(map(parse_setting, config or []))
    limits = Limits(call_timeout_ms=timeout_ms, call_fuel=fuel)
    reach = Reach(tuple(allow_host or ()), allow_private)
    capability = _capability(parse_manifest(open_package(directory).read_manifest()), kind)
    if inbound is not None and capability is not Capability.CHANNEL:
        raise UsageError("--inbound is for channels", remedy=run_help())
    if capability is Capability.TOOL:
        parsed = parse_arguments(arguments)
        with Sandbox(cache_directory()) as room:
            package = _checked(directory, room, limits)
            report = run_package(package, parsed, room, config=values, limits=limits, reach=reach)
        _finish_tool(report, as_json)
        return
    calls = parse_calls(arguments, capability)
    messages = parse_inbound(inbound) if inbound is not None else ()
    with Sandbox(cache_directory()) as room:
        package = _checked(directory, room, limits)
        warm = run_calls(
            package, capability, calls, room, config=values, inbound=messages, limits=limits, reach=reach
        )
    _finish_warm(warm, as_json)


def _capability(manifest: Manifest, kind: Kinds | None) -> Capability:
    from zeroclaw_sdk.trial import run_help

    kinds = [Capability(each.value) for each in Kinds]
    offered = [each for each in manifest.capabilities if each in kinds]
    if kind is not None and Capability(kind.value) in offered:
        return Capability(kind.value)
    if kind is not None or not offered:
        what = kind.value if kind is not None else "plugin made of code"
        raise UsageError(f"{manifest.name} is no {what}", remedy=run_help())
    return offered[0]


def _checked(source: Path, room: Sandbox, limits: Limits) -> AdmittedPackage:
    from zeroclaw_sdk.check import check as check_package

    with err.status("compiling and loading the component"):
        return check_package(source, room, limits=limits).package


def _finish_tool(report: RunReport, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        _print_tool(report)
    if report.error is not None:
        raise typer.Exit(report.error.kind.value)
    if report.result is not None and not report.result.success:
        raise typer.Exit(Kind.PLUGIN.value)


def _print_tool(report: RunReport) -> None:
    _print_logs(report.other_logs())
    if report.error is not None:
        print_error(report.error)
    elif report.result is not None:
        if report.result.output:
            print(visible_lines(report.result.output))
        if not report.result.success:
            err.print(f"[red]the tool failed:[/red] {shown_lines(report.result.error or '')}")
    print_refusals(report.refusals)
    fuel = f", {report.fuel:,} units of fuel" if report.fuel is not None else ""
    err.print(f"[dim]{report.milliseconds:.0f} ms{fuel}[/dim]")


def _finish_warm(report: WarmReport, as_json: bool) -> None:
    failure = report.calls[-1].error if report.calls else None
    if as_json:
        print_json(report)
    else:
        _print_warm(report, failure)
    if failure is not None:
        raise typer.Exit(failure.kind.value)


def _print_warm(report: WarmReport, failure: ZeroclawError | None) -> None:
    _print_logs(report.other_logs())
    if not report.calls:
        out.print(f"started: {shown(report.name)}")
        out.print(f"can also: {', '.join(report.capabilities) or 'nothing beyond what it must'}")
    for call in report.calls:
        if call.error is None:
            print(json_text(plain(call.result)))
    for call in report.calls:
        err.print(f"[dim]{_figures(call)}[/dim]")
    if failure is not None:
        print_error(failure)
    print_refusals(report.refusals)


def _figures(call: CallReport) -> str:
    answered = ", answered by the host, because the plugin does not define it" if call.default else ""
    return f"{call.function}: {call.milliseconds:.1f} ms{answered}"


def _print_logs(records: Sequence[LogRecord]) -> None:
    for record in records:
        raw = f"  {record.raw}" if record.raw else ""
        origin = record.function or record.source
        err.print(f"[dim]{record.level:5} {shown(origin)}: {shown_lines(record.message)}{shown(raw)}[/dim]")


def print_refusals(refusals: Sequence[Refusal]) -> None:
    """What the plugin was not told: it knows only that it was refused."""
    for each in refusals:
        reason = each.reason.replace("_", " ")
        err.print(f"[yellow]refused[/yellow] {each.transport} to {shown(each.host)}:{each.port}: {reason}")
        if each.options:
            err.print(f"  to do: run with {shown(' '.join(each.options))}")
        else:
            err.print(f"  {_unlifted(each.reason)}")


def _unlifted(reason: str) -> str:
    """What there is to say where no option helps."""
    from zeroclaw_host.egress.decision import Reason

    if reason.startswith("tls_profile"):
        return "this command has no TLS profiles; they are in the row of an operator"
    if reason in (Reason.HOST_INVALID, Reason.PORT_INVALID):
        return "this is nothing that can be granted; the plugin has to ask for something else"
    return "no grant lifts this"
