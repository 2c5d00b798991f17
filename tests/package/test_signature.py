"""Who published a package, and whether its manifest is what they signed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import Kind, ManifestError, PackageError, RemedyAction, SignatureRefused
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.package.notices import NoticeCode
from zeroclaw_host.package.signature import (
    SignatureMode,
    SignaturePolicy,
    SignatureStatus,
    SignatureVerdict,
    canonical_bytes,
    enforce,
    publisher_key,
    sign_manifest,
    verify,
)
from zeroclaw_host.package.toml_source import TomlSource

Make = Callable[..., bytes]

MANIFEST = b"""\
# A demonstration package.

name = "demo"
version = "1.0.0"   # the first one
capabilities = ["tool"]
permissions = ["config_read"]
wasm_path = "plugin.wasm"

# What can be configured.
[config_schema]
type = "object"
additionalProperties = false
properties.signature.type = "string"

# Where it wants to go.
[egress]
hosts = ["api.example.com"]
"""


def strict(*keys: str) -> SignaturePolicy:
    return SignaturePolicy.of(SignatureMode.STRICT, keys)


def status(manifest: bytes, policy: SignaturePolicy) -> SignatureStatus:
    return verify(manifest, parse_manifest(manifest), policy).status


@pytest.fixture(scope="module")
def trusted(signing_key: Ed25519PrivateKey) -> SignaturePolicy:
    return strict(publisher_key(signing_key))


@pytest.fixture(scope="module")
def signed(signing_key: Ed25519PrivateKey, component: bytes) -> bytes:
    return sign_manifest(MANIFEST, private_key=signing_key, component=component)


CANONICAL = [
    ("nothing to remove", 'a = 1\nb = 2\n', "a = 1\nb = 2"),
    ("both keys", 'a = 1\nsignature = "x"\nb = 2\npublisher_key = "y"\n', "a = 1\nb = 2"),
    ("the comment behind a key", 'signature = "x" # mine\na = 1', "a = 1"),
    ("what stands above a key", 'a = 1\n\n# one\n\n# two\nsignature = "x"\n# b\nb = 2', "a = 1\n# b\nb = 2"),
    ("what stands above the first key", '# top\nsignature = "x"\na = 1', "a = 1"),
    ("quoted keys", '"signature" = "x"\n\'publisher_key\' = "y"\na = 1', "a = 1"),
    ("an escaped key", '"sig\\u006eature" = "x"\na = 1', "a = 1"),
    ("a value of several lines", 'signature = """\na = 1\n"""\na = 2', "a = 2"),
    ("a value that looks like a key", 'a = """\nsignature = "x"\n"""', 'a = """\nsignature = "x"\n"""'),
    ("a comment that looks like a key", '#signature = "x"\na = 1', '#signature = "x"\na = 1'),
    ("nested keys", 'a = 1\n[t]\nsignature = "x"\n[[u]]\npublisher_key = 1', 'a = 1\n[t]\nsignature = "x"\n[[u]]\npublisher_key = 1'),
    ("an inline table", 'a = { signature = "x" }', 'a = { signature = "x" }'),
    ("indentation", '  a = 1\n\tsignature = "x"\n b = 2', "  a = 1\n b = 2"),
    ("line ends", 'a = 1\r\nsignature = "x"\r\n\r\n[t]\r\n', "a = 1\n\n[t]"),
    ("blank lines at the end", "a = 1\n\n \t\n\r\n", "a = 1"),
    ("a comment at the end", 'signature = "x"\n\n# end\n\n', "\n# end"),
    ("a comment above a table", 'signature = "x"\n# t\n[t]', "# t\n[t]"),
    ("spaces behind a value", "a = 1  \nb = 2", "a = 1  \nb = 2"),
    ("nothing but the key", 'signature = "x"\n', ""),
    ("a value that equals nothing", 'a = nan\nsignature = "x"', "a = nan"),
]  # fmt: skip


@pytest.mark.req("PLG-350")
@pytest.mark.parametrize(
    ("text", "canonical"), [case[1:] for case in CANONICAL], ids=[case[0] for case in CANONICAL]
)
def test_a_signature_covers_the_text_without_its_two_keys(text: str, canonical: str) -> None:
    assert canonical_bytes(text).decode() == canonical


@pytest.mark.parametrize("text", ["signature.a = 1\nb = 2", "[signature]\na = 1", "[[publisher_key]]"])
def test_a_table_in_the_place_of_a_signature_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="cannot be told"):
        canonical_bytes(text)


def test_signing_adds_three_keys_before_the_first_table(
    signed: bytes, signing_key: Ed25519PrivateKey, component: bytes
) -> None:
    head, _, tail = MANIFEST.decode().partition('wasm_path = "plugin.wasm"\n')
    signature = parse_manifest(signed).signature
    assert signed.decode() == (
        f'{head}wasm_path = "plugin.wasm"\n'
        f'wasm_sha256 = "{hashlib.sha256(component).hexdigest()}"\n'
        f'publisher_key = "{publisher_key(signing_key)}"\n'
        f'signature = "{signature}"\n{tail}'
    )


def test_signing_again_changes_nothing(
    signed: bytes, signing_key: Ed25519PrivateKey, component: bytes
) -> None:
    assert sign_manifest(signed, private_key=signing_key, component=component) == signed


def test_signing_replaces_what_is_there_where_it_stands(
    signing_key: Ed25519PrivateKey, trusted: SignaturePolicy
) -> None:
    text = (
        b'signature = """old\n""" # kept\nname = "demo"\nwasm_sha256 = \'%s\' # kept too\nversion = "1"\r\ncapabilities = ["tool"]\nwasm_path = "p"'
        % (b"a" * 64)
    )
    result = sign_manifest(text, private_key=signing_key, component=b"x")
    lines = result.decode().splitlines()
    assert lines[0].startswith('signature = "')
    assert lines[0].endswith('" # kept')
    assert lines[2] == f'wasm_sha256 = "{hashlib.sha256(b"x").hexdigest()}" # kept too'
    assert lines[-1].startswith("publisher_key = ")
    assert status(result, trusted) is SignatureStatus.VALID


def test_a_skill_bundle_is_signed_without_a_component(
    signing_key: Ed25519PrivateKey, trusted: SignaturePolicy
) -> None:
    text = b'name = "demo"\nversion = "1"\ncapabilities = ["skill"]'
    result = sign_manifest(text, private_key=signing_key, component=None)
    assert b"wasm_sha256" not in result
    assert status(result, trusted) is SignatureStatus.VALID
    with pytest.raises(PackageError, match="no wasm_path"):
        sign_manifest(text, private_key=signing_key, component=b"x")


def test_a_component_cannot_be_left_out_of_a_signature(signing_key: Ed25519PrivateKey) -> None:
    with pytest.raises(PackageError, match="no component"):
        sign_manifest(MANIFEST, private_key=signing_key, component=None)


def test_no_unacceptable_manifest_is_signed(signing_key: Ed25519PrivateKey) -> None:
    with pytest.raises(ManifestError):
        sign_manifest(b'name = "Foo"', private_key=signing_key, component=None)


@pytest.mark.req("PLG-350")
def test_the_signature_of_a_trusted_publisher_is_valid(
    signed: bytes, trusted: SignaturePolicy, signing_key: Ed25519PrivateKey
) -> None:
    verdict = verify(signed, parse_manifest(signed), trusted)
    assert verdict.status is SignatureStatus.VALID
    assert verdict.publisher_key == publisher_key(signing_key)


@pytest.mark.req("PLG-350")
def test_keys_are_compared_trimmed_and_without_regard_to_case(
    signed: bytes, signing_key: Ed25519PrivateKey
) -> None:
    key = publisher_key(signing_key)
    assert status(signed, strict(f"  {key.upper()}\n")) is SignatureStatus.VALID
    shouted = signed.replace(key.encode(), f" {key.upper()} ".encode())
    assert status(shouted, strict(key)) is SignatureStatus.VALID


@pytest.mark.req("PLG-350")
@pytest.mark.parametrize("key", [b"signature", b"publisher_key"])
def test_a_manifest_without_one_of_the_keys_is_unsigned(
    signed: bytes, trusted: SignaturePolicy, key: bytes
) -> None:
    lines = [line for line in signed.splitlines(keepends=True) if not line.startswith(key)]
    assert status(b"".join(lines), trusted) is SignatureStatus.UNSIGNED


@pytest.mark.req("PLG-350")
def test_a_stranger_is_untrusted_even_with_a_good_signature(
    component: bytes, trusted: SignaturePolicy
) -> None:
    stranger = Ed25519PrivateKey.generate()
    text = sign_manifest(MANIFEST, private_key=stranger, component=component)
    assert status(text, trusted) is SignatureStatus.UNTRUSTED
    assert status(text, strict()) is SignatureStatus.UNTRUSTED


@pytest.mark.req("PLG-350")
def test_a_trusted_key_does_not_lend_its_trust_to_another_signature(
    signed: bytes, component: bytes, trusted: SignaturePolicy, signing_key: Ed25519PrivateKey
) -> None:
    stranger = Ed25519PrivateKey.generate()
    text = sign_manifest(MANIFEST, private_key=stranger, component=component)
    text = text.replace(publisher_key(stranger).encode(), publisher_key(signing_key).encode())
    assert status(text, trusted) is SignatureStatus.INVALID


def respelled(signed: bytes, signature: str) -> bytes:
    own = parse_manifest(signed).signature
    assert own is not None
    return signed.replace(own.encode(), signature.encode())


@pytest.mark.req("PLG-350")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text + "==",
        lambda text: text[:-1],
        lambda text: text[:-2],
        lambda text: text + "AAAA",
        lambda text: " " + text,
        lambda text: text[:10] + "\\n" + text[10:],
        lambda text: text[:-1] + ("B" if text[-1] == "A" else "A" if text[-1] != "A" else ""),
        lambda text: base64.b64encode(b"\xff" * 64).decode(),
        lambda text: "A" * 86,
        lambda text: "ä" * 86,
    ],
)
def test_a_signature_in_any_other_spelling_is_invalid(
    signed: bytes, trusted: SignaturePolicy, change: Callable[[str], str]
) -> None:
    own = parse_manifest(signed).signature
    assert own is not None
    assert status(respelled(signed, change(own)), trusted) is SignatureStatus.INVALID


@pytest.mark.parametrize("key", ["", "zz", "aa", "a" * 63, "00" * 32, "ä" * 64])
def test_a_key_that_is_none_is_invalid_even_if_somebody_trusts_it(
    signed: bytes, signing_key: Ed25519PrivateKey, key: str
) -> None:
    text = signed.replace(publisher_key(signing_key).encode(), key.encode())
    verdict = verify(text, parse_manifest(text), strict(key))
    assert verdict.status is SignatureStatus.INVALID
    refused = verify(text, parse_manifest(text), strict())
    if key != "00" * 32:
        with pytest.raises(SignatureRefused) as caught:
            enforce(refused, parse_manifest(text), strict())
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.SIGN_PLUGIN


@pytest.mark.req("PLG-350", "PLG-167", "PLG-173")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'version = "1.0.0"', b'version = "1.0.1"'),
        (b"# the first one", b"# the last one"),
        (b'properties.signature.type = "string"', b'properties.signature.type = "integer"'),
        (b'hosts = ["api.example.com"]', b'hosts = ["api.example.com", "evil.example"]'),
        (b"[egress]", b"[egress] "),
        (b"\n\n# Where", b"\n# Where"),
    ],
)
def test_any_edit_after_signing_is_noticed(
    signed: bytes, trusted: SignaturePolicy, old: bytes, new: bytes
) -> None:
    assert old in signed
    assert status(signed.replace(old, new), trusted) is SignatureStatus.INVALID


@pytest.mark.req("PLG-350")
def test_line_ends_and_blank_lines_at_the_end_are_not_part_of_what_is_signed(
    signed: bytes, trusted: SignaturePolicy
) -> None:
    assert status(signed.replace(b"\n", b"\r\n"), trusted) is SignatureStatus.VALID
    assert status(signed + b"\n  \n", trusted) is SignatureStatus.VALID
    assert status(signed.rstrip(), trusted) is SignatureStatus.VALID


@pytest.mark.req("PAINS-10", "PLG-350")
@pytest.mark.parametrize("mask", [0x01, 0x04, 0x20, 0x80])
def test_every_flipped_byte_of_the_signed_text_is_noticed(
    signed: bytes, trusted: SignaturePolicy, mask: int
) -> None:
    source = TomlSource.parse(signed, path="manifest.toml")
    unsigned = [range(s.start, s.end) for s in source.root if s.keys[0] in ("signature", "publisher_key")]
    last = len(signed) - 1  # the line break at the end is a blank line's
    for at in range(last):
        if any(at in span for span in unsigned):
            continue
        flipped = bytearray(signed)
        flipped[at] ^= mask
        try:
            found = status(bytes(flipped), trusted)
        except ManifestError:
            continue
        assert found is not SignatureStatus.VALID, at


UNSIGNED = SignatureVerdict(SignatureStatus.UNSIGNED, None, "the manifest is not signed")
UNTRUSTED = SignatureVerdict(SignatureStatus.UNTRUSTED, "ab" * 32, "the publisher key is not a trusted one")
INVALID = SignatureVerdict(SignatureStatus.INVALID, "ab" * 32, "the publisher did not sign this manifest")
VALID = SignatureVerdict(SignatureStatus.VALID, "ab" * 32, "")


@pytest.mark.req("PLG-350", "PLG-351")
@pytest.mark.parametrize(
    ("verdict", "code", "action"),
    [
        (UNSIGNED, NoticeCode.PACKAGE_UNSIGNED, RemedyAction.SIGN_PLUGIN),
        (UNTRUSTED, NoticeCode.PUBLISHER_UNTRUSTED, RemedyAction.ADD_TRUSTED_KEY),
        (INVALID, NoticeCode.SIGNATURE_INVALID, RemedyAction.SIGN_PLUGIN),
    ],
)
def test_strict_refuses_what_permissive_warns_of_and_disabled_ignores(
    manifest_text: Make, verdict: SignatureVerdict, code: NoticeCode, action: RemedyAction
) -> None:
    manifest = parse_manifest(manifest_text())
    assert enforce(verdict, manifest, SignaturePolicy(SignatureMode.DISABLED)) == ()
    [notice] = enforce(verdict, manifest, SignaturePolicy(SignatureMode.PERMISSIVE))
    assert notice.code is code
    assert notice.remedy is not None
    assert notice.remedy.action is action
    with pytest.raises(SignatureRefused) as caught:
        enforce(verdict, manifest, SignaturePolicy(SignatureMode.STRICT))
    assert caught.value.kind is Kind.REFUSED
    assert caught.value.remedy == notice.remedy
    assert verdict.reason in caught.value.message


@pytest.mark.req("PLG-350")
def test_strict_mode_needs_a_signature_that_covers_the_component(manifest_text: Make) -> None:
    bare = parse_manifest(manifest_text())
    with pytest.raises(SignatureRefused, match="wasm_sha256"):
        enforce(VALID, bare, SignaturePolicy(SignatureMode.STRICT))
    for mode in (SignatureMode.PERMISSIVE, SignatureMode.DISABLED):
        assert enforce(VALID, bare, SignaturePolicy(mode)) == ()
    assert (
        enforce(
            VALID, parse_manifest(manifest_text(wasm_sha256="a" * 64)), SignaturePolicy(SignatureMode.STRICT)
        )
        == ()
    )
    skill = parse_manifest(manifest_text(capabilities=["skill"], wasm_path=None))
    assert enforce(VALID, skill, SignaturePolicy(SignatureMode.STRICT)) == ()


@pytest.mark.req("PLG-351")
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("disabled", SignatureMode.DISABLED),
        ("Permissive", SignatureMode.PERMISSIVE),
        ("STRICT", SignatureMode.STRICT),
    ],
)
def test_a_mode_is_read_in_any_case(text: str, mode: SignatureMode) -> None:
    assert SignatureMode.parse(text) == (mode, None)


@pytest.mark.req("PLG-351")
@pytest.mark.parametrize("text", ["", "off", "strickt", " disabled", "dısabled"])
def test_an_unknown_mode_is_the_strictest_and_says_so(text: str) -> None:
    mode, notice = SignatureMode.parse(text)
    assert mode is SignatureMode.STRICT
    assert notice is not None
    assert notice.code is NoticeCode.SIGNATURE_MODE_UNKNOWN


comments = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8).map(lambda text: f"# {text}\n")
gaps = st.lists(st.one_of(comments, st.sampled_from(["\n", " \t\n", "\r\n"])), max_size=3).map("".join)


@given(st.permutations(['name = "demo"', 'version = "1"', 'capabilities = ["skill"]', 'signature = "old"', "x = [\n1]"]),
       st.lists(gaps, min_size=6, max_size=6), st.booleans())  # fmt: skip
def test_signing_is_stable_whatever_the_manifest_looks_like(
    signing_key: Ed25519PrivateKey, trusted: SignaturePolicy, lines: list[str], gaps: list[str], table: bool
) -> None:
    text = "".join(f"{gap}{line}\n" for gap, line in zip(gaps, lines, strict=False)) + gaps[5]
    text += "[egress]\nhosts = []\n" if table else ""
    before = canonical_bytes(text)
    signed = sign_manifest(text.encode(), private_key=signing_key, component=None)
    assert canonical_bytes(signed.decode()) == before
    assert status(signed, trusted) is SignatureStatus.VALID
    assert sign_manifest(signed, private_key=signing_key, component=None) == signed
