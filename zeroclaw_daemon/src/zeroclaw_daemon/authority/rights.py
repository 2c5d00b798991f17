"""What a principal may do, and which setting says so. Pure: no clock, no file, no connection.

A permission profile holds five lists. ``grants`` open methods: a resource and a verb, such as ``sessions:create``. The other
lists are ceilings on top of a grant: which agents, which tools, which configuration paths. A name in a list means itself,
``*`` means every one; neither ever stands for a grant. Several profiles add up, and one with ``admin`` is enough for
everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

WILDCARD: Final = "*"

SHARED_OPERATOR: Final = "shared-operator"
"""The principal id of everybody who acts with the daemon's own user number."""

AUTHORITY_SECTIONS: Final = frozenset({"users", "permission_profiles", "security"})
"""The sections that decide who may do what. The bare ``*`` does not cover them, since whoever may write them may become an
administrator; they have to be named.
"""


class RuleKind(StrEnum):
    """The rules a decision can rest on; the value is the word a program keys on."""

    UNGATED = "ungated"
    """The method needs no grant."""
    SHARED_OPERATOR = "shared_operator"
    """The daemon's own user, trusted by ``security.trust_daemon_uid``."""
    ADMIN = "admin"
    """A profile with ``admin``."""
    GRANTED = "granted"
    """A profile grants the verb on the resource."""
    AGENT_ALLOWED = "agent_allowed"
    TOOL_ALLOWED = "tool_allowed"
    PATH_ALLOWED = "path_allowed"

    NOBODY = "nobody"
    """There is no such user."""
    OPERATOR_DISTRUSTED = "operator_distrusted"
    """``security.trust_daemon_uid`` is off: the daemon's own user is a user like every other, or nobody."""
    AMBIGUOUS = "ambiguous"
    """Two users have the same number or principal id; then neither is anybody."""
    PROFILE_MISSING = "profile_missing"
    """The user names a profile that does not exist; then none of its profiles counts."""
    NOTHING_GRANTED = "nothing_granted"
    """No profile of the user grants anything at all; then the user is nobody (RPC-239)."""
    GRANT_MISSING = "grant_missing"
    AGENT_NOT_ALLOWED = "agent_not_allowed"
    TOOL_NOT_ALLOWED = "tool_not_allowed"
    PATH_NOT_ALLOWED = "path_not_allowed"
    PATH_NOT_NAMED = "path_not_named"
    """Only ``*`` covers the path, and the path decides who may do what."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What decided. ``where`` is the configuration property that holds the rule, or would have to; ``entry`` the element of
    it that did, or what is missing there. Both may be empty.
    """

    kind: RuleKind
    where: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and by which rule."""

    allowed: bool
    rule: Rule


@dataclass(frozen=True, slots=True)
class Grant:
    """A right to do one thing with one kind of resource, such as ``sessions:create``."""

    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.resource}:{self.verb}"


@dataclass(frozen=True, slots=True)
class AgentUse:
    """The question whether an agent may be used. The grant of the method that uses it is a question of its own."""

    alias: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The question whether a tool may run: ``tools:execute``, and the tool's name among ``allowed_tools``."""

    name: str


@dataclass(frozen=True, slots=True)
class ConfigWrite:
    """The question whether a configuration path may be written. The grant ``config:…`` is a question of its own."""

    path: str


Question = Grant | AgentUse | ToolUse | ConfigWrite

RUN_TOOLS: Final = Grant("tools", "execute")


@dataclass(frozen=True)
class ProfileRights:
    """What one permission profile gives. ``agents``, ``tools`` and ``config_paths`` are the lists as they are written."""

    name: str
    admin: bool = False
    grants: frozenset[Grant] = frozenset()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    config_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rights:
    """What a principal may do: its profiles together.

    ``operator`` is the shared operator, who may do everything. ``blocked`` is why a user has no rights, whatever its
    profiles say.
    """

    profiles: tuple[ProfileRights, ...] = ()
    operator: bool = False
    blocked: Rule | None = None

    @cached_property
    def admin(self) -> bool:
        """Whether everything is allowed."""
        return self.blocked is None and (self.operator or any(each.admin for each in self.profiles))

    @cached_property
    def grants(self) -> frozenset[Grant]:
        """The grants of all profiles."""
        return frozenset[Grant]().union(*(each.grants for each in self._counting))

    @cached_property
    def agents(self) -> frozenset[str]:
        """The agents of all profiles, as they are written."""
        return frozenset[str]().union(*(each.agents for each in self._counting))

    @cached_property
    def tools(self) -> frozenset[str]:
        """The tools of all profiles, as they are written; what they are worth without ``tools:execute`` is nothing."""
        return frozenset[str]().union(*(each.tools for each in self._counting))

    @cached_property
    def config_paths(self) -> frozenset[str]:
        """The configuration paths of all profiles, as they are written."""
        return frozenset[str]().union(*(each.config_paths for each in self._counting))

    @property
    def void(self) -> Rule | None:
        """Why this is nobody's: no grant is left. None where there is one."""
        if self.blocked is not None:
            return self.blocked
        return None if self.admin or self.grants else Rule(RuleKind.NOTHING_GRANTED)

    @property
    def _counting(self) -> tuple[ProfileRights, ...]:
        return self.profiles if self.blocked is None else ()


OPERATOR_RIGHTS: Final = Rights(operator=True)


def decide(rights: Rights, question: Question) -> Decision:
    """Answer one question. Nothing is allowed that no rule allows."""
    if rights.void is not None:
        return Decision(False, rights.void)
    if rights.operator:
        return Decision(True, Rule(RuleKind.SHARED_OPERATOR, "security.trust_daemon_uid", "true"))
    for profile in rights.profiles:
        if profile.admin:
            return Decision(True, Rule(RuleKind.ADMIN, _setting(profile, "admin"), "true"))
    match question:
        case Grant():
            return _grant(rights, question)
        case AgentUse(alias):
            return _listed(
                rights, "allowed_agents", alias, RuleKind.AGENT_ALLOWED, RuleKind.AGENT_NOT_ALLOWED
            )
        case ToolUse(name):
            may_run = _grant(rights, RUN_TOOLS)
            if not may_run.allowed:
                return may_run
            return _listed(rights, "allowed_tools", name, RuleKind.TOOL_ALLOWED, RuleKind.TOOL_NOT_ALLOWED)
        case ConfigWrite(path):
            return _path(rights, path)


def covers(pattern: str, path: str) -> bool:
    """Whether an element of ``config_write_paths`` covers a path: ``a.b`` itself alone, ``a.b.*`` it and what is below,
    ``*`` everything outside :data:`AUTHORITY_SECTIONS`.
    """
    if pattern == WILDCARD:
        return path.split(".", 1)[0] not in AUTHORITY_SECTIONS
    if pattern.endswith(".*"):
        base = pattern.removesuffix(".*")
        return bool(base) and (path == base or path.startswith(f"{base}."))
    return path == pattern


def _grant(rights: Rights, grant: Grant) -> Decision:
    for profile in rights.profiles:
        if grant in profile.grants:
            return Decision(
                True, Rule(RuleKind.GRANTED, _setting(profile, f"grants.{grant.resource}"), grant.verb)
            )
    return Decision(False, Rule(RuleKind.GRANT_MISSING, f"grants.{grant.resource}", grant.verb))


def _listed(rights: Rights, key: str, name: str, yes: RuleKind, no: RuleKind) -> Decision:
    for profile in rights.profiles:
        listed = profile.agents if key == "allowed_agents" else profile.tools
        for entry in (name, WILDCARD):
            if entry in listed:
                return Decision(True, Rule(yes, _setting(profile, key), entry))
    return Decision(False, Rule(no, key, name))


def _path(rights: Rights, path: str) -> Decision:
    wildcard = False
    for profile in rights.profiles:
        for pattern in profile.config_paths:
            if covers(pattern, path):
                return Decision(
                    True, Rule(RuleKind.PATH_ALLOWED, _setting(profile, "config_write_paths"), pattern)
                )
            wildcard = wildcard or pattern == WILDCARD
    kind = RuleKind.PATH_NOT_NAMED if wildcard else RuleKind.PATH_NOT_ALLOWED
    return Decision(False, Rule(kind, "config_write_paths", path))


def _setting(profile: ProfileRights, key: str) -> str:
    return f"permission_profiles.{profile.name}.{key}"
