from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import (
    ComponentMissing,
    ConfigSchemaError,
    DigestMismatch,
    ManifestError,
    ManifestMissing,
    PackageError,
    PluginNotFound,
    SignatureRefused,
    StorageError,
)
from zeroclaw_host.installation import discovery
from zeroclaw_host.installation.discovery import AmbiguousName, PackageChanged, discover
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy

OPEN = SignaturePolicy(SignatureMode.DISABLED, frozenset())
STRICT = SignaturePolicy(SignatureMode.STRICT, frozenset())

Write = Callable[..., Any]


def names(directory: Path, policy: SignaturePolicy = OPEN) -> list[str]:
    return [package.name for package in discover(directory, policy).packages]


def reasons(directory: Path, policy: SignaturePolicy = OPEN) -> dict[str, type[Exception]]:
    return {entry.directory.name: type(entry.error) for entry in discover(directory, policy).rejected}


def test_packages_are_listed_by_name_whatever_their_directories_are_called(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "a", name="zebra")
    write_package(tmp_path / "b", name="ant")
    assert names(tmp_path) == ["ant", "zebra"]


def test_a_plugins_directory_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    found = discover(tmp_path / "none", OPEN)
    assert found.packages == found.rejected == ()


def test_a_plugins_directory_that_is_a_file_is_one_storage_error(tmp_path: Path) -> None:
    (tmp_path / "plugins").touch()
    with pytest.raises(StorageError, match="list the plugins directory"):
        discover(tmp_path / "plugins", OPEN)


@pytest.mark.req("PLG-054")
def test_hidden_directories_links_and_files_are_not_looked_at(tmp_path: Path, write_package: Write) -> None:
    elsewhere = write_package(tmp_path / "elsewhere" / "linked", name="linked")
    plugins = tmp_path / "plugins"
    write_package(plugins / ".echo.installing-v1-" / "package", name="inside")
    write_package(plugins / ".hidden", name="hidden")
    (plugins / "linked").symlink_to(elsewhere.directory)
    (plugins / "file").touch()
    found = discover(plugins, OPEN)
    assert found.packages == found.rejected == ()


@pytest.mark.req("PLG-063")
def test_an_empty_directory_and_half_a_manifest_are_no_packages(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "manifest.toml").write_text('name = "half')
    assert names(tmp_path) == []
    assert reasons(tmp_path) == {"empty": ManifestMissing, "half": ManifestError}


@pytest.mark.req("PLG-010", "PLG-011", "PLG-166", "PLG-364", "PAINS-14")
def test_every_check_of_an_install_holds_for_a_directory_made_by_hand(
    tmp_path: Path, write_package: Write, write_skill: Write
) -> None:
    schema = '[config_schema]\ntype = "object"\nadditionalProperties = false\nproperties = {}\n'
    write_package(tmp_path / "good")
    write_package(tmp_path / "no-schema", name="no-schema", manifest='permissions = ["config_read"]')
    write_package(tmp_path / "no-permission", name="no-permission", tables=schema)
    write_package(
        tmp_path / "open-schema",
        name="open-schema",
        manifest='permissions = ["config_read"]',
        tables='[config_schema]\ntype = "object"\n',
    )
    write_package(tmp_path / "digest", name="digest", declare_digest=True)
    (tmp_path / "digest" / "plugin.wasm").write_bytes(b"other bytes")
    write_package(tmp_path / "missing", name="missing")
    (tmp_path / "missing" / "plugin.wasm").unlink()
    write_package(tmp_path / "linked", name="linked")
    (tmp_path / "linked" / "plugin.wasm").rename(tmp_path / "linked" / "real.wasm")
    (tmp_path / "linked" / "plugin.wasm").symlink_to("real.wasm")
    write_package(tmp_path / "bad-name", name="Bad")
    write_skill(tmp_path / "half-skill", name="half-skill", complete=False)

    assert names(tmp_path) == ["echo"]
    found = reasons(tmp_path)
    assert found.pop("digest") is DigestMismatch
    assert found.pop("missing") is ComponentMissing
    assert found.pop("linked") is ComponentMissing
    assert found.pop("open-schema") is ConfigSchemaError
    assert found.pop("no-schema") is ConfigSchemaError
    assert found.keys() == {"no-permission", "bad-name", "half-skill"}
    assert all(issubclass(kind, PackageError) for kind in found.values())


def test_a_rejection_says_where_in_the_manifest_it_lies(tmp_path: Path, write_package: Write) -> None:
    write_package(tmp_path / "x", manifest='permissions = ["fly"]')
    [rejected] = discover(tmp_path, OPEN).rejected
    assert rejected.error.details["path"] == str(tmp_path / "x" / "manifest.toml")
    assert rejected.error.details["line"] == 5


@pytest.mark.req("PLG-014")
def test_two_directories_with_one_name_are_both_left_out(tmp_path: Path, write_package: Write) -> None:
    write_package(tmp_path / "a")
    write_package(tmp_path / "b", version="2.0.0")
    write_package(tmp_path / "c", name="other")
    assert names(tmp_path) == ["other"]
    assert reasons(tmp_path) == {"a": AmbiguousName, "b": AmbiguousName}
    with pytest.raises(AmbiguousName):
        discover(tmp_path, OPEN).get("echo")


@pytest.mark.req("PLG-014")
def test_a_copy_whose_manifest_is_refused_takes_nobodys_name_away(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "a")
    write_package(tmp_path / "b", manifest='permissions = ["config_read"]')
    assert names(tmp_path) == ["echo"]
    assert AmbiguousName not in reasons(tmp_path).values()


@pytest.mark.req("PLG-014")
def test_a_copy_whose_component_is_missing_still_makes_the_name_ambiguous(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "a")
    write_package(tmp_path / "b")
    (tmp_path / "b" / "plugin.wasm").unlink()
    assert reasons(tmp_path) == {"a": AmbiguousName, "b": AmbiguousName}


@pytest.mark.req("PLG-350", "PAINS-12")
def test_in_strict_mode_an_unsigned_package_is_not_found(
    tmp_path: Path, write_package: Write, write_skill: Write
) -> None:
    write_package(tmp_path / "x", declare_digest=True)
    write_skill(tmp_path / "manners")
    assert names(tmp_path, STRICT) == []
    assert reasons(tmp_path, STRICT) == {"x": SignatureRefused, "manners": SignatureRefused}


@pytest.mark.req("PLG-351")
def test_in_permissive_mode_an_unsigned_package_is_found_with_a_warning(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "x")
    [package] = discover(tmp_path, SignaturePolicy(SignatureMode.PERMISSIVE, frozenset())).packages
    assert len(package.notices) == 1
    [silent] = discover(tmp_path, OPEN).packages
    assert silent.notices == ()


@pytest.mark.req("PLG-351", "PAINS-10", "PAINS-14")
@pytest.mark.parametrize("mode", SignatureMode)
def test_one_flipped_byte_of_a_component_with_a_digest_is_refused_in_every_mode(
    tmp_path: Path, write_package: Write, mode: SignatureMode
) -> None:
    write_package(tmp_path / "x", declare_digest=True)
    component = bytearray((tmp_path / "x" / "plugin.wasm").read_bytes())
    component[-1] ^= 1
    (tmp_path / "x" / "plugin.wasm").write_bytes(component)
    assert names(tmp_path, SignaturePolicy(mode, frozenset())) == []


def test_what_is_kept_of_a_package_does_not_hold_its_component(tmp_path: Path, write_package: Write) -> None:
    write_package(tmp_path / "x")
    [package] = discover(tmp_path, OPEN).packages
    assert not any(hasattr(package, name) for name in ("component", "files"))
    assert package.read().component == (tmp_path / "x" / "plugin.wasm").read_bytes()


@pytest.mark.req("PAINS-10")
@pytest.mark.parametrize("file", ["plugin.wasm", "manifest.toml"])
def test_a_package_changed_after_it_was_found_is_not_read(
    tmp_path: Path, write_package: Write, file: str
) -> None:
    write_package(tmp_path / "x")
    [package] = discover(tmp_path, OPEN).packages
    path = tmp_path / "x" / file
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(PackageChanged):
        package.read()


def test_a_name_that_is_not_installed_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(PluginNotFound, match="no package named echo"):
        discover(tmp_path, OPEN).get("echo")


def test_looking_for_one_name_sees_that_name_and_that_directory_only(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "a")
    write_package(tmp_path / "echo", name="other")
    write_package(tmp_path / "b", name="third")
    (tmp_path / "broken").mkdir()
    found = discover(tmp_path, OPEN, only="echo")
    assert [package.name for package in found.packages] == ["echo", "other"]
    assert found.rejected == ()


@pytest.mark.req("PLG-014")
def test_many_copies_of_one_name_are_each_judged_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(reader: PackageReader, policy: SignaturePolicy, **more: Any) -> AdmittedPackage:
        judged.append(reader.origin)
        return admit(reader, policy, **more)

    monkeypatch.setattr(discovery, "admit", counted)
    for number in range(40):
        skill = tmp_path / str(number) / "skills" / "a"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: a\ndescription: b\n---\n")
        (tmp_path / str(number) / "manifest.toml").write_text(
            'name = "same"\nversion = "1"\ncapabilities = ["skill"]\n'
        )
    found = discovery.discover(tmp_path, SignaturePolicy())
    assert len(found.rejected) == 40
    assert {each.error.code for each in found.rejected} == {"package_name_ambiguous"}
    assert len(judged) <= 80
    assert "and 36 more: none of them is loaded" in found.rejected[0].error.message
