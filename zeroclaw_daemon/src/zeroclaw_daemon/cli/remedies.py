"""What a person can do, in words and as a command to paste.

The host speaks in :class:`~zeroclaw_host.errors.Remedy` values; this is the one place that knows the command line they
turn into. Every command names the configuration it was computed for (PLG-195) and quotes every argument (PLG-196).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, cast

from zeroclaw_daemon.cli import network_advice
from zeroclaw_daemon.cli.advice import Advice, Alternative, Arguments, Place, advice_lines
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.quoting import Word, command, words
from zeroclaw_host.visible import is_plain, visible

__all__ = ["Advice", "Place", "advice_lines", "advise", "bind_command", "remedy_json"]


def advise(remedy: Remedy, place: Place) -> Advice:
    """The remedy in words, with its command."""
    return _RENDERERS[remedy.action](remedy.arguments, place)


def remedy_json(remedy: Remedy, place: Place) -> dict[str, object]:
    """The same for a program, which may want the remedy itself as well."""
    return {
        "action": remedy.action.value,
        "arguments": dict(remedy.arguments),
        **asdict(advise(remedy, place)),
    }


def _set_config(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    value = arguments.get("value")
    if value is None:
        return Advice(
            f"Set {visible(path)}; the command asks for the value.", place.command("config set", path)
        )
    words = network_advice.grant_words(path, value) or f"Set {visible(path)}."
    return Advice(words, place.command("config set", path, value))


def _unset_config(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    words = network_advice.grant_words(path, "") or f"Take {visible(path)} out again."
    return Advice(words, place.command("config delete", path))


def _migrate_config(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Bring the file to the layout of this release; comments and order stay.",
        place.command("config migrate"),
    )


def _rotate_secrets(arguments: Arguments, place: Place) -> Advice:
    if place.data_dir_named:
        return Advice("Rotate the key with `zeroclaw secrets rotate`, with the same ZEROCLAW_DATA_DIR.")
    return Advice(
        "Rotate the key; a rotation that was interrupted is finished.", place.command("secrets rotate")
    )


def _raise_limit(arguments: Arguments, place: Place) -> Advice:
    path = f"plugins.limits.{arguments.get('limit', '')}"
    return Advice(
        f"If plugins may have more, raise {visible(path)}; the command asks for the value.",
        place.command("config set", path),
    )


_COMPILE_SETTINGS: Final = {"memory_bytes": "memory_mb", "seconds": "timeout_secs"}


def _raise_compile_limit(arguments: Arguments, place: Place) -> Advice:
    limit = arguments.get("limit", "")
    path = f"plugins.compile.{_COMPILE_SETTINGS.get(limit, limit)}"
    return Advice(
        f"If compiling a plugin may take more, raise {visible(path)}; the command asks for the value.",
        place.command("config set", path),
    )


def _add_trusted_key(arguments: Arguments, place: Place) -> Advice:
    path = "plugins.security.trusted_publisher_keys"
    return Advice(
        "Trust the publisher's key, if you know whose it is.",
        place.command("config set --append", path, arguments.get("key", "")),
    )


def _install_plugin(arguments: Arguments, place: Place) -> Advice:
    source, egress = arguments.get("source", ""), arguments.get("egress")
    options: list[str] = []
    if "registry" in arguments:
        options += (Word("--registry"), arguments["registry"])
    if "unverified" in arguments:
        options.append(Word("--no-verify"))
    if "alias" in arguments:
        options += _binding_options(arguments["alias"], egress)
    return _decided(
        f"Install the package{', and bind its channel' if 'alias' in arguments else ''}",
        egress,
        place.command("plugin install", source, options=options),
    )


def _remove_plugin(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Remove it first; configuration and grants stay.",
        place.command("plugin remove", arguments.get("name", "")),
    )


def _update_plugin(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Update it, from a registry or with --from DIR; configuration and grants stay.",
        place.command("plugin update", arguments.get("name", "")),
    )


def _allow_update(arguments: Arguments, place: Place) -> Advice:
    sentence = "Update it, if it may have what it asks for."
    parts: list[str] = [arguments.get("package", "")]
    for option, key in (("--from", "from"), ("--registry", "registry")):
        if key in arguments:
            parts += (Word(option), arguments[key])
    items = _texts(arguments.get("items", "[]"))
    for item in items or ():
        parts += (Word("--allow-token"), item)
    if items is None or not all(map(is_plain, (place.config_dir, *parts))):
        return Advice(f"{sentence} Each item goes with an option --allow-token of its own.")
    return Advice(
        sentence, command(place.config_dir, *words("plugin update"), *parts, platform=place.platform)
    )


def _texts(text: str) -> list[str] | None:
    """A JSON list of texts; None where it is none, as a daemon of another release may send it."""
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, list):
        return None
    found = [each for each in cast("list[object]", given) if isinstance(each, str)]
    return found if len(found) == len(cast("list[object]", given)) else None


_EGRESS: Final = ("declared", "none")
"""The decisions there are, which are words of our own."""


def bind_command(place: Place, package: str, alias: str | None, egress: str | None) -> str | None:
    """The command that binds a channel; an alias that is the operator's to choose is the bare word ALIAS (PLG-199)."""
    parts = [package, *_binding_options(alias if alias is not None else Word("ALIAS"), egress)]
    if not all(map(is_plain, (place.config_dir, *parts))):
        return None
    return command(place.config_dir, *words("plugin bind"), *parts, platform=place.platform)


def _binding_options(alias: str, egress: str | None) -> list[str]:
    options: list[str] = [Word("--channel-alias"), alias]
    if egress is not None:
        options += (Word("--egress"), Word(egress) if egress in _EGRESS else egress)
    return options


def _decided(what: str, egress: str | None, pasted: str | None) -> Advice:
    """The advice to bind with a decision about the network; the second of two is instead of the first (PLG-200)."""
    match egress:
        case "none":
            return Advice(f"{what}, which reaches nothing then.", pasted)
        case "declared":
            return Alternative(f"{what}, which reaches what it declares then.", pasted)
        case _:
            return Advice(f"{what}.", pasted)


def _bind_channel(arguments: Arguments, place: Place) -> Advice:
    package, alias, egress = (arguments.get(name) for name in ("package", "alias", "egress"))
    return _decided(
        f"Bind the channel of {visible(package or 'the package')}",
        egress,
        bind_command(place, package, alias, egress) if package is not None else None,
    )


def _repair_plugins(arguments: Arguments, place: Place) -> Advice:
    return Advice("Clear away what interrupted commands left.", place.command("plugin fsck --repair"))


def _name_registry(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Say which registry to use: pass --registry, or set ZEROCLAW_PLUGIN_REGISTRY_URL, or keep it in the configuration; "
        "the command asks for it.",
        place.command("config set", "plugins.registry_url"),
    )


def _report_to_registry(arguments: Arguments, place: Place) -> Advice:
    package = visible(arguments.get("package", ""))
    return Advice(
        f"Do not install {package or 'anything'} from there, and tell the registry's maintainer: it is a mistake or "
        "an attack."
    )


def _clear_by_hand(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    return Advice(
        f"Look at {visible(path)}, and delete it or move it away by hand if nothing needs it; the command shows what "
        "it is.",
        place.other("ls", "-lA", path),
    )


def _rebuild_plugin(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Its author has to build it again against this host's contract, in the plugin's source directory, "
        "and you install the result.",
        place.other("zeroclaw-plugin", "build"),
    )


def _sign_plugin(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Its publisher has to sign the package again, in the plugin's source directory.",
        place.other("zeroclaw-plugin", "sign --help"),
    )


def _start_daemon(arguments: Arguments, place: Place) -> Advice:
    if place.data_dir_named:
        return Advice("Start it with `zeroclaw daemon`, with the same ZEROCLAW_DATA_DIR.")
    return Advice("Start it, as `zeroclaw daemon` does.", place.command("daemon"))


def _stop_daemon(arguments: Arguments, place: Place) -> Advice:
    pid = arguments.get("pid")
    if pid is None:
        return Advice("Stop the daemon that is running there.")
    return Advice(
        f"Stop the daemon that is running there, process {visible(pid)}.", place.other("kill", "", pid)
    )


def _make_directory(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Make a directory that only you can enter.", place.other("mkdir", "-m 700", arguments.get("path", ""))
    )


def _free_space(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Make room on the file system; the command shows which one it is.",
        place.other("df", "-h", arguments.get("path", "")),
    )


def _edit_file(arguments: Arguments, place: Place) -> Advice:
    where = [f"{name} {arguments[name]}" for name in ("line", "column") if name in arguments]
    return Advice(f"Mend {visible(arguments.get('path', ''))}{', ' if where else ''}{', '.join(where)}.")


def _install_extra(arguments: Arguments, place: Place) -> Advice:
    wanted = f"{arguments.get('distribution', 'zeroclaw-host')}[{arguments.get('extra', '')}]"
    return Advice("Install what is missing.", place.other("pip", "install", wanted))


def _restrict_file(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Let nobody but its owner read the file.", place.other("chmod", "600", arguments.get("path", ""))
    )


def _shorten_path(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        f"Name a shorter path with the environment variable {visible(arguments.get('variable', ''))}."
    )


def _run_help(arguments: Arguments, place: Place) -> Advice:
    asked = (*arguments.get("command", "").split(), "--help")
    ours = all(map(Word.fits, asked))
    return Advice("The help says how the command is used.", place.command(" ".join(asked)) if ours else None)


_RENDERERS: Final[Mapping[RemedyAction, Callable[[Arguments, Place], Advice]]] = {
    RemedyAction.SET_CONFIG: _set_config,
    RemedyAction.COMPLETE_CONFIG: network_advice.complete_config,
    RemedyAction.MEND_CONFIG: network_advice.mend_config,
    RemedyAction.UNSET_CONFIG: _unset_config,
    RemedyAction.MIGRATE_CONFIG: _migrate_config,
    RemedyAction.ROTATE_SECRETS: _rotate_secrets,
    RemedyAction.ADD_TRUSTED_KEY: _add_trusted_key,
    RemedyAction.INSTALL_PLUGIN: _install_plugin,
    RemedyAction.REMOVE_PLUGIN: _remove_plugin,
    RemedyAction.UPDATE_PLUGIN: _update_plugin,
    RemedyAction.ALLOW_UPDATE: _allow_update,
    RemedyAction.CREATE_ROW: network_advice.create_row,
    RemedyAction.RENAME_ROW: network_advice.rename_row,
    RemedyAction.RENAME_TABLE: network_advice.rename_table,
    RemedyAction.BIND_CHANNEL: _bind_channel,
    RemedyAction.REPAIR_PLUGINS: _repair_plugins,
    RemedyAction.NAME_REGISTRY: _name_registry,
    RemedyAction.REPORT_TO_REGISTRY: _report_to_registry,
    RemedyAction.CLEAR_BY_HAND: _clear_by_hand,
    RemedyAction.REBUILD_PLUGIN: _rebuild_plugin,
    RemedyAction.SIGN_PLUGIN: _sign_plugin,
    RemedyAction.START_DAEMON: _start_daemon,
    RemedyAction.STOP_DAEMON: _stop_daemon,
    RemedyAction.MAKE_DIRECTORY: _make_directory,
    RemedyAction.FREE_SPACE: _free_space,
    RemedyAction.EDIT_FILE: _edit_file,
    RemedyAction.INSTALL_EXTRA: _install_extra,
    RemedyAction.RAISE_LIMIT: _raise_limit,
    RemedyAction.RAISE_COMPILE_LIMIT: _raise_compile_limit,
    RemedyAction.RESTRICT_FILE: _restrict_file,
    RemedyAction.SHORTEN_PATH: _shorten_path,
    RemedyAction.RUN_HELP: _run_help,
}
