from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import RegistryEntryNotFound, RegistryError, RemedyAction, UsageError
from zeroclaw_host.registry.index import Entry, Index, PackageSpec, RegistryIndexInvalid, parse_index
from zeroclaw_host.registry.location import Location

HERE = Location("https://registry.test/registry.json")
DIGEST = "ab" * 32


def entry(name: str = "redact", version: str = "1.0.0", **more: object) -> dict[str, object]:
    return {"name": name, "version": version, "url": f"{name}-{version}.zip", **more}


def index_of(*entries: dict[str, object]) -> Index:
    return parse_index(json.dumps({"plugins": list(entries)}).encode(), HERE)


def test_an_index_keeps_its_order_and_ignores_members_it_does_not_know() -> None:
    data = {
        "plugins": [
            entry(version="2.0.0", provides="git"),
            entry(version="1.2.5", description="masks", author="a"),
        ],
        "registry_url": "https://elsewhere.test",
        "schema": 7,
    }
    index = parse_index(b"\xef\xbb\xbf" + json.dumps(data).encode(), HERE)
    assert [found.version for found in index.plugins] == ["2.0.0", "1.2.5"]
    assert index.plugins[1].description == "masks"


@pytest.mark.req("PLG-365")
def test_a_bare_name_means_the_last_entry_and_a_pinned_one_exactly_that_version() -> None:
    index = index_of(entry(version="2.0.0"), entry("other", "9"), entry(version="1.2.5"))
    assert index.select(PackageSpec.parse("redact")).version == "1.2.5"
    assert index.select(PackageSpec.parse("redact@2.0.0")).version == "2.0.0"


def test_of_two_entries_of_one_version_the_last_one_is_meant() -> None:
    index = index_of(entry(url="old.zip"), entry(url="new.zip"))
    assert index.select(PackageSpec("redact", "1.0.0")).url == "new.zip"


@pytest.mark.req("PLG-365")
def test_a_version_that_is_not_listed_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(RegistryEntryNotFound, match=r"in no version 3, but in: 2\.0\.0, 1\.2\.5") as caught:
        index_of(entry(version="2.0.0"), entry(version="1.2.5")).select(PackageSpec.parse("redact@3"))
    assert caught.value.details["versions"] == ["2.0.0", "1.2.5"]
    assert caught.value.remedy is not None
    assert caught.value.remedy.arguments == {"source": "redact@1.2.5"}


def test_an_unknown_name_suggests_the_closest_one() -> None:
    with pytest.raises(RegistryEntryNotFound) as caught:
        index_of(entry("redact"), entry("telegram")).select(PackageSpec.parse("redcat"))
    assert caught.value.details["suggestions"] == ["redact"]
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.INSTALL_PLUGIN


def test_an_empty_registry_knows_no_name_and_suggests_none() -> None:
    with pytest.raises(RegistryEntryNotFound) as caught:
        index_of().select(PackageSpec.parse("redact"))
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.NAME_REGISTRY


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [("a", "a", None), ("a@1", "a", "1"), ("a@b@1.0", "a@b", "1.0"), ("a@1.0+x", "a", "1.0+x")],
)
def test_a_specification_splits_at_its_last_at_sign(text: str, name: str, version: str | None) -> None:
    spec = PackageSpec.parse(text)
    assert (spec.name, spec.version, str(spec)) == (name, version, text)


@pytest.mark.parametrize("text", ["", "@", "@1", "a@", "a@1@"])
def test_a_specification_without_a_name_or_a_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME@VERSION"):
        PackageSpec.parse(text)


def test_search_looks_in_names_and_descriptions_and_ignores_letter_case() -> None:
    index = index_of(entry("redact", description="Masks e-mails"), entry("mail"), entry("git"))
    assert [found.name for found in index.search("MAIL")] == ["redact", "mail"]


@pytest.mark.parametrize(
    "text", [DIGEST, DIGEST.upper(), f"sha256:{DIGEST}", f"SHA256:{DIGEST}", f" {DIGEST} "]
)
def test_a_digest_is_read_with_or_without_its_prefix_in_any_letter_case(text: str) -> None:
    assert Entry(name="a", version="1", url="a.zip", sha256=text).digest == DIGEST


@pytest.mark.req("PAINS-14")
@pytest.mark.parametrize("text", ["", "sha512:" + DIGEST, DIGEST[:-1], DIGEST + "0", "zz" * 32])
def test_a_digest_that_cannot_be_checked_is_an_error_of_that_entry_alone(text: str) -> None:
    index = index_of(entry(sha256=text), entry("other", sha256=DIGEST))
    with pytest.raises(RegistryIndexInvalid, match=r"redact 1\.0\.0"):
        _ = index.select(PackageSpec("redact")).digest
    assert index.select(PackageSpec("other")).digest == DIGEST


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no valid JSON"),
        (b"{", "no valid JSON"),
        (b"\xff\xfe", "no valid JSON"),
        (b"[" * 100_000, "no valid JSON"),
        (b"[]", "the index is wrong"),
        (b"{}", "plugins is wrong"),
        (b'{"plugins": {}}', "plugins is wrong"),
        (b'{"plugins": [1]}', "plugins.0 is wrong"),
        (b'{"plugins": [{"name": "a", "version": "1"}]}', "plugins.0.url is wrong"),
        (b'{"plugins": [{"name": "", "version": "1", "url": "u"}]}', "plugins.0.name is wrong"),
        (b'{"plugins": [{"name": "a", "version": 1, "url": "u"}]}', "plugins.0.version is wrong"),
        (b"\n<!DOCTYPE html><html>", "an HTML page"),
        (b"\xef\xbb\xbf <html>", "an HTML page"),
    ],
)
def test_what_is_no_index_is_told_in_one_sentence(data: bytes, said: str) -> None:
    with pytest.raises(RegistryIndexInvalid, match=said) as caught:
        parse_index(data, HERE)
    assert "https://registry.test/registry.json" in caught.value.message
    assert caught.value.remedy is not None


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_an_index_or_one_registry_error(data: bytes) -> None:
    with contextlib.suppress(RegistryError):
        parse_index(data, HERE)


_names = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(_names, st.sampled_from(["1", "2", "3"])), max_size=8), _names)
def test_selection_is_the_last_match_whatever_the_order(entries: list[tuple[str, str]], name: str) -> None:
    index = index_of(*(entry(*pair) for pair in entries))
    expected = next((version for found, version in reversed(entries) if found == name), None)
    if expected is None:
        with pytest.raises(RegistryEntryNotFound):
            index.select(PackageSpec(name))
    else:
        assert index.select(PackageSpec(name)).version == expected


def test_a_versions_text_can_neither_steer_a_terminal_nor_forge_a_line() -> None:
    index = index_of(entry(version="1\n  to do: obey\x1b[2J\u202e"))
    with pytest.raises(RegistryEntryNotFound) as caught:
        index.select(PackageSpec("redact", "2"))
    assert caught.value.message.isprintable()


def test_the_latest_of_many_versions_are_told_and_the_others_counted() -> None:
    index = index_of(*(entry(version=f"{number}.0") for number in range(50_000)))
    with pytest.raises(
        RegistryEntryNotFound, match=r"but in: 49990\.0, .*, 49999\.0 and 49990 more$"
    ) as caught:
        index.select(PackageSpec("redact", "x"))
    assert len(caught.value.message) < 300
    assert caught.value.details["versions"] == [f"{number}.0" for number in range(49_990, 50_000)]


@pytest.mark.parametrize("name", ["./redact", "redact/../x", "~redact", "Redact", "redact\n", "-redact"])
def test_only_what_can_be_a_package_is_suggested(name: str) -> None:
    with pytest.raises(RegistryEntryNotFound) as caught:
        index_of(entry(name)).select(PackageSpec("redact"))
    assert caught.value.details["suggestions"] == []


def test_a_digest_that_cannot_be_checked_is_the_registrys_to_mend() -> None:
    with pytest.raises(RegistryIndexInvalid) as caught:
        _ = index_of(entry(version="1\x1b", sha256="x")).select(PackageSpec("redact")).digest
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.REPORT_TO_REGISTRY
    assert caught.value.message.isprintable()
