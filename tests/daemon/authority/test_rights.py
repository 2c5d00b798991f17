"""Rights: every decision, and the rule it rests on, against a model that was written to be obvious."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.authority.rights import (
    AUTHORITY_SECTIONS,
    OPERATOR_RIGHTS,
    AgentUse,
    ConfigWrite,
    Grant,
    ProfileRights,
    Question,
    Rights,
    Rule,
    RuleKind,
    ToolUse,
    covers,
    decide,
)
from zeroclaw_daemon.config.schema import Config, Resource, Verb

READ = Grant("sessions", "read")
SEGMENTS = ("a", "b", "ab", "*", "users")


def names() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(("ada", "bob", "*", "ad*", "")), max_size=3).map(tuple)


def paths() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4).map(".".join)


def grants() -> st.SearchStrategy[Grant]:
    return st.builds(
        Grant,
        st.sampled_from(("sessions", "config", "tools")),
        st.sampled_from(("read", "update", "execute")),
    )


def profiles() -> st.SearchStrategy[ProfileRights]:
    return st.builds(
        ProfileRights,
        name=st.sampled_from(("one", "two", "three")),
        admin=st.integers(0, 9).map(lambda number: number == 0),
        grants=st.frozensets(grants(), max_size=4),
        agents=names(),
        tools=names(),
        config_paths=st.lists(paths(), max_size=3).map(tuple),
    )


def questions() -> st.SearchStrategy[Question]:
    name = st.sampled_from(("ada", "bob", "eve"))
    return st.one_of(
        grants(), st.builds(AgentUse, name), st.builds(ToolUse, name), st.builds(ConfigWrite, paths())
    )


def may(all_profiles: list[ProfileRights], question: Question) -> bool:
    """The rules once more, without thought for speed or for saying why."""
    if any(profile.admin for profile in all_profiles):
        return True
    granted = {grant for profile in all_profiles for grant in profile.grants}
    if not granted:
        return False
    match question:
        case Grant():
            return question in granted
        case AgentUse(alias):
            listed = [name for profile in all_profiles for name in profile.agents]
            return alias in listed or "*" in listed
        case ToolUse(name):
            listed = [tool for profile in all_profiles for tool in profile.tools]
            return Grant("tools", "execute") in granted and (name in listed or "*" in listed)
        case ConfigWrite(path):
            return any(
                model_covers(pattern.split("."), path.split("."))
                for profile in all_profiles
                for pattern in profile.config_paths
            )


def model_covers(pattern: list[str], path: list[str]) -> bool:
    if pattern == ["*"]:
        return path[0] not in ("users", "permission_profiles", "security")
    if pattern[-1] == "*":
        return path[: len(pattern) - 1] == pattern[:-1]
    return path == pattern


@pytest.mark.req("RPC-052")
@given(st.lists(profiles(), max_size=3), questions())
def test_a_decision_is_what_the_model_says(all_profiles: list[ProfileRights], question: Question) -> None:
    rights = Rights(tuple(all_profiles))
    decision = decide(rights, question)
    assert decision.allowed == may(all_profiles, question)
    # The rule is where a person finds it: in a list of one of the profiles, and the entry is one that is written there.
    if decision.allowed:
        section, name, key, *rest = decision.rule.where.split(".")
        assert section == "permission_profiles"
        written = [profile for profile in all_profiles if profile.name == name]
        held = {
            "admin": {"true"} if any(profile.admin for profile in written) else set[str](),
            "grants": {
                grant.verb for profile in written for grant in profile.grants if rest == [grant.resource]
            },
            "allowed_agents": {agent for profile in written for agent in profile.agents},
            "allowed_tools": {tool for profile in written for tool in profile.tools},
            "config_write_paths": {path for profile in written for path in profile.config_paths},
        }
        assert decision.rule.entry in held[key]


@given(st.lists(profiles(), max_size=3), st.lists(profiles(), max_size=2), questions())
def test_a_further_profile_never_takes_anything_away(
    some: list[ProfileRights], more: list[ProfileRights], question: Question
) -> None:
    if decide(Rights(tuple(some)), question).allowed:
        assert decide(Rights((*more, *some)), question).allowed


@given(st.lists(profiles(), max_size=3), questions())
def test_what_is_blocked_has_nothing_whatever_its_profiles_say(
    all_profiles: list[ProfileRights], question: Question
) -> None:
    why = Rule(RuleKind.PROFILE_MISSING, "users.ada.permission_profiles", "gone")
    rights = Rights(tuple(all_profiles), blocked=why)
    decision = decide(rights, question)
    assert (decision.allowed, decision.rule, rights.void) == (False, why, why)
    assert (rights.admin, rights.grants, rights.agents, rights.tools, rights.config_paths) == (
        False, frozenset(), frozenset(), frozenset(), frozenset(),
    )  # fmt: skip


@pytest.mark.req("RPC-080")
@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("a.b.*", "a.b", True),
        ("a.b.*", "a.b.c", True),
        ("a.b.*", "a.b.c.d", True),
        ("a.b.*", "a", False),
        ("a.b.*", "a.bc", False),
        ("a.b.*", "a.bc.d", False),
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.b", "a", False),
        ("a.*.c", "a.b.c", False),
        ("a*", "ab", False),
        (".*", "a", False),
        (".*", "", False),
        ("", "a", False),
        ("A.B", "a.b", False),
        ("*", "a", True),
        ("*", "a.b.c", True),
        ("*.*", "a.b", False),
        ("**", "a", False),
        ("users.*", "users.ada.uid", True),
        ("users.ada.uid", "users.ada.uid", True),
    ],
)
def test_what_a_configuration_path_covers(pattern: str, path: str, covered: bool) -> None:
    assert covers(pattern, path) is covered


@pytest.mark.parametrize("section", sorted(AUTHORITY_SECTIONS))
def test_the_bare_wildcard_does_not_make_an_administrator(section: str) -> None:
    assert section in Config.model_fields
    for path in (section, f"{section}.x", f"{section}.x.admin"):
        assert not covers("*", path)
        assert covers(f"{section}.*", path)
        rights = Rights((ProfileRights("p", grants=frozenset({READ}), config_paths=("*",)),))
        assert decide(rights, ConfigWrite(path)).rule == Rule(
            RuleKind.PATH_NOT_NAMED, "config_write_paths", path
        )
    assert covers("*", f"{section}2.x")


@pytest.mark.parametrize(
    "question",
    [Grant("tools", "execute"), Grant("config", "update"), Grant("system", "read"), ToolUse("bash")],
)
def test_wildcards_are_no_grants(question: Question) -> None:
    everything = ProfileRights(
        "p", grants=frozenset({READ}), agents=("*",), tools=("*",), config_paths=("*", "users.*")
    )
    assert not Rights((everything,)).admin
    decision = decide(Rights((everything,)), question)
    assert (decision.allowed, decision.rule.kind) == (False, RuleKind.GRANT_MISSING)


@pytest.mark.req("RPC-239")
def test_lists_without_any_grant_are_nothing_at_all() -> None:
    everything = Rights((ProfileRights("p", agents=("*",), tools=("*",), config_paths=("*",)),))
    for question in (READ, AgentUse("a"), ToolUse("a"), ConfigWrite("a")):
        assert decide(everything, question).rule.kind is RuleKind.NOTHING_GRANTED
    assert Rights().void == Rule(RuleKind.NOTHING_GRANTED)


def test_an_administrator_and_the_operator_may_everything() -> None:
    admin = Rights((ProfileRights("none"), ProfileRights("root", admin=True)))
    every = [Grant(resource, verb) for resource in get_args(Resource) for verb in get_args(Verb)]
    for question in (*every, AgentUse("a"), ToolUse("a"), ConfigWrite("permission_profiles.none.admin")):
        assert decide(admin, question).rule == Rule(RuleKind.ADMIN, "permission_profiles.root.admin", "true")
        assert decide(OPERATOR_RIGHTS, question).rule.kind is RuleKind.SHARED_OPERATOR


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        (READ, Rule(RuleKind.GRANTED, "permission_profiles.two.grants.sessions", "read")),
        (Grant("sessions", "delete"), Rule(RuleKind.GRANT_MISSING, "grants.sessions", "delete")),
        (AgentUse("ada"), Rule(RuleKind.AGENT_ALLOWED, "permission_profiles.one.allowed_agents", "ada")),
        (AgentUse("bob"), Rule(RuleKind.AGENT_NOT_ALLOWED, "allowed_agents", "bob")),
        (ToolUse("echo"), Rule(RuleKind.TOOL_ALLOWED, "permission_profiles.two.allowed_tools", "*")),
        (ConfigWrite("a.b"), Rule(RuleKind.PATH_ALLOWED, "permission_profiles.two.config_write_paths", "a.*")),
        (ConfigWrite("b"), Rule(RuleKind.PATH_NOT_ALLOWED, "config_write_paths", "b")),
    ],
)  # fmt: skip
def test_a_decision_names_the_rule(question: Question, rule: Rule) -> None:
    rights = Rights(
        (
            ProfileRights("one", agents=("ada",), config_paths=("c",)),
            ProfileRights(
                "two",
                grants=frozenset({READ, Grant("tools", "execute")}),
                tools=("*",),
                config_paths=("a.*",),
            ),
        )
    )
    assert decide(rights, question).rule == rule


def test_a_tool_that_is_not_listed_does_not_run() -> None:
    rights = Rights((ProfileRights("p", grants=frozenset({Grant("tools", "execute")}), tools=("echo",)),))
    assert decide(rights, ToolUse("echo")).allowed
    assert decide(rights, ToolUse("bash")).rule == Rule(RuleKind.TOOL_NOT_ALLOWED, "allowed_tools", "bash")
