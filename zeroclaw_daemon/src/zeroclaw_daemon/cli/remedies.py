"""What a person can do, in words and as a command to paste.

The host speaks in :class:`~zeroclaw_host.errors.Remedy` values; this is the one place that knows the command line they
turn into. Every command names the configuration it was computed for (PLG-195) and quotes every argument (PLG-196).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.quoting import Platform, Word, command, line, words
from zeroclaw_host.visible import is_plain, visible


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence, and a command that does what it says, where one does."""

    words: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The installation that commands are printed for.

    ``data_dir_named`` says that ``ZEROCLAW_DATA_DIR`` moved the data, which ``--config-dir`` would undo: the command
    that starts a daemon then stays words.
    """

    config_dir: str
    data_dir_named: bool = False
    platform: Platform | None = None

    def command(self, text: str, *arguments: str) -> str | None:
        """A command of ours; None when an argument cannot be shown as it is."""
        if not all(map(is_plain, (self.config_dir, *arguments))):
            return None
        return command(self.config_dir, *words(text), *_guarded(arguments), platform=self.platform)

    def data_command(self, text: str, *arguments: str) -> str:
        """A command of ours that acts on the data directory. Where a variable names that, ``--config-dir`` would lead to another
        one: then the command is in words.
        """
        found = None if self.data_dir_named else self.command(text, *arguments)
        shown = " ".join(("zeroclaw", text, *map(visible, arguments)))
        return found or f"`{shown}`{', with the same ZEROCLAW_DATA_DIR' if self.data_dir_named else ''}"

    def other(self, program: str, text: str, *arguments: str) -> str | None:
        """A command of another program."""
        if not all(map(is_plain, arguments)):
            return None
        return line(program, *words(text), *_guarded(arguments), platform=self.platform)


def _guarded(arguments: tuple[str, ...]) -> tuple[str, ...]:
    # An argument that looks like an option must not be taken for one.
    return (Word("--"), *arguments) if any(argument.startswith("-") for argument in arguments) else arguments


def advise(remedy: Remedy, place: Place) -> Advice:
    """The remedy in words, with its command."""
    return _RENDERERS[remedy.action](remedy.arguments, place)


def advice_lines(advice: Sequence[Advice], indent: str) -> list[str]:
    """What to do, in its order, each with the command below it. Words, too, that no command goes with."""
    lines: list[str] = []
    for number, each in enumerate(advice):
        lines.append(f"{indent}{'then' if number else 'to do'}: {visible(each.words)}")
        if each.command is not None:
            lines.append(f"{indent}  {each.command}")
    return lines


Arguments = Mapping[str, str]


def _set_config(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    value = arguments.get("value")
    if value is None:
        return Advice(
            f"Set {visible(path)}; the command asks for the value.", place.command("config set", path)
        )
    return Advice(f"Set {visible(path)}.", place.command("config set", path, value))


def _unset_config(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    return Advice(f"Take {visible(path)} out again.", place.command("config delete", path))


def _complete_config(arguments: Arguments, place: Place) -> Advice:
    path = arguments.get("path", "")
    return Advice(
        f"Set {visible(path)}: complete the command with one list, commas between the hosts.",
        place.command("config set --no-interactive", path),
    )


def _mend_config(arguments: Arguments, place: Place) -> Advice:
    return Advice(f"Put {visible(arguments.get('path', ''))} right by hand.")


def _create_row(arguments: Arguments, place: Place) -> Advice:
    pointer = f"/plugins/entries/{arguments.get('key', '')}/egress_hosts"
    hosts = [host for host in arguments.get("hosts", "").split(",") if host]
    patch = json.dumps([{"op": "add", "path": pointer, "value": hosts}], separators=(",", ":"))
    return Advice(
        f"Make the row, which grants {visible(', '.join(hosts)) or 'nothing'}.",
        place.command("config patch", patch),
    )


def _rename_row(arguments: Arguments, place: Place) -> Advice:
    old, new = arguments.get("old", ""), arguments.get("new", "")
    sentence = f"Rename the row {visible(old)} of plugins.entries to {visible(new)}"
    if "." in old:  # which no path of a property can hold
        return Advice(f"{sentence}, in {visible(arguments.get('path', ''))}.")
    return Advice(f"{sentence}.", place.command("config set", f"plugins.entries.{old}.name", new))


def _rename_table(arguments: Arguments, place: Place) -> Advice:
    table, path = visible(arguments.get("table", "")), visible(arguments.get("path", ""))
    return Advice(f"Rename the table [{table}] in {path}.")


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
    return Advice("Install the package.", place.command("plugin install", arguments.get("source", "")))


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
    for item in cast("list[str]", json.loads(arguments.get("items", "[]"))):
        parts += (Word("--allow-token"), item)
    if not all(map(is_plain, (place.config_dir, *parts))):
        return Advice(f"{sentence} Each item goes with an option --allow-token of its own.")
    return Advice(
        sentence, command(place.config_dir, *words("plugin update"), *parts, platform=place.platform)
    )


def bind_command(place: Place, package: str, alias: str | None, egress: str | None) -> str | None:
    """The command that binds a channel; an alias that is the operator's to choose is the bare word ALIAS (PLG-199)."""
    parts: list[str] = [package, Word("--channel-alias"), alias if alias is not None else Word("ALIAS")]
    if egress is not None:
        parts += (Word("--egress"), Word(egress))
    if not all(map(is_plain, (place.config_dir, *parts))):
        return None
    return command(place.config_dir, *words("plugin bind"), *parts, platform=place.platform)


def _bind_channel(arguments: Arguments, place: Place) -> Advice:
    package, alias, egress = (arguments.get(name) for name in ("package", "alias", "egress"))
    return Advice(
        f"Bind the channel of {visible(package or 'the package')}.",
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
    extra = arguments.get("extra", "")
    return Advice("Install what is missing.", place.other("pip", "install", f"zeroclaw-host[{extra}]"))


def _restrict_file(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        "Let nobody but its owner read the file.", place.other("chmod", "600", arguments.get("path", ""))
    )


def _shorten_path(arguments: Arguments, place: Place) -> Advice:
    return Advice(
        f"Name a shorter path with the environment variable {visible(arguments.get('variable', ''))}."
    )


def _run_help(arguments: Arguments, place: Place) -> Advice:
    asked = arguments.get("command", "")
    return Advice("The help says how the command is used.", place.command(f"{asked} --help"))


_RENDERERS: Final[Mapping[RemedyAction, Callable[[Arguments, Place], Advice]]] = {
    RemedyAction.SET_CONFIG: _set_config,
    RemedyAction.COMPLETE_CONFIG: _complete_config,
    RemedyAction.MEND_CONFIG: _mend_config,
    RemedyAction.UNSET_CONFIG: _unset_config,
    RemedyAction.MIGRATE_CONFIG: _migrate_config,
    RemedyAction.ROTATE_SECRETS: _rotate_secrets,
    RemedyAction.ADD_TRUSTED_KEY: _add_trusted_key,
    RemedyAction.INSTALL_PLUGIN: _install_plugin,
    RemedyAction.REMOVE_PLUGIN: _remove_plugin,
    RemedyAction.UPDATE_PLUGIN: _update_plugin,
    RemedyAction.ALLOW_UPDATE: _allow_update,
    RemedyAction.CREATE_ROW: _create_row,
    RemedyAction.RENAME_ROW: _rename_row,
    RemedyAction.RENAME_TABLE: _rename_table,
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
