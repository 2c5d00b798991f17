"""Paired tokens that are held still for a moment, and the authority that holds what decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rosters import InForce, config_of, grants

from zeroclaw_daemon.authority.principal import AuthenticationFailed, Principal, Proof
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.config.saving import ConfigBusy, write_lock

CONFIG = config_of(
    {
        "users": {"ada": {"uid": 5001, "permission_profiles": ["p"]}},
        "permission_profiles": {"p": grants("files:create")},
    }
)


@pytest.mark.req("RPC-211")
def test_nobody_pairs_or_unpairs_while_the_tokens_are_held(tmp_path: Path) -> None:
    tokens = PairedTokens(tmp_path / "t.json", lock_wait=0)
    token = tokens.pair("ada").token
    for other in (tokens, PairedTokens(tokens.path, lock_wait=0)):
        with tokens.held():
            with pytest.raises(ConfigBusy):
                other.unpair(token.id)
            with pytest.raises(ConfigBusy):
                other.pair("eve")
            assert tokens.holds(token)
    assert tokens.valid() == (token,)
    tokens.unpair(token.id)
    assert not tokens.holds(token)


@pytest.mark.req("RPC-211")
def test_a_command_that_unpairs_waits_until_they_are_free(tmp_path: Path) -> None:
    """In another process, as the command does it; it says when it is about to take the lock."""
    tokens = PairedTokens(tmp_path / "t.json")
    token = tokens.pair("ada").token
    program = (
        "import sys, pathlib; from zeroclaw_daemon.authority.tokens import PairedTokens\n"
        "print('ready', flush=True); PairedTokens(pathlib.Path(sys.argv[1]), lock_wait=60).unpair(sys.argv[2])\n"
    )
    with tokens.held():
        command = subprocess.Popen(
            [sys.executable, "-c", program, str(tokens.path), token.id], stdout=subprocess.PIPE, text=True
        )
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        assert tokens.holds(token)
        assert command.poll() is None
    command.communicate(timeout=60)
    assert command.returncode == 0
    assert not tokens.holds(token)


@pytest.mark.req("RPC-211")
def test_what_is_done_to_the_file_by_hand_counts_afterwards(tmp_path: Path) -> None:
    tokens = PairedTokens(tmp_path / "t.json", lock_wait=0)
    token = tokens.pair("ada").token
    with tokens.held():
        tokens.path.unlink()
        assert tokens.holds(token)
    assert not tokens.holds(token)
    with pytest.raises(LookupError), tokens.held():
        raise LookupError
    tokens.pair("ada")
    assert len(tokens.valid()) == 1


class Counted:
    """A hold of the configuration that counts."""

    def __init__(self) -> None:
        self.held = 0

    @contextmanager
    def __call__(self) -> Generator[None]:
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1


@pytest.mark.req("RPC-211")
def test_the_authority_holds_the_policy_and_the_tokens_of_whom_a_token_proves(tmp_path: Path) -> None:
    tokens, hold = PairedTokens(tmp_path / "t.json", lock_wait=0), Counted()
    authority = RosterAuthority(InForce(CONFIG), tokens, 0, hold=hold)
    token = tokens.pair("ada").token
    ada = Principal("user:ada", "native", Proof(token=token))
    with authority.held(ada):
        assert hold.held == 1
        with pytest.raises(ConfigBusy):
            tokens.unpair(token.id)
        authority.rights(ada)
    assert hold.held == 0
    tokens.unpair(token.id)
    with authority.held(ada), pytest.raises(AuthenticationFailed):
        authority.rights(ada)


@pytest.mark.req("RPC-211")
def test_whom_the_system_proves_does_not_need_the_file_of_tokens(tmp_path: Path) -> None:
    """It may lie where nothing can be written."""
    tokens, hold = PairedTokens(tmp_path / "none" / "t.json", lock_wait=0), Counted()
    authority = RosterAuthority(InForce(CONFIG), tokens, 0, hold=hold)
    with authority.held(Principal("user:ada", "peercred", Proof(uid=5001))):
        assert hold.held == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.req("RPC-211")
def test_tokens_that_somebody_writes_are_waited_for_and_nothing_is_held_meanwhile(tmp_path: Path) -> None:
    tokens, hold = PairedTokens(tmp_path / "t.json", lock_wait=0), Counted()
    token = tokens.pair("ada").token
    authority = RosterAuthority(InForce(CONFIG), tokens, 0, hold=hold)
    ada = Principal("user:ada", "native", Proof(token=token))
    with write_lock(tokens.path), pytest.raises(ConfigBusy), authority.held(ada):
        pass
    assert hold.held == 0
    with authority.held(ada):
        assert hold.held == 1
