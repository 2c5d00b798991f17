"""The first call, and what happens before and after it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from rosters import InForce, grants, one_user

from zeroclaw_daemon.authority.principal import AuthenticationFailed, Evidence, Principal
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.rpc.errors import (
    AUTHENTICATION_REQUIRED,
    FORBIDDEN,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_MISMATCH,
    UNKNOWN_METHOD,
)

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.req("RPC-039", "RPC-015", "RPC-016", "RPC-019")
async def test_initialize_names_protocol_and_server_version(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect_raw() as wire:
        await wire.send(b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}')
        answer = await wire.receive()
        assert answer["id"] == 1
        assert answer["result"]["protocolVersion"] == 1
        assert answer["result"]["serverVersion"] == "9.8.7"
        assert wire.raw.startswith(b"{")
        assert wire.raw.endswith(b"}\n")
        assert wire.raw.count(b"\n") == 1


@pytest.mark.req("RPC-040", "RPC-041")
async def test_every_other_method_waits_for_the_handshake(serving: Serving) -> None:
    params = {"agentAlias": "assistant", "sessionId": "s", "prompt": "hello"}
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        for name in daemon.server.dispatcher.methods.keys() - {"initialize"}:
            error = await wire.fail(name, params)
            assert (error["code"], error["data"]["reason"]) == (
                AUTHENTICATION_REQUIRED,
                "initialize_required",
            ), name
        assert not daemon.server.sessions.ids()
        await wire.initialize()
        assert (await wire.call("status"))["activeSessions"] == 0


@pytest.mark.req("RPC-042")
@pytest.mark.parametrize(
    ("version", "code"),
    [(0, PROTOCOL_MISMATCH), (2, PROTOCOL_MISMATCH), ("1", INVALID_PARAMS), (1.5, INVALID_PARAMS), (1.0, INVALID_PARAMS),
     (None, INVALID_PARAMS), (True, INVALID_PARAMS), (-1, INVALID_PARAMS), (2**64, INVALID_PARAMS)],
)  # fmt: skip
async def test_another_version_is_refused_and_the_gate_stays_shut(
    serving: Serving, version: Any, code: int
) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        assert (await wire.fail("initialize", {"protocolVersion": version}))["code"] == code
        assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED


@pytest.mark.req("RPC-043")
async def test_a_failed_handshake_can_be_repeated(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        assert (await wire.fail("initialize", {"protocolVersion": 2}))["code"] == PROTOCOL_MISMATCH
        assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED
        await wire.initialize()
        await wire.call("status")


@pytest.mark.req("RPC-044", "RPC-045")
async def test_the_own_user_needs_no_token_and_no_version(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        assert (await wire.call("initialize", {}))["principalId"] == "shared-operator"


@pytest.mark.req("RPC-046")
async def test_a_second_handshake_that_fails_leaves_the_first(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        assert (await wire.fail("initialize", {"protocolVersion": 9}))["code"] == PROTOCOL_MISMATCH
        assert (await wire.fail("initialize", {"authToken": "x"}))["code"] == AUTHENTICATION_REQUIRED
        await wire.call("status")
        await wire.initialize()
        await wire.call("status")


@pytest.mark.req("RPC-043", "RPC-046")
async def test_whoever_is_nobody_again_before_the_end_of_its_handshake_is_not_bound(serving: Serving) -> None:
    class Withdrawn(RosterAuthority):
        gone = False

        def rights(self, principal: Principal, **options: Any) -> Any:
            if self.gone:
                raise AuthenticationFailed("the token is paired no more")
            return super().rights(principal, **options)

    authority = Withdrawn(Config, None, os.geteuid())
    async with serving(authority=authority) as daemon, daemon.connect(initialize=False) as wire:
        authority.gone = True
        assert (await wire.fail("initialize"))["code"] == AUTHENTICATION_REQUIRED
        authority.gone = False
        assert (await wire.fail("status"))["data"]["reason"] == "initialize_required"


@pytest.mark.req("RPC-235")
async def test_the_rules_of_envelopes_come_before_the_gate_and_it_has_no_side_door(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect_raw() as wire:
        await wire.send(b"{")
        assert (await wire.receive())["error"]["code"] == PARSE_ERROR
        await wire.send(b'{"method":"status","id":1}')
        answer = await wire.receive()
        assert (answer["error"]["code"], answer["id"]) == (INVALID_REQUEST, 1)
        await wire.send(b'{"jsonrpc":"2.0","id":"zc-out-0","result":1}')
        await wire.send(b'{"jsonrpc":"2.0","method":"session/new","params":{"agentAlias":"assistant"}}')
        await wire.send(b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1}}')
        await wire.assert_silent()
        assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED
        assert not daemon.server.sessions.ids()


@pytest.mark.req("RPC-058", "RPC-235")
async def test_an_unknown_method_is_unknown_before_the_handshake_too(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect_raw() as wire:
        for _ in range(2):
            assert (await wire.fail("no/such"))["code"] == UNKNOWN_METHOD
            await wire.initialize()


@pytest.mark.req("RPC-057")
@pytest.mark.parametrize("method", ["session/update", "elicitation/create"])
async def test_what_only_the_daemon_says_is_not_served(serving: Serving, method: str) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        assert (await wire.fail(method))["code"] == UNKNOWN_METHOD


@pytest.mark.req("RPC-052")
@pytest.mark.parametrize("uid", [0, 4242])
async def test_another_user_is_refused_root_included(serving: Serving, uid: int) -> None:
    async with (
        serving(uid=uid, authority=RosterAuthority(Config, None, 1000)) as daemon,
        daemon.connect(initialize=False) as wire,
    ):
        error = await wire.fail("initialize", {})
        assert (error["code"], error["data"]["reason"]) == (AUTHENTICATION_REQUIRED, "authentication_failed")


@pytest.mark.req("RPC-052")
async def test_a_token_decides_alone_and_is_not_repeated(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        error = await wire.fail("initialize", {"authToken": "hunter2"})
        assert error["code"] == AUTHENTICATION_REQUIRED
        assert b"hunter2" not in wire.raw
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(Evidence(None, "hunter2"))


@pytest.mark.req("RPC-239")
async def test_authority_is_judged_at_every_call_and_before_its_parameters(serving: Serving) -> None:
    in_force = InForce(one_user(grants("system:read", "sessions:read")))
    async with (
        serving(authority=RosterAuthority(in_force, None, os.geteuid())) as daemon,
        daemon.connect() as wire,
    ):
        await wire.call("status")
        assert (await wire.fail("session/new", {}))["code"] == FORBIDDEN
        in_force.config = one_user(grants("sessions:read"))
        assert (await wire.fail("status"))["code"] == FORBIDDEN
        assert (await wire.fail("session/state", {}))["code"] == INVALID_PARAMS
        in_force.config = one_user({})
        assert (await wire.fail("status"))["code"] == AUTHENTICATION_REQUIRED
        in_force.config = one_user(grants("system:read"))
        await wire.call("status")


@pytest.mark.req("RPC-236")
async def test_both_spellings_are_taken_and_a_contradiction_is_not(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        assert (await wire.fail("initialize", {"protocol_version": 2}))["code"] == PROTOCOL_MISMATCH
        both = {"protocol_version": 1, "protocolVersion": 2}
        error = await wire.fail("initialize", both)
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "conflicting_spelling")
        await wire.call("initialize", {"protocol_version": 1, "protocolVersion": 1})
        await wire.new_session(keepSiblings=True, chat_mode="acp")
        error = await wire.fail(
            "session/new", {"agent_alias": "assistant", "keepSiblings": 1, "keep_siblings": True}
        )
        assert error["data"]["reason"] == "conflicting_spelling"


@pytest.mark.req("RPC-053")
async def test_who_was_bound_is_an_audit_record(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as daemon, daemon.connect():
        pass
    facts = [record.zeroclaw for record in caplog.records if hasattr(record, "zeroclaw")]
    bound = [fact for fact in facts if fact["action"] == "principal_bound"]
    assert [(fact["category"], fact["peer"], fact["principal"]) for fact in bound] == [
        ("audit", "memory:client", "shared-operator")
    ]


async def test_a_client_keeps_the_id_it_brings(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect(initialize=False) as wire:
        fresh = (await wire.initialize())["tuiId"]
        assert fresh.startswith("tui_")
        assert (await wire.initialize())["tuiId"] == fresh
        assert (await wire.initialize(tuiId="tui_00ff00ff"))["tuiId"] == "tui_00ff00ff"
        assert (await wire.initialize(tuiId="../x"))["tuiId"] == "tui_00ff00ff"


@pytest.mark.req("RPC-066")
async def test_status_tells_versions_process_sessions_and_what_else_the_daemon_knows(
    serving: Serving,
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        daemon.facts["configFile"] = "/x/config.toml"
        ids = [await wire.new_session(keep_siblings=True) for _ in range(2)]
        status = await wire.call("status")
        assert status["serverVersion"] == "9.8.7"
        assert status["protocolVersion"] == 1
        assert status["sessionIds"] == ids
        assert status["activeSessions"] == 2
        assert status["configFile"] == "/x/config.toml"
        assert not [member for member in status if "_" in member]


@pytest.mark.req("RPC-108")
async def test_a_method_without_parameters_ignores_any(serving: Serving, request_frame: Any) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        for member in ({}, {"params": {}}, {"params": []}, {"params": [1]}, {"params": {"x": 1}}):
            await wire.send({"jsonrpc": "2.0", "method": "status", "id": 1, **member})
            assert "result" in await wire.answer_to(1)
        await wire.send({"jsonrpc": "2.0", "method": "session/new", "id": 2, "params": ["assistant"]})
        assert (await wire.answer_to(2))["error"]["code"] == INVALID_PARAMS


class Deliberate(RosterAuthority):
    """One that takes its time to say who somebody is."""

    def __init__(self) -> None:
        super().__init__(Config, None, os.geteuid())
        self.asked, self.go = anyio.Event(), anyio.Event()

    async def authenticate(self, evidence: Evidence) -> Principal:
        self.asked.set()
        await self.go.wait()
        return await super().authenticate(evidence)


@pytest.mark.req("RPC-026")
@pytest.mark.parametrize("late", [False, True], ids=["in time", "too late"])
async def test_the_deadline_of_the_handshake_covers_authentication(
    serving: Serving, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    caplog.set_level(logging.INFO)
    authority = Deliberate()
    async with serving(authority=authority) as daemon, daemon.connect_raw() as wire:
        await wire.send(b'{"jsonrpc":"2.0","method":"initialize","params":{},"id":1}')
        await authority.asked.wait()
        daemon.clock.advance(30.1 if late else 29.9)
        await daemon.until(lambda: daemon.server.open_connections == (0 if late else 1))
        authority.go.set()
        if late:
            assert await wire.rest() == []
        else:
            assert "result" in await wire.answer_to(1)
    bound = [r for r in caplog.records if getattr(r, "zeroclaw", {}).get("action") == "principal_bound"]
    assert len(bound) == (0 if late else 1)
