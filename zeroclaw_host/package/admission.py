"""Whether a package may be here at all, judged on bytes that are read once.

The order is part of the contract: a manifest exists → it is TOML → its shape is right → the signature policy lets it
pass → its configuration schema is acceptable → its component is there and has the declared digest. So nothing of an
unsigned package but its manifest and skills is looked at in strict mode. Nothing is compiled here and no guest code runs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import cast

from zeroclaw_host.errors import ConfigSchemaError, DigestMismatch, Remedy, RemedyAction
from zeroclaw_host.package.config_schema import ConfigSchema
from zeroclaw_host.package.manifest import (
    MANIFEST_NAME,
    SKILLS_DIRECTORY,
    Capability,
    Manifest,
    Permission,
    read_manifest,
)
from zeroclaw_host.package.notices import Notice, NoticeCode
from zeroclaw_host.package.reader import PackageReader, SkillTree
from zeroclaw_host.package.signature import SignaturePolicy, SignatureVerdict, enforce, verify
from zeroclaw_host.package.skills import parse_skills
from zeroclaw_host.package.toml_source import Location, TomlSource, located_error


@dataclass(frozen=True, slots=True)
class AdmittedPackage:
    """A package that passed, with the very bytes that were checked. These are to be published, compiled and run."""

    manifest: Manifest
    manifest_bytes: bytes = field(repr=False)
    component: bytes | None = field(repr=False)
    component_sha256: str | None
    """Lower-case hexadecimal; None exactly when there is no component."""
    skills: SkillTree = field(repr=False)
    """The checked bundle; empty unless the package has the capability ``skill``."""
    config_schema: ConfigSchema | None = field(repr=False)
    signature: SignatureVerdict
    notices: tuple[Notice, ...]

    @property
    def name(self) -> str:
        """The package's name."""
        return self.manifest.name

    def files(self) -> dict[str, bytes]:
        """Every file of the package as POSIX paths relative to it: manifest, skills, and the component last (PLG-001)."""
        found = {MANIFEST_NAME: self.manifest_bytes}
        found |= {
            f"{SKILLS_DIRECTORY}/{path}": content for path, content in sorted(self.skills.files.items())
        }
        if self.manifest.wasm_path is not None and self.component is not None:
            found[self.manifest.wasm_path] = self.component
        return found


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest of the right shape, with the bytes and the text it was read from: read once, used for all that follows."""

    data: bytes = field(repr=False)
    source: TomlSource = field(repr=False)
    manifest: Manifest

    @classmethod
    def of(cls, reader: PackageReader) -> ReadManifest:
        """The manifest of a package.

        :raises ManifestError: there is none, it is no TOML, or it breaks a rule of shape.
        :raises StorageError: the file system failed.
        """
        data = reader.read_manifest()
        source = TomlSource.parse(data, path=f"{reader.origin}/{MANIFEST_NAME}")
        return cls(data, source, read_manifest(source))


def admit(
    reader: PackageReader, policy: SignaturePolicy, *, read: ReadManifest | None = None
) -> AdmittedPackage:
    """Judge a package.

    :param read: its manifest, when that was read from this reader before.
    :raises ManifestMissing: there is no manifest.
    :raises ManifestError: the manifest is no TOML or breaks a rule of shape.
    :raises SkillsInvalid: the package says it holds skills and does not.
    :raises SignatureRefused: the policy does not let it pass.
    :raises ConfigSchemaError: ``config_read`` and ``config_schema`` do not go together, or the schema is not acceptable.
    :raises ComponentMissing: the component is not there as a regular file.
    :raises DigestMismatch: the component is not the one that the manifest declares.
    :raises StorageError: the file system failed.
    """
    read = read or ReadManifest.of(reader)
    manifest = read.manifest
    skills = SkillTree()
    if Capability.SKILL in manifest.capabilities:
        skills = reader.read_skills()
        parse_skills(skills)
    verdict = verify(read.data, manifest, policy)
    notices = enforce(verdict, manifest, policy) + _reserved(manifest)
    schema = compile_schema(manifest, read.source)
    component, digest = _read_component(reader, manifest)
    return AdmittedPackage(
        manifest=manifest,
        manifest_bytes=read.data,
        component=component,
        component_sha256=digest,
        skills=skills,
        config_schema=schema,
        signature=verdict,
        notices=notices,
    )


def compile_schema(manifest: Manifest, source: TomlSource) -> ConfigSchema | None:
    """The compiled ``config_schema`` of a manifest, if it has one.

    :raises ConfigSchemaError: with line and column. A schema without ``config_read``, or ``config_read`` without a
        schema, is an error too: either alone could do nothing (PLG-010, PLG-011).
    """
    raw = manifest.config_schema
    if raw is None:
        if not manifest.requests(Permission.CONFIG_READ):
            return None
        raise _schema_error(
            source, ("permissions",), "config_read needs a config_schema that says what can be read"
        )
    if not manifest.requests(Permission.CONFIG_READ):
        raise _schema_error(source, ("config_schema",), "config_schema needs the permission config_read")
    has_reader = bool({Capability.TOOL, Capability.CHANNEL} & set(manifest.capabilities))
    try:
        return ConfigSchema.compile(raw, allow_secrets=has_reader)
    except ConfigSchemaError as error:
        path = cast("Location", error.details["schema_path"])
        raise _schema_error(source, ("config_schema", *path), error.message) from None


def _schema_error(source: TomlSource, location: Location, message: str) -> ConfigSchemaError:
    return located_error(ConfigSchemaError, source.path, source.position(location), message)


def _read_component(reader: PackageReader, manifest: Manifest) -> tuple[bytes | None, str | None]:
    if manifest.wasm_path is None:
        return None, None
    component = reader.read_component(manifest.wasm_path)
    digest = hashlib.sha256(component).hexdigest()
    declared = manifest.wasm_sha256
    if declared is not None and declared.lower() != digest:
        raise DigestMismatch(
            f"package {manifest.name}: {manifest.wasm_path} is not the component that the manifest declares",
            remedy=Remedy(RemedyAction.SIGN_PLUGIN),
            details={"declared": declared.lower(), "found": digest},
        )
    return component, digest


def _reserved(manifest: Manifest) -> tuple[Notice, ...]:
    if Capability.OBSERVER not in manifest.capabilities:
        return ()
    message = f"package {manifest.name}: the capability observer is reserved; the host runs nothing for it"
    return (Notice(NoticeCode.CAPABILITY_RESERVED, message),)
