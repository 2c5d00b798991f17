"""Where everything lives: one rule for the daemon and for every client (RPC-228).

The configuration directory decides. ``--config-dir`` wins over ``ZEROCLAW_CONFIG_DIR``, which wins over
``ZEROCLAW_DATA_DIR``, which moves the data alone (D-04). ``ZEROCLAW_SOCKET`` names the endpoint whatever else is set
(RPC-008). Nothing here is read from a file, and nothing touches the disk.
"""

from __future__ import annotations

import hashlib
import ntpath
import os
import posixpath
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from zeroclaw_host.errors import Remedy, RemedyAction, UsageError

CONFIG_DIR_VARIABLE: Final = "ZEROCLAW_CONFIG_DIR"
DATA_DIR_VARIABLE: Final = "ZEROCLAW_DATA_DIR"
SOCKET_VARIABLE: Final = "ZEROCLAW_SOCKET"
CACHE_DIR_VARIABLE: Final = "ZEROCLAW_CACHE_DIR"

_PIPE_PREFIX: Final = "\\\\.\\pipe\\"
_PIPE_HASH_DIGITS: Final = 16
"""Digits of the data directory's SHA-256 in a pipe name (D-29)."""


class EndpointInvalid(UsageError):
    """``ZEROCLAW_SOCKET`` names something this platform cannot listen on."""

    code = "endpoint_invalid"


@dataclass(frozen=True, slots=True)
class Paths:
    """The places of one installation, absolute, as texts of the platform they were resolved for.

    ``endpoint`` is a socket's path, or a pipe's name on Windows. ``endpoint_named`` says that ``ZEROCLAW_SOCKET`` chose
    it, which decides what the daemon may do to the directory around it (RPC-049). ``notices`` are sentences about
    variables that lost.
    """

    config_dir: str
    data_dir: str
    cache_dir: str
    endpoint: str
    endpoint_named: bool
    data_dir_named: bool
    platform: str
    notices: tuple[str, ...] = ()

    @classmethod
    def resolve(
        cls,
        config_dir: str | None,
        env: Mapping[str, str],
        *,
        platform: str = sys.platform,
        cwd: str | None = None,
    ) -> Paths:
        """Find the places for these settings (RPC-002…008, RPC-012…014, RPC-230).

        :param config_dir: the value of ``--config-dir``, or None.
        :param env: the environment; ``HOME`` (``USERPROFILE`` on Windows) is the home directory.
        :param platform: as in :data:`sys.platform`.
        :param cwd: what relative paths start from; the current directory when left out.
        :raises UsageError: ``--config-dir`` is blank, or a home directory is needed and there is none.
        :raises EndpointInvalid: ``ZEROCLAW_SOCKET`` on Windows is no pipe name.
        """
        return _Resolution(env, platform, cwd if cwd is not None else os.getcwd()).paths(config_dir)  # noqa: PTH109

    @property
    def config_file(self) -> str:
        """The configuration file; it need not exist."""
        return self._join(self.config_dir, "config.toml")

    @property
    def key_file(self) -> str:
        """The key that secrets and plugins' state are sealed with (D-49); it need not exist."""
        return self._join(self.config_dir, ".secret_key")

    @property
    def state_file(self) -> str:
        """The database of plugins' durable state (PLG-157); it need not exist."""
        return self._join(self.data_dir, "plugin-state.db")

    @property
    def usage_file(self) -> str:
        """The ledger of what plugins used of the network; it need not exist."""
        return self._join(self.data_dir, "plugin-egress.db")

    @property
    def sessions_dir(self) -> str:
        """The databases of the conversations that outlive live sessions; it need not exist."""
        return self._join(self.data_dir, "sessions")

    @property
    def tokens_file(self) -> str:
        """The hashes of the paired tokens (D-34); it need not exist."""
        return self._join(self.config_dir, "paired-tokens.json")

    @property
    def plugins_dir_default(self) -> str:
        """Where plugins live unless ``plugins.plugins_dir`` says otherwise (D-27)."""
        return self._join(self.config_dir, "plugins")

    @property
    def log_file(self) -> str:
        """The daemon log (D-46)."""
        return self._join(self.data_dir, "logs", "daemon.jsonl")

    @property
    def package_log(self) -> str:
        """The record of everything that was done to packages (D-46)."""
        return self._join(self.data_dir, "logs", "packages.jsonl")

    @property
    def registry_cache_dir(self) -> str:
        """Where registry indexes are kept between commands."""
        return self._join(self.data_dir, "plugin-registry")

    def _join(self, *parts: str) -> str:
        return str(_flavour(self.platform).join(*parts))


def _flavour(platform: str) -> ModuleType:
    return ntpath if platform == "win32" else posixpath


class _Resolution:
    """One resolution: the environment, the platform's way of writing paths, and what was overruled."""

    def __init__(self, env: Mapping[str, str], platform: str, cwd: str) -> None:
        self._env = env
        self._platform = platform
        self._cwd = cwd
        self._flavour = _flavour(platform)

    def paths(self, flag: str | None) -> Paths:
        from_flag = self._flag(flag)
        from_config = self._variable(CONFIG_DIR_VARIABLE)
        from_data = self._variable(DATA_DIR_VARIABLE)
        chosen = from_flag or from_config
        config_dir = chosen or self._flavour.join(self._home(), ".zeroclaw")
        data_dir = from_data if from_data and not chosen else self._flavour.join(config_dir, "data")
        named = self._socket()
        return Paths(
            config_dir=config_dir,
            data_dir=data_dir,
            cache_dir=self._variable(CACHE_DIR_VARIABLE) or self._flavour.join(data_dir, "cache"),
            endpoint=named or self._default_endpoint(data_dir),
            endpoint_named=named is not None,
            data_dir_named=not chosen and from_data is not None,
            platform=self._platform,
            notices=self._overruled(from_flag, from_config, from_data),
        )

    def _flag(self, flag: str | None) -> str | None:
        if flag is None:
            return None
        if not flag.strip():
            raise UsageError("--config-dir is blank", remedy=Remedy(RemedyAction.RUN_HELP, {"command": ""}))
        return self._absolute(flag)

    def _variable(self, name: str) -> str | None:
        value = self._env.get(name, "").strip()
        return self._absolute(value) if value else None

    def _socket(self) -> str | None:
        value = self._env.get(SOCKET_VARIABLE, "").strip()
        if not value:
            return None
        if self._platform != "win32":
            return self._absolute(value)
        name = value[len(_PIPE_PREFIX) :]
        if not value.lower().startswith(_PIPE_PREFIX) or not name or "\\" in name:
            raise EndpointInvalid(
                f"{SOCKET_VARIABLE} is {value!r}, but on Windows the daemon listens on a pipe: {_PIPE_PREFIX}NAME"
            )
        return value

    def _default_endpoint(self, data_dir: str) -> str:
        if self._platform != "win32":
            return self._flavour.join(data_dir, "daemon.sock")
        digest = hashlib.sha256(data_dir.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{_PIPE_PREFIX}zeroclaw-{digest[:_PIPE_HASH_DIGITS]}"

    def _absolute(self, value: str) -> str:
        """``~`` expanded, made absolute and tidied, but with links left as they are."""
        separators = "/\\" if self._platform == "win32" else "/"
        if value == "~" or (value.startswith("~") and value[1] in separators):
            value = self._home() + value[1:]
        return str(self._flavour.normpath(self._flavour.join(self._cwd, value)))

    def _home(self) -> str:
        name = "USERPROFILE" if self._platform == "win32" else "HOME"
        home = self._env.get(name, "").strip()
        if home:
            return str(self._flavour.normpath(self._flavour.join(self._cwd, home)))
        from_account = _home_of_account() if self._platform == sys.platform else None
        if from_account is None:
            raise UsageError(f"there is no home directory: set {name}, or pass --config-dir")
        return from_account

    @staticmethod
    def _overruled(flag: str | None, config: str | None, data: str | None) -> tuple[str, ...]:
        notices: list[str] = []
        if flag and config and config != flag:
            notices.append(f"{CONFIG_DIR_VARIABLE} is not used: --config-dir wins over it")
        if data and (flag or config):
            winner = "--config-dir" if flag else CONFIG_DIR_VARIABLE
            notices.append(f"{DATA_DIR_VARIABLE} is not used: {winner} wins over it")
        return tuple(notices)


def _home_of_account() -> str | None:
    """What the system says is this user's home; the environment has no part in it, for it may say that there is none."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return None
