from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zeroclaw_host.errors import PluginNotFound, Remedy, RemedyAction, StorageError
from zeroclaw_host.installation.discovery import discover
from zeroclaw_host.installation.faults import Event, WatchedFileSystem
from zeroclaw_host.installation.filesystem import PosixFileSystem
from zeroclaw_host.installation.install import install
from zeroclaw_host.installation.lock import LOCK_NAME
from zeroclaw_host.installation.remove import remove
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignatureMode, SignaturePolicy

OPEN = SignaturePolicy(SignatureMode.DISABLED, frozenset())

Write = Callable[..., Any]


def visible(plugins: Path) -> list[str]:
    return sorted(path.name for path in plugins.iterdir() if path.name != LOCK_NAME)


@pytest.mark.req("PLG-064")
def test_removing_deletes_the_packages_directory_and_nothing_else(
    tmp_path: Path, write_package: Write
) -> None:
    plugins = tmp_path / "plugins"
    write_package(plugins / "echo", manifest='permissions = ["http_client"]')
    (plugins / "echo" / "notes.txt").write_text("put there by hand")
    write_package(plugins / "other", name="other")
    report = remove(plugins, "echo", policy=OPEN)
    assert visible(plugins) == ["other"]
    assert (report.name, report.version, report.directory) == ("echo", "1.0.0", plugins / "echo")
    assert report.key is not None
    assert report.leftover is None


def test_a_package_is_found_by_its_name_and_not_by_its_directorys(
    tmp_path: Path, write_package: Write
) -> None:
    write_package(tmp_path / "plugins" / "by-hand")
    with pytest.raises(PluginNotFound, match="holds the package echo") as caught:
        remove(tmp_path / "plugins", "by-hand", policy=OPEN)
    assert caught.value.remedy == Remedy(RemedyAction.REMOVE_PLUGIN, {"name": "echo"})
    assert remove(tmp_path / "plugins", "echo", policy=OPEN).key is None
    assert visible(tmp_path / "plugins") == []


def test_what_is_not_installed_is_not_found_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(PluginNotFound, match="no package named echo"):
        remove(tmp_path / "none", "echo", policy=OPEN)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["..", ".", "", "../other", "/etc", "echo/plugin.wasm", ".echo"])
def test_no_name_leads_out_of_the_plugins_directory(tmp_path: Path, write_package: Write, name: str) -> None:
    write_package(tmp_path / "other")
    write_package(tmp_path / "plugins" / "echo")
    with pytest.raises(PluginNotFound):
        remove(tmp_path / "plugins", name, policy=OPEN)
    assert visible(tmp_path / "plugins") == ["echo"]


@pytest.mark.req("PAINS-11")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_after_a_failure_at_any_step_the_package_is_whole_or_gone_and_removing_again_works(
    tmp_path: Path, write_package: Write, number: int
) -> None:
    source = write_package(tmp_path / "source")

    def prepared(name: str) -> Path:
        plugins = tmp_path / name
        install(plugins, DirectoryReader(source.directory), policy=OPEN, load_check=None)
        return plugins

    watched = WatchedFileSystem(PosixFileSystem())
    remove(prepared("undisturbed"), "echo", policy=OPEN, filesystem=watched)
    for step in range(len(watched.events)):
        plugins = prepared(str(step))

        def before(event: Event, step: int = step) -> None:
            if event.number == step:
                raise OSError(number, os.strerror(number))

        error: StorageError | None = None
        try:
            report = remove(
                plugins, "echo", policy=OPEN, filesystem=WatchedFileSystem(PosixFileSystem(), before=before)
            )
        except StorageError as caught:
            error = caught
        if error is None:
            assert report.leftover is not None
            assert discover(plugins, OPEN).packages == ()
        else:
            assert [package.name for package in discover(plugins, OPEN).packages] == ["echo"]
            remove(plugins, "echo", policy=OPEN)
            assert visible(plugins) == []
