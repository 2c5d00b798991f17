"""The roster of a configuration: its users, what each may do, and whether the daemon's own user is trusted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from zeroclaw_daemon.authority.rights import Grant, ProfileRights, Rights, Rule, RuleKind
from zeroclaw_daemon.config.schema import Config, PermissionProfile, User


@dataclass(frozen=True)
class KnownUser:
    """One user of the roster. ``principal_id`` is ``user:`` and the percent-encoded id; it is unique among users that have
    rights.
    """

    name: str
    uid: int
    principal_id: str
    rights: Rights


@dataclass(frozen=True)
class Policy:
    """The part of a configuration that decides who may do what."""

    users: Mapping[str, KnownUser]
    trust_daemon_uid: bool
    _by_uid: Mapping[int, KnownUser] = field(repr=False)

    @classmethod
    def of(cls, config: Config) -> Policy:
        """Read it off a configuration. What is contradictory there gives nobody any right."""
        ids = {name: _principal_id(name, user) for name, user in config.users.items()}
        uids = Counter(user.uid for user in config.users.values())
        seen = Counter(ids.values())
        users: dict[str, KnownUser] = {}
        for name, user in config.users.items():
            if uids[user.uid] > 1:
                rights = Rights(blocked=Rule(RuleKind.AMBIGUOUS, f"users.{name}.uid", str(user.uid)))
            elif seen[ids[name]] > 1:
                rights = Rights(blocked=Rule(RuleKind.AMBIGUOUS, f"users.{name}.principal_id", ids[name]))
            else:
                rights = _rights(name, user, config.permission_profiles)
            users[name] = KnownUser(name, user.uid, ids[name], rights)
        return cls(
            users=users,
            trust_daemon_uid=config.security.trust_daemon_uid,
            _by_uid={user.uid: user for user in users.values()},
        )

    def user_of(self, uid: int) -> KnownUser | None:
        """The user with this number; one whose number is not its alone has no rights."""
        return self._by_uid.get(uid)


def _rights(name: str, user: User, profiles: Mapping[str, PermissionProfile]) -> Rights:
    found: list[ProfileRights] = []
    for each in user.permission_profiles:
        profile = profiles.get(each)
        if profile is None:
            return Rights(blocked=Rule(RuleKind.PROFILE_MISSING, f"users.{name}.permission_profiles", each))
        grants = (Grant(resource, verb) for resource, verbs in profile.grants.items() for verb in verbs)
        found.append(
            ProfileRights(
                each,
                admin=profile.admin,
                grants=frozenset(grants),
                agents=profile.allowed_agents,
                tools=profile.allowed_tools,
                config_paths=profile.config_write_paths,
            )
        )
    return Rights(tuple(found))


def _principal_id(name: str, user: User) -> str:
    return f"user:{quote(user.principal_id or name, safe='')}"
