"""``zeroclaw-plugin``: writing, building, trying, signing and packing a plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from zeroclaw_host.errors import Kind, UsageError
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key
from zeroclaw_sdk.build import build as build_project
from zeroclaw_sdk.cli.options import HERE, Kinds, cache_directory
from zeroclaw_sdk.cli.output import (
    Json,
    ask_passphrase,
    err,
    out,
    print_evidence,
    print_json,
    remedy_words,
    run_app,
    shown,
    shown_lines,
)
from zeroclaw_sdk.cli.run_command import run
from zeroclaw_sdk.errors import BuildFailed, ScaffoldConflict
from zeroclaw_sdk.imports import Finding, Problem, Severity
from zeroclaw_sdk.keys import generate_key, load_key, read_passphrase
from zeroclaw_sdk.pack import pack as pack_project
from zeroclaw_sdk.project import Project
from zeroclaw_sdk.scaffold import new_plugin
from zeroclaw_sdk.signing import sign as sign_project
from zeroclaw_sdk.signing import verify as verify_package
from zeroclaw_sdk.world import write_world

if TYPE_CHECKING:
    from zeroclaw_sdk.check import CheckReport

_HELP = """Write, build, try, sign and pack a ZeroClaw plugin in Python.

From nothing to an answer:

\b
  zeroclaw-plugin new tool hello
  cd hello
  zeroclaw-plugin build
  zeroclaw-plugin check
  zeroclaw-plugin run '{"name": "Ada"}'

To others:

\b
  zeroclaw-plugin keygen ../publisher.pem
  zeroclaw-plugin sign --key ../publisher.pem
  zeroclaw-plugin pack

Exit statuses: 0 done, 1 internal fault, 2 wrong usage, 3 bad input, 4 refused by policy, 5 not found, 6 conflict,
7 unavailable, 8 a limit was reached, 9 the plugin failed.
"""

app = typer.Typer(
    name="zeroclaw-plugin",
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Directory = Annotated[Path, typer.Argument(help="The plugin's directory; the current one when left out.")]
Source = Annotated[Path, typer.Argument(help="A plugin's directory or a package archive.")]
PassphraseFile = Annotated[
    Path | None, typer.Option(help="Read the key's passphrase from this file (mode 0600) instead of asking.")
]


@app.command()
def new(
    kind: Annotated[Kinds, typer.Argument(help="What the plugin is to be.")],
    name: Annotated[str, typer.Argument(help="Its package name: a-z, 0-9, '.', '_' and '-'.")],
    directory: Annotated[Path, typer.Option(help="Where the plugin's own directory is made.")] = HERE,
) -> None:
    """Start a new plugin from a template, in a directory of its name."""
    target = new_plugin(kind.value, name, directory)
    out.print(f"made {shown(str(target))}")
    out.print(f"next: cd {shown(str(target))} && zeroclaw-plugin build")


@app.command(short_help="Build the component from your Python files.")
def build(
    directory: Directory = HERE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse imports that would only fail when they are reached.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build even when nothing changed.")] = False,
    as_json: Json = False,
) -> None:
    """Build the component: your Python files, what they import, and the interpreter, in one file.

    A component has no files to import from later. Imports inside functions and compiled extension modules cannot work
    in it; both are reported with file and line.
    """
    try:
        with err.status("building") as status:
            report = build_project(
                Project.open(directory), strict=strict, force=force, progress=status.update
            )
    except BuildFailed as error:
        if not as_json:
            _print_failed_build(error)
        raise
    if as_json:
        print_json(report)
        return
    print_findings(report.findings)
    word = f"built in {report.seconds:.1f} s" if report.fresh else "unchanged"
    out.print(f"{shown(str(report.component))}  {report.size / 1e6:.1f} MB  {word}")
    out.print(f"sha256 {report.sha256}")


def _print_failed_build(error: BuildFailed) -> None:
    """What the error itself is too short for: every import, or all that the builder said."""
    findings = cast("tuple[Finding, ...]", error.details.get("findings", ()))
    if len(findings) > 1:
        print_findings(findings)
    if output := error.details.get("output"):
        err.print(f"[dim]{shown_lines(str(output).strip())}[/dim]")


def print_findings(findings: tuple[Finding, ...]) -> None:
    """Imports that cannot work, one a line, on standard error."""
    for each in findings:
        style = "red" if each.severity is Severity.ERROR else "yellow"
        via = f" (imported by way of {each.via})" if each.via else ""
        what = "" if each.problem is Problem.SYNTAX else f"{each.problem.value} import of {each.module}: "
        text = f"{each.file}:{each.line}: {what}{each.message}{via}"
        err.print(f"[{style}]{each.severity.value}[/{style}] {shown_lines(text)}")


@app.command(short_help="Say whether a host would accept and load it.")
def check(
    source: Source = HERE,
    trusted_key: Annotated[
        list[str] | None,
        typer.Option(help="Check as a strict host that trusts this public key. May be given more than once."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether a host would accept and load the plugin, by the checks a host runs.

    Without --trusted-key the signature is not asked for.
    """
    # Here, because the sandbox takes longer to import than most commands take.
    from zeroclaw_host.sandbox.sandbox import Sandbox
    from zeroclaw_sdk.check import check as check_package

    policy = SignaturePolicy.of(SignatureMode.STRICT, trusted_key) if trusted_key else None
    with Sandbox(cache_directory()) as room, err.status("compiling and loading the component"):
        report = check_package(source, room, policy=policy)
    if as_json:
        print_json(_check_data(report))
    else:
        _print_check(report)
    if report.verdict.applicable and not report.verdict.loads:
        raise typer.Exit((report.verdict.error.kind if report.verdict.error else Kind.INVALID).value)


def _check_data(report: CheckReport) -> dict[str, object]:
    manifest = report.package.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "capabilities": manifest.capabilities,
        "permissions": manifest.permissions,
        "transports": report.transports,
        "declared_hosts": manifest.egress.hosts,
        "network_doubt": report.network_doubt,
        "component_sha256": report.package.component_sha256,
        "signature": report.package.signature.status,
        "loads": report.verdict.loads,
        "applicable": report.verdict.applicable,
        "causes": report.verdict.causes,
        "config": report.config,
    }


def _print_check(report: CheckReport) -> None:
    manifest, verdict = report.package.manifest, report.verdict
    out.print(f"{shown(manifest.name)} {shown(manifest.version)}")
    out.print(f"capabilities  {', '.join(each.value for each in manifest.capabilities)}")
    out.print(f"permissions   {', '.join(each.value for each in manifest.permissions) or 'none'}")
    if report.transports or manifest.egress.hosts:
        transports = ", ".join(each.value.removesuffix("_client") for each in report.transports)
        hosts = ", ".join(map(shown, manifest.egress.hosts))
        out.print(f"network       {transports or 'none'} to {hosts or 'what an operator grants'}")
        if report.network_doubt:
            out.print(f"  [yellow]{shown(report.network_doubt)}[/yellow]")
    out.print(f"signature     {report.package.signature.status.value}")
    if report.config:
        table = Table("property", "type", "required", "secret", "meaning", box=None, pad_edge=False)
        for each in report.config:
            yes = ("yes" if each.required else "", "yes" if each.secret else "")
            table.add_row(shown(each.name), shown(each.type.value), *yes, shown(each.description or ""))
        out.print("configuration")
        out.print(table)
    if not verdict.applicable:
        out.print("load          not applicable: the package holds no code")
    elif verdict.loads:
        out.print("load          [green]ok[/green]")
    else:
        out.print("load          [red]fails[/red]")
        for cause in verdict.causes:
            out.print(f"  {shown_lines(cause)}")
        if verdict.error:
            print_evidence(verdict.error, out)
        if verdict.error and verdict.error.remedy and (words := remedy_words(verdict.error.remedy)):
            out.print(f"  to do: {shown(words)}")


app.command()(run)


@app.command(short_help="Write its world as WIT, for other languages.")
def wit(
    target: Annotated[Path, typer.Argument(help="The directory to make.")],
    directory: Annotated[Path, typer.Option(help="The plugin's directory.")] = HERE,
) -> None:
    """Write the world the manifest asks for as WIT, for plugins in other languages.

    The world is called 'plugin'; for JavaScript: jco componentize app.js --wit DIR -n plugin --backend quickjs -o OUT
    """
    manifest = Project.open(directory).manifest
    if target.exists():
        raise ScaffoldConflict(f"{target} exists already", details={"path": str(target)})
    write_world(target, manifest.capabilities, manifest.permissions)
    out.print(f"made {shown(str(target))}")


@app.command(short_help="Make a publisher's key, or show its public half.")
def keygen(
    path: Annotated[Path, typer.Argument(help="The key file to make.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase to protect the key.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    show: Annotated[
        bool, typer.Option("--show", help="Make nothing; print the public key of this file.")
    ] = False,
) -> None:
    """Make a publisher's key (Ed25519, PKCS#8, PEM, mode 0600) and print the public key that hosts trust."""
    if show:
        print(publisher_key(load_key(path, _asking(path, passphrase_file))))
        return
    secret: bytes | None = None
    if passphrase_file is not None:
        secret = read_passphrase(passphrase_file)
    elif passphrase:
        secret = ask_passphrase("Passphrase: ")
        if not secret or ask_passphrase("The same again: ") != secret:
            raise UsageError("the passphrase is empty, or was not the same twice")
    public = generate_key(path, passphrase=secret)
    out.print(f"made {shown(str(path))}; keep it to yourself")
    out.print(f"public key {public}")


def _asking(path: Path, passphrase_file: Path | None) -> Callable[[], bytes]:
    def ask() -> bytes:
        if passphrase_file is not None:
            return read_passphrase(passphrase_file)
        return ask_passphrase(f"Passphrase of {path}: ")

    return ask


@app.command(short_help="Sign the manifest, and through it the component.")
def sign(
    directory: Directory = HERE,
    key: Annotated[Path | None, typer.Option(help="The publisher's private key, PEM or DER.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Sign the manifest, and through it the component: writes wasm_sha256, publisher_key and signature."""
    if key is None:
        raise UsageError("name the private key with --key; zeroclaw-plugin keygen makes one")
    report = sign_project(Project.open(directory), load_key(key, _asking(key, passphrase_file)))
    if as_json:
        print_json(report)
        return
    out.print(f"signed {shown(str(report.manifest))}")
    out.print(f"public key {report.publisher_key}")


@app.command(short_help="Check signature and digests; compile nothing.")
def verify(
    source: Source = HERE,
    trusted_key: Annotated[
        list[str] | None, typer.Option(help="A public key to trust. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check signature and digests as a strict host does; nothing is compiled.

    Without --trusted-key the package's own key is taken: the signature is then good or not, whoever made it.
    """
    package = verify_package(source, frozenset(trusted_key) if trusted_key else None)
    if as_json:
        print_json(
            {
                "name": package.manifest.name,
                "version": package.manifest.version,
                "signature": package.signature,
            }
        )
        return
    out.print(f"{shown(package.manifest.name)} {shown(package.manifest.version)}: the signature is good")
    out.print(
        f"publisher key {package.signature.publisher_key}{'' if trusted_key else ' (not compared with anything)'}"
    )


@app.command(short_help="Write the package archive.")
def pack(
    directory: Directory = HERE,
    output: Annotated[
        Path | None, typer.Option(help="The archive; dist/NAME-VERSION.zip when left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the package archive: manifest, component and skills, the same bytes each time."""
    report = pack_project(Project.open(directory), output)
    if as_json:
        print_json({"archive": report.archive, "size": report.size, "sha256": report.sha256})
        return
    out.print(f"{shown(str(report.archive))}  {report.size / 1e6:.1f} MB")
    out.print(f"sha256 {report.sha256}")


def main() -> int:
    """Run the command; the exit status."""
    return run_app(app, "zeroclaw-plugin")
