"""Signatures that this project's code had no part in: canonical bytes written by hand, signed by OpenSSL's command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroclaw_host.errors import ManifestError
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.package.signature import (
    SignatureMode,
    SignaturePolicy,
    SignatureStatus,
    canonical_bytes,
    verify,
)

VECTORS: list[dict[str, str]] = json.loads(
    (Path(__file__).parent / "vectors" / "signatures.json").read_text(encoding="utf-8")
)

each_vector = pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])


def status(manifest: bytes, key: str) -> SignatureStatus | None:
    """What a manifest's signature is found to be; None when it is no manifest any more."""
    try:
        parsed = parse_manifest(manifest)
        return verify(manifest, parsed, SignaturePolicy.of(SignatureMode.STRICT, [key])).status
    except ManifestError:
        return None


def test_there_are_vectors() -> None:
    assert len(VECTORS) >= 10


@each_vector
def test_the_canonical_bytes_are_those_that_were_written_by_hand(vector: dict[str, str]) -> None:
    assert canonical_bytes(vector["manifest"]) == vector["canonical"].encode()


@each_vector
@pytest.mark.req("PLG-350")
def test_what_openssl_signed_is_valid(vector: dict[str, str]) -> None:
    assert status(vector["manifest"].encode(), vector["publisher_key"]) is SignatureStatus.VALID


@each_vector
@pytest.mark.req("PLG-350", "PAINS-12")
def test_every_byte_that_is_changed_is_refused(vector: dict[str, str]) -> None:
    """Unless the byte takes no part: it belongs to a comment or a blank line that goes with a key, or ends the text."""
    manifest = vector["manifest"].encode()
    for place in range(len(manifest)):
        for flip in (0x01, 0x20):
            changed = bytearray(manifest)
            changed[place] ^= flip
            if status(bytes(changed), vector["publisher_key"]) is SignatureStatus.VALID:
                assert canonical_bytes(changed.decode()) == vector["canonical"].encode()
                assert same_meaning(bytes(changed), manifest)


def same_meaning(changed: bytes, manifest: bytes) -> bool:
    """Whether two manifests say the same, but for the spelling of the publisher's key, which is compared without case."""
    return spelled_alike(changed) == spelled_alike(manifest)


def spelled_alike(data: bytes) -> object:
    parsed = parse_manifest(data)
    return parsed.model_copy(update={"publisher_key": (parsed.publisher_key or "").strip().lower()})
