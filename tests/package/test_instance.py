"""Who an instance is, and what it may do."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.instance import GrantNotRequested, IdentityInvalid, InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import Capability, Permission, parse_manifest

Make = Callable[..., bytes]


@pytest.mark.req("PLG-131")
@pytest.mark.parametrize(
    ("identity", "key"),
    [
        (InstanceIdentity("demo", Capability.TOOL, "demo"), "zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ"),
        (
            InstanceIdentity("acme.chat", Capability.CHANNEL, "operations"),
            "zpi1_WyJhY21lLmNoYXQiLCJjaGFubmVsIiwib3BlcmF0aW9ucyJd",
        ),
    ],
)
def test_a_key_encodes_package_capability_and_binding(identity: InstanceIdentity, key: str) -> None:
    assert identity.key == key
    assert InstanceIdentity.parse(key) == identity


@pytest.mark.req("PLG-131")
def test_a_tools_default_binding_is_its_package() -> None:
    assert InstanceIdentity.default_tool("demo") == InstanceIdentity("demo", Capability.TOOL, "demo")


@pytest.mark.req("PLG-131")
def test_nothing_that_a_package_says_about_itself_changes_its_key(manifest_text: Make) -> None:
    scopes = [
        InstanceScope.admit(InstanceIdentity.default_tool("demo"), parse_manifest(manifest_text(**changes)))
        for changes in (
            {},
            {"version": "2"},
            {"wasm_sha256": "a" * 64},
            {"publisher_key": "bb", "author": "Eve"},
        )
    ]
    assert len({scope.identity.key for scope in scopes}) == 1


@pytest.mark.req("PLG-138")
def test_two_packages_and_two_capabilities_never_share_a_key() -> None:
    keys = {
        InstanceIdentity(package, capability, "main").key
        for package in ("a", "b")
        for capability in (Capability.TOOL, Capability.CHANNEL)
    }
    assert len(keys) == 4


@pytest.mark.parametrize("binding", ["", "a\n", "\0", "\x7f", "\x9b", "\ud800"])
def test_a_binding_is_text_without_control_characters(binding: str) -> None:
    with pytest.raises(IdentityInvalid):
        InstanceIdentity("demo", Capability.TOOL, binding)


def encoded(text: str) -> str:
    return "zpi1_" + base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "key",
    [
        "",
        "WyJkZW1vIiwidG9vbCIsImRlbW8iXQ",
        "zpi2_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ",
        "zpi1_",
        "zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ==",
        "zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXR",
        "zpi1_****",
        "zpi1_ä",
        encoded('["demo", "tool", "demo"]'),
        encoded('["demo","tool"]'),
        encoded('["demo","tool","demo","more"]'),
        encoded('["demo","tool",1]'),
        encoded('["demo","robot","demo"]'),
        encoded('["demo","tool",""]'),
        encoded('{"package":"demo"}'),
        encoded("[" * 100_000),
        encoded('["demo","tool",' + "9" * 10_000 + "]"),
        encoded('["demo","tool","\\ud800"]'),
        encoded('["\\ud800","tool","demo"]'),
    ],
)
def test_only_the_canonical_key_is_read(key: str) -> None:
    with pytest.raises(IdentityInvalid):
        InstanceIdentity.parse(key)


@given(st.text(), st.sampled_from(Capability), st.text())
def test_every_identity_survives_its_key(package: str, capability: Capability, binding: str) -> None:
    try:
        identity = InstanceIdentity(package, capability, binding)
        key = identity.key
    except IdentityInvalid:
        return
    assert InstanceIdentity.parse(key) == identity


@pytest.mark.req("PLG-005")
def test_every_permission_that_the_manifest_requests_is_in_force(manifest_text: Make) -> None:
    manifest = parse_manifest(manifest_text(permissions=["state_read", "http_client"]))
    scope = InstanceScope.admit(InstanceIdentity.default_tool("demo"), manifest)
    assert scope.grants == {Permission.STATE_READ, Permission.HTTP_CLIENT}
    assert scope.grants_permission(Permission.STATE_READ)
    assert not scope.grants_permission(Permission.STATE_WRITE)


@pytest.mark.req("PLG-005", "PLG-151")
def test_an_embedder_may_withhold_a_permission_and_cannot_add_one(manifest_text: Make) -> None:
    manifest = parse_manifest(manifest_text(permissions=["state_read"]))
    identity = InstanceIdentity.default_tool("demo")
    assert not InstanceScope.admit(identity, manifest, grants=frozenset()).grants
    with pytest.raises(GrantNotRequested, match="state_write"):
        InstanceScope.admit(
            identity, manifest, grants=frozenset({Permission.STATE_READ, Permission.STATE_WRITE})
        )


@pytest.mark.parametrize(
    "identity", [InstanceIdentity.default_tool("other"), InstanceIdentity("demo", Capability.CHANNEL, "x")]
)
def test_a_scope_belongs_to_a_package_that_has_the_capability(
    manifest_text: Make, identity: InstanceIdentity
) -> None:
    with pytest.raises(IdentityInvalid):
        InstanceScope.admit(identity, parse_manifest(manifest_text()))
