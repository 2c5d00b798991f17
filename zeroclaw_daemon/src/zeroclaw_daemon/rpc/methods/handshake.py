"""``initialize``: which protocol, who is calling, and what is served."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sized
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, field_validator

from zeroclaw_daemon.authority.principal import Authority, Evidence
from zeroclaw_daemon.records import record
from zeroclaw_daemon.rpc.access import may_forward
from zeroclaw_daemon.rpc.caller import Caller, Handler
from zeroclaw_daemon.rpc.envelope import PROTOCOL_VERSION
from zeroclaw_daemon.rpc.errors import ProtocolMismatch
from zeroclaw_daemon.rpc.models import MAX_TOKEN, Name, Params, Result
from zeroclaw_daemon.strict_json import JsonValue

MAX_VARIABLES: Final = 10_000
"""Of a client's environment."""
_CLIENT_ID: Final = re.compile(r"tui_[0-9a-f]{8}")

logger = logging.getLogger(__name__)


class InitializeParams(Params):
    """What a client says of itself. Everything may be left out (RPC-045). ``env`` is for the commands that its agents run."""

    protocol_version: Annotated[
        int, Field(ge=0, lt=2**64, description="The version that the client speaks.")
    ] = PROTOCOL_VERSION
    auth_token: Annotated[
        Annotated[str, StringConstraints(max_length=MAX_TOKEN)] | None,
        Field(
            repr=False,
            description="A paired token. Without one, the user number of the process says who calls.",
        ),
    ] = None
    auth_provider: Annotated[Name | None, Field(description="Whose token it is: `native`, or left out.")] = (
        None
    )
    client_capabilities: Annotated[
        dict[str, Any] | None,
        Field(
            description='What may be asked of it: `{"elicitation": {"form": {}}}` for questions of agents.'
        ),
    ] = None
    tui_id: Annotated[
        Name | None, Field(description="The `tuiId` of an earlier answer, of a client that connects again.")
    ] = None
    env: Annotated[
        dict[str, str] | None,
        Field(
            repr=False,
            max_length=MAX_VARIABLES,
            description="Names and values for the commands that its agents run.",
        ),
    ] = None

    @field_validator("env", mode="before")
    @classmethod
    def _has_a_bounded_number(cls, env: JsonValue) -> JsonValue:
        # Before each is looked at: there may be as many faults.
        if isinstance(env, Sized) and len(env) > MAX_VARIABLES:
            raise ValueError(f"a client may forward {MAX_VARIABLES} variables")
        return env

    @field_validator("env")
    @classmethod
    def _is_an_environment(cls, env: dict[str, str] | None) -> dict[str, str] | None:
        for name, value in (env or {}).items():
            if not name or "=" in name or "\0" in name + value or not _encodable(name + value):
                raise ValueError(
                    "a variable must have a name that can be one, and a value that can be passed on"
                )
        return env


def _encodable(text: str) -> bool:
    """Whether a process can be given this text: half of a surrogate pair cannot be passed on."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class InitializeResult(Result):
    """What the daemon says of itself."""

    protocol_version: int
    server_version: str
    server_pid: int
    tui_id: str
    capabilities: list[str]
    auth_methods: list[str]
    principal_id: str


class Handshake:
    """The method ``initialize``.

    :param version: the daemon's version, as clients are told it.
    """

    def __init__(self, authority: Authority, version: str) -> None:
        self._authority = authority
        self._version = version
        self._served: list[str] = []

    def handlers(self) -> Mapping[str, Handler]:
        """Who serves it."""
        return {"initialize": self.initialize}

    def announce(self, names: Iterable[str]) -> None:
        """Name the methods that clients are told are served."""
        self._served = sorted(names)

    async def initialize(self, caller: Caller, params: InitializeParams) -> InitializeResult:
        """Version, then authentication, then the binding; a failure leaves what was bound before (RPC-043, RPC-046)."""
        if params.protocol_version != PROTOCOL_VERSION:
            raise ProtocolMismatch(PROTOCOL_VERSION)
        peer = caller.link.peer
        principal = await self._authority.authenticate(
            Evidence(peer.credential, params.auth_token, params.auth_provider, local=peer.local)
        )
        env = dict(params.env or {}) if may_forward(peer, principal, self._authority) else {}
        bound = caller.principal
        caller.bind(
            principal,
            _client_id(params.tui_id) or caller.client_id or _new_client_id(),
            takes_questions=_takes_questions(params.client_capabilities),
            env=env,
        )
        if principal != bound and (words := caller.bindings.spend("a client is bound to a principal")):
            record(
                logger, logging.INFO, words,
                action="principal_bound", category="audit",
                peer=peer.label, principal=principal.id, provider=principal.provider,
            )  # fmt: skip
        return InitializeResult(
            protocol_version=PROTOCOL_VERSION,
            server_version=self._version,
            server_pid=os.getpid(),
            tui_id=caller.client_id,
            capabilities=self._served,
            auth_methods=list(self._authority.methods),
            principal_id=principal.id,
        )


def _takes_questions(declared: dict[str, Any] | None) -> bool:
    """All that is kept of what a client declares, which may be as large as a line: whether it takes forms, or said nothing at
    all of what it takes (D-40).
    """
    if declared is None:
        return True
    modes = declared.get("elicitation")
    return isinstance(modes, dict) and (not modes or "form" in modes)  # without any mode, forms are meant


def _client_id(claimed: str | None) -> str | None:
    """The id a client kept from an earlier connection, if it has the form of one. It grants nothing."""
    return claimed if claimed is not None and _CLIENT_ID.fullmatch(claimed) else None


def _new_client_id() -> str:
    return f"tui_{secrets.token_hex(4)}"
