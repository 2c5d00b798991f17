"""Texts sealed with the key of an installation: vectors made by others, and every text that is none."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import hmac
import pickle
import re
import traceback

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind, UsageError
from zeroclaw_host.services.install_key import InstallKey, SealBroken, is_sealed
from zeroclaw_host.services.state_rows import Row, RowBroken, record_of

RAW = bytes(range(32))
KEY = InstallKey(RAW)
OTHER = InstallKey(bytes(range(1, 33)))

PLAIN = "sk-live-Zürich"
SEALED = (
    "enc2:404142434445464748494a4b"  # the nonce
    "8b3f51ed1b3c8b2c020c4a72d28c05"  # what libsodium's crypto_aead_chacha20poly1305_ietf made of PLAIN under RAW
    "ebc83c6f4d3bcb08cf9c5c7d46ba1bd2"  # its tag
)
MASKED = (
    "enc:736a2f6f6d73632a52cab679656e667c7b3c7e7a62703b4ddba568727f756d742d6d6b7561285cc4b47b6368647e65227c786476394fd5ab"
    "6a707973"
)
"""PLAIN four times over, longer than the key, each byte XORed with RAW."""

texts = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.req("PLG-157")
def test_a_text_sealed_by_another_program_is_read() -> None:
    assert KEY.unseal(SEALED) == PLAIN


@pytest.mark.req("PLG-157")
def test_a_text_sealed_here_is_read_by_another_program() -> None:
    from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt as decrypt

    raw = bytes.fromhex(KEY.seal(PLAIN).removeprefix("enc2:"))

    assert decrypt(raw[12:], None, raw[:12], RAW) == PLAIN.encode()


def test_the_text_of_an_early_release_is_read() -> None:
    assert KEY.unseal(MASKED) == PLAIN * 4
    assert is_sealed(MASKED)


def test_digests_are_those_of_hmac_over_the_framed_domain() -> None:
    domain, data = "zeroclaw.plugin-state.owner.v1\0", b'["demo","tool","demo"]'
    message = b"zeroclaw.secret-store.keyed-digest.v1\0" + (31).to_bytes(8, "big") + domain.encode() + data

    assert KEY.digest(domain, data) == hmac.new(RAW, message, hashlib.sha256).digest()
    # The same by openssl's own command, so that the framing above is not only ours.
    assert (
        KEY.digest(domain, data).hex() == "69f9c43bf99f9ee6572c1cb6d29cb5f770d36118879664cd26cc6d2c54877b02"
    )


def test_domains_and_keys_are_apart() -> None:
    found = {KEY.digest("a", b"bc"), KEY.digest("ab", b"c"), KEY.digest("", b"abc"), OTHER.digest("a", b"bc")}

    assert len(found) == 4
    assert {len(digest) for digest in found} == {32}


@given(texts)
def test_what_is_sealed_is_read_again_and_never_looks_the_same_twice(text: str) -> None:
    sealed = KEY.seal(text)

    assert KEY.unseal(sealed) == text
    if text:
        assert re.fullmatch(r"enc2:([0-9a-f]{2})+", sealed)
        assert is_sealed(sealed)
        assert KEY.seal(text) != sealed
    else:
        assert sealed == ""


@given(st.text() | st.builds(str.__add__, st.sampled_from(["enc2:", "op://", "enc", " enc2:"]), st.text()))
def test_any_text_is_returned_or_refused_without_being_shown(text: str) -> None:
    if text.startswith(("enc2:", "op://")):
        with pytest.raises(SealBroken) as refused:
            KEY.unseal(text)
        assert text not in refused.value.message
    elif not text.startswith("enc:"):
        assert KEY.unseal(text) == text
        assert not is_sealed(text)


@given(st.sampled_from(["enc2:", "enc:"]), st.text("0123456789abcdefABCDEF \n_-xg", max_size=80))
def test_any_digits_are_read_or_refused(prefix: str, digits: str) -> None:
    with contextlib.suppress(SealBroken):
        plain = KEY.unseal(prefix + digits)
        assert prefix == "enc:"  # nobody can guess a tag
        assert bytes(byte ^ RAW[index % 32] for index, byte in enumerate(plain.encode())).hex() == digits


@given(st.integers(min_value=5, max_value=len(SEALED) - 1), st.characters(codec="latin-1"))
def test_no_character_of_a_sealed_text_can_be_another(index: int, character: str) -> None:
    changed = SEALED[:index] + character + SEALED[index + 1 :]

    if changed != SEALED:
        with pytest.raises(SealBroken) as refused:
            KEY.unseal(changed)
        assert refused.value.kind is Kind.INVALID


@pytest.mark.parametrize(
    "text",
    [
        "enc2:",
        SEALED[:-2],
        SEALED[:-1],
        SEALED + "00",
        SEALED.upper().replace("ENC2", "enc2"),
        SEALED[:5] + " " + SEALED[5:],
        SEALED + "\n",
        "enc2:" + "00" * 27,
        "enc2:" + "00" * 28,
        "enc2:0é",
        "enc:0",
        "enc:zz",
        "enc:ff",  # no UTF-8 under this key
        "op://vault/item/field",
    ],
)
def test_what_is_no_sealed_text_is_refused(text: str) -> None:
    with pytest.raises(SealBroken) as refused:
        KEY.unseal(text)

    assert refused.value.code == "secret_unreadable"
    assert text.partition(":")[2] not in refused.value.message or text == "enc2:"


@pytest.mark.req("PLG-159")
def test_another_key_reads_nothing() -> None:
    with pytest.raises(SealBroken):
        OTHER.unseal(SEALED)


def test_a_text_that_is_not_sealed_is_as_it_is() -> None:
    assert KEY.unseal("") == ""
    assert KEY.unseal("plain") == "plain"
    assert KEY.unseal("ENC2:00") == "ENC2:00"
    assert not is_sealed("plain")
    assert not is_sealed("op://vault/item/field")


def test_a_key_about_to_be_replaced_still_reads() -> None:
    both = OTHER.with_former(KEY)

    assert both.unseal(SEALED) == PLAIN
    assert both.unseal(MASKED) == PLAIN * 4
    assert not both.sealed_this(SEALED)
    renewed = both.seal(PLAIN)
    assert both.sealed_this(renewed)
    assert OTHER.unseal(renewed) == PLAIN
    with pytest.raises(SealBroken):
        KEY.unseal(renewed)


@pytest.mark.parametrize("text", ["", "plain", MASKED, "enc2:", "enc2:0", SEALED[:-1]])
def test_only_a_text_of_this_key_in_the_form_of_today_is_sealed_by_it(text: str) -> None:
    assert not KEY.sealed_this(text)
    assert not KEY.sealed_this(OTHER.seal("x"))
    assert KEY.sealed_this(SEALED)


def test_nothing_shows_a_key_or_a_secret() -> None:
    shown = [repr(KEY), str(KEY), repr(OTHER.with_former(KEY))]
    for attempt in (lambda: pickle.dumps(KEY), lambda: copy.copy(KEY), lambda: vars(KEY)):
        with pytest.raises(TypeError) as refused:
            attempt()
        shown.append("".join(traceback.format_exception(refused.value)))
    with pytest.raises(SealBroken) as broken:
        KEY.unseal(SEALED + PLAIN)
    shown += [repr(broken.value), str(broken.value.details), str(broken.value.causes())]

    for text in shown:
        assert RAW.hex() not in text
        assert repr(RAW)[2:20] not in text
        assert PLAIN not in text
        assert SEALED[20:60] not in text


def test_a_secret_that_utf_8_cannot_hold_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError) as refused:
        KEY.seal("hidden\ud800")

    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert "hidden" not in refused.value.message


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_has_32_bytes(length: int) -> None:
    with pytest.raises(UsageError):
        InstallKey(bytes(length))


def reachable(error: BaseException | None) -> str:
    """Everything that can be found from an error: its causes, what was being handled, and what those hold."""
    found: list[str] = []
    while error is not None:
        found += [
            repr(error),
            repr(error.args),
            repr(getattr(error, "details", "")),
            getattr(error, "doc", ""),
        ]
        error = error.__cause__ or error.__context__
    return " ".join(found)


@pytest.mark.parametrize("plain", [b"planted \xff", b"planted", b'{"planted": 1}'])
def test_no_secret_can_be_found_from_an_error(plain: bytes) -> None:
    """Neither from what its message is about, nor from the error that was being handled."""
    nonce = bytes(12)
    text = "enc2:" + (nonce + ChaCha20Poly1305(RAW).encrypt(nonce, plain, None)).hex()
    with pytest.raises(RowBroken) as row:
        record_of(KEY, Row(b"", b"", text))
    assert "planted" not in reachable(row.value)
    if plain.endswith(b"\xff"):
        with pytest.raises(SealBroken) as unread:
            KEY.unseal(text)
        assert "planted" not in reachable(unread.value)
    with pytest.raises(UsageError) as refused:
        KEY.seal(plain.decode(errors="surrogateescape") + "\ud800")
    assert "planted" not in reachable(refused.value)
