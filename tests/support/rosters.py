"""Configurations with users in them, and one that can be changed while a daemon judges by it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zeroclaw_daemon.config.schema import Config

STRANGER = 4_000_000_000
"""A user number that nobody here has."""


def config_of(text: Mapping[str, Any]) -> Config:
    """The configuration these values of a file mean."""
    return Config.model_validate(_frozen(text))


def one_user(profile: Mapping[str, Any] | None, *, uid: int | None = None, **sections: Any) -> Config:
    """The daemon's own user is not trusted, and is the user ``u`` with this profile; without one, nobody is known."""
    users = (
        {}
        if profile is None
        else {"u": {"uid": os.geteuid() if uid is None else uid, "permission_profiles": ["p"]}}
    )
    profiles = {} if profile is None else {"p": profile}
    return config_of(
        {"security": {"trust_daemon_uid": False}, "users": users, "permission_profiles": profiles, **sections}
    )


def grants(*written: str, **more: Any) -> dict[str, Any]:
    """A profile with grants written as ``resource:verb``."""
    found: dict[str, list[str]] = {}
    for each in written:
        resource, verb = each.split(":")
        found.setdefault(resource, []).append(verb)
    return {"grants": found, **more}


class InForce:
    """A configuration in force that a test replaces."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self) -> Config:
        return self.config


def _frozen(value: Any) -> Any:
    match value:
        case dict():
            return {key: _frozen(inner) for key, inner in value.items()}
        case list():
            return tuple(_frozen(inner) for inner in value)
        case _:
            return value
