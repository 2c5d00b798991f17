"""Replacing the installation's key: every secret of the configuration and every row of plugins' state is sealed anew.

At no moment is there a text that cannot be read. First everything is looked at with the present key. Then the next key lies
beside it, and everybody, a running daemon among them, seals with the next and unseals with both; the configuration is saved
once, the state is changed in one transaction, and the next key takes the present one's place. Stopped anywhere, the same
command goes on from there; until it does, everything works with both keys (D-49).
"""

from __future__ import annotations

from dataclasses import dataclass

from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError
from zeroclaw_host.services.install_key import InstallKey
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_store import DurableState


class StateUnreadable(ZeroclawError):
    """Rows of plugins' state cannot be read with the present key, and would be lost with it. ``details`` holds ``rows``."""

    code = "state_unreadable"
    kind = Kind.CONFLICT


@dataclass(frozen=True, slots=True)
class Rotation:
    """What was sealed anew: secrets of the configuration, and rows of plugins' state.

    ``resumed`` says that an interrupted rotation was finished; part of the work may have been done before.
    """

    secrets: int
    rows: int
    resumed: bool


def rotate(store: ConfigStore, state: DurableState) -> Rotation:
    """Replace the key, or finish what an interrupted rotation began.

    The configuration's lock is held for the whole time: of several at once, one works at a time.

    :param store: the configuration; its key is the one that is replaced.
    :param state: plugins' state, sealed with the same key.
    :raises KeyUnavailable: there is no usable key.
    :raises SecretUnreadable: a secret of the configuration cannot be read; nothing was begun.
    :raises StateUnreadable: a row of the state cannot be read; nothing was begun.
    :raises ZeroclawError: the configuration or the state cannot be used. What was begun is finished by the next call.
    """
    work = _Work(store.key_file, state)
    secrets = store.reseal(work.begin, after=work.finish)
    return Rotation(secrets, work.rows, work.resumed)


class _Work:
    """One rotation's part below the configuration's lock."""

    def __init__(self, key_file: KeyFile, state: DurableState) -> None:
        self._key_file = key_file
        self._state = state
        self.rows = 0
        self.resumed = False

    def begin(self) -> InstallKey:
        """The next key beside the present one, once it is sure that the present one reads everything."""
        unreadable = self._state.usage().unreadable
        if unreadable:
            raise StateUnreadable(
                f"{unreadable} entries of plugins' state cannot be read with the present key, and none could with the next",
                remedy=Remedy(RemedyAction.RUN_HELP, {"command": "plugin state clear"}),
                details={"rows": unreadable},
            )
        self.resumed = self._key_file.rotating
        return self._key_file.begin_rotation()

    def finish(self) -> None:
        """The state, and then the key's own place."""
        self.rows = self._state.rekey()
        self._key_file.finish_rotation()
