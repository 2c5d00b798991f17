"""What a person can do about a refusal of the network authority, in words and as a command to paste.

A grant is a list of a row, and ``config set`` replaces it as a whole: the value is always the list as it is to be. A row that
is missing is made together with its grant, because a dotted path finds only rows that are there (PLG-206, PLG-217).
"""

from __future__ import annotations

import json
from typing import Final

from zeroclaw_daemon.cli.advice import Advice, Arguments, Place
from zeroclaw_host.instance import IdentityInvalid, InstanceIdentity
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.visible import visible

_ROWS: Final = "plugins.entries."
_HOSTS: Final = "egress_hosts"


def grant_words(path: str, value: str) -> str | None:
    """What setting one list of a row means for its instance; None for other properties.

    :param value: hosts with commas between; the empty text takes the list away.
    """
    key, dot, name = path.removeprefix(_ROWS).partition(".")
    if not path.startswith(_ROWS) or not dot or (instance := _instance(key)) is None:
        return None
    hosts = visible(", ".join(value.split(","))) if value else ""
    match name, bool(hosts):
        case "egress_hosts", True:
            return f"Let {instance} reach {hosts}, and nothing else."
        case "egress_hosts", False:
            return f"Let {instance} reach nothing."
        case "egress_allow_private", True:
            return f"Let {instance} reach private addresses of {hosts}, and of nothing else."
        case "egress_allow_private", False:
            return f"Let {instance} reach no private addresses."
        case _:
            return None


def complete_config(arguments: Arguments, place: Place) -> Advice:
    """The one command that is not complete as it is printed, and without its value changes nothing (PLG-197, PLG-198)."""
    path = arguments.get("path", "")
    key, _, name = path.removeprefix(_ROWS).partition(".")
    instance = _instance(key) if path.startswith(_ROWS) and name == _HOSTS else None
    what = f"Name the hosts that {instance} may reach" if instance is not None else f"Set {visible(path)}"
    return Advice(
        f"{what}: put them behind the command as one word, with commas between.",
        place.command("config set --no-interactive", path),
    )


def mend_config(arguments: Arguments, place: Place) -> Advice:
    """A property that only a person can put right."""
    return Advice(f"Put {visible(arguments.get('path', ''))} right by hand.")


def create_row(arguments: Arguments, place: Place) -> Advice:
    """A row and its grant in one step (PLG-206)."""
    key = arguments.get("key", "")
    hosts = [host for host in arguments.get("hosts", "").split(",") if host]
    pointer = f"/plugins/entries/{key.replace('~', '~0').replace('/', '~1')}/{_HOSTS}"
    patch = json.dumps([{"op": "add", "path": pointer, "value": hosts}], separators=(",", ":"))
    return Advice(
        f"Make the row of {_instance(key) or visible(key)}, which lets it reach {visible(', '.join(hosts)) or 'nothing'}.",
        place.command("config patch", patch),
    )


def rename_row(arguments: Arguments, place: Place) -> Advice:
    """A row of before 1.0 under the key that its instance reads (PLG-214)."""
    old, new = arguments.get("old", ""), arguments.get("new", "")
    sentence = f"Rename the row {visible(old)} of plugins.entries to {visible(new)}"
    if not old or "." in old:  # which no path of a property can name
        return Advice(f"{sentence}, in {visible(arguments.get('path', ''))}.")
    return Advice(f"{sentence}.", place.command("config set", f"{_ROWS}{old}.name", new))


def rename_table(arguments: Arguments, place: Place) -> Advice:
    """A table under a name that no command would write (PLG-211)."""
    table, path = visible(arguments.get("table", "")), visible(arguments.get("path", ""))
    return Advice(f"Rename the table [{table}] in {path}.")


def _instance(key: str) -> str | None:
    """The instance as reports call it: its package, and the alias of a channel (PLG-209)."""
    try:
        identity = InstanceIdentity.parse(key)
    except IdentityInvalid:
        return None
    if identity == InstanceIdentity.default_tool(identity.package):
        return visible(identity.package)
    kind = "plugin." if identity.capability is Capability.CHANNEL else f"{identity.capability.value} "
    return visible(f"{identity.package} ({kind}{identity.binding})")
