"""Signing a plugin project's manifest, and judging the signature of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.archive import MAX_ARCHIVE_BYTES, ArchiveReader
from zeroclaw_host.package.manifest import MANIFEST_NAME, parse_manifest
from zeroclaw_host.package.reader import DirectoryReader, PackageReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest
from zeroclaw_sdk.files import read_file, replace_file
from zeroclaw_sdk.project import Project


@dataclass(frozen=True, slots=True)
class SignReport:
    """A signed manifest."""

    manifest: Path
    publisher_key: str
    wasm_sha256: str | None


def sign(project: Project, key: Ed25519PrivateKey) -> SignReport:
    """Write ``wasm_sha256``, ``publisher_key`` and ``signature`` into the project's manifest, over its component.

    :raises ProjectInvalid: the component is not built.
    :raises ManifestError: the manifest cannot be signed.
    :raises StorageError: a file cannot be read or written; the manifest is then as it was.
    """
    component = _component(project)
    signed = sign_manifest(project.manifest_bytes, private_key=key, component=component)
    path = project.directory / MANIFEST_NAME
    replace_file(path, signed)
    return SignReport(path, publisher_key(key), Project.open(project.directory).manifest.wasm_sha256)


def verify(source: Path, trusted_keys: frozenset[str] | None = None) -> AdmittedPackage:
    """Judge a project or an archive as a strict host with these trusted keys would.

    :param trusted_keys: left out, the package's own key is taken: the signature is good or not, whoever made it.
    :raises PackageError: it would be refused, and why.
    :raises StorageError: it cannot be read.
    """
    reader = open_package(source)
    return admit(reader, strict_policy(reader.read_manifest(), trusted_keys))


def strict_policy(manifest: bytes, trusted_keys: frozenset[str] | None) -> SignaturePolicy:
    """Strict mode with these keys, or with the key the manifest itself names.

    :raises ManifestError: the manifest breaks a rule.
    """
    keys = own_key(manifest) if trusted_keys is None else trusted_keys
    return SignaturePolicy(SignatureMode.STRICT, keys)


def author_policy(manifest: bytes) -> SignaturePolicy:
    """An author's own host: nothing is required, and the package's own key tells whether its signature is good.

    :raises ManifestError: the manifest breaks a rule.
    """
    return SignaturePolicy(SignatureMode.DISABLED, own_key(manifest))


def own_key(manifest: bytes) -> frozenset[str]:
    """The key a manifest names, if it names one.

    :raises ManifestError: the manifest breaks a rule.
    """
    key = parse_manifest(manifest).publisher_key
    return frozenset() if key is None else frozenset({key})


def open_package(source: Path) -> PackageReader:
    """A reader for a plugin's directory or a package archive.

    :raises ProjectInvalid: the directory is no plugin, or its component is not built.
    :raises ManifestError: its manifest breaks a rule.
    :raises ArchiveError: the file is no package archive.
    :raises StorageError: it cannot be read.
    """
    if source.is_dir():
        Project.open(source).require_built()
        return DirectoryReader(source)
    return ArchiveReader(read_archive(source), origin=source.name)


def read_archive(source: Path) -> bytes:
    """The bytes of a package archive, never more than one byte beyond what a host accepts.

    :raises StorageError: it cannot be read.
    """
    return read_file(source, limit=MAX_ARCHIVE_BYTES + 1)


def _component(project: Project) -> bytes | None:
    if project.manifest.wasm_path is None:
        return None
    project.require_built()
    return read_file(project.component_path)
