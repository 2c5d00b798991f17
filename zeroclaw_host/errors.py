"""One shape for everything that can go wrong.

Every error of the host is a :class:`ZeroclawError`: a stable code word, what happened, the chain of causes and, where
something can be done, a :class:`Remedy`. A remedy is a value and never text: the host knows no command line. Whoever
talks to a person renders it.

:class:`Kind` groups the code words by what a caller can do about them. Its value is the exit status of a command that
ends with such an error; the daemon maps kinds and code words to JSON-RPC codes in its own table.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final, cast


class Kind(Enum):
    """What a caller can do about an error. The value is the exit status of a command that ends with it."""

    INTERNAL = 1
    """A fault of this program."""
    USAGE = 2
    """The command or call was not well-formed."""
    INVALID = 3
    """Bad input: a manifest, a configuration, a component, an argument."""
    REFUSED = 4
    """A policy said no: signature, permission, grant, approval."""
    NOT_FOUND = 5
    """The thing named does not exist."""
    CONFLICT = 6
    """The thing exists already, or somebody else holds it."""
    UNAVAILABLE = 7
    """A file system, a network peer or a service did not do its part; trying again may help."""
    LIMIT = 8
    """A bound was reached: fuel, deadline, memory, size."""
    PLUGIN = 9
    """The plugin itself failed: a trap, an error result, a value that does not fit its type."""


NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a system says when a file cannot grow: the disk, the quota or the limit of a file's size is used up."""


class RemedyAction(Enum):
    """Everything a person can be told to do. ``Remedy.arguments`` of each are listed beside it."""

    SET_CONFIG = "set_config"
    """``path``, and ``value`` where it is known: set one property."""
    COMPLETE_CONFIG = "complete_config"
    """``path``: set one list whose elements only a person knows. The command lacks its value, and without one it changes
    nothing."""
    MEND_CONFIG = "mend_config"
    """``path``: look at one property of the configuration and put it right; no command can know how."""
    UNSET_CONFIG = "unset_config"
    """``path``: take one property out of the configuration."""
    MIGRATE_CONFIG = "migrate_config"
    """No argument: bring the configuration file to the layout of this release."""
    ROTATE_SECRETS = "rotate_secrets"
    """No argument: replace the key that secrets and plugins' state are sealed with, or finish what was interrupted."""
    ADD_TRUSTED_KEY = "add_trusted_key"
    """``key``: trust a publisher key."""
    INSTALL_PLUGIN = "install_plugin"
    """``source``, and where the run named them ``registry``, ``alias``, ``egress`` and ``unverified`` (``true``): install a package,
    and bind its channel with it."""
    REMOVE_PLUGIN = "remove_plugin"
    """``name``: remove a package, or what an interrupted install left under its name."""
    UPDATE_PLUGIN = "update_plugin"
    """``name``: update an installed package; one that an interrupted update moved aside is put back first."""
    ALLOW_UPDATE = "allow_update"
    """``package`` (``name@version``), ``items`` (a JSON list), and ``from`` or ``registry`` where the run named it: update
    a package to a version that wants more than the installed one has."""
    CREATE_ROW = "create_row"
    """``key`` and ``hosts`` (commas between): make the row of an instance, which grants these hosts."""
    RENAME_ROW = "rename_row"
    """``path``, the configuration file's, ``old`` and ``new``: give a row the name that its instance is known by."""
    RENAME_TABLE = "rename_table"
    """``path``, the configuration file's, and ``table``, as its header is written: give a table another name, by hand."""
    BIND_CHANNEL = "bind_channel"
    """``package``, and ``alias`` and ``egress`` (``declared`` or ``none``) where they are known: bind a channel to an alias."""
    REPAIR_PLUGINS = "repair_plugins"
    """No argument: clear away what interrupted commands left in the plugins directory."""
    NAME_REGISTRY = "name_registry"
    """No argument: say which registry to use."""
    REPORT_TO_REGISTRY = "report_to_registry"
    """``package`` where it is known: tell a registry's maintainer, and install nothing of it."""
    CLEAR_BY_HAND = "clear_by_hand"
    """``path``: look at what is there, and delete or move it by hand."""
    REBUILD_PLUGIN = "rebuild_plugin"
    """No argument: build the component again against this host's contract."""
    SIGN_PLUGIN = "sign_plugin"
    """No argument: sign the package again."""
    START_DAEMON = "start_daemon"
    """No argument: start the daemon."""
    STOP_DAEMON = "stop_daemon"
    """``pid`` where it is known: stop the daemon that holds the endpoint."""
    MAKE_DIRECTORY = "make_directory"
    """``path``: make a directory that only its owner may enter."""
    FREE_SPACE = "free_space"
    """``path``: make room on the file system that holds the path."""
    EDIT_FILE = "edit_file"
    """``path``, and ``line`` and ``column`` where known: mend a file by hand."""
    INSTALL_EXTRA = "install_extra"
    """``extra``, and ``distribution`` where it is not the host's: install a distribution's extra."""
    RAISE_LIMIT = "raise_limit"
    """``limit``: the name of a bound of plugin calls; let plugins have more of it."""
    RAISE_COMPILE_LIMIT = "raise_compile_limit"
    """``limit``: ``memory_bytes`` or ``seconds``; let the compiler have more of it."""
    RESTRICT_FILE = "restrict_file"
    """``path``: let nobody but the owner read or write a file."""
    SHORTEN_PATH = "shorten_path"
    """``variable``: name a shorter path by an environment variable."""
    RUN_HELP = "run_help"
    """``command``: read the help of a command."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something a person can do about an error, as data."""

    action: RemedyAction
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])


_EVIDENCE: Final = {
    "differences": "what differs from the contract",
    "traceback": "the plugin's traceback",
    "backtrace": "where in the plugin, innermost first",
    "stderr": "the plugin's standard error",
}
"""What ``details`` may hold for a person to read, and how it is called."""


class ZeroclawError(Exception):
    """Base of every error of the host.

    :param message: what happened, one sentence, without secrets and without what to do about it.
    :param remedy: what to do about it.
    :param remedies: instead of ``remedy``, several things to do, all of them and in this order. ``remedy`` is the first.
    :param details: further facts as plain values (numbers, names, paths) for programs; never secrets.

    The cause is Python's own ``__cause__``; :meth:`causes` reads the chain.
    """

    code: ClassVar[str] = "internal"
    kind: ClassVar[Kind] = Kind.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        remedy: Remedy | None = None,
        remedies: Sequence[Remedy] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedies = tuple(remedies) if remedy is None else (remedy,)
        self.remedy = self.remedies[0] if self.remedies else None
        self.details: Mapping[str, object] = dict(details or {})

    def causes(self) -> tuple[str, ...]:
        """The messages of the errors that led here, outermost first, this one excluded."""
        found: list[str] = []
        seen: set[int] = {id(self)}
        cause: BaseException | None = self.__cause__
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            found.append(str(cause) or type(cause).__name__)
            cause = cause.__cause__
        return tuple(found)

    def evidence(self, *, lines: int | None = None) -> tuple[tuple[str, str], ...]:
        """What a person needs to see besides the message: what it is, and its text.

        Of a component that does not fit, each difference. Of a guest's end, its own words: a traceback of its own
        language says all; without one, where its code was and what it printed are told.

        :param lines: keep so many of each text, the nearest to the failure.
        """
        known: list[tuple[str, str]] = []
        for name, label in _EVIDENCE.items():
            found = self.details.get(name)
            text = "\n".join(cast("tuple[str, ...]", found)) if isinstance(found, tuple) else str(found or "")
            told = text.strip().splitlines()
            if name == "differences" and len(told) == 1:
                continue  # the message says it
            if told:
                nearest = told[:lines] if name == "backtrace" else told[-lines if lines else 0 :]
                known.append((label, "\n".join(nearest)))
            if name == "traceback" and told:
                break
        return tuple(known)


class PackageError(ZeroclawError):
    """A package at rest is not acceptable as it is."""

    code = "package_invalid"
    kind = Kind.INVALID


class ManifestError(PackageError):
    """``manifest.toml`` is missing, unreadable or breaks a rule. ``details`` holds ``path``, ``line``, ``column``."""

    code = "manifest_invalid"


class ManifestMissing(ManifestError):
    """There is no ``manifest.toml``: this is no package."""

    code = "manifest_missing"


class ConfigSchemaError(PackageError):
    """The manifest's ``config_schema`` is not a schema this host accepts. ``details`` as for :class:`ManifestError`."""

    code = "config_schema_invalid"


class SkillsInvalid(PackageError):
    """The package says that it holds skills, and its ``skills/`` tree is not a bundle of them."""

    code = "skills_invalid"


class ComponentMissing(PackageError):
    """The component named by ``wasm_path`` is not there, is a link, or cannot be read whole."""

    code = "component_missing"


class DigestMismatch(PackageError):
    """The component's bytes are not the bytes the manifest declares."""

    code = "digest_mismatch"
    kind = Kind.REFUSED


class SignatureRefused(PackageError):
    """The signature policy does not let this package load."""

    code = "signature_refused"
    kind = Kind.REFUSED


class ArchiveError(PackageError):
    """A package archive is damaged, too large, or holds what no package may hold."""

    code = "archive_invalid"


class ConfigInvalid(ZeroclawError):
    """An instance's configuration does not satisfy its schema. Names properties and schema paths, never values."""

    code = "plugin_config_invalid"
    kind = Kind.INVALID


class ComponentInvalid(ZeroclawError):
    """The bytes are no component, or cannot be compiled."""

    code = "component_invalid"
    kind = Kind.INVALID


class ComponentMismatch(ZeroclawError):
    """A component does not fit the contract: an import or export is missing, foreign, or has another type."""

    code = "component_mismatch"
    kind = Kind.INVALID


class CompileLimit(ZeroclawError):
    """Compiling a component took more memory or time than allowed."""

    code = "compile_limit"
    kind = Kind.LIMIT


class PluginError(ZeroclawError):
    """A call into a plugin did not end with a result."""

    code = "plugin_failed"
    kind = Kind.PLUGIN


class OutOfFuel(PluginError):
    """The guest used its whole fuel budget. ``details`` holds ``fuel_used``, ``fuel_budget``, ``guest_ms``, ``host_ms``."""

    code = "out_of_fuel"
    kind = Kind.LIMIT


class DeadlineExceeded(PluginError):
    """The call ran past its wall-clock deadline. ``details`` holds ``timeout_ms``, ``guest_ms``, ``host_ms``, ``waited_for``."""

    code = "deadline_exceeded"
    kind = Kind.LIMIT


class MemoryLimit(PluginError):
    """The guest wanted more memory, table elements or instances than allowed. ``details`` holds ``limit``, ``maximum`` and,
    of a guest that did not even start, ``wanted``. How much one had in use when it failed later is not known: the engine
    does not say.
    """

    code = "plugin_limit"
    kind = Kind.LIMIT


class GuestTrap(PluginError):
    """The guest trapped. ``details`` holds ``trap`` and, where known, ``backtrace`` and ``stderr``."""

    code = "guest_trap"


class GuestFailure(PluginError):
    """The guest answered with an error, or with a value that breaks the contract."""

    code = "guest_failure"


class PluginUnavailable(PluginError):
    """The plugin's instance is gone."""

    code = "plugin_unavailable"
    kind = Kind.UNAVAILABLE


class InstallError(ZeroclawError):
    """An install, update or removal did not happen; the plugins directory is as it was."""

    code = "install_failed"
    kind = Kind.CONFLICT


class PluginNotFound(ZeroclawError):
    """No package of that name is installed."""

    code = "plugin_not_found"
    kind = Kind.NOT_FOUND


class StorageError(ZeroclawError):
    """A file could not be read or written. ``details`` holds ``path`` and ``errno``."""

    code = "storage_failed"
    kind = Kind.UNAVAILABLE


class RegistryError(ZeroclawError):
    """A registry cannot be reached, or what it serves is no index."""

    code = "registry_unavailable"
    kind = Kind.UNAVAILABLE


class RegistryEntryNotFound(RegistryError):
    """The registry lists no such package or version."""

    code = "registry_entry_not_found"
    kind = Kind.NOT_FOUND


class UsageError(ZeroclawError):
    """A command or call was not well-formed."""

    code = "usage"
    kind = Kind.USAGE
