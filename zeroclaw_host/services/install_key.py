"""Texts sealed with the key of an installation (D-49).

A sealed text is ``enc2:`` and lower-case hexadecimal digits: a random nonce of 12 bytes, then ChaCha20-Poly1305's output with
its tag of 16, no additional data. The empty text stays empty. ``enc:`` texts of earlier releases can be read and are never
written.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
from contextlib import suppress
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from zeroclaw_host.errors import Kind, UsageError, ZeroclawError

SEALED: Final = "enc2:"
"""How a sealed text begins."""

LEGACY: Final = "enc:"
"""How a text sealed by an early release begins: hexadecimal digits of the text, each byte XORed with the key, repeated."""

REFERENCE: Final = "op://"
"""How a reference to a secret in 1Password begins. It is no secret, and this host resolves none."""

KEY_BYTES: Final = 32
"""Bytes of a key."""

_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_DIGEST_DOMAIN: Final = b"zeroclaw.secret-store.keyed-digest.v1\0"


class SealBroken(ZeroclawError):
    """A sealed text was changed, or was sealed with another key. Never says what it holds."""

    code = "secret_unreadable"
    kind = Kind.INVALID


def is_sealed(text: str) -> bool:
    """Whether the text is sealed in today's form or in that of earlier releases."""
    return text.startswith((SEALED, LEGACY))


class InstallKey:
    """The key of an installation; nothing of it can be printed.

    :param raw: 32 bytes.
    :param former: the key that this one is about to replace, while a rotation is under way; what is sealed with it can be read.
    :raises UsageError: ``raw`` has another length.
    """

    __slots__ = ("_cipher", "_raw", "former")

    def __init__(self, raw: bytes, *, former: InstallKey | None = None) -> None:
        if len(raw) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes")
        self._raw = bytes(raw)
        self._cipher = ChaCha20Poly1305(self._raw)
        self.former = former

    def __repr__(self) -> str:
        return "InstallKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")

    def seal(self, text: str) -> str:
        """The text, sealed. The empty text stays empty.

        :raises UsageError: UTF-8 cannot hold the text.
        """
        if not text:
            return ""
        plain = b""
        with suppress(UnicodeEncodeError):  # which holds the whole text, and is not to be found from ours
            plain = text.encode()
        if not plain:
            raise UsageError("a secret must be text that UTF-8 can hold")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return SEALED + (nonce + self._cipher.encrypt(nonce, plain, None)).hex()

    def unseal(self, text: str) -> str:
        """What was sealed. A text that is not sealed is returned as it is.

        :raises SealBroken: the text was changed or sealed with another key, or is a reference this host does not resolve.
        """
        if text.startswith(SEALED):
            raw = _bytes_of(text[len(SEALED) :])
            for key in (self, self.former):
                plain = None if key is None else key._decrypt(raw)
                if plain is not None:
                    return _text_of(plain)
            raise _broken()
        if text.startswith(LEGACY):
            # Nothing of today writes these, so the key that is being replaced is the one they can be of.
            return (self.former or self)._unmask(_bytes_of(text[len(LEGACY) :]))
        if text.startswith(REFERENCE):
            raise SealBroken(
                "the secret is a reference to 1Password, which this program does not resolve; set the secret itself"
            )
        return text

    def digest(self, domain: str, data: bytes) -> bytes:
        """The keyed digest of ``data``, 32 bytes, different in each domain."""
        label = domain.encode()
        message = _DIGEST_DOMAIN + len(label).to_bytes(8, "big") + label + data
        return hmac.digest(self._raw, message, "sha256")

    def sealed_this(self, text: str) -> bool:
        """Whether a sealed text is in today's form and under this very key, not under its former."""
        if not text.startswith(SEALED):
            return False
        with suppress(SealBroken):
            return self._decrypt(_bytes_of(text[len(SEALED) :])) is not None
        return False

    def same_as(self, other: InstallKey) -> bool:
        """Whether both are one key; their formers do not count."""
        return hmac.compare_digest(self._raw, other._raw)

    def _decrypt(self, raw: bytes) -> bytes | None:
        if len(raw) <= _NONCE_BYTES + _TAG_BYTES:
            return None
        try:
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None)
        except InvalidTag:
            return None

    def _unmask(self, raw: bytes) -> str:
        return _text_of(bytes(byte ^ self._raw[index % KEY_BYTES] for index, byte in enumerate(raw)))

    def with_former(self, former: InstallKey) -> InstallKey:
        """This key as it is about to replace another."""
        return InstallKey(self._raw, former=former)

    def digits(self) -> bytes:
        """The key as its file holds it. For nobody but that file."""
        return self._raw.hex().encode()


def _bytes_of(digits: str) -> bytes:
    try:
        raw = binascii.unhexlify(digits)
    except ValueError:
        raise _broken() from None
    if raw.hex() != digits:  # a sealed text has one spelling, so that no change of it goes unnoticed
        raise _broken()
    return raw


def _text_of(plain: bytes) -> str:
    with suppress(UnicodeDecodeError):  # which holds the whole text, and is not to be found from ours
        return plain.decode()
    raise _broken()


def _broken() -> SealBroken:
    return SealBroken("a sealed text cannot be read: it was changed, or sealed with another key")
