"""From stored texts to an instance's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zeroclaw_host.errors import ConfigInvalid, RemedyAction
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import Permission, parse_manifest
from zeroclaw_host.services.config import SchemaConfigResolver, resolve_config

Make = Callable[..., bytes]

PROPERTIES = {
    "url": {"type": "string"},
    "depth": {"type": "integer"},
    "token": {"type": "string", "x-secret": True},
}


def schema(**more: Any) -> ConfigSchema:
    return ConfigSchema.compile(
        {"type": "object", "additionalProperties": False, "properties": PROPERTIES, **more}
    )


@pytest.fixture
def scope(manifest_text: Make) -> Callable[..., InstanceScope]:
    """Makes a scope with ``config_read`` requested, and granted unless told otherwise."""

    def make(*, granted: bool = True) -> InstanceScope:
        manifest = parse_manifest(manifest_text(permissions=["config_read"]))
        grants = frozenset({Permission.CONFIG_READ}) if granted else frozenset[Permission]()
        return InstanceScope.admit(InstanceIdentity.default_tool("demo"), manifest, grants=grants)

    return make


def unreadable() -> Mapping[str, str]:
    pytest.fail("the stored values were read")


@pytest.mark.req("PLG-143", "PLG-148")
def test_secrets_are_kept_apart_from_the_public_configuration(scope: Callable[..., InstanceScope]) -> None:
    values = {"url": "https://a.example", "depth": "3", "token": "hush"}
    found = resolve_config(scope(), schema(), lambda: values, host_only=frozenset({"token"}))
    assert found.public == {"url": "https://a.example", "depth": 3}
    assert found.secrets == {"token": "hush"}
    assert found.host_only == {"token"}
    assert "hush" not in repr(found)


@pytest.mark.req("PLG-143")
def test_secrets_are_validated_together_with_everything_else(scope: Callable[..., InstanceScope]) -> None:
    with pytest.raises(ConfigInvalid, match="property token is required"):
        resolve_config(scope(), schema(required=["token"]), lambda: {"url": "x"})


@pytest.mark.req("PLG-149")
def test_an_error_names_package_and_property_and_the_path_to_set(scope: Callable[..., InstanceScope]) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        resolve_config(scope(), schema(), lambda: {"depth": "SECRET"})
    error = caught.value
    assert error.message.startswith("package demo: the configuration does not fit its schema: property depth")
    assert "SECRET" not in f"{error!r}{error.details}{error.causes()}"
    assert error.remedy is not None
    assert error.remedy.action is RemedyAction.SET_CONFIG
    assert error.remedy.arguments == {
        "path": "plugins.entries.zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ.config.depth"
    }


def test_a_property_the_schema_does_not_know_is_to_be_taken_out(scope: Callable[..., InstanceScope]) -> None:
    with pytest.raises(ConfigInvalid, match="property dept is not in the schema") as caught:
        resolve_config(scope(), schema(), lambda: {"dept": "1"})
    remedy = caught.value.remedy
    assert remedy is not None
    assert remedy.action is RemedyAction.UNSET_CONFIG
    assert remedy.arguments == {"path": "plugins.entries.zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ.config.dept"}


@pytest.mark.req("PLG-151", "PLG-152")
def test_without_the_grant_nothing_is_read_and_the_empty_object_is_judged(
    scope: Callable[..., InstanceScope],
) -> None:
    found = resolve_config(scope(granted=False), schema(), unreadable)
    assert (found.public, found.secrets) == ({}, {})
    with pytest.raises(ConfigInvalid, match="property url is required"):
        resolve_config(scope(granted=False), schema(required=["url"]), unreadable)


def test_without_a_schema_there_is_no_configuration(
    scope: Callable[..., InstanceScope], manifest_text: Make
) -> None:
    plain = InstanceScope.admit(InstanceIdentity.default_tool("demo"), parse_manifest(manifest_text()))
    assert resolve_config(plain, None, unreadable).public == {}
    assert resolve_config(scope(), None, dict).public == {}
    with pytest.raises(ConfigInvalid, match="takes no configuration"):
        resolve_config(scope(), None, lambda: {"url": "x"})


@pytest.mark.req("PLG-149")
def test_a_resolver_looks_at_schema_and_values_anew_each_time(scope: Callable[..., InstanceScope]) -> None:
    values = {"depth": "1"}
    asked: list[InstanceIdentity] = []

    def values_of(identity: InstanceIdentity) -> Mapping[str, str]:
        asked.append(identity)
        return values

    resolver = SchemaConfigResolver(lambda _: schema(), values_of)
    assert resolver.resolve(scope()).public == {"depth": 1}
    values["depth"] = "2"
    assert resolver.resolve(scope()).public == {"depth": 2}
    assert asked == [InstanceIdentity.default_tool("demo")] * 2
