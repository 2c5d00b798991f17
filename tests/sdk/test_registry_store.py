"""A registry on disk: what is published, what is refused, and what a client then reads."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.errors import DigestMismatch, PackageError, SignatureRefused, StorageError
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.archive import ArchiveReader, write_archive
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest
from zeroclaw_host.registry.client import RegistryClient
from zeroclaw_host.registry.index import PackageSpec
from zeroclaw_host.registry.location import Location
from zeroclaw_sdk.errors import ProjectInvalid, PublishRefused, ScaffoldConflict
from zeroclaw_sdk.registry.store import RegistryDirectory, archive_name

KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()

Pack = Callable[..., Path]


@pytest.fixture
def registry(tmp_path: Path) -> RegistryDirectory:
    return RegistryDirectory.create(tmp_path / "registry")


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """A package archive on disk. Its component is only bytes: admission does not look into it."""

    def make(
        name: str = "hello",
        version: str = "1.0.0",
        component: bytes = b"\0asm",
        key: Ed25519PrivateKey | None = KEY,
    ) -> Path:
        manifest = (
            f"name = {json.dumps(name)}\nversion = {json.dumps(version)}\ndescription = 'greets'\nauthor = 'Ada'\n"
            'wasm_path = "hello.wasm"\ncapabilities = ["tool"]\n'
        ).encode()
        if key is not None:
            manifest = sign_manifest(manifest, private_key=key, component=component)
        digest = hashlib.sha256(manifest + component).hexdigest()[:8]
        directory = tmp_path / f"source-{digest}"
        directory.mkdir(exist_ok=True)
        (directory / "manifest.toml").write_bytes(manifest)
        (directory / "hello.wasm").write_bytes(component)
        archive = tmp_path / f"{digest}.zip"
        archive.write_bytes(write_archive(admit(DirectoryReader(directory), SignaturePolicy())))
        return archive

    return make


def contents(registry: RegistryDirectory) -> dict[str, bytes]:
    return {
        str(path.relative_to(registry.directory)): path.read_bytes()
        for path in registry.directory.rglob("*")
        if path.is_file() and path.name != ".registry.lock"
    }


def test_a_new_registry_is_an_empty_index(registry: RegistryDirectory):
    assert json.loads(registry.index_path.read_text()) == {"plugins": []}
    assert registry.verify().entries == 0
    with pytest.raises(ScaffoldConflict):
        RegistryDirectory.create(registry.directory)


def test_a_directory_without_index_is_no_registry(tmp_path: Path):
    with pytest.raises(ProjectInvalid):
        RegistryDirectory(tmp_path)


def test_a_published_package_reaches_a_client_whole(registry: RegistryDirectory, pack: Pack):
    archive = pack()
    report = registry.add(archive)
    assert report.fresh
    [entry] = json.loads(registry.index_path.read_text())["plugins"]
    assert entry == {
        "name": "hello",
        "version": "1.0.0",
        "description": "greets",
        "author": "Ada",
        "capabilities": ["tool"],
        "url": "packages/hello-1.0.0.zip",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    client = RegistryClient(Location.parse(str(registry.directory)))
    reader = client.open(PackageSpec.parse("hello"))
    package = admit(reader, SignaturePolicy.of(SignatureMode.STRICT, [publisher_key(KEY)]))
    assert package.component == b"\0asm"
    assert registry.verify().problems == ()


def test_versions_are_listed_in_the_order_they_were_published(registry: RegistryDirectory, pack: Pack):
    for version in ("1.0.0", "2.0.0", "1.0.1"):
        registry.add(pack(version=version))
    assert [entry.version for entry in registry.index().plugins] == ["1.0.0", "2.0.0", "1.0.1"]
    assert registry.index().select(PackageSpec.parse("hello")).version == "1.0.1"


def test_a_published_version_never_changes_its_bytes(registry: RegistryDirectory, pack: Pack):
    registry.add(pack())
    before = contents(registry)
    assert not registry.add(pack()).fresh
    with pytest.raises(PublishRefused, match="other bytes"):
        registry.add(pack(component=b"\0asm, but another"))
    assert contents(registry) == before


def test_an_unsigned_package_is_refused_unless_allowed(registry: RegistryDirectory, pack: Pack):
    archive = pack(key=None)
    before = contents(registry)
    with pytest.raises(SignatureRefused):
        registry.add(archive)
    assert contents(registry) == before
    assert registry.add(archive, allow_unsigned=True).fresh
    assert [each.code for each in registry.verify().problems] == ["signature_refused"]
    assert registry.verify(allow_unsigned=True).problems == ()


def test_only_listed_publishers_are_accepted_once_there_is_a_list(registry: RegistryDirectory, pack: Pack):
    (registry.directory / "publishers" / "ada.pub").write_text(publisher_key(KEY).upper() + "\n")
    registry.add(pack())
    with pytest.raises(SignatureRefused):
        registry.add(pack(name="other", key=OTHER))
    with pytest.raises(SignatureRefused):  # being allowed unsigned is not being allowed a foreign signature
        registry.add(pack(name="other", key=OTHER), allow_unsigned=True)


def test_a_publisher_file_without_key_is_an_error(registry: RegistryDirectory, pack: Pack):
    (registry.directory / "publishers" / "ada.pub").write_text("nonsense")
    with pytest.raises(ProjectInvalid, match=r"ada\.pub"):
        registry.add(pack())


@pytest.mark.req("PAINS-10")
def test_a_component_changed_after_signing_is_refused(
    registry: RegistryDirectory, pack: Pack, tmp_path: Path
):
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(io.BytesIO(pack().read_bytes())) as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            new.writestr(entry.filename, b"\0asn" if entry.filename == "hello.wasm" else data)
    with pytest.raises(DigestMismatch):
        registry.add(changed)


@pytest.mark.parametrize("data", [b"", b"<html>", b"PK\3\4", b"PK\5\6" + bytes(18)])
def test_what_is_no_archive_is_refused(registry: RegistryDirectory, tmp_path: Path, data: bytes):
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(PackageError):
        registry.add(tmp_path / "x.zip")


def test_a_missing_archive_is_named(registry: RegistryDirectory, tmp_path: Path):
    with pytest.raises(StorageError, match=r"nothing\.zip"):
        registry.add(tmp_path / "nothing.zip")


class TestVerifying:
    def test_a_changed_archive_is_found(self, registry: RegistryDirectory, pack: Pack):
        archive = registry.add(pack()).archive
        data = bytearray(archive.read_bytes())
        data[len(data) // 2] ^= 1
        archive.write_bytes(data)
        [problem] = registry.verify().problems
        assert "sha256" in problem.problem

    def test_a_missing_archive_is_found(self, registry: RegistryDirectory, pack: Pack):
        registry.add(pack()).archive.unlink()
        [problem] = registry.verify().problems
        assert problem.code == "storage_failed"

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"sha256": None}, "no sha256"),
            ({"version": "9"}, "holds hello@1.0.0"),
            ({"url": "../x.zip"}, "does not lead into"),
            ({"url": "packages/..%2Fregistry.json"}, "does not lead into"),
            ({"url": "https://example.org/x.zip"}, "does not lead into"),
            ({"sha256": "zz"}, "no SHA-256 digest"),
        ],
    )
    def test_an_entry_that_says_something_else_is_found(
        self, registry: RegistryDirectory, pack: Pack, change: dict[str, object], said: str
    ):
        registry.add(pack())
        index = json.loads(registry.index_path.read_text())
        index["plugins"][0] |= change
        registry.index_path.write_text(json.dumps(index))
        [problem] = registry.verify().problems
        assert said in problem.problem

    def test_two_entries_of_one_version_with_different_bytes_are_found(
        self, registry: RegistryDirectory, pack: Pack
    ):
        registry.add(pack())
        index = json.loads(registry.index_path.read_text())
        index["plugins"].append(index["plugins"][0] | {"sha256": "0" * 64})
        registry.index_path.write_text(json.dumps(index))
        assert registry.verify().problems

    def test_an_archive_nobody_lists_is_named(self, registry: RegistryDirectory, pack: Pack):
        registry.add(pack())
        (registry.directory / "packages" / "left.zip").write_bytes(b"")
        assert registry.verify().strays == ("packages/left.zip",)


@pytest.mark.parametrize(
    ("version", "file"),
    [("1.0.0", "hello-1.0.0.zip"), ("1.0.0-rc.1+b", "hello-1.0.0-rc.1+b.zip")],
)
def test_an_archive_is_named_after_package_and_version(pack: Pack, version: str, file: str):
    manifest = admit(ArchiveReader(pack(version=version).read_bytes()), SignaturePolicy()).manifest
    assert archive_name(manifest) == file


@pytest.mark.parametrize("version", ["../../etc", "a/b", "v 1", "%2e%2e", "?", "é"])
def test_no_version_leads_out_of_the_registry(registry: RegistryDirectory, pack: Pack, version: str):
    archive = registry.add(pack(version=version)).archive
    assert archive.parent == registry.directory / "packages"
    assert registry.verify().problems == ()
    client = RegistryClient(Location.parse(str(registry.directory)))
    assert client.open(PackageSpec("hello", version)).read_manifest()


def test_two_versions_that_look_alike_in_a_file_name_do_not_collide(registry: RegistryDirectory, pack: Pack):
    registry.add(pack(version="1 0"))
    registry.add(pack(version="1/0"))
    registry.add(pack(version="1_0"))
    assert registry.verify().problems == ()


def test_an_index_that_cannot_be_written_leaves_the_registry_as_it_was(
    registry: RegistryDirectory, pack: Pack, monkeypatch: pytest.MonkeyPatch
):
    import zeroclaw_sdk.registry.store as module

    before = contents(registry)
    real = module.replace_file

    def fail_on_index(path: Path, data: bytes) -> None:
        if path == registry.index_path:
            raise StorageError("no space left")
        real(path, data)

    monkeypatch.setattr(module, "replace_file", fail_on_index)
    with pytest.raises(StorageError):
        registry.add(pack())
    assert contents(registry) == before


def _add(directory: Path, archive: Path) -> None:
    RegistryDirectory(directory).add(archive)


def test_two_maintainers_at_once_lose_nothing(registry: RegistryDirectory, pack: Pack):
    archives = [pack(version=f"1.0.{number}") for number in range(4)]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(registry.directory, archive)) for archive in archives]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert {entry.version for entry in registry.index().plugins} == {f"1.0.{number}" for number in range(4)}
