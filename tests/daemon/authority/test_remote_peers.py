"""Whoever comes over a network is known by a token and by nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from zeroclaw_daemon.agent.directory import FixedAgents
from zeroclaw_daemon.authority.principal import PeerCredential
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User
from zeroclaw_daemon.rpc.client import connected
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, RemoteError
from zeroclaw_daemon.rpc.server import Server
from zeroclaw_daemon.rpc.transport.base import Peer
from zeroclaw_daemon.rpc.transport.memory import MemoryListener

pytestmark = pytest.mark.anyio

PATIENCE = 60


@pytest.mark.req("RPC-052", "RPC-238")
@pytest.mark.parametrize("credential", [None, PeerCredential(os.getpid(), os.geteuid())])
async def test_a_remote_peer_is_nobody_without_a_token(
    tmp_path: Path, credential: PeerCredential | None
) -> None:
    config = Config()
    tokens = PairedTokens(tmp_path / "paired-tokens.json")
    listener = MemoryListener(peer=Peer("remote:client", credential, local=False))
    server = Server(
        listener,
        agents=FixedAgents(),
        authority=RosterAuthority(lambda: config, tokens, os.geteuid()),
        version="1",
    )
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.serve)
            async with connected(listener.connect()) as client:
                with pytest.raises(RemoteError) as refused:
                    await client.initialize()
                assert refused.value.error.code == AUTHENTICATION_REQUIRED
                ada = User(uid=4_000_000_001, permission_profiles=("all",))
                config = Config(
                    users={"ada": ada}, permission_profiles={"all": PermissionProfile(admin=True)}
                )
                issued = tokens.pair("ada")
                bound = await client.initialize({"authToken": issued.text})
                assert bound["principalId"] == "user:ada"
                await client.call("status")
                tokens.unpair(issued.token.id)
                with pytest.raises(RemoteError) as refused:
                    await client.call("status")
                assert refused.value.error.code == AUTHENTICATION_REQUIRED
            server.stop()
