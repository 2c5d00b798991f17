"""``zeroclaw-registry``: keeping a registry of plugin packages and handing it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zeroclaw_host.errors import Kind
from zeroclaw_sdk.cli.output import Json, err, out, print_json, run_app, shown
from zeroclaw_sdk.files import replace_file
from zeroclaw_sdk.registry.store import RegistryDirectory

_HELP = """Keep a registry of ZeroClaw packages: a directory of files that any web server can hand out.

\b
  zeroclaw-registry init my-registry
  zeroclaw-registry add my-registry hello-0.1.0.zip
  zeroclaw-registry serve my-registry

Exit statuses: 0 done, 1 internal fault, 2 wrong usage, 3 bad input, 4 refused by policy, 6 conflict, 7 unavailable.
"""

app = typer.Typer(
    name="zeroclaw-registry",
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Directory = Annotated[Path, typer.Argument(help="The registry's directory.")]
AllowUnsigned = Annotated[
    bool,
    typer.Option("--allow-unsigned", help="Accept packages without signature; strict hosts refuse them."),
]


@app.command()
def init(directory: Directory) -> None:
    """Make an empty registry.

    Put the public keys of accepted publishers into publishers/NAME.pub; without any, every valid signature will do.
    """
    registry = RegistryDirectory.create(directory)
    out.print(f"made {shown(str(registry.index_path))}")


@app.command()
def add(
    directory: Directory,
    archives: Annotated[
        list[Path], typer.Argument(help="Package archives, as zeroclaw-plugin pack writes them.")
    ],
    allow_unsigned: AllowUnsigned = False,
    as_json: Json = False,
) -> None:
    """Publish packages, after the admission every client runs. A published version never changes its bytes."""
    registry = RegistryDirectory(directory)
    reports = [registry.add(archive, allow_unsigned=allow_unsigned) for archive in archives]
    if as_json:
        print_json([{"entry": each.entry.model_dump(), "fresh": each.fresh} for each in reports])
        return
    for each in reports:
        word = "published" if each.fresh else "already published"
        out.print(f"{word} {shown(each.entry.name)}@{shown(each.entry.version)}  sha256 {each.entry.sha256}")


@app.command()
def verify(directory: Directory, allow_unsigned: AllowUnsigned = False, as_json: Json = False) -> None:
    """Read every archive and judge it as a client would."""
    report = RegistryDirectory(directory).verify(allow_unsigned=allow_unsigned)
    if as_json:
        print_json(report)
    else:
        for each in report.problems:
            err.print(f"[red]refused[/red] {shown(f'{each.name}@{each.version}: {each.problem}')}")
        for stray in report.strays:
            err.print(f"[yellow]not listed[/yellow] {shown(stray)}")
        out.print(f"{report.entries - len(report.problems)} of {report.entries} packages are good")
    if report.problems:
        raise typer.Exit(Kind.INVALID.value)


@app.command(short_help="Hand the registry out over plain HTTP.")
def serve(
    directory: Directory,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8642,
    url_file: Annotated[
        Path | None, typer.Option(help="Write the registry's URL here once it is served.")
    ] = None,
) -> None:
    """Hand the registry out over plain HTTP, on this machine only unless --host says otherwise. Ctrl-C ends it."""
    from zeroclaw_sdk.registry.server import (
        serve as serve_registry,
    )  # the only command that needs a web server

    def started(url: str) -> None:
        # Not through rich: a reader waiting for this line must not wait for a buffer.
        print(f"serving {url}", flush=True)
        if url_file is not None:
            replace_file(url_file, f"{url}\n".encode())

    try:
        serve_registry(RegistryDirectory(directory), host=host, port=port, started=started)
    except KeyboardInterrupt:
        err.print("ended")


def main() -> int:
    """Run the command; the exit status."""
    return run_app(app, "zeroclaw-registry")
