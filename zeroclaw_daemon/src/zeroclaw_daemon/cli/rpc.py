"""``zeroclaw rpc``: call any method of the daemon."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from zeroclaw_daemon.cli.completing import complete_method
from zeroclaw_daemon.cli.environment import environment
from zeroclaw_daemon.cli.output import say_json
from zeroclaw_host.errors import UsageError
from zeroclaw_host.visible import json_text

if TYPE_CHECKING:
    from zeroclaw_daemon.config.paths import Paths
    from zeroclaw_daemon.rpc.client import Notification


def rpc(
    context: typer.Context,
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help="What to call, as in session/new.", autocompletion=complete_method
        ),
    ],
    params: Annotated[
        str | None,
        typer.Argument(
            metavar="[JSON]", help="Its parameters: an object. `-` reads them from standard input."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Stay, and print what the daemon says unasked, one JSON object a line."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON, too.")] = False,
) -> None:
    """Call a method of the running daemon and print its result as JSON.

    \\b
      zeroclaw rpc status
      zeroclaw rpc session/new '{"agentAlias": "assistant", "chatMode": "acp"}'
      zeroclaw rpc config/get '{"prop": "gateway.port"}'

    What the daemon says while the method runs goes to standard error, one JSON object a line. With --follow that, and
    the result as an object with the member `result`, go to standard output, until Ctrl-C or the daemon's end.

    The daemon is told that nobody can be asked: a question of an agent fails at once. An error is printed with its code
    and its reason, and ends the command with the status of its kind.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    given = _parameters(sys.stdin.read() if params == "-" else params or "{}")
    anyio.run(_call, current.paths, method, given, follow)


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
