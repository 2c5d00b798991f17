"""Whether a package may be here at all."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.errors import (
    ComponentMissing,
    ConfigSchemaError,
    DigestMismatch,
    Kind,
    ManifestError,
    ManifestMissing,
    PackageError,
    SignatureRefused,
    SkillsInvalid,
)
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.archive import ArchiveReader, write_archive
from zeroclaw_host.package.manifest import Permission
from zeroclaw_host.package.notices import NoticeCode
from zeroclaw_host.package.reader import DirectoryReader, SkillTree
from zeroclaw_host.package.signature import (
    SignatureMode,
    SignaturePolicy,
    SignatureStatus,
    canonical_bytes,
    publisher_key,
    sign_manifest,
)

Make = Callable[..., Path]
Text = Callable[..., bytes]

SKILL = "---\nname: a\ndescription: b\n---\n"
OPEN = SignaturePolicy()
CLOSED = {"type": "object", "additionalProperties": False, "properties": {"p": {"type": "string"}}}
SECRET = {**CLOSED, "properties": {"p": {"type": "string", "x-secret": True}}}


@pytest.mark.req("PLG-001")
def test_a_package_is_admitted_with_the_bytes_that_were_checked(
    package_directory: Make, component: bytes
) -> None:
    directory = package_directory()
    package = admit(DirectoryReader(directory), OPEN)
    assert package.name == "demo"
    assert package.component == component
    assert package.component_sha256 == hashlib.sha256(component).hexdigest()
    assert package.signature.status is SignatureStatus.UNSIGNED
    assert package.notices == ()
    assert package.config_schema is None
    assert package.files() == {path.name: path.read_bytes() for path in directory.iterdir()}
    assert list(package.files()) == ["manifest.toml", "plugin.wasm"]


@pytest.mark.req("PLG-004")
def test_a_skill_bundle_needs_no_component(package_directory: Make) -> None:
    directory = package_directory(
        capabilities=["skill"], wasm_path=None, component=None, skills={"a/SKILL.md": SKILL, "a/x.md": "x"}
    )
    package = admit(DirectoryReader(directory), OPEN)
    assert package.component is None
    assert package.component_sha256 is None
    assert list(package.files()) == ["manifest.toml", "skills/a/SKILL.md", "skills/a/x.md"]
    with pytest.raises(SignatureRefused):
        admit(DirectoryReader(directory), SignaturePolicy(SignatureMode.STRICT))


@pytest.mark.req("PLG-004")
def test_a_package_that_says_it_holds_skills_must_hold_some(package_directory: Make) -> None:
    with pytest.raises(SkillsInvalid):
        admit(DirectoryReader(package_directory(capabilities=["skill", "tool"])), OPEN)


@pytest.mark.req("PLG-004")
@pytest.mark.parametrize("form", ["directory", "archive"])
def test_a_broken_skill_bundle_is_refused_wherever_it_comes_from(package_directory: Make, form: str) -> None:
    directory = package_directory(capabilities=["skill", "tool"], skills={"a/SKILL.md": SKILL})
    reader = DirectoryReader(directory)
    package = admit(reader, OPEN)
    if form == "archive":
        broken = dataclasses.replace(
            package, skills=SkillTree({"a/SKILL.md": b"no front matter"}, frozenset({"a"}))
        )
        with pytest.raises(SkillsInvalid):
            admit(ArchiveReader(write_archive(broken)), OPEN)
    else:
        (directory / "skills/a/SKILL.md").write_text("no front matter")
        with pytest.raises(SkillsInvalid):
            admit(reader, OPEN)


def test_the_skills_of_a_package_that_says_nothing_of_them_are_left_alone(package_directory: Make) -> None:
    package = admit(DirectoryReader(package_directory(skills={"a/SKILL.md": "no front matter"})), OPEN)
    assert package.skills == SkillTree()


@pytest.mark.req("PLG-010", "PLG-166")
def test_config_read_without_a_schema_is_refused(package_directory: Make) -> None:
    directory = package_directory(permissions=["config_read"])
    with pytest.raises(
        ConfigSchemaError, match=r"manifest.toml:5:1: config_read needs a config_schema"
    ) as caught:
        admit(DirectoryReader(directory), OPEN)
    assert caught.value.details == {"path": str(directory / "manifest.toml"), "line": 5, "column": 1}


@pytest.mark.req("PLG-011")
def test_a_schema_without_config_read_is_refused(package_directory: Make) -> None:
    directory = package_directory(config_schema=CLOSED)
    with pytest.raises(
        ConfigSchemaError, match=r"manifest.toml:6:1: config_schema needs the permission config_read"
    ):
        admit(DirectoryReader(directory), OPEN)


@pytest.mark.req("PLG-010", "PLG-011", "PLG-140")
def test_a_schema_with_config_read_is_compiled(package_directory: Make) -> None:
    package = admit(
        DirectoryReader(package_directory(permissions=["config_read"], config_schema=CLOSED)), OPEN
    )
    assert package.config_schema is not None
    assert list(package.config_schema.properties) == ["p"]


@pytest.mark.req("PLG-140")
def test_an_error_in_a_schema_has_its_place_in_the_manifest(
    package_directory: Make, manifest_text: Text
) -> None:
    text = (
        manifest_text(permissions=["config_read"])
        + b"""
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties]
good = { type = "string" }
bad = { type = "array", items = { type = "string", pattern = '(?=a)' } }
"""
    )
    with pytest.raises(
        ConfigSchemaError, match=r"manifest.toml:12:52: config_schema/properties/bad/items/pattern"
    ):
        admit(DirectoryReader(package_directory(text)), OPEN)


@pytest.mark.req("PLG-142")
@pytest.mark.parametrize(
    ("capability", "admitted"), [("tool", True), ("channel", True), ("memory", False), ("observer", False)]
)
def test_only_a_tool_or_a_channel_has_secrets(
    package_directory: Make, capability: str, admitted: bool
) -> None:
    directory = package_directory(
        capabilities=[capability], permissions=["config_read"], config_schema=SECRET
    )
    if admitted:
        admit(DirectoryReader(directory), OPEN)
    else:
        with pytest.raises(ConfigSchemaError, match="tool or a channel"):
            admit(DirectoryReader(directory), OPEN)


@pytest.mark.req("PLG-012")
def test_permissions_that_grant_nothing_are_accepted(package_directory: Make) -> None:
    inert = ["file_read", "file_write", "memory_read", "memory_write"]
    package = admit(DirectoryReader(package_directory(permissions=inert)), OPEN)
    assert package.manifest.permissions == tuple(map(Permission, inert))
    assert package.notices == ()


def test_a_reserved_capability_is_said_to_be_reserved(package_directory: Make) -> None:
    [notice] = admit(DirectoryReader(package_directory(capabilities=["tool", "observer"])), OPEN).notices
    assert notice.code is NoticeCode.CAPABILITY_RESERVED


# The matrix of PLG-350 and PLG-351.

MODES = list(SignatureMode)
STATES = ["valid", "unsigned", "untrusted", "invalid", "no digest"]


@pytest.fixture
def in_state(
    package_directory: Make, manifest_text: Text, signing_key: Ed25519PrivateKey, component: bytes
) -> Callable[[str], Path]:
    """Writes a package whose signature is in one of the states."""

    def make(state: str) -> Path:
        signed = sign_manifest(manifest_text(), private_key=signing_key, component=component)
        stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
        return package_directory(
            {
                "valid": signed,
                "unsigned": manifest_text(wasm_sha256=hashlib.sha256(component).hexdigest()),
                "untrusted": sign_manifest(manifest_text(), private_key=stranger, component=component),
                "invalid": signed.replace(b'"1.0.0"', b'"1.0.1"'),
                "no digest": signed_without_digest(manifest_text(), signing_key),
            }[state]
        )

    return make


def signed_without_digest(text: bytes, key: Ed25519PrivateKey) -> bytes:
    """What a publisher could sign by other means than :func:`sign_manifest`."""
    signature = base64.urlsafe_b64encode(key.sign(canonical_bytes(text.decode()))).rstrip(b"=").decode()
    return text + f'publisher_key = "{publisher_key(key)}"\nsignature = "{signature}"\n'.encode()


@pytest.mark.req("PLG-350", "PLG-351")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_the_matrix_of_modes_and_signatures(
    in_state: Callable[[str], Path], signing_key: Ed25519PrivateKey, mode: SignatureMode, state: str
) -> None:
    reader = DirectoryReader(in_state(state))
    policy = SignaturePolicy.of(mode, [publisher_key(signing_key)])
    if mode is SignatureMode.STRICT and state != "valid":
        with pytest.raises(SignatureRefused) as caught:
            admit(reader, policy)
        assert caught.value.kind is Kind.REFUSED
        return
    package = admit(reader, policy)
    warned = mode is SignatureMode.PERMISSIVE and state in ("unsigned", "untrusted", "invalid")
    assert len(package.notices) == warned
    expected = "valid" if state == "no digest" else state
    assert package.signature.status.value == expected


@pytest.mark.req("PLG-351", "PAINS-10", "PAINS-14")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", ["directory", "archive"])
def test_one_flipped_byte_of_the_component_is_refused_in_every_mode(
    in_state: Callable[[str], Path],
    signing_key: Ed25519PrivateKey,
    component: bytes,
    mode: SignatureMode,
    form: str,
) -> None:
    directory = in_state("valid")
    policy = SignaturePolicy.of(mode, [publisher_key(signing_key)])
    package = admit(DirectoryReader(directory), policy)
    for at in (0, len(component) // 2, len(component) - 1):
        flipped = bytearray(component)
        flipped[at] ^= 1
        (directory / "plugin.wasm").write_bytes(flipped)
        archive = write_archive(dataclasses.replace(package, component=bytes(flipped)))
        reader = DirectoryReader(directory) if form == "directory" else ArchiveReader(archive)
        with pytest.raises(DigestMismatch) as caught:
            admit(reader, policy)
        assert caught.value.details["declared"] == hashlib.sha256(component).hexdigest()
        assert caught.value.details["found"] == hashlib.sha256(flipped).hexdigest()


@pytest.mark.req("PLG-351", "PAINS-14")
@pytest.mark.parametrize("mode", [SignatureMode.DISABLED, SignatureMode.PERMISSIVE])
def test_the_digest_of_an_unsigned_package_is_enforced_too(
    package_directory: Make, mode: SignatureMode
) -> None:
    directory = package_directory(wasm_sha256=hashlib.sha256(b"another").hexdigest())
    with pytest.raises(DigestMismatch):
        admit(DirectoryReader(directory), SignaturePolicy(mode))


@pytest.mark.req("PLG-351")
def test_a_digest_is_compared_without_regard_to_case(package_directory: Make, component: bytes) -> None:
    directory = package_directory(wasm_sha256=hashlib.sha256(component).hexdigest().upper())
    assert admit(DirectoryReader(directory), OPEN).component == component


class Recording:
    """A reader that notes what is asked of it, and swaps its component behind the caller's back."""

    origin = "recorded"

    def __init__(self, manifest: bytes, component: bytes = b"x") -> None:
        self.asked: list[str] = []
        self.manifest = manifest
        self.components = [component, b"swapped"]

    def read_manifest(self) -> bytes:
        self.asked.append("manifest")
        return self.manifest

    def read_component(self, wasm_path: str) -> bytes:
        self.asked.append(wasm_path)
        return self.components.pop(0)

    def read_skills(self) -> SkillTree:
        self.asked.append("skills")
        return SkillTree({"a/SKILL.md": SKILL.encode()}, frozenset({"a"}))


@pytest.mark.req("PAINS-10")
def test_everything_is_read_once(manifest_text: Text) -> None:
    text = manifest_text(capabilities=["tool", "skill"], wasm_sha256=hashlib.sha256(b"x").hexdigest())
    reader = Recording(text)
    package = admit(reader, OPEN)
    assert reader.asked == ["manifest", "skills", "plugin.wasm"]
    assert package.component == b"x"
    assert package.files()["plugin.wasm"] == b"x"


@pytest.mark.req("PAINS-10")
def test_the_component_of_a_refused_package_is_never_read(manifest_text: Text) -> None:
    strict = SignaturePolicy(SignatureMode.STRICT)
    faulty = {"permissions": ["config_read"]}
    for policy, text, error in (
        (OPEN, b"name = ", ManifestError),
        (OPEN, manifest_text(name="Foo"), ManifestError),
        (strict, manifest_text(), SignatureRefused),
        (strict, manifest_text(**faulty), SignatureRefused),
        (OPEN, manifest_text(**faulty), ConfigSchemaError),
    ):
        reader = Recording(text)
        with pytest.raises(error):
            admit(reader, policy)
        assert reader.asked == ["manifest"]


def faulty(package_directory: Make, first: int) -> tuple[Path, type[PackageError]]:
    """A package with every fault from the numbered step on, and the error of that step."""
    steps: list[tuple[dict[str, object], type[PackageError]]] = [
        ({"manifest": b"name = "}, ManifestError),
        ({"name": "Foo"}, ManifestError),
        ({"capabilities": ["tool", "skill"]}, SkillsInvalid),
        ({}, SignatureRefused),
        ({"permissions": ["config_read"]}, ConfigSchemaError),
        ({"component": None}, ComponentMissing),
    ]
    changes: dict[str, object] = {}
    for change, _ in steps[first:]:
        changes |= change
    return package_directory(**changes), steps[first][1]


@pytest.mark.parametrize("first", range(4))
def test_the_first_fault_in_the_order_of_admission_is_the_one_reported(
    package_directory: Make, first: int
) -> None:
    directory, error = faulty(package_directory, first)
    with pytest.raises(error):
        admit(DirectoryReader(directory), SignaturePolicy(SignatureMode.STRICT))


@pytest.mark.parametrize("first", [4, 5])
def test_without_signatures_the_schema_comes_before_the_component(
    package_directory: Make, first: int
) -> None:
    directory, error = faulty(package_directory, first)
    with pytest.raises(error):
        admit(DirectoryReader(directory), OPEN)


def test_a_directory_without_a_manifest_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(ManifestMissing):
        admit(DirectoryReader(tmp_path), OPEN)


def test_no_bytes_appear_in_a_packages_representation(package_directory: Make) -> None:
    package: AdmittedPackage = admit(DirectoryReader(package_directory()), OPEN)
    assert "the bytes of a component" not in repr(package)
