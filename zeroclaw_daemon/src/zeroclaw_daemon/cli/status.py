"""``zeroclaw status``: is a daemon there, and how is it?"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from zeroclaw_daemon.cli.environment import environment
from zeroclaw_daemon.cli.output import duration, say, say_json, warn
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.config.paths import Paths


_STATES: Final = {
    "off": "off: plugins.enabled is false",
    "unreadable": "off: [plugins] cannot be read",
    "unseen": "on; what is installed is looked at by the next prompt, or by `zeroclaw reload`",
}

_TROUBLED: Final = ("failing", "unusable")


def status(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the daemon's answer as JSON.")] = False,
) -> None:
    """Show the running daemon: version, process, sessions, and what is wrong with its configuration.

    Exit status 7 when none is running.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    answer = anyio.run(_ask, current.paths)
    if as_json:
        say_json(answer)
        return
    say(f"zeroclaw {visible(str(answer['serverVersion']))}, process {answer['serverPid']}")
    say(f"  up        {duration(answer['uptimeSeconds'])}, connections: {answer['connections']}")
    say(f"  endpoint  {visible(str(answer['localIpcEndpoint']))}")
    _say_gateway(answer["gateway"])
    for label, member in (("config", "configFile"), ("data", "dataDir")):
        if member in answer:
            say(f"  {label:<9} {visible(str(answer[member]))}")
    say(f"  agents    {visible(', '.join(answer.get('agents', [])) or 'none')}")
    say(f"  tools     {visible(', '.join(['those built in', *answer.get('tools', [])]))}")
    sessions = answer["sessionIds"]
    say(f"  sessions  {len(sessions)}{visible(': ' + ', '.join(sessions) if sessions else '')}")
    _say_providers(answer)
    _say_plugins(answer)
    for problem in answer.get("problems", []):
        warn(str(problem))


def _say_gateway(gateway: dict[str, Any]) -> None:
    """Where other machines connect, or why they cannot; nothing while nobody wants them to."""
    if gateway["state"] == "listening":
        say(f"  gateway   {visible(gateway['endpoint'])}, connections: {gateway['connections']}")
    elif gateway["state"] == "failed":
        say(f"  gateway   does not listen at {visible(gateway['endpoint'])}")
        warn(str(gateway["error"]["message"]))


def _say_providers(answer: dict[str, Any]) -> None:
    """Every configured model provider, and why it does not answer."""
    for provider in answer.get("providers", []):
        failure = f": {provider['lastFailure']}" if provider["state"] in _TROUBLED else ""
        say(f"  provider  {visible(provider['name'])} {visible(provider['state'] + failure)}")


def _say_plugins(answer: dict[str, Any]) -> None:
    """Every plugin, whether it runs, and why not; then whether something waits for a reload."""
    if (words := _STATES.get(answer.get("pluginsState", ""))) is not None:
        say(f"  plugins   {words}")
    for plugin in answer.get("plugins", []):
        of = defaultdict[str, Any](str, plugin)  # a daemon of another release may say less of it
        name = f"{of['package']} {of['version'] or ''}".rstrip()
        instance = f" ({of['capability']} {of['binding']})" if of["capability"] else ""
        reason = f": {of['reason']}" if of["reason"] else ""
        say(f"  plugin    {visible(name + instance)} {visible(of['state'] + reason)}")
    if answer.get("reloadPending"):
        say("  reload    channels were changed since the plan was made; `zeroclaw reload` makes it anew")


async def _ask(paths: Paths) -> dict[str, Any]:
    from zeroclaw_daemon.cli.calling import daemon

    async with daemon(paths) as client:
        return (await client.status()).to_json()
