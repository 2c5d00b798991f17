"""``update``: what is selected, what must be accepted, and what is on the disk whatever happens."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zeroclaw_host.errors import (
    ComponentMismatch,
    ConfigSchemaError,
    DigestMismatch,
    PackageError,
    PluginNotFound,
    RegistryError,
    Remedy,
    RemedyAction,
    SignatureRefused,
    StorageError,
    UsageError,
    ZeroclawError,
)
from zeroclaw_host.installation.claim import NotPutBack
from zeroclaw_host.installation.discovery import PackageChanged, discover
from zeroclaw_host.installation.displaced import survey
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.lock import LOCK_NAME, Clock, LockTimeout, locked
from zeroclaw_host.installation.offers import DirectoryOffer, Offer, RegistryOffer, UpdateSpec
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.installation.rows import MemoryRowStore
from zeroclaw_host.installation.transaction import EntryName, NameOccupied, TransactionKind
from zeroclaw_host.installation.update import (
    ApprovalNeeded,
    Outcome,
    SkipReason,
    Updater,
    UpdateResult,
)
from zeroclaw_host.package.admission import AdmittedPackage
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest
from zeroclaw_host.registry.client import EntryMismatch, RegistryClient
from zeroclaw_host.registry.location import Location, RegistryNotNamed
from zeroclaw_host.worlds.loading import LoadVerdict

OPEN = SignaturePolicy()
KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
STRICT = SignaturePolicy.of(SignatureMode.STRICT, [publisher_key(KEY)])


def manifest(
    name: str = "x", version: str = "1.0.0", more: str = "", capabilities: str = '["tool"]', tables: str = ""
) -> str:
    return f'name = "{name}"\nversion = "{version}"\ncapabilities = {capabilities}\nwasm_path = "plugin.wasm"\n{more}\n{tables}'


def component(version: str = "1.0.0") -> bytes:
    """No component is compiled here, so any bytes will do; each version has its own."""
    return b"\0asm" + version.encode()


def lay(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def package(directory: Path, name: str = "x", version: str = "1.0.0", more: str = "", **rest: str) -> Path:
    text = manifest(name, version, more, **rest)
    return lay(directory, {"manifest.toml": text, "plugin.wasm": component(version)})


def state(plugins: Path) -> dict[str, bytes | None]:
    """Every path of the plugins directory with its bytes; the lock file aside."""
    return {
        str(path.relative_to(plugins)): path.read_bytes() if path.is_file() else None
        for path in sorted(plugins.rglob("*"))
        if path.name != LOCK_NAME
    }


def hidden(plugins: Path) -> list[str]:
    return [name for name in state(plugins) if name.startswith(".") and "/" not in name]


def versions(plugins: Path) -> dict[str, str]:
    return {each.name: each.version for each in discover(plugins, OPEN).packages}


def loading(package: AdmittedPackage) -> LoadVerdict:
    del package
    return LoadVerdict(loads=True)


def never(package: AdmittedPackage) -> LoadVerdict:
    pytest.fail(f"{package.name} was compiled")


def updater(plugins: Path, **more: Any) -> Updater:
    return Updater(**{"directory": plugins, "policy": OPEN, "load_check": loading, **more})


def run(
    plugins: Path, text: str, offer: Offer, accepted: frozenset[str] = frozenset(), **more: Any
) -> UpdateResult:
    return updater(plugins, **more).update(UpdateSpec.parse(text), offer, accepted)


class Registry:
    """A registry of files: entries in the order they are added, and what of it was fetched."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[dict[str, str]] = []
        root.mkdir()
        self.write()

    def add(
        self,
        name: str = "x",
        version: str = "1.0.0",
        *,
        text: str | None = None,
        sha256: str | None = None,
        **more: str,
    ) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("manifest.toml", text or manifest(name, version, **more))
            archive.writestr("plugin.wasm", component(version))
        url = f"{name}-{version}-{len(self.entries)}.zip"
        (self.root / url).write_bytes(file.getvalue())
        digest = sha256 or hashlib.sha256(file.getvalue()).hexdigest()
        self.entries.append({"name": name, "version": version, "url": url, "sha256": digest})
        self.write()

    def write(self) -> None:
        (self.root / "registry.json").write_text(json.dumps({"plugins": self.entries}))

    def offer(self, *, named: bool = False) -> RegistryOffer:
        return RegistryOffer(RegistryClient(Location.parse(str(self.root))), named=named)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A plugins directory with x 1.0.0."""
    package(tmp_path / "plugins" / "x")
    return tmp_path / "plugins"


class TestSelection:
    @pytest.mark.req("PLG-296", "PLG-328")
    def test_a_named_package_is_replaced_by_the_version_the_registry_selects(
        self, plugins: Path, registry: Registry
    ) -> None:
        registry.add(version="2.0.0")
        result = run(plugins, "x", registry.offer())
        assert (result.outcome, result.installed, result.version) == (Outcome.UPDATED, "1.0.0", "2.0.0")
        assert not result.failed
        assert state(plugins) == {
            "x": None,
            "x/manifest.toml": manifest(version="2.0.0").encode(),
            "x/plugin.wasm": component("2.0.0"),
        }

    @pytest.mark.req("PLG-297", "PLG-304")
    def test_a_pinned_version_is_taken_be_it_newer_or_older(self, plugins: Path, registry: Registry) -> None:
        for version in ("0.9.0", "2.0.0", "3.0.0"):
            registry.add(version=version)
        newer = run(plugins, "x@2.0.0", registry.offer())
        assert (newer.version, newer.older) == ("2.0.0", False)
        older = run(plugins, "x@0.9.0", registry.offer())
        assert (older.outcome, older.version, older.older) == (Outcome.UPDATED, "0.9.0", True)
        missing = run(plugins, "x@7.0.0", registry.offer())
        assert missing.outcome is Outcome.NOT_UPDATED
        assert missing.installed == "0.9.0"
        assert versions(plugins) == {"x": "0.9.0"}

    @pytest.mark.req("PLG-303")
    def test_a_bare_name_takes_the_last_entry_whatever_its_number(
        self, plugins: Path, registry: Registry
    ) -> None:
        for version in ("2.0.0", "0.5.0"):
            registry.add(version=version)
        result = run(plugins, "x", registry.offer())
        assert (result.version, result.older) == ("0.5.0", True)

    @pytest.mark.req("PLG-305")
    def test_what_is_installed_already_is_not_downloaded(self, plugins: Path, registry: Registry) -> None:
        registry.add(version="1.0.0")
        (registry.root / registry.entries[0]["url"]).unlink()
        before = state(plugins)
        result = run(plugins, "x", registry.offer(), load_check=never)
        assert (result.outcome, result.failed) == (Outcome.UP_TO_DATE, False)
        assert state(plugins) == before

    @pytest.mark.req("PLG-299")
    def test_a_directory_always_replaces_even_at_the_same_version(
        self, plugins: Path, tmp_path: Path
    ) -> None:
        source = package(tmp_path / "source")
        (source / "plugin.wasm").write_bytes(b"other")
        result = run(plugins, "x", DirectoryOffer(source))
        assert result.outcome is Outcome.UPDATED
        assert (plugins / "x" / "plugin.wasm").read_bytes() == b"other"

    @pytest.mark.req("PLG-301")
    def test_a_name_that_is_not_installed_points_to_install(self, plugins: Path, registry: Registry) -> None:
        registry.add("y")
        result = run(plugins, "y", registry.offer())
        assert isinstance(result.error, PluginNotFound)
        assert result.error.remedy == Remedy(RemedyAction.INSTALL_PLUGIN, {"source": "y"})
        assert versions(plugins) == {"x": "1.0.0"}

    def test_what_is_installed_and_broken_points_to_remove(self, plugins: Path, registry: Registry) -> None:
        (plugins / "x" / "plugin.wasm").unlink()
        result = run(plugins, "x", registry.offer())
        assert result.error is not None
        assert result.error.remedy == Remedy(RemedyAction.REMOVE_PLUGIN, {"name": "x"})

    @pytest.mark.req("PLG-371")
    def test_another_package_never_takes_the_place(self, plugins: Path, tmp_path: Path) -> None:
        before = state(plugins)
        result = run(plugins, "x", DirectoryOffer(package(tmp_path / "y", "y")), load_check=never)
        assert result.outcome is Outcome.NOT_UPDATED
        assert result.error is not None
        assert result.error.code == "update_other_package"
        assert state(plugins) == before

    def test_a_pinned_directory_must_hold_that_version(self, plugins: Path, tmp_path: Path) -> None:
        offer = DirectoryOffer(package(tmp_path / "new", version="3.0.0"))
        assert run(plugins, "x@2.0.0", offer).outcome is Outcome.NOT_UPDATED
        assert run(plugins, "x@3.0.0", offer).outcome is Outcome.UPDATED

    @pytest.mark.parametrize("text", ["", "@1", "x@", "X", "../x", "x y"])
    def test_what_names_no_package_is_wrong_usage(self, text: str) -> None:
        with pytest.raises(UsageError):
            UpdateSpec.parse(text)

    def test_a_version_may_hold_an_at_sign(self) -> None:
        assert UpdateSpec.parse("x@1@2") == UpdateSpec("x", "1@2")


def unsigned(registry: Registry) -> None:
    registry.add(version="2.0.0", text=signed("1.9.0").replace("1.9.0", "2.0.0"))


def signed(version: str) -> str:
    text = manifest(version=version).encode()
    return sign_manifest(text, private_key=KEY, component=component(version)).decode()


CHECKS: dict[str, tuple[str, type[ZeroclawError], Callable[[Registry], None], SignaturePolicy]] = {
    "the archive's digest": (
        "PLG-307",
        EntryMismatch,
        lambda registry: registry.add(version="2.0.0", sha256="0" * 64),
        OPEN,
    ),
    "the manifest's name": (
        "PLG-308",
        EntryMismatch,
        lambda registry: registry.add(version="2.0.0", text=manifest("y", "2.0.0")),
        OPEN,
    ),
    "the manifest's version": (
        "PLG-308",
        EntryMismatch,
        lambda registry: registry.add(version="2.0.0", text=manifest(version="2.0.1")),
        OPEN,
    ),
    "the signature": ("PLG-309", SignatureRefused, unsigned, STRICT),
    "the payload's digest": (
        "PLG-310",
        DigestMismatch,
        lambda registry: registry.add(version="2.0.0", more=f'wasm_sha256 = "{"0" * 64}"'),
        OPEN,
    ),
    "the configuration schema": (
        "PLG-311",
        ConfigSchemaError,
        lambda registry: registry.add(version="2.0.0", more='permissions = ["config_read"]'),
        OPEN,
    ),
}


class TestChecks:
    @pytest.mark.req("PLG-306")
    @pytest.mark.parametrize(
        ("kind", "offer", "policy"),
        [
            pytest.param(kind, offer, policy, marks=pytest.mark.req(number), id=name)
            for name, (number, kind, offer, policy) in CHECKS.items()
        ],
    )
    def test_everything_is_checked_before_anything_is_touched(
        self,
        plugins: Path,
        registry: Registry,
        kind: type[ZeroclawError],
        offer: Callable[[Registry], None],
        policy: SignaturePolicy,
    ) -> None:
        if policy is STRICT:
            (plugins / "x" / "manifest.toml").write_text(signed("1.0.0"))
        offer(registry)
        before = state(plugins)
        rows = MemoryRowStore()
        result = run(plugins, "x", registry.offer(), policy=policy, load_check=never, rows=rows)
        assert isinstance(result.error, kind)
        assert (result.outcome, result.installed, result.failed) == (Outcome.NOT_UPDATED, "1.0.0", True)
        assert state(plugins) == before
        assert rows.rows == {}

    @pytest.mark.req("PLG-306", "PLG-312")
    def test_a_component_that_does_not_load_here_is_no_update(
        self, plugins: Path, registry: Registry
    ) -> None:
        registry.add(version="2.0.0")
        before = state(plugins)
        error = ComponentMismatch("it exports nothing")
        result = run(
            plugins, "x", registry.offer(), load_check=lambda _: LoadVerdict(loads=False, error=error)
        )
        assert result.error is error
        assert state(plugins) == before


ADDED: dict[str, tuple[str, dict[str, str], dict[str, str], tuple[str, ...]]] = {
    "permissions": (
        "PLG-313",
        {"more": 'permissions = ["state_read"]'},
        {"more": 'permissions = ["http_client", "state_read", "state_write"]'},
        ("permission:http_client", "permission:state_write"),
    ),
    "a capability": ("PLG-314", {}, {"capabilities": '["channel", "tool"]'}, ("capability:channel",)),
    "a channel's place": ("PLG-315", {}, {"more": 'provides = "telegram"'}, ("provides:telegram",)),
    "another channel's place": (
        "PLG-315",
        {"more": 'provides = "irc"'},
        {"more": 'provides = "telegram"'},
        ("provides:telegram",),
    ),
    "another publisher": (
        "PLG-316",
        {"more": 'publisher_key = "AA"'},
        {"more": 'publisher_key = " bB "'},
        ("publisher:bb",),
    ),
    "no publisher": ("PLG-316", {"more": 'publisher_key = "AA"'}, {}, ("publisher:unsigned",)),
    "everything at once": (
        "PLG-318",
        {"more": 'publisher_key = "AA"'},
        {"more": 'permissions = ["http_client"]\nprovides = "irc"', "capabilities": '["tool", "channel"]'},
        ("permission:http_client", "capability:channel", "provides:irc", "publisher:unsigned"),
    ),
}

NOT_ADDED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "fewer permissions": ({"more": 'permissions = ["http_client"]'}, {}),
    "an older word for the same permission": (
        {"more": 'permissions = ["file_read"]'},
        {"more": 'permissions = ["file_read"]'},
    ),
    "fewer capabilities": ({"capabilities": '["tool", "channel"]'}, {}),
    "no channel's place any more": ({"more": 'provides = "irc"'}, {}),
    "a publisher where none was named": ({}, {"more": 'publisher_key = "AA"'}),
    "the same publisher in other letters": (
        {"more": 'publisher_key = "AA"'},
        {"more": 'publisher_key = " aa"'},
    ),
}


class TestAuthority:
    @pytest.mark.req("PLG-318", "PLG-319")
    @pytest.mark.parametrize(
        ("old", "new", "wanted"),
        [
            pytest.param(old, new, wanted, marks=pytest.mark.req(number), id=name)
            for name, (number, old, new, wanted) in ADDED.items()
        ],
    )
    def test_what_is_wanted_in_addition_is_listed_before_anything_is_compiled_and_taken_once_accepted(
        self, tmp_path: Path, old: dict[str, str], new: dict[str, str], wanted: tuple[str, ...]
    ) -> None:
        plugins = tmp_path / "plugins"
        package(plugins / "x", **old)
        source = package(tmp_path / "source", version="0.2.0", **new)
        before = state(plugins)
        offer = DirectoryOffer(source)
        for accepted in (frozenset[str](), frozenset({"permission:file_read"}), frozenset(wanted[1:])):
            result = run(plugins, "x", offer, accepted, load_check=never)
            assert (result.outcome, result.failed) == (Outcome.NEEDS_APPROVAL, True)
            assert (result.installed, result.version) == ("1.0.0", "0.2.0")
            assert isinstance(result.error, ApprovalNeeded)
            assert result.error.details["authority"] == list(wanted)
            remedy = result.error.remedy
            assert remedy is not None
            assert remedy.action is RemedyAction.ALLOW_UPDATE
            assert remedy.arguments["package"] == "x@0.2.0"
            assert json.loads(remedy.arguments["items"]) == list(wanted)
            assert state(plugins) == before
        assert run(plugins, "x@0.2.0", offer, frozenset(wanted)).outcome is Outcome.UPDATED
        assert versions(plugins) == {"x": "0.2.0"}

    @pytest.mark.req("PLG-317")
    @pytest.mark.parametrize(("old", "new"), NOT_ADDED.values(), ids=NOT_ADDED)
    def test_wanting_less_or_saying_more_needs_no_approval(
        self, tmp_path: Path, old: dict[str, str], new: dict[str, str]
    ) -> None:
        package(tmp_path / "plugins" / "x", **old)
        source = package(tmp_path / "source", version="2.0.0", **new)
        assert run(tmp_path / "plugins", "x", DirectoryOffer(source)).outcome is Outcome.UPDATED

    @pytest.mark.req("PLG-372")
    def test_the_remedy_names_the_source_of_the_refused_run(
        self, plugins: Path, tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        more = 'permissions = ["http_client"]'
        registry.add(version="2.0.0", more=more)
        package(tmp_path / "new", version="2.0.0", more=more)
        monkeypatch.chdir(tmp_path)
        sources = {
            "from": (DirectoryOffer(Path("new")), str(tmp_path / "new")),
            "registry": (registry.offer(named=True), (registry.root / "registry.json").as_uri()),
            "": (registry.offer(), None),
        }
        for key, (offer, expected) in sources.items():
            error = run(plugins, "x", offer).error
            assert error is not None
            assert error.remedy is not None
            assert error.remedy.arguments.get(key) == expected
            assert not {"from", "registry"} - {key} & error.remedy.arguments.keys()

    @pytest.mark.req("PLG-322")
    def test_removing_and_installing_is_the_other_way(self, plugins: Path, tmp_path: Path) -> None:
        from zeroclaw_host.installation.install import install
        from zeroclaw_host.package.reader import DirectoryReader

        source = package(tmp_path / "new", version="2.0.0", more='permissions = ["http_client"]')
        remove(plugins, "x", policy=OPEN)
        install(plugins, DirectoryReader(source), policy=OPEN, load_check=loading)
        assert versions(plugins) == {"x": "2.0.0"}

    @pytest.mark.req("PLG-325")
    def test_a_row_that_an_update_makes_grants_nothing_and_an_existing_one_stays(
        self, plugins: Path, tmp_path: Path
    ) -> None:
        source = package(
            tmp_path / "new",
            version="2.0.0",
            more='permissions = ["http_client"]',
            tables='[egress]\nhosts = ["api.example.org"]\n',
        )
        rows = MemoryRowStore()
        accepted = frozenset({"permission:http_client"})
        result = run(plugins, "x", DirectoryOffer(source), accepted, rows=rows)
        assert result.row_created
        assert result.key is not None
        assert rows.rows == {result.key: ()}
        rows.rows[result.key] = ("mine.example.org",)
        again = run(plugins, "x", DirectoryOffer(source), rows=rows)
        assert (again.outcome, again.row_created) == (Outcome.UPDATED, False)
        assert rows.rows == {result.key: ("mine.example.org",)}


@pytest.fixture
def newer(tmp_path: Path) -> DirectoryOffer:
    """x 2.0.0 in a directory."""
    return DirectoryOffer(package(tmp_path / "newer", version="2.0.0"))


OLD = {"x": None, "x/manifest.toml": manifest().encode(), "x/plugin.wasm": component()}
NEW = {
    "x": None,
    "x/manifest.toml": manifest(version="2.0.0").encode(),
    "x/plugin.wasm": component("2.0.0"),
}


def watching(before: Callable[[Event], object]) -> WatchedFileSystem:
    return WatchedFileSystem(PosixFileSystem(), before=lambda event: (before(event), None)[1])


def is_claim(event: Event) -> bool:
    return event.operation is Operation.RENAME and event.path == "x"


def is_publication(event: Event) -> bool:
    return event.operation is Operation.RENAME and event.target == "x" and ".installing-v1-" in event.path


class TestReplacement:
    @pytest.mark.req("PLG-332", "PLG-343")
    def test_the_new_version_is_whole_on_the_disk_before_the_old_one_is_claimed(
        self, plugins: Path, newer: DirectoryOffer
    ) -> None:
        watched = watching(lambda event: None)
        run(plugins, "x", newer, filesystem=watched)
        events = watched.events
        claim = next(event.number for event in events if is_claim(event))
        published = next(event.number for event in events if is_publication(event))
        marked = next(event.number for event in events if event.operation is Operation.MARK)
        assert claim < published < marked
        payload = [event for event in events if "/package/" in event.path and ".installing-" in event.path]
        written = {event.path: event.number for event in payload if event.operation is Operation.WRITE}
        synced = {event.path: event.number for event in payload if event.operation is Operation.SYNC}
        assert {path.rpartition("/")[2] for path in written} == {"manifest.toml", "plugin.wasm"}
        assert all(written[path] < synced[path] < claim for path in written)
        for move in (claim, published):
            assert events[move - 1].operation is events[move + 1].operation is Operation.SYNC
        # The entry that a package is moved into, or out of, is on the disk before it is.
        assert events[claim - 1].path.startswith(".x.replacing-v1-")
        assert events[published - 1].path.startswith(".x.installing-v1-")
        drops = [
            event.number
            for event in events
            if event.operation is Operation.DROP and ".replacing-" in event.path
        ]
        assert marked < min(drops)

    @pytest.mark.req("PLG-332", "PLG-334")
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
    def test_a_failure_of_any_operation_leaves_the_old_version_or_the_new_one(
        self, tmp_path: Path, newer: DirectoryOffer, number: int
    ) -> None:
        watched = watching(lambda event: None)
        package(tmp_path / "count" / "x")
        run(tmp_path / "count", "x", newer, filesystem=watched)
        assert len(watched.events) > 25
        for step in range(len(watched.events)):
            plugins = tmp_path / str(step)
            package(plugins / "x")
            rows = MemoryRowStore()

            def before(event: Event, step: int = step) -> None:
                if event.number == step:
                    raise OSError(number, os.strerror(number))

            result = run(plugins, "x", newer, filesystem=watching(before), rows=rows)
            seen = {path: data for path, data in state(plugins).items() if not path.startswith(".")}
            if result.outcome is Outcome.UPDATED:
                assert seen == NEW
            else:
                assert isinstance(result.error, StorageError)
                assert state(plugins) == OLD
            assert run(plugins, "x", newer).outcome is Outcome.UPDATED
            # What the next update of the name finds of a replaced version, it deletes.
            assert not [name for name in hidden(plugins) if ".replacing-" in name]

    @pytest.mark.req("PLG-333")
    @pytest.mark.parametrize("changed", ["manifest.toml", "plugin.wasm", "both, before the lock"])
    def test_a_package_that_changed_since_is_put_back_changed_and_not_replaced(
        self, plugins: Path, newer: DirectoryOffer, changed: str
    ) -> None:
        def change(path: Path) -> None:
            path.write_bytes(path.read_bytes() + b"\n# mine")

        def before(event: Event) -> None:
            if is_claim(event):
                change(plugins / "x" / changed)

        def check(package: AdmittedPackage) -> LoadVerdict:
            if changed.startswith("both"):
                for name in ("manifest.toml", "plugin.wasm"):
                    change(plugins / "x" / name)
            return loading(package)

        files = watching(lambda event: None if changed.startswith("both") else before(event))
        result = run(plugins, "x", newer, filesystem=files, load_check=check)
        assert isinstance(result.error, PackageChanged)
        assert hidden(plugins) == []
        names = ("manifest.toml", "plugin.wasm") if changed.startswith("both") else (changed,)
        for name in ("manifest.toml", "plugin.wasm"):
            assert (plugins / "x" / name).read_bytes() == OLD[f"x/{name}"] + (
                b"\n# mine" if name in names else b""
            )

    @pytest.mark.req("PLG-333")
    def test_a_package_that_broke_since_is_put_back_broken(
        self, plugins: Path, newer: DirectoryOffer
    ) -> None:
        def before(event: Event) -> None:
            if is_claim(event):
                (plugins / "x" / "plugin.wasm").unlink()

        result = run(plugins, "x", newer, filesystem=watching(before))
        assert isinstance(result.error, PackageChanged)
        assert state(plugins).keys() == {"x", "x/manifest.toml"}

    def test_a_package_that_went_meanwhile_is_not_installed_anew(
        self, plugins: Path, newer: DirectoryOffer
    ) -> None:
        def check(package: AdmittedPackage) -> LoadVerdict:
            remove(plugins, "x", policy=OPEN)
            return loading(package)

        result = run(plugins, "x", newer, load_check=check)
        assert isinstance(result.error, PluginNotFound)
        assert state(plugins) == {}

    @pytest.mark.req("PLG-334")
    @pytest.mark.parametrize("occupant", ["empty directory", "file"])
    def test_what_takes_the_place_meanwhile_stays_and_the_old_version_is_kept_and_named(
        self, plugins: Path, newer: DirectoryOffer, occupant: str
    ) -> None:
        path = plugins / "x"

        def before(event: Event) -> None:
            if is_publication(event):
                path.mkdir() if occupant == "empty directory" else path.write_bytes(b"theirs")

        result = run(plugins, "x", newer, filesystem=watching(before))
        assert isinstance(result.error, NotPutBack)
        kept = Path(str(result.error.details["location"]))
        assert {f"x/{name}": data for name, data in state(kept).items()} | {"x": None} == OLD
        assert str(kept) in result.error.message
        assert path.is_file() or not any(path.iterdir())
        assert hidden(plugins) == [kept.parent.name]

    @pytest.mark.req("PLG-334")
    def test_a_row_that_cannot_be_written_brings_the_old_version_back(
        self, plugins: Path, tmp_path: Path
    ) -> None:
        class Refusing:
            creates = True
            undone = 0

            def prepare(self, seed: object) -> Refusing:
                return self

            def commit(self) -> None:
                raise StorageError("the configuration cannot be written")

            def undo(self) -> None:
                self.undone += 1

        source = package(tmp_path / "new", version="2.0.0", more='permissions = ["http_client"]')
        rows = Refusing()
        accepted = frozenset({"permission:http_client"})
        result = run(plugins, "x", DirectoryOffer(source), accepted, rows=rows)
        assert isinstance(result.error, StorageError)
        assert state(plugins) == OLD
        assert rows.undone == 1

    def test_a_package_in_a_directory_of_another_name_is_replaced_in_its_place(
        self, tmp_path: Path, newer: DirectoryOffer
    ) -> None:
        package(tmp_path / "plugins" / "by-hand")
        run(tmp_path / "plugins", "x", newer)
        assert versions(tmp_path / "plugins") == {"x": "2.0.0"}
        assert [name for name in state(tmp_path / "plugins") if "/" not in name] == ["by-hand"]

    def test_an_interrupt_after_the_new_version_is_in_place_does_not_bring_the_old_one_back(
        self, plugins: Path, newer: DirectoryOffer
    ) -> None:
        def before(event: Event) -> None:
            if event.operation is Operation.DROP and ".installing-" in event.path:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(plugins, "x", newer, filesystem=watching(before))
        assert {path: data for path, data in state(plugins).items() if not path.startswith(".")} == NEW
        assert not any(".replacing-" in name for name in hidden(plugins))

    @pytest.mark.req("PLG-339", "PLG-340")
    @pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
    @pytest.mark.parametrize("marked", [True, False])
    def test_a_replaced_version_that_cannot_be_deleted_is_told_and_goes_with_the_next_update(
        self, plugins: Path, newer: DirectoryOffer, marked: bool, number: int
    ) -> None:
        def before(event: Event) -> None:
            stuck = event.operation is Operation.DROP and ".replacing-" in event.path
            if stuck or (event.operation is Operation.MARK and not marked):
                raise OSError(number, os.strerror(number))

        result = run(plugins, "x", newer, filesystem=watching(before))
        assert result.outcome is Outcome.UPDATED
        assert result.leftover is not None
        assert result.leftover.marked == marked
        [entry] = hidden(plugins)
        assert str(result.leftover.path).startswith(str(plugins / entry))
        assert (plugins / entry / "deleting").exists() == marked
        assert versions(plugins) == {"x": "2.0.0"}
        assert survey(plugins, OPEN).displaced == ()

        assert run(plugins, "x", newer).outcome is Outcome.UPDATED
        assert hidden(plugins) == []

    @pytest.mark.req("PLG-339")
    def test_a_marked_version_is_never_put_back(self, plugins: Path, newer: DirectoryOffer) -> None:
        def before(event: Event) -> None:
            if event.operation is Operation.DROP and ".replacing-" in event.path:
                raise OSError(errno.EACCES, "denied")

        run(plugins, "x", newer, filesystem=watching(before))
        remove(plugins, "x", policy=OPEN)
        assert survey(plugins, OPEN).displaced == ()
        assert isinstance(run(plugins, "x", newer).error, PluginNotFound)
        assert state(plugins) == {}

    @pytest.mark.req("PLG-331")
    def test_two_updates_of_one_package_come_one_after_the_other(self, plugins: Path, tmp_path: Path) -> None:
        offers = [
            DirectoryOffer(package(tmp_path / version, version=version)) for version in ("2.0.0", "3.0.0")
        ]
        both = threading.Barrier(2)

        def meet(package: AdmittedPackage) -> LoadVerdict:
            both.wait(timeout=30)
            return loading(package)

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda offer: run(plugins, "x", offer, load_check=meet), offers))
        [won] = [result for result in results if result.outcome is Outcome.UPDATED]
        [lost] = [result for result in results if result.failed]
        assert isinstance(lost.error, PackageChanged)
        assert versions(plugins) == {"x": won.version}
        assert hidden(plugins) == []

    @pytest.mark.req("PLG-331")
    def test_a_lock_that_is_held_is_waited_for_and_then_named(
        self, plugins: Path, newer: DirectoryOffer
    ) -> None:
        with locked(plugins):
            result = run(plugins, "x", newer, clock=hurried())
        assert isinstance(result.error, LockTimeout)
        assert LOCK_NAME in result.error.message
        assert state(plugins) == OLD

    @pytest.mark.req("PLG-343")
    def test_what_was_damaged_in_place_is_not_repaired_by_its_own_version(
        self, plugins: Path, registry: Registry
    ) -> None:
        registry.add(version="1.0.0")
        (plugins / "x" / "plugin.wasm").write_bytes(b"\0")
        assert run(plugins, "x", registry.offer()).outcome is Outcome.UP_TO_DATE
        assert (plugins / "x" / "plugin.wasm").read_bytes() == b"\0"


def hurried() -> Clock:
    """A clock on which every wait is over at once."""
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    return Clock(now=lambda: time[0], sleep=sleep)


def displace(plugins: Path, name: str = "x", version: str = "1.0.0", *, marked: bool = False) -> Path:
    """What an update leaves that was stopped between claiming and publishing."""
    entry = plugins / str(EntryName.fresh(name, TransactionKind.REPLACING))
    package(entry / "package", name, version)
    lay(entry, {"lease": ""} | ({"deleting": ""} if marked else {}))
    return entry


class Unreachable:
    """A registry that must not be asked yet."""

    always = False
    repeated: Mapping[str, str] = {}

    def __init__(self, plugins: Path) -> None:
        self.plugins = plugins

    def select(self, spec: UpdateSpec) -> Any:
        assert versions(self.plugins) == {spec.name: "1.0.0"}
        raise RegistryError("no network")


class TestDisplaced:
    @pytest.mark.req("PLG-335", "PLG-336")
    def test_a_displaced_package_is_reported_and_not_installed(self, tmp_path: Path) -> None:
        entry = displace(tmp_path)
        found = survey(tmp_path, OPEN)
        assert found.discovery.packages == ()
        assert [(each.name, each.locations) for each in found.displaced] == [("x", (entry,))]

    @pytest.mark.req("PLG-337")
    @pytest.mark.parametrize("kind", ["unreachable", "none named"])
    def test_it_is_put_back_before_the_registry_is_asked(self, tmp_path: Path, kind: str) -> None:
        displace(tmp_path)
        offer: Offer = Unreachable(tmp_path) if kind == "unreachable" else RegistryOffer(None)
        result = run(tmp_path, "x", offer)
        assert result.put_back
        assert isinstance(result.error, RegistryNotNamed if kind == "none named" else RegistryError)
        assert state(tmp_path) == OLD

    @pytest.mark.req("PLG-337")
    def test_once_put_back_the_update_goes_on(self, tmp_path: Path, newer: DirectoryOffer) -> None:
        displace(tmp_path / "plugins")
        result = run(tmp_path / "plugins", "x", newer)
        assert (result.put_back, result.outcome) == (True, Outcome.UPDATED)
        assert state(tmp_path / "plugins") == NEW

    @pytest.mark.req("PLG-341")
    @pytest.mark.parametrize("marked", [True, False])
    def test_beside_an_installed_package_the_old_copy_is_deleted(
        self, plugins: Path, marked: bool, registry: Registry
    ) -> None:
        registry.add(version="1.0.0")
        displace(plugins, version="0.1.0", marked=marked)
        assert survey(plugins, OPEN).displaced == ()
        assert run(plugins, "x", registry.offer()).outcome is Outcome.UP_TO_DATE
        assert state(plugins) == OLD

    @pytest.mark.req("PLG-341")
    def test_after_a_removal_an_unmarked_old_copy_is_displaced_and_comes_back_by_name(
        self, plugins: Path
    ) -> None:
        displace(plugins)
        remove(plugins, "x", policy=OPEN)
        assert [each.name for each in survey(plugins, OPEN).displaced] == ["x"]
        assert run(plugins, "x", RegistryOffer(None)).put_back
        assert state(plugins) == OLD

    @pytest.mark.req("PLG-342")
    @pytest.mark.parametrize("obstacle", ["two", "an empty directory", "a file", "a broken package"])
    def test_where_it_cannot_be_told_what_belongs_at_the_name_nothing_moves(
        self, tmp_path: Path, newer: DirectoryOffer, obstacle: str
    ) -> None:
        plugins = tmp_path / "plugins"
        first = displace(plugins)
        match obstacle:
            case "two":
                displace(plugins, version="1.1.0")
            case "an empty directory":
                (plugins / "x").mkdir()
            case "a file":
                (plugins / "x").write_bytes(b"x")
            case _:
                lay(plugins / "x", {"manifest.toml": "name = "})
        before = state(plugins)
        result = run(plugins, "x", newer)
        assert isinstance(result.error, NotPutBack)
        assert str(first) in result.error.message
        assert result.error.remedy is not None
        assert state(plugins) == before
        assert len(survey(plugins, OPEN).displaced) == 1

    @pytest.mark.req("PLG-335")
    def test_an_entry_whose_command_runs_is_neither_reported_nor_touched(
        self, tmp_path: Path, newer: DirectoryOffer
    ) -> None:
        import fcntl

        plugins = tmp_path / "plugins"
        entry = displace(plugins)
        before = state(plugins)
        with (entry / "lease").open("r+") as lease:
            fcntl.flock(lease, fcntl.LOCK_EX)
            assert survey(plugins, OPEN).displaced == ()
            assert isinstance(run(plugins, "x", newer).error, PluginNotFound)
        assert state(plugins) == before

    @pytest.mark.req("PLG-336")
    def test_a_survey_waits_for_a_running_update(self, tmp_path: Path) -> None:
        displace(tmp_path)
        with locked(tmp_path), pytest.raises(LockTimeout):
            survey(tmp_path, OPEN, clock=hurried())
        assert [each.name for each in survey(tmp_path, OPEN).displaced] == ["x"]

    def test_a_survey_of_a_quiet_directory_takes_no_lock(self, plugins: Path) -> None:
        with locked(plugins):
            found = survey(plugins, OPEN, clock=hurried())
        assert [each.name for each in found.discovery.packages] == ["x"]

    @pytest.mark.req("PLG-336")
    def test_a_package_that_is_being_replaced_while_it_is_looked_for_is_not_missed(
        self, plugins: Path, newer: DirectoryOffer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import zeroclaw_host.installation.displaced as displaced

        real, calls = displaced.discover, []

        def discovering(*arguments: Any, **more: Any) -> Any:
            calls.append(arguments)
            if len(calls) > 1:
                return real(*arguments, **more)
            # The first look falls between claim and publication.
            (plugins / "x").rename(plugins / ".aside")
            found = real(*arguments, **more)
            (plugins / ".aside").rename(plugins / "x")
            return found

        monkeypatch.setattr(displaced, "discover", discovering)
        assert [each.name for each in survey(plugins, OPEN).discovery.packages] == ["x"]
        assert len(calls) == 2


class TestAll:
    @pytest.mark.req("PLG-298", "PLG-302", "PLG-329", "PLG-330")
    def test_every_package_has_a_result_and_no_failure_stops_the_others(
        self, tmp_path: Path, registry: Registry
    ) -> None:
        plugins = tmp_path / "plugins"
        for name in ("bad", "current", "greedy", "local", "ok"):
            package(plugins / name, name)
        displace(plugins, "away")
        registry.add("bad", "2.0.0", sha256="0" * 64)
        registry.add("current", "1.0.0")
        registry.add("greedy", "2.0.0", more='permissions = ["http_client"]')
        registry.add("ok", "2.0.0")
        registry.add("away", "2.0.0")
        results = {result.name: result for result in updater(plugins).update_all(registry.offer())}
        assert {name: result.outcome for name, result in results.items()} == {
            "away": Outcome.SKIPPED,
            "bad": Outcome.NOT_UPDATED,
            "current": Outcome.UP_TO_DATE,
            "greedy": Outcome.NEEDS_APPROVAL,
            "local": Outcome.SKIPPED,
            "ok": Outcome.UPDATED,
        }
        assert results["away"].skipped is SkipReason.DISPLACED
        assert results["local"].skipped is SkipReason.NOT_LISTED
        assert [name for name, result in results.items() if result.failed] == ["bad", "greedy"]
        assert versions(plugins) == {
            name: "2.0.0" if name == "ok" else "1.0.0" for name in results if name != "away"
        }

    @pytest.mark.req("PLG-339", "PLG-341")
    def test_what_earlier_updates_could_not_delete_goes_with_an_update_of_all(
        self, plugins: Path, registry: Registry
    ) -> None:
        registry.add(version="1.0.0")
        for marked in (True, False):
            displace(plugins, version="0.1.0", marked=marked)
        [result] = updater(plugins).update_all(registry.offer())
        assert result.outcome is Outcome.UP_TO_DATE
        assert state(plugins) == OLD

    @pytest.mark.req("PLG-338")
    def test_a_package_displaced_during_the_batch_stays_displaced(
        self, tmp_path: Path, registry: Registry
    ) -> None:
        plugins = tmp_path / "plugins"
        for name in ("a", "b"):
            package(plugins / name, name)
            registry.add(name, "2.0.0")
        results: list[UpdateResult] = []
        for result in updater(plugins).update_all(registry.offer()):
            results.append(result)
            if result.name == "a":
                entry = displace(plugins, "b")
                for path in sorted((plugins / "b").iterdir()):
                    path.unlink()
                (plugins / "b").rmdir()
        assert [(result.name, result.outcome) for result in results] == [
            ("a", Outcome.UPDATED),
            ("b", Outcome.SKIPPED),
        ]
        assert results[1].skipped is SkipReason.DISPLACED
        assert (entry / "package" / "manifest.toml").exists()
        assert versions(plugins) == {"a": "2.0.0"}


@pytest.mark.req("PLG-347")
def test_while_a_package_is_replaced_a_tool_set_has_either_version_or_none_and_never_a_mixture(
    tmp_path: Path,
) -> None:
    plugins = tmp_path / "plugins"
    offers = []
    for version in ("1.0.0", "2.0.0"):
        digest = hashlib.sha256(component(version)).hexdigest()
        source = package(tmp_path / version, version=version, more=f'wasm_sha256 = "{digest}"')
        offers.append(DirectoryOffer(source))
    package(plugins / "x", version="0.1.0")
    over = threading.Event()
    seen: set[tuple[str, bytes | None]] = set()

    def look() -> None:
        while not over.is_set():
            for found in discover(plugins, OPEN).packages:
                try:
                    read = found.read()
                except (PackageError, PackageChanged):
                    continue  # none, as it was being replaced between the two looks
                seen.add((read.manifest.version, read.component))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for number in range(20):
            assert run(plugins, "x", offers[number % 2]).outcome is Outcome.UPDATED
    finally:
        over.set()
        watcher.join()
    assert {(version, data) for version, data in seen if version != "0.1.0"} <= {
        (version, component(version)) for version in ("1.0.0", "2.0.0")
    }
    assert versions(plugins) == {"x": "2.0.0"}


@pytest.mark.req("PLG-062", "PLG-301")
def test_installing_what_is_installed_points_to_update(plugins: Path, tmp_path: Path) -> None:
    from zeroclaw_host.installation.install import install
    from zeroclaw_host.package.reader import DirectoryReader

    source = package(tmp_path / "new", version="2.0.0")
    with pytest.raises(NameOccupied) as caught:
        install(plugins, DirectoryReader(source), policy=OPEN, load_check=never)
    assert caught.value.remedy == Remedy(RemedyAction.UPDATE_PLUGIN, {"name": "x"})
    assert state(plugins) == OLD
