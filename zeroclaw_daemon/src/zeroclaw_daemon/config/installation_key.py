"""The key of this installation: one for the configuration and for plugins' state, made once (D-49)."""

from __future__ import annotations

import os
from pathlib import Path

from zeroclaw_daemon.config.file import read_bytes
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.config.problems import ConfigSyntaxInvalid
from zeroclaw_daemon.config.sealed import count_secrets
from zeroclaw_host.services.install_key import LEGACY, SEALED
from zeroclaw_host.services.sealing import KeyFile


def installation_key(paths: Paths) -> KeyFile:
    """The key file, which makes no key where either of the two holds something that a former key had sealed."""
    config_file, state_file = Path(paths.config_file), Path(paths.state_file)
    return KeyFile(
        Path(paths.key_file),
        in_use=lambda: os.path.lexists(state_file) or _is_sealed_with(config_file),
    )


def _is_sealed_with(config_file: Path) -> bool:
    """Whether a secret in the file is sealed; of a file that is no TOML, whether anything looks like that.

    :raises StorageError: it cannot be read.
    """
    try:
        counts = count_secrets(config_file)
    except ConfigSyntaxInvalid:
        raw = read_bytes(config_file) or b""
        return any(prefix.encode() in raw for prefix in (SEALED, LEGACY))
    return bool(counts.sealed or counts.legacy)
