"""The shape of ``manifest.toml``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind, ManifestError, RemedyAction
from zeroclaw_host.package.manifest import Capability, Manifest, Permission, parse_manifest

Make = Callable[..., bytes]

FULL = """\
name = "redact.text-1"
version = "1.2.3"
description = "masks secrets"
author = "Ada"
capabilities = ["tool", "channel"]
permissions = ["config_read", "http_client"]
wasm_path = "lib/redact.wasm"
wasm_sha256 = "AbCdEf0123456789abcdef0123456789abcdef0123456789abcdef0123456789"
provides = "gmail_push"
signature = "c2ln"
publisher_key = "aa"
sender_match = "exact"

[config_schema]
type = "object"

[egress]
hosts = ["b.example", "*.a.example", "b.example"]

[unknown]
key = 1
"""


def test_every_field_is_read_and_unknown_keys_are_ignored() -> None:
    manifest = parse_manifest(FULL.encode())
    assert manifest.name == "redact.text-1"
    assert manifest.version == "1.2.3"
    assert manifest.description == "masks secrets"
    assert manifest.author == "Ada"
    assert manifest.capabilities == (Capability.TOOL, Capability.CHANNEL)
    assert manifest.permissions == (Permission.CONFIG_READ, Permission.HTTP_CLIENT)
    assert manifest.wasm_path == "lib/redact.wasm"
    assert manifest.wasm_sha256 is not None
    assert manifest.provides == "gmail_push"
    assert manifest.config_schema == {"type": "object"}
    assert (manifest.signature, manifest.publisher_key) == ("c2ln", "aa")
    assert manifest.egress.hosts == ("*.a.example", "b.example")
    assert not hasattr(manifest, "sender_match")


def test_a_manifest_cannot_be_changed(manifest_text: Make) -> None:
    manifest = parse_manifest(manifest_text())
    with pytest.raises(ValueError, match="frozen"):
        manifest.name = "other"  # type: ignore[misc]


@pytest.mark.req("PLG-002")
@pytest.mark.parametrize("capability", list(Capability))
def test_every_capability_is_known(manifest_text: Make, capability: Capability) -> None:
    assert parse_manifest(manifest_text(capabilities=[capability.value])).capabilities == (capability,)


@pytest.mark.req("PLG-012", "PLG-013")
@pytest.mark.parametrize("permission", list(Permission))
def test_every_permission_is_known(manifest_text: Make, permission: Permission) -> None:
    manifest = parse_manifest(manifest_text(permissions=[permission.value]))
    assert manifest.permissions == (permission,)
    assert manifest.requests(permission)


def test_the_older_name_of_config_read_means_the_same_and_is_counted_once(manifest_text: Make) -> None:
    manifest = parse_manifest(manifest_text(permissions=["env_read", "config_read"]))
    assert manifest.permissions == (Permission.CONFIG_READ,)


@pytest.mark.req("PLG-014")
@pytest.mark.parametrize("name", ["a", "0", "a-b", "a.b_c-d", "9" * 128, "a..b"])
def test_a_name_is_lower_case_ascii(manifest_text: Make, name: str) -> None:
    assert parse_manifest(manifest_text(name=name)).name == name


def test_a_version_need_not_look_like_one(manifest_text: Make) -> None:
    assert parse_manifest(manifest_text(version="the one before tea")).version == "the one before tea"


@pytest.mark.parametrize(
    ("path", "read_as"), [("p.wasm", "p.wasm"), ("a/b/p.wasm", "a/b/p.wasm"), ("./a//p.wasm", "a/p.wasm")]
)
def test_a_component_lies_inside_the_package(manifest_text: Make, path: str, read_as: str) -> None:
    assert parse_manifest(manifest_text(wasm_path=path)).wasm_path == read_as


@pytest.mark.req("PLG-004")
def test_only_a_skill_bundle_needs_no_component(manifest_text: Make) -> None:
    assert parse_manifest(manifest_text(capabilities=["skill"], wasm_path=None)).is_skill_only
    for capabilities in (["tool"], ["skill", "tool"], ["observer"]):
        with pytest.raises(ManifestError, match="wasm_path: is required"):
            parse_manifest(manifest_text(capabilities=capabilities, wasm_path=None))


@pytest.mark.req("PAINS-14")
def test_a_digest_of_nothing_is_an_error(manifest_text: Make) -> None:
    text = manifest_text(capabilities=["skill"], wasm_path=None, wasm_sha256="a" * 64)
    with pytest.raises(ManifestError, match=r"^manifest.toml:4:1: wasm_sha256: is there without wasm_path"):
        parse_manifest(text)


@pytest.mark.parametrize("provides", ["telegram", "gmail_push", "x1"])
def test_a_package_may_mirror_a_built_in_channel(manifest_text: Make, provides: str) -> None:
    assert parse_manifest(manifest_text(provides=provides)).provides == provides


@pytest.mark.req("PLG-173", "PLG-181")
def test_a_bad_destination_invalidates_the_manifest(manifest_text: Make) -> None:
    with pytest.raises(
        ManifestError, match=r"egress.hosts: '\*' would stand for every host; name the hosts; 'b:1' names"
    ):
        parse_manifest(manifest_text(egress={"hosts": ["a.example", "*", "b:1"]}))


def test_every_fault_is_named_with_its_line_in_the_order_of_the_file() -> None:
    text = """\
version = "1"
# the name
name = "Foo"
capabilities = [
  "tool",
  "foo",
]
wasm_path = "../x"
"""
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text.encode(), path="demo/manifest.toml")
    error = caught.value
    assert error.message.startswith("demo/manifest.toml:3:1: name: must be")
    assert "; line 6: capabilities: foo is not one of" in error.message
    assert "; line 8: wasm_path: must name a file inside" in error.message
    assert error.details == {"path": "demo/manifest.toml", "line": 3, "column": 1}
    assert error.remedy is not None
    assert error.remedy.action is RemedyAction.EDIT_FILE
    assert error.remedy.arguments == {"path": "demo/manifest.toml", "line": "3", "column": "1"}
    assert (error.code, error.kind) == ("manifest_invalid", Kind.INVALID)


def test_a_publishers_text_cannot_steer_a_terminal(manifest_text: Make) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(
            manifest_text(capabilities=["\x1b[2J\u202e" + "x" * 500], egress={"hosts": ["\x1b.a"]})
        )
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


def test_the_first_of_many_faults_are_told_and_the_others_counted() -> None:
    begun = time.process_time()
    with pytest.raises(ManifestError) as caught:
        parse_manifest(
            b'name = "demo"\nversion = "1"\ncapabilities = [' + b'"x",\n' * 40_000 + b"]\npermissions = 1"
        )
    assert time.process_time() - begun < 10
    message = caught.value.message
    assert message.startswith("manifest.toml:3:17: capabilities: x is not one of")
    assert "; line 12: " in message
    assert "; line 13: " not in message
    assert message.endswith("; and 39991 more")


tables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(list(Manifest.model_fields)), tables)
def test_no_value_raises_anything_but_a_manifest_error(key: str, value: Any) -> None:
    keys = {"name": "demo", "version": "1", "capabilities": ["tool"], "wasm_path": "a"} | {key: value}
    try:
        text = tomlkit.dumps({key: value for key, value in keys.items() if value is not None}).encode()
    except (ValueError, TypeError):
        return
    try:
        manifest = parse_manifest(text)
    except ManifestError:
        return
    assert manifest.name


@given(st.binary())
def test_no_bytes_raise_anything_but_a_manifest_error(data: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(data)
