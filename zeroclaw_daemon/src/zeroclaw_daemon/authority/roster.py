"""The authority of a daemon: the operating system's word or a paired token says who calls, the configuration what they may.

Nothing is remembered of a decision. At every question the proof of the principal is looked at again and its rights are
read from the configuration in force, so that what another process changed counts at the next request (RPC-239).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final

from zeroclaw_daemon.authority.policy import KnownUser, Policy
from zeroclaw_daemon.authority.principal import (
    AuthenticationFailed,
    Evidence,
    Forbidden,
    Principal,
    Proof,
)
from zeroclaw_daemon.authority.rights import (
    OPERATOR_RIGHTS,
    SHARED_OPERATOR,
    AgentUse,
    ConfigWrite,
    Decision,
    Grant,
    Question,
    Rights,
    RuleKind,
    ToolUse,
    decide,
)
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.source import ConfigSource

PEER: Final = "peercred"
"""The way to authenticate that asks the operating system."""
NATIVE: Final = "native"
"""The way to authenticate by a paired token."""
_OPERATOR: Final = "shared_operator"


class RosterAuthority:
    """Users, profiles and paired tokens (RPC-052, RPC-238). Safe to use from several threads.

    :param current: the configuration in force.
    :param tokens: the paired tokens; without any, no token is valid.
    :param uid: the user number of the daemon.
    :param hold: keeps the configuration in force while a block runs; left out, it never changes.
    """

    def __init__(
        self,
        current: Callable[[], Config],
        tokens: PairedTokens | None,
        uid: int,
        *,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._current = current
        self._tokens = tokens
        self._uid = uid
        self._hold = hold
        self._lock = threading.Lock()
        self._policy: tuple[Config, Policy] | None = None

    @classmethod
    def over(cls, source: ConfigSource, tokens: PairedTokens | None, uid: int) -> RosterAuthority:
        """Judge by the configuration of a running program, which can be held still (RPC-211)."""
        return cls(lambda: source.current().config, tokens, uid, hold=source.held)

    @property
    def methods(self) -> tuple[str, ...]:
        """What the operating system says about the peer, and paired tokens."""
        return (PEER, NATIVE)

    async def authenticate(self, evidence: Evidence) -> Principal:
        """Whom this evidence proves: a token decides alone; else the user number of a local peer (RPC-052, RPC-238)."""
        if evidence.token is not None:
            if evidence.provider not in (None, NATIVE):
                raise AuthenticationFailed("this daemon takes tokens of no such provider")
            token = self._tokens.find(evidence.token) if self._tokens is not None else None
            if token is None:
                raise AuthenticationFailed("the token is not paired with this daemon")
            return self._bound(Proof(token=token))
        if evidence.provider not in (None, PEER, NATIVE):
            raise AuthenticationFailed("this daemon knows no such provider")
        if not evidence.local:
            raise AuthenticationFailed("over a network, a token says who is calling")
        return self._bound(Proof(uid=evidence.credential.uid if evidence.credential is not None else None))

    def rights(self, principal: Principal, *, config: Config | None = None) -> Rights:
        """What the principal may do now.

        :raises AuthenticationFailed: it is nobody any more.
        """
        now, rights = self._proved(principal.proof, self._policy_of(config))
        if now != principal.id:
            raise AuthenticationFailed(
                "what proved the caller now proves somebody else; it has to initialize again"
            )
        return rights

    def require(self, principal: Principal, grant: Grant, *, config: Config | None = None) -> None:
        """Let this pass, or raise as the protocol says."""
        _pass(self.rights(principal, config=config), grant)

    def require_config_paths(
        self, principal: Principal, verb: str, paths: Sequence[str], *, config: Config | None = None
    ) -> None:
        """Let a change of the configuration pass, or raise as the protocol says (RPC-079 … RPC-081)."""
        rights = self.rights(principal, config=config)
        _pass(rights, Grant("config", verb))
        for index, path in enumerate(paths):
            _pass(rights, ConfigWrite(path), index)

    def require_agent(self, principal: Principal, alias: str, *, config: Config | None = None) -> None:
        """Let this agent be used, or raise as the protocol says."""
        _pass(self.rights(principal, config=config), AgentUse(alias))

    def allows_tool(self, principal: Principal, name: str, *, config: Config | None = None) -> bool:
        """Whether this tool may run for the principal."""
        return decide(self.rights(principal, config=config), ToolUse(name)).allowed

    @contextmanager
    def held(self, principal: Principal) -> Generator[None]:
        """Keep everything that decides about this principal as it is, as the protocol says.

        The tokens decide about no principal that another proof made; their file then is not touched, which may lie where
        nothing can be written.
        """
        with ExitStack() as stack:
            if principal.proof.token is not None and self._tokens is not None:
                stack.enter_context(self._tokens.held())
            stack.enter_context(self._hold())
            yield

    def _bound(self, proof: Proof) -> Principal:
        name, rights = self._proved(proof, self._policy_of(None))
        known_by = NATIVE if proof.token is not None else PEER
        provider = _OPERATOR if rights.operator else known_by
        return Principal(name, provider, proof)

    def _proved(self, proof: Proof, policy: Policy) -> tuple[str, Rights]:
        """The principal id and the rights that this proof is worth under this policy."""
        if proof.token is not None:
            if self._tokens is None or not self._tokens.holds(proof.token):
                raise AuthenticationFailed("the token is paired no more")
            return _standing(policy.users.get(proof.token.user))
        if proof.uid is None:
            # Where the system does not tell users apart, the first user in the roster ends the trust in all of them.
            if policy.trust_daemon_uid and not policy.users:
                return SHARED_OPERATOR, OPERATOR_RIGHTS
            raise AuthenticationFailed("the system does not say who is calling, and no token does")
        if proof.uid == self._uid and policy.trust_daemon_uid:
            return SHARED_OPERATOR, OPERATOR_RIGHTS
        return _standing(policy.user_of(proof.uid))

    def _policy_of(self, config: Config | None) -> Policy:
        wanted = config if config is not None else self._current()
        with self._lock:
            # A configuration never changes, so its policy is known for as long as it is the same object.
            if self._policy is None or self._policy[0] is not wanted:
                self._policy = (wanted, Policy.of(wanted))
            return self._policy[1]


def _standing(user: KnownUser | None) -> tuple[str, Rights]:
    if user is None:
        raise AuthenticationFailed("the caller is no user of this daemon")
    if user.rights.void is not None:
        raise AuthenticationFailed(
            "the caller is a user of this daemon and may do nothing",
            details={"rule": user.rights.void.kind.value},
        )
    return user.principal_id, user.rights


def _pass(rights: Rights, question: Question, index: int = 0) -> None:
    decision = decide(rights, question)
    if not decision.allowed:
        raise _forbidden(question, decision, index)


def _forbidden(question: Question, decision: Decision, index: int) -> Forbidden:
    rule = {"rule": decision.rule.kind.value}
    match question:
        case Grant():
            return Forbidden(f"the grant {question} is needed", details={**rule, "grant": str(question)})
        case AgentUse(alias):
            return Forbidden(f"the agent {alias} may not be used", details={**rule, "agent": alias})
        case ToolUse(name):
            return Forbidden(f"the tool {name} may not run", details={**rule, "tool": name})
        case ConfigWrite(path):
            why = (
                ", since it decides who may do what, unless it is named"
                if (decision.rule.kind is RuleKind.PATH_NOT_NAMED)
                else ""
            )
            return Forbidden(
                f"the configuration path {path} may not be written{why}",
                details={**rule, "path": path, "index": index},
            )
