"""``remove`` under a name the host did not load: what goes, what stays, and what an interrupted run leaves to the next."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import PluginNotFound, Remedy, RemedyAction, SignatureRefused, ZeroclawError
from zeroclaw_host.installation import footprint
from zeroclaw_host.installation.claim import DirectorySwapped, NotPutBack
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import Operation, PosixFileSystem
from zeroclaw_host.installation.footprint import Footprint, Member
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.recovery import KeptBecause, RemoveRefused
from zeroclaw_host.installation.remove import RemoveReport, remove
from zeroclaw_host.installation.transaction import EntryName, MoveUnsupported, TransactionKind
from zeroclaw_host.package.reader import MAX_COMPONENT_BYTES, DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy, publisher_key, sign_manifest

OPEN = SignaturePolicy()
KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
STRICT = SignaturePolicy.of(SignatureMode.STRICT, [publisher_key(KEY)])
COMPONENT = b"\0asm\x0d\0\x01\0"

MANIFEST = 'name = "x"\nversion = "1.0.0"\ncapabilities = ["tool"]\nwasm_path = "plugin.wasm"\n'
NESTED = MANIFEST.replace("plugin.wasm", "bin/deep/plugin.wasm")
SKILLS = 'name = "x"\nversion = "1.0.0"\ncapabilities = ["skill"]\n'
SKILL = "---\nname: a\ndescription: b\n---\n"
BROKEN_SCHEMA = MANIFEST + 'permissions = ["config_read"]\n[config_schema]\ntype = "string"\n'
BEFORE_TYPED_CONFIG = MANIFEST + 'permissions = ["config_read"]\n'
WRONG_HOST = MANIFEST + '[egress]\nhosts = ["*"]\n'
WRONG_DIGEST = MANIFEST + f'wasm_sha256 = "{"0" * 64}"\n'

Tree = dict[str, str | bytes | Callable[[Path], object]]
"""What a directory holds: texts and bytes are files, a function makes anything else."""


def link(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def lay(directory: Path, tree: Tree) -> Path:
    directory.mkdir(parents=True)
    for name, content in tree.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_COMPONENT_BYTES + 1)


def snapshot(directory: Path) -> dict[str, str]:
    """Every path below a directory with what is there; the lock file aside."""
    found: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        if path.name == LOCK_NAME:
            continue
        if path.is_symlink():
            content = f"-> {path.readlink()}"
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = "directory"
        found[str(path.relative_to(directory))] = content
    return found


def hidden(plugins: Path) -> list[str]:
    return sorted(
        path.name for path in plugins.iterdir() if path.name.startswith(".") and path.name != LOCK_NAME
    )


def signed(manifest: str, component: bytes | None = COMPONENT) -> bytes:
    return sign_manifest(manifest.encode(), private_key=KEY, component=component)


QUALIFIES: dict[str, tuple[tuple[str, ...], Tree]] = {
    "an empty directory": (("PLG-066",), {}),
    "half a manifest": (("PLG-067", "PLG-068"), {"manifest.toml": MANIFEST[:14]}),
    "a manifest of nothing": (("PLG-068",), {"manifest.toml": ""}),
    "a manifest that is no text": (("PLG-068",), {"manifest.toml": b"name = \xff"}),
    "a manifest cut between two keys": (("PLG-068", "PLG-367"), {"manifest.toml": MANIFEST[:29]}),
    "no component": (("PLG-069",), {"manifest.toml": MANIFEST}),
    "no component, in folders": (
        ("PLG-069", "PLG-074"),
        {"manifest.toml": NESTED, "bin/deep": lambda path: path.mkdir()},
    ),
    "another component": (("PLG-070",), {"manifest.toml": WRONG_DIGEST, "plugin.wasm": COMPONENT}),
    "a component that is too large": (("PLG-071",), {"manifest.toml": MANIFEST, "plugin.wasm": sparse}),
    "a schema that does not compile": (
        ("PLG-072",),
        {"manifest.toml": BROKEN_SCHEMA, "plugin.wasm": COMPONENT},
    ),
    "an incomplete skill": (
        ("PLG-073",),
        {"manifest.toml": SKILLS, "skills/a/SKILL.md": SKILL, "skills/b": lambda path: path.mkdir()},
    ),
    "no skills": (("PLG-073",), {"manifest.toml": SKILLS}),
    "a package from before typed configuration": (
        ("PLG-367",),
        {"manifest.toml": BEFORE_TYPED_CONFIG, "plugin.wasm": COMPONENT},
    ),
    "a destination that is none": (("PLG-367",), {"manifest.toml": WRONG_HOST, "plugin.wasm": COMPONENT}),
    "a permission of the future": (
        ("PLG-367",),
        {"manifest.toml": MANIFEST + 'permissions = ["fly"]\n', "plugin.wasm": COMPONENT},
    ),
}


def cases(table: dict[str, tuple[tuple[str, ...], Tree]]) -> list[object]:
    return [
        pytest.param(tree, marks=pytest.mark.req(*numbers), id=name)
        for name, (numbers, tree) in table.items()
    ]


@pytest.mark.parametrize("tree", cases(QUALIFIES))
def test_an_installs_leftover_is_removed_and_the_name_is_free(tmp_path: Path, tree: Tree) -> None:
    lay(tmp_path / "plugins" / "x", tree)
    report = remove(tmp_path / "plugins", "x", policy=OPEN)
    assert snapshot(tmp_path / "plugins") == {}
    assert (report.name, report.version, report.leftover, report.kept) == ("x", None, None, ())


@pytest.mark.req("PLG-067", "PLG-084", "PLG-367")
@pytest.mark.parametrize("name", [name for name in QUALIFIES if name != "an empty directory"])
def test_with_one_foreign_file_beside_it_every_leftover_stays(tmp_path: Path, name: str) -> None:
    lay(tmp_path / "plugins" / "x", QUALIFIES[name][1] | {"notes/todo.txt": "mine"})
    before = snapshot(tmp_path / "plugins")
    with pytest.raises(RemoveRefused, match="holds notes, which no install writes"):
        remove(tmp_path / "plugins", "x", policy=OPEN)
    assert snapshot(tmp_path / "plugins") == before


REFUSED: dict[str, tuple[tuple[str, ...], str, Tree]] = {
    "files and no manifest": (("PLG-083",), r"no manifest\.toml", {"plugin.wasm": COMPONENT}),
    "folders and no manifest": (("PLG-083",), r"no manifest\.toml", {"src": lambda path: path.mkdir()}),
    "a source tree": (("PLG-084",), "src", {"manifest.toml": MANIFEST, "src/plugin.py": "pass"}),
    "a file manager's file": (("PLG-085",), "DS_Store", {"manifest.toml": MANIFEST, ".DS_Store": "x"}),
    "a hidden folder": (
        ("PLG-084",),
        r"\.git",
        {"manifest.toml": MANIFEST, ".git": lambda path: path.mkdir()},
    ),
    "another package's manifest": (
        ("PLG-086",),
        "names the package y",
        {"manifest.toml": MANIFEST.replace('"x"', '"y"')},
    ),
    "half a manifest and a component": (
        ("PLG-075",),
        r"plugin\.wasm",
        {"manifest.toml": "name = ", "plugin.wasm": COMPONENT},
    ),
    "a file beside a nested component": (
        ("PLG-074",),
        "bin/deep/other",
        {"manifest.toml": NESTED, "bin/deep/other": "x"},
    ),
    "a folder in the component's place": (
        ("PLG-074",),
        r"plugin\.wasm",
        {"manifest.toml": MANIFEST, "plugin.wasm": lambda path: path.mkdir()},
    ),
    "a link in the component's place": (
        ("PLG-074",),
        r"plugin\.wasm",
        {"manifest.toml": MANIFEST, "plugin.wasm": link("/etc/passwd")},
    ),
    "a file in the place of the component's folder": (
        ("PLG-074",),
        "holds bin",
        {"manifest.toml": NESTED, "bin": "x"},
    ),
    "skills without the capability": (
        ("PLG-074",),
        "skills",
        {"manifest.toml": MANIFEST, "skills/a/SKILL.md": SKILL},
    ),
    "a link among the skills": (
        ("PLG-074",),
        "skills/a/link",
        {"manifest.toml": SKILLS, "skills/a/link": link("/etc/passwd")},
    ),
    "a link for a manifest": (
        ("PLG-067",),
        r"manifest\.toml is no regular file",
        {"manifest.toml": link("/dev/null")},
    ),
    "a pipe": (("PLG-084",), "holds pipe", {"manifest.toml": MANIFEST, "pipe": os.mkfifo}),
    "skills that are a file": (("PLG-074",), "skills", {"manifest.toml": SKILLS, "skills": "x"}),
}


@pytest.mark.req("PLG-095")
@pytest.mark.parametrize(
    ("reason", "tree"),
    [
        pytest.param(reason, tree, marks=pytest.mark.req(*numbers), id=name)
        for name, (numbers, reason, tree) in REFUSED.items()
    ],
)
def test_what_may_be_somebodys_is_put_back_as_it_was_with_the_reason(
    tmp_path: Path, reason: str, tree: Tree
) -> None:
    plugins = tmp_path / "plugins"
    lay(plugins / "x", tree)
    before, inode = snapshot(plugins), (plugins / "x").stat().st_ino
    with pytest.raises(RemoveRefused, match=reason) as caught:
        remove(plugins, "x", policy=OPEN)
    assert caught.value.message.startswith(f"{plugins / 'x'} was not removed: ")
    assert caught.value.remedy == Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(plugins / "x")})
    assert snapshot(plugins) == before
    assert (plugins / "x").stat().st_ino == inode


@pytest.mark.req("PLG-081", "PLG-082")
@pytest.mark.parametrize("kind", ["link to a directory", "link to nowhere", "file", "pipe"])
def test_what_is_no_directory_is_refused_where_it_is(tmp_path: Path, kind: str) -> None:
    plugins = tmp_path / "plugins"
    lay(tmp_path / "elsewhere", {"manifest.toml": MANIFEST})
    makers: Tree = {
        "link to a directory": link("../elsewhere"),
        "link to nowhere": link("nowhere"),
        "file": "text",
        "pipe": os.mkfifo,
    }
    lay(plugins, {"x": makers[kind]})
    before = snapshot(tmp_path)
    with pytest.raises(RemoveRefused, match="symbolic link" if "link" in kind else "no directory"):
        remove(plugins, "x", policy=OPEN)
    assert snapshot(tmp_path) == before


@pytest.mark.req("PLG-088")
def test_the_directory_of_a_loaded_package_is_refused_under_its_own_name(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST.replace('"x"', '"y"'), "plugin.wasm": COMPONENT})
    with pytest.raises(PluginNotFound, match="holds the package y") as caught:
        remove(tmp_path, "x", policy=OPEN)
    assert caught.value.remedy == Remedy(RemedyAction.REMOVE_PLUGIN, {"name": "y"})
    assert (tmp_path / "x" / "plugin.wasm").exists()


@pytest.mark.req("PLG-089")
def test_a_package_that_admission_accepts_and_nothing_loaded_is_put_back(tmp_path: Path) -> None:
    for directory in ("x", "copy"):
        lay(tmp_path / directory, {"manifest.toml": MANIFEST, "plugin.wasm": COMPONENT})
    before = snapshot(tmp_path)
    with pytest.raises(RemoveRefused, match="a package that this host accepts"):
        remove(tmp_path, "x", policy=OPEN)
    assert snapshot(tmp_path) == before


OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)

SIGNATURES: dict[str, tuple[tuple[str, ...], bytes]] = {
    "unsigned": (("PLG-090", "PLG-094"), MANIFEST.encode()),
    "of an untrusted publisher": (
        ("PLG-091", "PLG-094"),
        sign_manifest(MANIFEST.encode(), private_key=OTHER_KEY, component=COMPONENT),
    ),
    "altered": (("PLG-092", "PLG-094"), signed(MANIFEST).replace(b"1.0.0", b"1.0.1")),
}


@pytest.mark.parametrize("with_component", [True, False], ids=["with its component", "alone"])
@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(data, marks=pytest.mark.req(*numbers), id=name)
        for name, (numbers, data) in SIGNATURES.items()
    ],
)
def test_in_strict_mode_a_manifest_is_refused_for_its_signature_even_alone(
    tmp_path: Path, manifest: bytes, with_component: bool
) -> None:
    tree: Tree = {"manifest.toml": manifest} | ({"plugin.wasm": COMPONENT} if with_component else {})
    lay(tmp_path / "x", tree)
    before = snapshot(tmp_path)
    with pytest.raises(RemoveRefused) as caught:
        remove(tmp_path, "x", policy=STRICT)
    assert isinstance(caught.value.__cause__, SignatureRefused)
    assert snapshot(tmp_path) == before


@pytest.mark.req("PLG-093")
def test_in_strict_mode_a_signed_manifest_without_a_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zeroclaw_host.package.signature as signature

    monkeypatch.setattr(signature, "_with_root_key", without_digest(signature._with_root_key))
    lay(tmp_path / "x", {"manifest.toml": signed(MANIFEST), "plugin.wasm": COMPONENT})
    with pytest.raises(RemoveRefused, match="wasm_sha256"):
        remove(tmp_path, "x", policy=STRICT)
    assert (tmp_path / "x" / "plugin.wasm").exists()


def without_digest(write: Callable[..., object]) -> Callable[..., object]:
    """Signing as a tool does that leaves the component's digest out."""
    return lambda source, key, value: source if key == "wasm_sha256" else write(source, key, value)


@pytest.mark.req("PLG-094")
def test_in_strict_mode_a_well_signed_manifest_whose_component_is_missing_is_removed(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": signed(MANIFEST)})
    remove(tmp_path, "x", policy=STRICT)
    assert snapshot(tmp_path) == {}


@pytest.mark.req("PLG-087")
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("place", ["listing", "reading"])
def test_a_directory_that_cannot_be_looked_into_is_put_back_with_the_systems_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    plugins = tmp_path / "plugins"
    lay(plugins / "x", {"manifest.toml": MANIFEST})
    before = snapshot(plugins)
    if place == "listing":

        def fail(path: Path) -> dict[str, Member]:
            raise OSError(number, os.strerror(number), str(path))

        monkeypatch.setattr(footprint, "list_members", fail)
    else:
        real = os.open

        def opened(path: object, *arguments: int, dir_fd: int | None = None) -> int:
            # The component is asked for only once the directory was claimed.
            if path == "plugin.wasm" and hidden(plugins):
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *arguments, dir_fd=dir_fd)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", opened)
    with pytest.raises(RemoveRefused, match=f"(?i){os.strerror(number)}"):
        remove(plugins, "x", policy=OPEN)
    assert snapshot(plugins) == before


@pytest.mark.req("PLG-065")
def test_the_directory_is_judged_while_it_is_reserved_in_a_hidden_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST})
    seen: list[tuple[list[str], list[str]]] = []
    real = footprint.list_members

    def listing(path: Path) -> dict[str, Member]:
        [entry] = hidden(tmp_path)
        seen.append((sorted(each.name for each in (tmp_path / entry).iterdir()), sorted(real(path))))
        assert not (tmp_path / "x").exists()
        assert EntryName.parse(entry) is not None
        assert entry.startswith(".x.recovering-v1-")
        return real(path)

    monkeypatch.setattr(footprint, "list_members", listing)
    remove(tmp_path, "x", policy=OPEN)
    assert seen == [(["lease", "package"], ["manifest.toml"])]


def acting(when: Operation, act: Callable[[Event], object], *, after: bool = False) -> WatchedFileSystem:
    """A file system under which something happens beside the first operation of a kind."""
    done: list[bool] = []

    def hook(event: Event) -> None:
        if event.operation is when and not done:
            done.append(True)
            act(event)

    return WatchedFileSystem(PosixFileSystem(), **{"after" if after else "before": hook})


@pytest.mark.req("PLG-095", "PLG-097", "PLG-100")
@pytest.mark.parametrize("occupant", ["empty directory", "file"])
def test_what_came_to_the_name_meanwhile_stays_and_the_package_is_kept_hidden_and_named(
    tmp_path: Path, occupant: str
) -> None:
    path = lay(tmp_path / "x", {"manifest.toml": MANIFEST, "mine": "x"})

    def occupy(event: Event) -> None:
        del event
        path.mkdir() if occupant == "empty directory" else path.write_bytes(b"theirs")

    with pytest.raises(NotPutBack) as caught:
        remove(tmp_path, "x", policy=OPEN, filesystem=acting(Operation.RENAME, occupy, after=True))
    kept = Path(str(caught.value.details["location"]))
    assert (kept / "mine").read_text() == "x"
    assert str(kept) in caught.value.message
    assert "not to be deleted just because it looks left over" in caught.value.message
    assert "resolve that and run the command again" in caught.value.message
    assert "intact" not in caught.value.message
    assert caught.value.remedy == Remedy(RemedyAction.CLEAR_BY_HAND, {"path": str(path)})
    assert path.is_file() or not any(path.iterdir())

    with pytest.raises(NotPutBack, match="something is at"):
        remove(tmp_path, "x", policy=OPEN)
    path.rmdir() if occupant == "empty directory" else path.unlink()
    with pytest.raises(RemoveRefused, match="holds mine"):
        remove(tmp_path, "x", policy=OPEN)
    assert snapshot(tmp_path).keys() == {"x", "x/manifest.toml", "x/mine"}


@pytest.mark.req("PLG-096")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_a_safe_move_nothing_is_reserved(tmp_path: Path, number: int) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST})
    before = snapshot(tmp_path)

    def mover(*arguments: object) -> None:
        del arguments
        raise OSError(number, os.strerror(number))

    with pytest.raises(MoveUnsupported):
        remove(tmp_path, "x", policy=OPEN, filesystem=PosixFileSystem(mover))
    assert snapshot(tmp_path) == before


@pytest.mark.req("PLG-096", "PLG-097")
def test_without_a_safe_move_back_the_bytes_stay_where_the_error_says(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST, "mine": "x"})
    real = PosixFileSystem()
    moves: list[str] = []

    def before(event: Event) -> None:
        if event.operation is Operation.RENAME:
            moves.append(event.path)
            if len(moves) > 1:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with pytest.raises(NotPutBack, match="cannot move a directory without replacing") as caught:
        remove(tmp_path, "x", policy=OPEN, filesystem=WatchedFileSystem(real, before=before))
    assert (Path(str(caught.value.details["location"])) / "mine").exists()
    assert not (tmp_path / "x").exists()


def test_a_directory_that_was_exchanged_at_the_last_moment_is_not_judged(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST})
    lay(tmp_path / "other", {"precious": "x"})

    class Swapping(PosixFileSystem):
        def rename_no_replace(self, root: int, source: str, target: str) -> None:
            if source == "x":
                (tmp_path / "x").rename(tmp_path / "aside")
                (tmp_path / "other").rename(tmp_path / "x")
            super().rename_no_replace(root, source, target)

    with pytest.raises(DirectorySwapped):
        remove(tmp_path, "x", policy=OPEN, filesystem=Swapping())
    assert (tmp_path / "x" / "precious").exists()
    assert (tmp_path / "aside" / "manifest.toml").exists()


def abandoned(plugins: Path, kind: TransactionKind, tree: Tree | None, *, marked: bool = False) -> Path:
    """An entry whose command is gone."""
    entry = plugins / str(EntryName.fresh("x", kind))
    lay(entry, {"lease": ""} | ({"deleting": ""} if marked else {}))
    if tree is not None:
        lay(entry / "package", tree)
    return entry


@contextmanager
def held(entry: Path) -> Iterator[None]:
    """As if the entry's command were running."""
    with (entry / "lease").open("r+") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        yield


@pytest.mark.req("PLG-076", "PLG-077", "PLG-078", "PLG-079")
def test_abandoned_stagings_go_with_the_leftover_and_all_others_stay_and_are_told(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST})
    gone = abandoned(tmp_path, TransactionKind.INSTALLING, {"manifest.toml": "half"})
    emptied = lay(tmp_path / str(EntryName.fresh("x", TransactionKind.INSTALLING)), {})
    live = abandoned(tmp_path, TransactionKind.INSTALLING, {"manifest.toml": "half"})
    unclear = lay(tmp_path / str(EntryName.fresh("x", TransactionKind.INSTALLING)), {"package/a": "b"})
    legacy = lay(tmp_path / ".x.installing-1", {"manifest.toml": "half"})
    others = abandoned(tmp_path, TransactionKind.INSTALLING, {})
    others = others.rename(tmp_path / str(EntryName.fresh("y", TransactionKind.INSTALLING)))
    with held(live):
        report = remove(tmp_path, "x", policy=OPEN)
    assert {kept.path: kept.because for kept in report.kept} == {
        live: KeptBecause.LIVE,
        unclear: KeptBecause.UNCLEAR,
        legacy: KeptBecause.LEGACY,
    }
    assert hidden(tmp_path) == sorted(path.name for path in (live, unclear, legacy, others))
    assert not gone.exists()
    assert not emptied.exists()

    source = lay(
        tmp_path.parent / f"{tmp_path.name}-source", {"manifest.toml": MANIFEST, "plugin.wasm": COMPONENT}
    )
    with held(live):
        install(tmp_path, DirectoryReader(source), policy=OPEN, load_check=None)
    assert (tmp_path / "x" / "plugin.wasm").exists()


@pytest.mark.req("PLG-061", "PLG-080")
def test_without_a_package_of_the_name_no_staging_is_touched(tmp_path: Path) -> None:
    abandoned(tmp_path, TransactionKind.INSTALLING, {"manifest.toml": "half"})
    lay(tmp_path / ".x.installing-1", {"manifest.toml": "half"})
    before = snapshot(tmp_path)
    with pytest.raises(PluginNotFound):
        remove(tmp_path, "x", policy=OPEN)
    assert snapshot(tmp_path) == before
    source = lay(
        tmp_path.parent / f"{tmp_path.name}-source", {"manifest.toml": MANIFEST, "plugin.wasm": COMPONENT}
    )
    install(tmp_path, DirectoryReader(source), policy=OPEN, load_check=None)
    assert {path: seen for path, seen in snapshot(tmp_path).items() if path.startswith(".")} == before


@pytest.mark.req("PLG-080", "PLG-099")
def test_a_deletion_that_was_committed_is_finished_and_never_put_back(tmp_path: Path) -> None:
    abandoned(tmp_path, TransactionKind.RECOVERING, {"manifest.toml": MANIFEST, "mine": "x"}, marked=True)
    staging = abandoned(tmp_path, TransactionKind.INSTALLING, {"manifest.toml": "half"})
    report = remove(tmp_path, "x", policy=OPEN)
    assert (report.version, report.leftover) == (None, None)
    assert snapshot(tmp_path) == {}
    assert not staging.exists()


@pytest.mark.req("PLG-098")
@pytest.mark.parametrize(
    ("tree", "outcome"),
    [
        ({"manifest.toml": MANIFEST}, "removed"),
        ({"manifest.toml": MANIFEST, "mine": "x"}, "refused"),
        ({"manifest.toml": MANIFEST, "plugin.wasm": COMPONENT}, "removed as a package"),
    ],
    ids=["a leftover", "somebody's", "a package that loads"],
)
def test_a_package_an_interrupted_removal_kept_is_put_back_and_judged_again(
    tmp_path: Path, tree: Tree, outcome: str
) -> None:
    abandoned(tmp_path, TransactionKind.RECOVERING, tree)
    report: RemoveReport | None = None
    with suppress(RemoveRefused):
        report = remove(tmp_path, "x", policy=OPEN)
    if outcome == "refused":
        assert report is None
        assert snapshot(tmp_path).keys() == {"x", "x/manifest.toml", "x/mine"}
    else:
        assert report is not None
        assert (report.version == "1.0.0") == (outcome == "removed as a package")
        assert snapshot(tmp_path) == {}


def test_a_claim_that_is_held_is_left_alone(tmp_path: Path) -> None:
    entry = abandoned(tmp_path, TransactionKind.RECOVERING, {"manifest.toml": MANIFEST})
    before = snapshot(tmp_path)
    with held(entry), pytest.raises(PluginNotFound):
        remove(tmp_path, "x", policy=OPEN)
    assert snapshot(tmp_path) == before


@pytest.mark.req("PLG-100")
def test_of_several_packages_that_were_moved_aside_none_is_chosen(tmp_path: Path) -> None:
    both = [abandoned(tmp_path, TransactionKind.RECOVERING, {"manifest.toml": MANIFEST}) for _ in range(2)]
    before = snapshot(tmp_path)
    with pytest.raises(NotPutBack, match="do not delete hidden entries") as caught:
        remove(tmp_path, "x", policy=OPEN)
    assert all(str(entry) in caught.value.message for entry in both)
    assert snapshot(tmp_path) == before


@pytest.mark.req("PLG-064")
def test_removing_a_loaded_package_touches_no_entry(tmp_path: Path) -> None:
    lay(tmp_path / "x", {"manifest.toml": MANIFEST, "plugin.wasm": COMPONENT})
    abandoned(tmp_path, TransactionKind.INSTALLING, {"manifest.toml": "half"})
    abandoned(tmp_path, TransactionKind.REPLACING, {"manifest.toml": MANIFEST})
    before = {path: seen for path, seen in snapshot(tmp_path).items() if path.startswith(".")}
    remove(tmp_path, "x", policy=OPEN)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("place", ["the entry", "its lease", "its package"])
def test_a_link_planted_in_the_place_of_a_part_of_an_entry_leads_nowhere(tmp_path: Path, place: str) -> None:
    plugins = tmp_path / "plugins"
    lay(plugins / "x", {"manifest.toml": MANIFEST})
    outside = lay(tmp_path / "outside", {"lease": "", "package/precious": "x", "precious": "y"})
    entry = plugins / str(EntryName.fresh("x", TransactionKind.INSTALLING))
    match place:
        case "the entry":
            entry.symlink_to(outside)
        case "its lease":
            lay(entry, {"lease": link(str(outside / "lease")), "package/a": "b"})
        case _:
            lay(entry, {"lease": "", "package": link(str(outside))})
    before = snapshot(outside)
    with suppress(ZeroclawError):
        remove(plugins, "x", policy=OPEN)
    assert snapshot(outside) == before
    assert not (plugins / "x").exists()


@pytest.mark.req("PLG-047")
@given(st.dictionaries(st.text("ab/.", min_size=1, max_size=6), st.sampled_from(Member), max_size=5))
def test_beside_a_manifest_that_says_nothing_every_path_is_foreign(members: dict[str, Member]) -> None:
    expected = min((path for path in members if path != "manifest.toml"), default=None)
    assert Footprint.of(b"name = ").foreign(members) == expected
