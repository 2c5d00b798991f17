"""Who is calling, and whether they still may: every way to be somebody, and every way to be it no longer."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.authority.principal import (
    AuthenticationFailed,
    Authority,
    Evidence,
    Forbidden,
    Grant,
    PeerCredential,
    Principal,
    Proof,
)
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.config.schema import Config, PermissionProfile, Security, User

pytestmark = pytest.mark.anyio

DAEMON, ADA, EVE, STRANGER = 1000, 1001, 1002, 4242
READ = Grant("sessions", "read")
PROFILES = {
    "reader": PermissionProfile(grants={"sessions": ("read",)}),
    "writer": PermissionProfile(
        grants={"config": ("update", "delete"), "tools": ("execute",)},
        allowed_agents=("ada",),
        allowed_tools=("echo",),
        config_write_paths=("agents.*", "memory.backend"),
    ),
    "empty": PermissionProfile(allowed_agents=("*",), allowed_tools=("*",), config_write_paths=("*",)),
    "root": PermissionProfile(admin=True),
}


def roster(
    *, trust: bool = True, **users: tuple[int, ...] | tuple[int, str] | tuple[int, str, str]
) -> Config:
    """A configuration with these users: number and profiles by name."""
    return Config(
        users={
            name: User(uid=int(uid), permission_profiles=tuple(str(each) for each in profiles))
            for name, (uid, *profiles) in users.items()
        },
        permission_profiles=PROFILES,
        security=Security(trust_daemon_uid=trust),
    )


class World:
    """A daemon's authority, and what it rests on."""

    def __init__(self, directory: Path, config: Config) -> None:
        self.config = config
        self.tokens = PairedTokens(directory / "paired-tokens.json")
        self.authority = RosterAuthority(lambda: self.config, self.tokens, DAEMON)

    async def bind(self, uid: int | None = None, token: str | None = None, **more: Any) -> Principal:
        credential = PeerCredential(7, uid) if uid is not None else None
        return await self.authority.authenticate(Evidence(credential, token, **{"local": True, **more}))


Worlds = Callable[[Config], World]


@pytest.fixture
def world(tmp_path: Path) -> Worlds:
    return lambda config: World(tmp_path, config)


def test_it_is_an_authority(world: Worlds) -> None:
    authority: Authority = world(Config()).authority
    assert authority.methods == ("peercred", "native")


OPERATOR = ("shared-operator", "shared_operator")
FULL = {"ada": (ADA, "reader"), "root": (0, "empty")}


@pytest.mark.req("RPC-052")
@pytest.mark.parametrize(
    ("uid", "trust", "users", "who"),
    [
        (DAEMON, True, {}, OPERATOR),
        (DAEMON, True, FULL, OPERATOR),
        (DAEMON, True, {"ada": (DAEMON, "reader")}, OPERATOR),
        (DAEMON, False, {}, None),
        (DAEMON, False, FULL, None),
        (DAEMON, False, {"ada": (DAEMON, "reader")}, ("user:ada", "peercred")),
        (ADA, True, FULL, ("user:ada", "peercred")),
        (ADA, False, FULL, ("user:ada", "peercred")),
        (0, True, {}, None),
        (0, False, {}, None),
        (0, True, FULL, None),
        (0, True, {"root": (0, "root")}, ("user:root", "peercred")),
        (STRANGER, True, {}, None),
        (STRANGER, True, FULL, None),
        (ADA, True, {"ada": (ADA, "empty")}, None),
        (None, True, {}, OPERATOR),
        (None, True, FULL, None),
        (None, False, {}, None),
        (None, False, FULL, None),
    ],
)  # fmt: skip
async def test_whom_a_peer_is(
    world: Worlds, uid: int | None, trust: bool, users: dict[str, Any], who: tuple[str, str] | None
) -> None:
    there = world(roster(trust=trust, **users))
    for provider in (None, "peercred", "native"):
        if who is None:
            with pytest.raises(AuthenticationFailed):
                await there.bind(uid, provider=provider)
        else:
            found = await there.bind(uid, provider=provider)
            assert (found.id, found.provider) == who
            assert there.authority.rights(found).admin == (who == OPERATOR or who[0] == "user:root")
    with pytest.raises(AuthenticationFailed):
        await there.bind(uid, provider="oidc.corp")
    with pytest.raises(AuthenticationFailed):  # what the system says of a peer counts on this machine only
        await there.bind(uid, local=False)


@pytest.mark.req("RPC-238")
@pytest.mark.parametrize("uid", [None, 0, DAEMON, ADA, STRANGER])
@pytest.mark.parametrize("local", [True, False])
async def test_a_token_decides_alone(world: Worlds, uid: int | None, local: bool) -> None:
    there = world(roster(ada=(ADA, "reader"), eve=(EVE, "writer")))
    issued = there.tokens.pair("eve")
    for provider in (None, "native"):
        found = await there.bind(uid, issued.text, provider=provider, local=local)
        assert (found.id, found.provider) == ("user:eve", "native")
    for wrong in ("", "x", issued.text[:-1], f"{issued.text}0", issued.token.sha256):
        with pytest.raises(AuthenticationFailed):
            await there.bind(uid, wrong, local=local)
    for provider in ("peercred", "oidc.corp", "", "NATIVE"):
        with pytest.raises(AuthenticationFailed):
            await there.bind(uid, issued.text, provider=provider, local=local)


@pytest.mark.req("RPC-238")
async def test_a_token_of_a_user_who_is_nobody_proves_nobody(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "empty")))
    for user in ("ada", "gone"):
        issued = there.tokens.pair(user)
        with pytest.raises(AuthenticationFailed):
            await there.bind(DAEMON, issued.text)


@pytest.mark.req("RPC-238")
async def test_without_paired_tokens_no_token_is_valid(tmp_path: Path) -> None:
    issued = PairedTokens(tmp_path / "t.json").pair("ada")
    authority = RosterAuthority(lambda: roster(ada=(ADA, "root")), None, DAEMON)
    with pytest.raises(AuthenticationFailed):
        await authority.authenticate(Evidence(PeerCredential(1, DAEMON), issued.text, local=True))
    with pytest.raises(AuthenticationFailed):
        authority.rights(Principal("user:ada", "native", proof=Proof(token=issued.token)))


@pytest.mark.req("RPC-238")
async def test_a_token_shows_nowhere(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "reader")))
    text = there.tokens.pair("ada").text
    secret = text.rpartition("_")[2]
    evidence = Evidence(None, text)
    principal = await there.bind(STRANGER, text)
    with pytest.raises(AuthenticationFailed) as refused:
        await there.bind(DAEMON, f"{text}x")
    shown = f"{evidence!r} {principal!r} {principal.proof!r} {refused.value!r} {refused.value.details}"
    assert secret not in shown
    assert secret not in str(dataclasses.asdict(principal.proof))


# What is withdrawn is gone at the next question.


def changes() -> dict[str, tuple[Config, type[Exception] | None]]:
    """What a change leaves of ``sessions:read`` to ada, who had it."""
    ada = (ADA, "reader")
    base = roster(ada=ada)
    renamed = base.model_copy(
        update={"users": {"ada": User(uid=ADA, permission_profiles=("reader",), principal_id="other")}}
    )
    return {
        "nothing": (roster(ada=ada), None),
        "another user comes": (roster(ada=ada, eve=(EVE, "root")), None),
        "the grant goes, another stays": (roster(ada=(ADA, "writer")), Forbidden),
        "every grant goes": (roster(ada=(ADA, "empty")), AuthenticationFailed),
        "the user goes": (roster(eve=(EVE, "reader")), AuthenticationFailed),
        "the user has another number": (roster(ada=(EVE, "reader")), AuthenticationFailed),
        "another user has the number": (roster(eve=(ADA, "reader")), AuthenticationFailed),
        "the principal id is another": (renamed, AuthenticationFailed),
        "the user becomes administrator": (roster(ada=(ADA, "root")), None),
    }


@pytest.mark.req("RPC-239")
@pytest.mark.parametrize(("after", "error"), changes().values(), ids=changes().keys())
async def test_a_bound_principal_is_judged_by_what_holds_now(
    world: Worlds, after: Config, error: type[Exception] | None
) -> None:
    before = roster(ada=(ADA, "reader"))
    there = world(before)
    ada = await there.bind(ADA)
    there.authority.require(ada, READ)
    there.config = after
    if error is None:
        there.authority.require(ada, READ)
    else:
        with pytest.raises(error):
            there.authority.require(ada, READ)
    there.authority.require(ada, READ, config=before)  # the configuration to judge by can be named
    there.config = before
    there.authority.require(ada, READ)


@pytest.mark.req("RPC-052", "RPC-239")
async def test_the_trust_in_the_daemons_own_user_is_live(world: Worlds) -> None:
    there = world(roster())
    operator, windows = await there.bind(DAEMON), await there.bind(None)
    for after in (roster(trust=False), roster(trust=False, ada=(DAEMON, "root"))):
        there.config = after
        for principal in (operator, windows):
            with pytest.raises(AuthenticationFailed):
                there.authority.require(principal, READ)
    there.config = roster(ada=(ADA, "reader"))
    there.authority.require(operator, READ)
    with pytest.raises(
        AuthenticationFailed
    ):  # the first user ends the trust where users cannot be told apart
        there.authority.require(windows, READ)
    there.config = roster(trust=False, ada=(DAEMON, "reader"))
    ada = await there.bind(DAEMON)
    there.config = roster(trust=True, ada=(DAEMON, "reader"))
    with pytest.raises(AuthenticationFailed):  # nor does a limited connection become the operator's by itself
        there.authority.require(ada, READ)


@pytest.mark.req("RPC-238", "RPC-239")
async def test_unpairing_ends_a_bound_connection(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "reader")))
    first, second = there.tokens.pair("ada"), there.tokens.pair("ada")
    one, other = await there.bind(None, first.text), await there.bind(ADA, second.text)
    PairedTokens(there.tokens.path).unpair(first.token.id)
    with pytest.raises(AuthenticationFailed):
        there.authority.require(one, READ)
    with pytest.raises(AuthenticationFailed):
        await there.bind(None, first.text)
    there.authority.require(other, READ)
    there.tokens.path.chmod(0o644)
    with pytest.raises(AuthenticationFailed):
        there.authority.require(other, READ)
    there.authority.require(await there.bind(ADA), READ)  # whoever needs no token goes on
    there.tokens.path.chmod(0o600)
    there.authority.require(other, READ)


@pytest.mark.req("RPC-238")
async def test_a_token_whose_row_was_changed_is_another_token(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "reader"), eve=(EVE, "root")))
    issued = there.tokens.pair("ada")
    ada = await there.bind(None, issued.text)
    raw = there.tokens.path.read_bytes()
    digest = issued.token.sha256
    other = f"{int(digest, 16) ^ 1:064x}"
    for old, new in (('"user":"ada"', '"user":"eve"'), (digest, other), (issued.token.created, "earlier")):
        there.tokens.path.write_bytes(raw.replace(old.encode(), new.encode()))
        with pytest.raises(AuthenticationFailed):
            there.authority.require(ada, READ)
    there.tokens.path.write_bytes(raw)
    there.authority.require(ada, READ)


# Ceilings.


@pytest.mark.req("RPC-079", "RPC-080", "RPC-081")
async def test_a_change_of_the_configuration_needs_the_grant_and_every_path(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "writer"), eve=(EVE, "reader")))
    ada, eve = await there.bind(ADA), await there.bind(EVE)
    require = there.authority.require_config_paths
    require(ada, "update", ["agents.x.model", "memory.backend", "agents"])
    require(ada, "delete", ["agents.x"])
    require(ada, "update", [])
    with pytest.raises(Forbidden) as refused:
        require(ada, "update", ["agents.x.model", "memory", "users.x.uid", "gateway.port"])
    assert refused.value.details == {"rule": "path_not_allowed", "path": "memory", "index": 1}
    with pytest.raises(Forbidden) as refused:
        require(ada, "create", ["agents.x"])
    assert refused.value.details == {"rule": "grant_missing", "grant": "config:create"}
    with pytest.raises(Forbidden) as refused:
        require(eve, "update", ["agents.x.model"])
    assert refused.value.details == {"rule": "grant_missing", "grant": "config:update"}
    require(await there.bind(DAEMON), "update", ["users.x.uid", "anything"])


@pytest.mark.req("RPC-083")
async def test_the_recheck_is_by_the_configuration_it_is_given(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "writer")))
    ada = await there.bind(ADA)
    require = there.authority.require_config_paths
    require(ada, "update", ["agents.x"])
    with pytest.raises(Forbidden):
        require(ada, "update", ["agents.x"], config=roster(ada=(ADA, "reader")))
    with pytest.raises(AuthenticationFailed):
        require(ada, "update", ["agents.x"], config=roster(ada=(ADA, "empty")))


async def test_agents_and_tools(world: Worlds) -> None:
    there = world(roster(ada=(ADA, "writer"), eve=(EVE, "reader")))
    ada, eve, operator = await there.bind(ADA), await there.bind(EVE), await there.bind(DAEMON)
    there.authority.require_agent(ada, "ada")
    there.authority.require_agent(operator, "bob")
    for principal, alias in ((ada, "bob"), (eve, "ada")):
        with pytest.raises(Forbidden) as refused:
            there.authority.require_agent(principal, alias)
        assert refused.value.details == {"rule": "agent_not_allowed", "agent": alias}
    allowed = {
        (principal.id, tool): there.authority.allows_tool(principal, tool)
        for principal in (ada, eve, operator)
        for tool in ("echo", "bash")
    }
    assert allowed == {
        ("user:ada", "echo"): True, ("user:ada", "bash"): False,
        ("user:eve", "echo"): False, ("user:eve", "bash"): False,
        ("shared-operator", "echo"): True, ("shared-operator", "bash"): True,
    }  # fmt: skip


# Many at once.


@pytest.mark.req("RPC-239")
def test_a_thread_is_answered_by_the_configuration_it_asked_about(world: Worlds) -> None:
    """Two configurations are asked about from two threads at once: no answer of one is given for the other."""
    ada = Principal("user:ada", "peercred", proof=Proof(uid=ADA))
    yes, no = roster(ada=(ADA, "reader")), roster(ada=(ADA, "writer"))
    there = world(yes)
    answers: dict[str, set[bool]] = {"yes": set(), "no": set()}
    start = threading.Barrier(2)

    def ask(name: str, config: Config) -> None:
        start.wait(60)
        for _ in range(2_000):
            rights = there.authority.rights(ada, config=config)
            answers[name].add(READ in rights.grants)

    threads = [threading.Thread(target=ask, args=each) for each in (("yes", yes), ("no", no))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {"yes": {True}, "no": {False}}


@pytest.mark.req("RPC-052")
@given(
    uid=st.none() | st.integers(0, 3),
    daemon=st.integers(0, 3),
    trust=st.booleans(),
    users=st.dictionaries(st.sampled_from(("ada", "eve", "dan")), st.integers(0, 3), max_size=3),
)
async def test_nobody_becomes_the_operator_but_by_the_daemons_own_number(
    tmp_path_factory: pytest.TempPathFactory, uid: int | None, daemon: int, trust: bool, users: dict[str, int]
) -> None:
    config = Config.model_construct(
        users={name: User(uid=number, permission_profiles=("reader",)) for name, number in users.items()},
        permission_profiles=PROFILES,
        security=Security(trust_daemon_uid=trust),
    )
    authority = RosterAuthority(lambda: config, None, daemon)
    evidence = Evidence(PeerCredential(1, uid) if uid is not None else None, local=True)
    owners = [name for name, number in users.items() if number == uid]
    try:
        found = (await authority.authenticate(evidence)).id
    except AuthenticationFailed:
        found = None
    if trust and (uid == daemon or (uid is None and not users)):
        assert found == "shared-operator"
    else:
        assert found == (f"user:{owners[0]}" if len(owners) == 1 else None)
