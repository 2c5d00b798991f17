"""What an installation makes can be read by its owner alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.private_files import create, make_private, sync_directory, write_all
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_store import DurableState


@pytest.fixture(params=[0o000, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("umask")
def test_a_directory_is_made_with_its_parents_for_its_owner_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)


def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    make_private(tmp_path / "open")
    make_private(tmp_path / "open" / "below")
    assert (mode(tmp_path / "open"), mode(tmp_path / "open" / "below")) == (0o755, 0o700)


def test_what_is_no_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match="not a directory"):
            make_private(path)


@pytest.mark.usefixtures("umask")
def test_a_file_is_made_anew_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new"
    descriptor = create(path)
    write_all(descriptor, b"all of it")
    os.close(descriptor)
    sync_directory(tmp_path)
    assert (mode(path), path.read_bytes()) == (0o600, b"all of it")
    (tmp_path / "link").symlink_to(path)
    for name in ("new", "link"):
        with pytest.raises(FileExistsError):
            create(tmp_path / name)


@pytest.mark.req("PLG-157")
@pytest.mark.usefixtures("umask")
def test_the_first_value_that_is_put_makes_private_directories_all_the_way(tmp_path: Path) -> None:
    data = tmp_path / "zeroclaw" / "data"
    state = DurableState(data / "state.db", KeyFile(tmp_path / "config" / ".secret_key"))
    state.put(InstanceIdentity.default_tool("demo"), "k", b"v", None)
    made = [data.parent, data, tmp_path / "config"]
    assert [mode(path) for path in made] == [0o700] * 3
    assert mode(data / "state.db") == mode(tmp_path / "config" / ".secret_key") == 0o600
    state.close()
