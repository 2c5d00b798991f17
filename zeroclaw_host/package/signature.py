"""Who published a package, and whether its manifest is what they signed.

A publisher signs the manifest's text without the two keys ``signature`` and ``publisher_key``. The component is covered
through ``wasm_sha256``, which :func:`sign_manifest` always writes and strict mode requires (D-14).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from zeroclaw_host.errors import ManifestError, PackageError, Remedy, RemedyAction, SignatureRefused
from zeroclaw_host.package.manifest import Manifest, read_manifest
from zeroclaw_host.package.notices import Notice, NoticeCode
from zeroclaw_host.package.toml_source import Statement, TomlSource, printable

SIGNATURE_KEYS: Final = frozenset({"signature", "publisher_key"})
"""The root keys that no signature covers."""

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64


class SignatureMode(StrEnum):
    """How much a signature matters (PLG-350, PLG-351)."""

    DISABLED = "disabled"
    """Nothing is required and nothing is said."""
    PERMISSIVE = "permissive"
    """Everything loads; whatever strict mode would refuse gets a notice."""
    STRICT = "strict"
    """Only a valid signature of a trusted publisher, over a manifest that names its component's digest, loads."""

    @classmethod
    def parse(cls, text: str) -> tuple[SignatureMode, Notice | None]:
        """Read a configured mode, in any letter case. An unknown word means strict, and a notice that says so."""
        try:
            return cls(text.lower()), None
        except ValueError:
            message = f"signature mode {printable(text)!r} is not known; strict is in force"
            return cls.STRICT, Notice(NoticeCode.SIGNATURE_MODE_UNKNOWN, message)


@dataclass(frozen=True, slots=True)
class SignaturePolicy:
    """The operator's rule: a mode and the publisher keys (hexadecimal) it trusts. Keys are compared trimmed and lower-case."""

    mode: SignatureMode = SignatureMode.DISABLED
    trusted_keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mode: SignatureMode, trusted_keys: Iterable[str] = ()) -> SignaturePolicy:
        """A policy from any collection of keys."""
        return cls(mode, frozenset(trusted_keys))

    def trusts(self, publisher_key: str) -> bool:
        """Whether a publisher key is among the trusted ones."""
        wanted = _normal_key(publisher_key)
        return any(_normal_key(key) == wanted for key in self.trusted_keys)


class SignatureStatus(StrEnum):
    """What a manifest's signature turned out to be."""

    VALID = "valid"
    """A trusted publisher signed exactly this manifest."""
    UNSIGNED = "unsigned"
    """One of the two keys, or both, are missing."""
    UNTRUSTED = "untrusted"
    """The publisher key is not a trusted one. The signature was not looked at."""
    INVALID = "invalid"
    """The publisher is trusted, and did not sign this."""


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """The status, the publisher key as compared (lower case), and why, in words."""

    status: SignatureStatus
    publisher_key: str | None
    reason: str


def canonical_bytes(manifest_text: str) -> bytes:
    """The bytes a signature covers.

    They are the text without the root keys ``signature`` and ``publisher_key``, each with the blank lines and comments
    directly above it and the comment behind it; lines end in LF, blank lines at the end are dropped, and the last line
    has no line break.

    :raises ManifestError: the text is not TOML.
    """
    return _canonical(TomlSource.parse(manifest_text.encode(), path="manifest.toml"))


def verify(manifest_bytes: bytes, manifest: Manifest, policy: SignaturePolicy) -> SignatureVerdict:
    """Judge a manifest's signature. Says what is so; what follows from it is :func:`enforce`'s business.

    :raises ManifestError: the bytes are not TOML.
    """
    if manifest.signature is None or manifest.publisher_key is None:
        return SignatureVerdict(SignatureStatus.UNSIGNED, None, "the manifest is not signed")
    key = _normal_key(manifest.publisher_key)
    if not policy.trusts(key):
        return SignatureVerdict(SignatureStatus.UNTRUSTED, key, "the publisher key is not a trusted one")
    try:
        public_key = VerifyKey(_decode_key(key))
        signature = _decode_signature(manifest.signature)
        public_key.verify(_canonical(TomlSource.parse(manifest_bytes, path="manifest.toml")), signature)
    except ValueError as error:
        return SignatureVerdict(SignatureStatus.INVALID, key, str(error))
    except BadSignatureError:
        return SignatureVerdict(SignatureStatus.INVALID, key, "the publisher did not sign this manifest")
    return SignatureVerdict(SignatureStatus.VALID, key, "a trusted publisher signed this manifest")


_REFUSALS: Final = {
    SignatureStatus.UNSIGNED: NoticeCode.PACKAGE_UNSIGNED,
    SignatureStatus.UNTRUSTED: NoticeCode.PUBLISHER_UNTRUSTED,
    SignatureStatus.INVALID: NoticeCode.SIGNATURE_INVALID,
}


def enforce(verdict: SignatureVerdict, manifest: Manifest, policy: SignaturePolicy) -> tuple[Notice, ...]:
    """Apply the policy to a verdict.

    :returns: what permissive mode lets pass with a warning.
    :raises SignatureRefused: strict mode does not let the package load (PLG-350).
    """
    if policy.mode is SignatureMode.DISABLED:
        return ()
    code = _REFUSALS.get(verdict.status)
    if code is not None:
        message = f"package {manifest.name}: {verdict.reason}"
        remedy = _remedy(verdict)
        if policy.mode is SignatureMode.STRICT:
            raise SignatureRefused(message, remedy=remedy, details={"status": verdict.status.value})
        return (Notice(code, message, remedy),)
    if (
        policy.mode is SignatureMode.STRICT
        and manifest.wasm_path is not None
        and manifest.wasm_sha256 is None
    ):
        raise SignatureRefused(
            f"package {manifest.name}: the signed manifest names no wasm_sha256, so its signature does not cover the component",
            remedy=Remedy(RemedyAction.SIGN_PLUGIN),
            details={"status": verdict.status.value},
        )
    return ()


def publisher_key(private_key: Ed25519PrivateKey) -> str:
    """The hexadecimal public half, as ``publisher_key`` in a manifest and in the list of trusted keys."""
    return private_key.public_key().public_bytes_raw().hex()


def sign_manifest(manifest_bytes: bytes, *, private_key: Ed25519PrivateKey, component: bytes | None) -> bytes:
    """Sign a manifest: write ``wasm_sha256``, ``publisher_key`` and ``signature`` before the first table header.

    Existing values are replaced where they stand; everything else stays as it is. Signing twice changes nothing.

    :param component: the bytes of the component; None exactly if the manifest names none.
    :raises ManifestError: the manifest is not acceptable.
    :raises PackageError: a component is missing, or is there without ``wasm_path``.
    """
    source = TomlSource.parse(manifest_bytes, path="manifest.toml")
    manifest = read_manifest(source)
    if (component is None) != (manifest.wasm_path is None):
        missing = "component" if component is None else "wasm_path for the component"
        raise PackageError(f"package {manifest.name} has no {missing} to sign")
    if component is not None:
        source = _with_root_key(source, "wasm_sha256", hashlib.sha256(component).hexdigest())
    source = _with_root_key(source, "publisher_key", publisher_key(private_key))
    signature = base64.urlsafe_b64encode(private_key.sign(_canonical(source))).rstrip(b"=").decode()
    return _with_root_key(source, "signature", signature).text.encode()


def _canonical(source: TomlSource) -> bytes:
    kept: list[str] = []
    at = 0
    for statement in source.root:
        if _is_signature_key(statement):
            kept.append(source.text[at : statement.start])
            at = statement.end
    kept.append(source.text[at:])
    text = "".join(kept).replace("\r\n", "\n")
    lines = text.split("\n")
    while lines and not lines[-1].strip(" \t"):
        lines.pop()
    canonical = "\n".join(lines)
    _require_same_meaning(source, canonical)
    return canonical.encode()


def _require_same_meaning(source: TomlSource, canonical: str) -> None:
    """Refuse a text whose signed part does not say all that the manifest says.

    What a signature covers must be everything the host will read. If finding the two keys in the text ever went wrong,
    unsigned content could pass as signed; so the result is read back and compared.
    """
    expected = {key: value for key, value in source.values.items() if key not in SIGNATURE_KEYS}
    # Compared as text, because a NaN equals nothing.
    if repr(TomlSource.parse(canonical.encode(), path=source.path).values) != repr(expected):
        raise ManifestError(f"{source.path}: what its signature would cover cannot be told")


def _is_signature_key(statement: Statement) -> bool:
    return len(statement.keys) == 1 and statement.keys[0] in SIGNATURE_KEYS


def _with_root_key(source: TomlSource, key: str, value: str) -> TomlSource:
    """The document with a text value under a root key: replaced where it stands, else added after the last root key."""
    text = source.text
    for statement in source.root:
        if statement.keys == (key,):
            changed = f'{text[: statement.value]}"{value}"{text[statement.value_end :]}'
            return TomlSource.parse(changed.encode(), path=source.path)
    end = source.root[-1].end
    line_break = "\r\n" if "\r\n" in text else "\n"
    before = text[:end] if text[:end].endswith("\n") else text[:end] + line_break
    changed = f'{before}{key} = "{value}"{line_break}{text[end:]}'
    return TomlSource.parse(changed.encode(), path=source.path)


def _normal_key(key: str) -> str:
    return key.strip().lower()


def _decode_key(key: str) -> bytes:
    try:
        raw = binascii.unhexlify(key)
    except ValueError:
        raise ValueError("the publisher key is not hexadecimal") from None
    if len(raw) != _KEY_BYTES:
        raise ValueError(f"the publisher key is not {_KEY_BYTES} bytes long")
    return raw


def _decode_signature(text: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError("the signature is not base64url") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        raise ValueError("the signature is not base64url without padding")
    if len(raw) != _SIGNATURE_BYTES:
        raise ValueError(f"the signature is not {_SIGNATURE_BYTES} bytes long")
    return raw


def _remedy(verdict: SignatureVerdict) -> Remedy:
    if verdict.status is SignatureStatus.UNTRUSTED and verdict.publisher_key is not None:
        # Only what can be a key is offered for trusting: the text is the package's own.
        with suppress(ValueError):
            return Remedy(RemedyAction.ADD_TRUSTED_KEY, {"key": _decode_key(verdict.publisher_key).hex()})
    return Remedy(RemedyAction.SIGN_PLUGIN)
