"""The roster as a configuration holds it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.authority.policy import Policy
from zeroclaw_daemon.authority.rights import Grant, Rule, RuleKind
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User

READER = PermissionProfile(grants={"sessions": ("read",)})


def user(uid: int, *profiles: str, principal_id: str | None = None) -> User:
    return User(uid=uid, permission_profiles=profiles, principal_id=principal_id)


def config(users: dict[str, User], profiles: dict[str, PermissionProfile], **more: Any) -> Config:
    """A configuration as it could only be if nothing had validated it."""
    return Config.model_construct(users=users, permission_profiles=profiles, **more)


def test_a_policy_holds_what_the_configuration_says() -> None:
    root = PermissionProfile(admin=True)
    limited = PermissionProfile(
        allowed_agents=("ada",),
        allowed_tools=("echo",),
        config_write_paths=("agents.*",),
        grants={"config": ("read", "update"), "tools": ("execute",)},
    )
    policy = Policy.of(
        Config(
            users={"ada": user(1, "limited", "reader"), "bob": user(2, "root")},
            permission_profiles={"root": root, "limited": limited, "reader": READER},
        )
    )
    ada, bob = policy.users["ada"], policy.users["bob"]
    assert ada.rights.grants == {
        Grant("config", "read"), Grant("config", "update"), Grant("tools", "execute"), Grant("sessions", "read"),
    }  # fmt: skip
    assert (ada.rights.agents, ada.rights.tools, ada.rights.config_paths) == ({"ada"}, {"echo"}, {"agents.*"})
    assert (ada.rights.admin, bob.rights.admin) == (False, True)
    assert (policy.user_of(1), policy.user_of(2), policy.user_of(3)) == (ada, bob, None)


def test_a_profile_that_does_not_exist_denies_all() -> None:
    admin = PermissionProfile(admin=True)
    policy = Policy.of(config({"ada": user(1, "root", "gone")}, {"root": admin}))
    assert policy.users["ada"].rights.void == Rule(
        RuleKind.PROFILE_MISSING, "users.ada.permission_profiles", "gone"
    )
    assert not policy.users["ada"].rights.admin


def test_two_users_of_one_number_or_one_id_are_nobody() -> None:
    users = {
        "ada": user(1, "reader"),
        "bob": user(1, "reader"),
        "cid": user(2, "reader", principal_id="dan"),
        "dan": user(3, "reader"),
        "eve": user(4, "reader"),
    }
    policy = Policy.of(config(users, {"reader": READER}))
    voids = {name: known.rights.void for name, known in policy.users.items()}
    assert voids == {
        "ada": Rule(RuleKind.AMBIGUOUS, "users.ada.uid", "1"),
        "bob": Rule(RuleKind.AMBIGUOUS, "users.bob.uid", "1"),
        "cid": Rule(RuleKind.AMBIGUOUS, "users.cid.principal_id", "user:dan"),
        "dan": Rule(RuleKind.AMBIGUOUS, "users.dan.principal_id", "user:dan"),
        "eve": None,
    }


@pytest.mark.parametrize(
    ("name", "given_id", "principal"),
    [
        ("ada", None, "user:ada"),
        ("a-b_c", None, "user:a-b_c"),
        ("ada", "Ada Lovelace", "user:Ada%20Lovelace"),
        ("ada", "a/b:c%", "user:a%2Fb%3Ac%25"),
        ("ada", "ada\nroot", "user:ada%0Aroot"),
        ("ada", "é", "user:%C3%A9"),
        ("shared-operator", None, "user:shared-operator"),
    ],
)
def test_a_principal_id_is_percent_encoded(name: str, given_id: str | None, principal: str) -> None:
    policy = Policy.of(config({name: user(1, "reader", principal_id=given_id)}, {"reader": READER}))
    assert policy.users[name].principal_id == principal


@given(st.dictionaries(st.integers(0, 9), st.text(min_size=1, max_size=3), min_size=2))
def test_users_with_rights_never_share_a_principal_id(ids: dict[int, str]) -> None:
    users = {f"u{uid}": user(uid, "reader", principal_id=text) for uid, text in ids.items()}
    known = Policy.of(config(users, {"reader": READER})).users.values()
    usable = [each.principal_id for each in known if each.rights.void is None]
    assert len(usable) == len(set(usable))
    assert all(re.fullmatch(r"user:[A-Za-z0-9._~%-]+", each.principal_id) for each in known)
