"""``zeroclaw rpc``: call any method of the daemon."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from zeroclaw_daemon.cli.completing import complete_method
from zeroclaw_daemon.cli.config_values import from_input
from zeroclaw_daemon.cli.environment import environment
from zeroclaw_daemon.cli.output import say_json
from zeroclaw_host.errors import Kind, UsageError, ZeroclawError
from zeroclaw_host.visible import json_text, visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.paths import Paths
    from zeroclaw_daemon.rpc.client import Notification


class MethodUnknown(ZeroclawError):
    """The protocol of this release has no method of that name. ``details`` holds those that are ``known``."""

    code = "method_unknown"
    kind = Kind.NOT_FOUND


def rpc(
    context: typer.Context,
    method: Annotated[
        str | None,
        typer.Argument(
            metavar="METHOD", help="What to call, as in session/new.", autocompletion=complete_method
        ),
    ] = None,
    params: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="Its parameters: an object. `-` reads them from standard input."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Stay, and print what the daemon says unasked, one JSON object a line."
        ),
    ] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe",
            help="Call nothing; print what METHOD takes and answers, or of all methods, as OpenRPC. Needs no daemon.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON, too.")] = False,
) -> None:
    """Call a method of the running daemon and print its result as JSON.

    \b
      zeroclaw rpc status
      zeroclaw rpc session/new '{"agentAlias": "assistant", "chatMode": "acp"}'
      zeroclaw rpc config/get '{"prop": "gateway.port"}'
      zeroclaw rpc --describe session/new

    What the daemon says while the method runs goes to standard error, one JSON object a line. With --follow that, and
    the result as an object with the member `result`, go to standard output, until Ctrl-C or the daemon's end.

    The daemon is told that nobody can be asked: a question of an agent fails at once. An error is printed with its code
    and its reason, and ends the command with the status of its kind.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    if describe:
        say_json(_description(method))
        return
    if method is None:
        raise UsageError("say which method to call; `zeroclaw rpc --describe` prints all there are")
    given = _parameters(from_input("the parameters") if params == "-" else params or "{}")
    anyio.run(_call, current.paths, method, given, follow)


def _description(method: str | None) -> object:
    """The protocol as this release has it, or one method of it."""
    from importlib.metadata import version

    from zeroclaw_daemon.rpc.description.document import openrpc

    document = openrpc(version("zeroclaw-daemon"))
    if method is None:
        return document
    found = {each["name"]: each for each in document["methods"]}
    if method not in found:
        close = get_close_matches(method, found)
        hint = f"; there is {', '.join(close)}" if close else "; without a name, all are described"
        raise MethodUnknown(f"there is no method {visible(method)}{hint}", details={"known": sorted(found)})
    return found[method]


def _parameters(text: str) -> dict[str, Any]:
    from zeroclaw_daemon.strict_json import NotJson, parse

    try:
        value = parse(text)
    except NotJson:
        raise UsageError("the parameters are no JSON") from None
    if not isinstance(value, dict):
        raise UsageError("the parameters are no JSON object")
    return cast("dict[str, Any]", value)


async def _call(paths: Paths, method: str, params: dict[str, Any], follow: bool) -> None:

    from zeroclaw_daemon.cli.calling import daemon, numbered
    from zeroclaw_daemon.rpc.errors import ConnectionLost, RemoteError

    def heard(notification: Notification) -> None:
        line = json_text({"method": notification.method, "params": notification.params})
        print(line, file=sys.stdout if follow else sys.stderr, flush=True)

    async with daemon(paths) as client:
        with client.peer.hearing(heard):
            try:
                result = await client.call(method, params)
            except RemoteError as error:
                raise numbered(error) from None
            if not follow:
                say_json(result)
                return
            print(json_text({"result": result}), flush=True)
            await client.peer.ended()
            raise ConnectionLost("the connection ended")
