"""Where configuration, data and endpoint are, for the daemon and its clients alike."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from zeroclaw_daemon.config.paths import EndpointInvalid, Paths
from zeroclaw_host.errors import UsageError

HOME = {"HOME": "/home/ada"}
WINDOWS_HOME = {"USERPROFILE": r"C:\Users\Ada"}


def linux(config_dir: str | None = None, **env: str) -> Paths:
    return Paths.resolve(config_dir, {**HOME, **env}, platform="linux", cwd="/srv/here")


def windows(config_dir: str | None = None, **env: str) -> Paths:
    return Paths.resolve(config_dir, {**WINDOWS_HOME, **env}, platform="win32", cwd="C:\\")


@pytest.mark.req("RPC-002", "RPC-003")
def test_with_nothing_set_everything_is_under_the_home_directory() -> None:
    paths = linux()
    assert paths.config_file == "/home/ada/.zeroclaw/config.toml"
    assert paths.data_dir == "/home/ada/.zeroclaw/data"
    assert paths.endpoint == "/home/ada/.zeroclaw/data/daemon.sock"
    assert paths.plugins_dir_default == "/home/ada/.zeroclaw/plugins"
    assert paths.cache_dir == "/home/ada/.zeroclaw/data/cache"
    assert paths.log_file == "/home/ada/.zeroclaw/data/logs/daemon.jsonl"
    assert not paths.endpoint_named
    assert not paths.data_dir_named
    assert paths.notices == ()


@pytest.mark.req("RPC-004", "RPC-005", "RPC-006")
@pytest.mark.parametrize(
    ("flag", "env", "config_dir", "data_dir"),
    [
        ("/f", {}, "/f", "/f/data"),
        (None, {"ZEROCLAW_CONFIG_DIR": "/c"}, "/c", "/c/data"),
        ("/f", {"ZEROCLAW_CONFIG_DIR": "/c"}, "/f", "/f/data"),
        (None, {"ZEROCLAW_DATA_DIR": "/x/zc"}, "/home/ada/.zeroclaw", "/x/zc"),
        (None, {"ZEROCLAW_DATA_DIR": "/x/data"}, "/home/ada/.zeroclaw", "/x/data"),
        ("/f", {"ZEROCLAW_DATA_DIR": "/x"}, "/f", "/f/data"),
        (None, {"ZEROCLAW_CONFIG_DIR": "/c", "ZEROCLAW_DATA_DIR": "/x"}, "/c", "/c/data"),
        ("rel", {}, "/srv/here/rel", "/srv/here/rel/data"),
        ("~/z", {}, "/home/ada/z", "/home/ada/z/data"),
    ],
)
def test_the_flag_wins_over_the_config_variable_which_wins_over_the_data_variable(
    flag: str | None, env: dict[str, str], config_dir: str, data_dir: str
) -> None:
    paths = linux(flag, **env)
    assert (paths.config_dir, paths.data_dir, paths.endpoint) == (
        config_dir,
        data_dir,
        f"{data_dir}/daemon.sock",
    )


@pytest.mark.req("RPC-006")
def test_a_variable_that_lost_is_named() -> None:
    assert linux("/f", ZEROCLAW_CONFIG_DIR="/c", ZEROCLAW_DATA_DIR="/d").notices == (
        "ZEROCLAW_CONFIG_DIR is not used: --config-dir wins over it",
        "ZEROCLAW_DATA_DIR is not used: --config-dir wins over it",
    )
    assert linux("/f", ZEROCLAW_CONFIG_DIR="/f").notices == ()


@pytest.mark.req("RPC-007")
def test_each_data_directory_has_its_own_endpoint() -> None:
    assert linux("/a").endpoint != linux("/b").endpoint
    assert windows("C:\\a").endpoint != windows("C:\\b").endpoint


@pytest.mark.req("RPC-008")
def test_the_socket_variable_wins_over_every_directory() -> None:
    paths = linux("/f", ZEROCLAW_SOCKET="/run/x/my.sock", ZEROCLAW_DATA_DIR="/d")
    assert paths.endpoint == "/run/x/my.sock"
    assert paths.endpoint_named
    assert paths.data_dir == "/f/data"


@pytest.mark.req("RPC-230")
@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
@pytest.mark.parametrize(
    "name", ["ZEROCLAW_SOCKET", "ZEROCLAW_CONFIG_DIR", "ZEROCLAW_DATA_DIR", "ZEROCLAW_CACHE_DIR"]
)
def test_a_blank_variable_counts_as_unset(name: str, blank: str) -> None:
    assert linux(**{name: blank}) == linux()


@pytest.mark.req("RPC-230")
def test_a_variable_is_trimmed_and_its_tilde_expanded() -> None:
    assert linux(ZEROCLAW_SOCKET=" ~/x/my.sock ").endpoint == "/home/ada/x/my.sock"
    assert linux(ZEROCLAW_CONFIG_DIR="\t~/c\n").config_dir == "/home/ada/c"
    assert linux(ZEROCLAW_DATA_DIR=" ~ ").data_dir == "/home/ada"
    assert linux(ZEROCLAW_CONFIG_DIR="~other/c").config_dir == "/srv/here/~other/c"


@pytest.mark.req("RPC-012")
def test_macos_has_the_same_default() -> None:
    paths = Paths.resolve(None, HOME, platform="darwin", cwd="/")
    assert paths.endpoint == "/home/ada/.zeroclaw/data/daemon.sock"


@pytest.mark.req("RPC-013")
def test_the_default_pipe_is_named_after_the_data_directory() -> None:
    expected = hashlib.sha256(rb"C:\Users\Ada\.zeroclaw\data").hexdigest()[:16]
    assert windows().endpoint == rf"\\.\pipe\zeroclaw-{expected}"
    assert windows("C:\\zc").endpoint == windows("C:\\zc\\").endpoint == windows("C:/zc/").endpoint


@pytest.mark.req("RPC-013")
@pytest.mark.parametrize("variable", ["ZEROCLAW_DATA_DIR", "ZEROCLAW_CONFIG_DIR"])
def test_one_directory_is_one_pipe_however_it_is_written_and_another_is_another(variable: str) -> None:
    named = windows(**{variable: r"C:\zc"}).endpoint
    assert named.startswith("\\\\.\\pipe\\zeroclaw-")
    for same in ("C:\\zc\\", "C:/zc/", "C:\\zc\\\\", r"C:\zc\.", "zc\\"):
        assert windows(**{variable: same}).endpoint == named
    assert windows(**{variable: r"C:\zd"}).endpoint != named


@pytest.mark.req("RPC-013")
def test_the_pipe_name_does_not_depend_on_the_process() -> None:
    program = (
        "from zeroclaw_daemon.config.paths import Paths; "
        "print(Paths.resolve('C:\\\\zc', {}, platform='win32', cwd='C:\\\\').endpoint)"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1


@pytest.mark.req("RPC-014")
def test_on_windows_the_socket_variable_takes_a_pipe_name_and_nothing_else() -> None:
    assert windows(ZEROCLAW_SOCKET=r"\\.\pipe\my-zeroclaw").endpoint == r"\\.\pipe\my-zeroclaw"
    for other in ("/tmp/my.sock", r"C:\x.sock", "\\\\.\\pipe\\", r"\\.\pipe\a\b"):
        with pytest.raises(EndpointInvalid, match="ZEROCLAW_SOCKET"):
            windows(ZEROCLAW_SOCKET=other)


def test_a_blank_flag_is_a_mistake_and_not_a_default() -> None:
    with pytest.raises(UsageError, match="--config-dir"):
        linux(" ")


def test_without_a_home_directory_the_error_says_what_to_set() -> None:
    with pytest.raises(UsageError, match="USERPROFILE"):
        Paths.resolve(None, {}, platform="win32", cwd="C:\\")
    assert Paths.resolve("C:\\c", {}, platform="win32", cwd="C:\\").config_dir == "C:\\c"


@pytest.mark.req("RPC-230")
def test_a_blank_home_directory_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Path(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("HOME", "")
    for home in ({}, {"HOME": ""}, {"HOME": " "}):
        assert Paths.resolve(None, home, cwd="/").config_dir == str(account / ".zeroclaw")
