"""``zeroclaw secrets``: the key that secrets and plugins' state are sealed with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from zeroclaw_daemon.cli.environment import JsonOption, environment
from zeroclaw_daemon.cli.output import say, say_json
from zeroclaw_daemon.cli.plugin_state import durable_state
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.cli.environment import Environment
    from zeroclaw_host.errors import ZeroclawError

app = typer.Typer(
    help="""Manage the key that secrets and plugins' state are sealed with.

Secrets in the configuration, and all that plugins store, are sealed with a key in the file .secret_key beside the
configuration. Whoever has both files has the secrets; without the key, nobody has. Keep a copy of the key where you would
keep the secrets themselves.

\b
  zeroclaw secrets status                  is there a key, and what is sealed?
  zeroclaw secrets rotate                  a new key, and everything sealed anew
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("rotate", short_help="Replace the key and seal everything anew.")
def rotate(context: typer.Context, as_json: JsonOption = False) -> None:
    """Replace the key: seal every secret and every entry of plugins' state anew, and forget the old key.

    A daemon may go on running. When the command is stopped on the way, everything can still be read; run it again, and it
    finishes. Copies of the old configuration and database still open with the old key.
    """
    from zeroclaw_daemon.secrets_rotation import rotate as work

    current = environment(context)
    current.json = as_json
    if not current.key_file.exists and not _anything_sealed(current):
        if as_json:
            say_json({"rotated": False, "resumed": False, "secrets": 0, "state_entries": 0})
        else:
            say("there is no key yet, and nothing is sealed")
        return
    done = work(current.config_store, durable_state(current))
    if as_json:
        say_json(
            {
                "rotated": True,
                "resumed": done.resumed,
                "secrets": done.secrets,
                "state_entries": done.rows,
            }
        )
        return
    if done.resumed:
        say("finished the rotation that was interrupted")
    say(f"the key is new; sealed with it: {done.secrets} secrets and {done.rows} entries of plugins' state")


@app.command("status", short_help="Say whether the key can be used.")
def status(context: typer.Context, as_json: JsonOption = False) -> None:
    """Say whether there is a usable key, how many secrets are sealed, and whether a rotation was interrupted.

    The exit status is 7 when the key cannot be used, and 3 when it does not open a secret. No secret is shown.
    """
    from zeroclaw_daemon.config.sealed import count_secrets, unreadable_secrets
    from zeroclaw_host.services.sealing import KeyUnavailable

    current = environment(context)
    current.json = as_json
    file = current.key_file
    counts = count_secrets(current.config_file)
    fault: ZeroclawError | None = None
    unreadable = list[str]()
    if file.exists or file.rotating or counts.sealed or counts.legacy:
        try:
            file.read()
        except KeyUnavailable as error:
            fault = error
    usable = "unusable" if fault else "usable"
    if fault is None and (found := unreadable_secrets(current.config_file, file)):
        fault, unreadable = found[0], [str(each.details["property"]) for each in found]
    if as_json:
        say_json(
            {
                "key_file": str(file.path),
                "key": usable if file.exists else "missing",
                "rotation_interrupted": file.rotating,
                "secrets": {
                    "sealed": counts.sealed,
                    "legacy": counts.legacy,
                    "plain": list(counts.plain),
                    "unreadable": unreadable,
                },
            }
        )
    else:
        absent = " (missing)" if fault is not None else " (not there yet)"
        say(f"key         {visible(str(file.path))}{'' if file.exists else absent}")
        say(f"sealed      {counts.sealed} secrets")
        if counts.legacy:
            say(f"            {counts.legacy} more as early releases sealed them; rotating seals them anew")
        for path in unreadable:
            say(f"unreadable  {visible(path)}, which another key sealed, or which was changed")
        for path in counts.plain:
            say(f"written out {visible(path)}")
        if file.rotating:
            say("rotation    interrupted; everything can be read. To finish it:")
            say(f"  {current.place.data_command('secrets rotate')}")
    if fault is not None:
        raise fault


def _anything_sealed(current: Environment) -> bool:
    from zeroclaw_daemon.config.sealed import count_secrets

    counts = count_secrets(current.config_file)
    return bool(counts.sealed or counts.legacy or durable_state(current).exists)
