"""``zeroclaw plugin cache``: what is kept of compiled plugins is seen, bounded and removed, beside a running daemon."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

ON = "schema_version = 1\n[plugins]\nenabled = true\nauto_discover = true\n"


@pytest.fixture
def cache(home) -> Path:
    return home.data / "cache"


@pytest.fixture
def installed(zeroclaw, package, other_component) -> None:
    """Two packages, one of them compiled and of another content than the other."""
    assert zeroclaw("plugin", "install", str(package("first"))).status == 0
    assert zeroclaw("plugin", "install", str(package("second", component=other_component))).status == 0


@pytest.fixture(scope="session")
def other_component(component_of) -> bytes:
    text = (Path(__file__).parent / "guest" / "echo.wat").read_text()
    return component_of(text.replace("(global $free", "(func $other)\n  (global $free", 1))


def artifacts(cache: Path) -> set[Path]:
    return set(cache.glob("*.artifact"))


def stale_copy(path: Path) -> Path:
    copy = path.with_name(f"{path.name[: -len('0123456789abcdef.artifact')]}{'0' * 16}.artifact")
    shutil.copy2(path, copy)
    return copy


def test_every_artifact_is_listed_with_its_packages(installed, zeroclaw, package, cache) -> None:
    zeroclaw("plugin", "install", str(package("third")))  # the same component as the first one's
    found = zeroclaw("plugin", "cache", "list", "--json").json
    assert found["directory"] == str(cache)
    assert found["maximum_bytes"] == 4 * 1024**3
    assert found["bytes"] == sum(path.stat().st_size for path in artifacts(cache)) > 0
    assert {tuple(each["packages"]) for each in found["artifacts"]} == {("first", "third"), ("second",)}
    for each in found["artifacts"]:
        path = Path(each["path"])
        assert path in artifacts(cache)
        assert (each["form"], each["bytes"]) == ("whole", path.stat().st_size)
        assert each["sha256"] in path.name
        assert (each["stale"], each["in_use"]) == (False, False)
        assert abs(datetime.fromisoformat(each["last_used"]).timestamp() - time.time()) < 600
        assert datetime.fromisoformat(each["last_used"]).tzinfo == UTC


def test_the_lines_of_the_list_say_the_same(installed, zeroclaw, cache) -> None:
    lines = [line.split("\t") for line in zeroclaw("plugin", "cache", "list").out.splitlines()]
    assert sorted(line[0] for line in lines) == ["first", "second"]
    assert {line[1] for line in lines} == {"whole"}
    assert all(line[2].endswith(" MiB") for line in lines)
    assert {line[4] for line in lines} == {"kept"}


def with_common_module(component: bytes) -> bytes:
    """The component with a core module of 120 000 instructions that do nothing, which nothing uses."""

    def part(kind: int, body: bytes) -> bytes:
        size = bytes((len(body) >> shift) & 0x7F | (0x80 if shift < 14 else 0) for shift in (0, 7, 14))
        return bytes([kind]) + size + body

    code = b"\0" + b"\x01" * 120_000 + b"\x0b"
    module = b"\0asm\x01\0\0\0" + part(1, b"\x01\x60\0\0") + part(3, b"\x01\0")
    return component + part(1, module + part(10, b"\x01" + part(0, code)[1:]))


def test_what_packages_have_in_common_is_kept_once_and_belongs_to_them_all(
    zeroclaw, package, echo_component, other_component
) -> None:
    for name, component in (("first", echo_component), ("second", other_component)):
        source = package(name, component=with_common_module(component))
        assert zeroclaw("plugin", "install", str(source)).status == 0
    zeroclaw("plugin", "install", str(package("third")))
    found = zeroclaw("plugin", "cache", "list", "--json").json["artifacts"]
    assert sorted((each["form"], each["packages"]) for each in found) == [
        ("module", ["first", "second"]),
        ("shared", ["first"]),
        ("shared", ["second"]),
        ("whole", ["third"]),
    ]
    assert zeroclaw("plugin", "cache", "prune", "--unowned", "--json").json["removed"] == []
    zeroclaw("plugin", "remove", "first")
    zeroclaw("plugin", "remove", "third")
    left = zeroclaw("plugin", "cache", "prune", "--unowned", "--json").json["removed"]
    assert sorted(each["form"] for each in left) == ["shared", "whole"]
    zeroclaw("plugin", "remove", "second")
    left = zeroclaw("plugin", "cache", "prune", "--unowned", "--json").json["removed"]
    assert sorted(each["form"] for each in left) == ["module", "shared"]


def test_looking_at_a_cache_that_is_not_there_makes_none(home, zeroclaw, cache) -> None:
    for command in ("list", "prune", "clear"):
        assert zeroclaw("plugin", "cache", command, "--json").status == 0
    assert not cache.exists()
    assert not home.config_file.exists()


def test_pruning_takes_what_is_stale_and_what_is_no_artifact_of_this_release(
    installed, zeroclaw, cache
) -> None:
    before = artifacts(cache)
    stale = stale_copy(min(before))
    old = cache / f"{'1' * 64}-{'2' * 16}.artifact"
    old.write_bytes(b"x" * 1000)
    assert {
        each["path"]
        for each in zeroclaw("plugin", "cache", "list", "--json").json["artifacts"]
        if each["stale"]
    } == {
        str(stale),
        str(old),
    }
    freed = stale.stat().st_size + 1000
    pruned = zeroclaw("plugin", "cache", "prune", "--json").json
    assert {each["path"] for each in pruned["removed"]} == {str(stale), str(old)}
    assert pruned["freed_bytes"] == freed
    assert artifacts(cache) == before


def test_pruning_to_a_bound_takes_the_least_recently_used_first(installed, zeroclaw, cache) -> None:
    first, second = sorted(artifacts(cache))
    os.utime(second, (0, 0))
    outcome = zeroclaw("plugin", "cache", "prune", "--max-mb", "0", "--json")
    assert [each["path"] for each in outcome.json["removed"]] == [str(second), str(first)]
    assert outcome.json["kept_bytes"] == 0
    assert artifacts(cache) == set()


def test_the_settings_bound_is_kept_without_being_asked(
    home, zeroclaw, package, cache, other_component
) -> None:
    home.configure(f"{ON}[plugins.compile]\ncache_max_mb = 0\n")
    zeroclaw("plugin", "install", str(package("first")))
    [first] = artifacts(cache)
    zeroclaw("plugin", "install", str(package("second", component=other_component)))
    [second] = artifacts(cache)
    assert first != second, "what was just compiled stays, and only that"
    assert zeroclaw("plugin", "cache", "list", "--json").json["maximum_bytes"] == 0
    outcome = zeroclaw("plugin", "cache", "prune")
    assert "removed whole of second" in outcome.out
    assert "freed" in outcome.out
    assert artifacts(cache) == set()


def test_what_belongs_to_no_package_goes_only_when_asked(installed, zeroclaw, cache) -> None:
    zeroclaw("plugin", "remove", "second")
    assert zeroclaw("plugin", "cache", "prune", "--json").json["removed"] == []
    [removed] = zeroclaw("plugin", "cache", "prune", "--unowned", "--json").json["removed"]
    assert removed["packages"] == []
    [left] = zeroclaw("plugin", "cache", "list", "--json").json["artifacts"]
    assert left["packages"] == ["first"]


def test_clearing_removes_everything_and_the_next_load_compiles_again(installed, zeroclaw, cache) -> None:
    key = (cache / "key").read_bytes()
    cleared = zeroclaw("plugin", "cache", "clear", "--json").json
    assert len(cleared["removed"]) == 2
    assert artifacts(cache) == set()
    assert (cache / "key").read_bytes() == key
    assert zeroclaw("plugin", "info", "first").status == 0
    assert len(artifacts(cache)) == 1


def test_a_running_daemon_keeps_what_it_uses_and_is_not_disturbed(
    home, zeroclaw, package, start_daemon, cache
) -> None:
    home.configure(ON)
    zeroclaw("plugin", "install", str(package()))
    start_daemon()
    call = ("prompt", '/tool wat_echo {"n": 1}')
    assert zeroclaw(*call).out == '{"n": 1}\n'
    [listed] = zeroclaw("plugin", "cache", "list", "--json").json["artifacts"]
    assert listed["in_use"]
    assert zeroclaw("plugin", "cache", "prune", "--max-mb", "0", "--json").json["removed"] == []
    assert "goes on with some of it" in zeroclaw("plugin", "cache", "clear").err
    assert artifacts(cache) == set()
    assert zeroclaw(*call).out == '{"n": 1}\n'


def test_a_cache_that_cannot_be_read_is_an_error_and_no_crash(home, zeroclaw, cache) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    outcome = zeroclaw("plugin", "cache", "list", "--json")
    assert outcome.status == 7
    assert json.loads(outcome.err)["error"]["code"] == "storage_failed"


def test_a_compilation_that_reaches_a_limit_names_the_setting(
    home, zeroclaw, package, hungry_component
) -> None:
    home.configure(f"{ON}[plugins.compile]\nmemory_mb = 256\n")
    outcome = zeroclaw("plugin", "install", str(package(component=hungry_component)), "--json")
    assert outcome.status == 8
    error = json.loads(outcome.err)["error"]
    assert error["code"] == "compile_limit"
    assert "config set" in error["remedy"]["command"]
    assert "plugins.compile.memory_mb" in error["remedy"]["command"]
    assert not artifacts(home.data / "cache")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_mb", 0),
        ("memory_mb", 1024**2 + 1),
        ("timeout_secs", 0),
        ("timeout_secs", 7 * 24 * 3600 + 1),
        ("cache_max_mb", -1),
        ("cache_max_mb", 1024**2 + 1),
    ],
)
def test_a_compile_setting_that_makes_no_sense_is_refused(name, value, zeroclaw) -> None:
    outcome = zeroclaw("config", "set", f"plugins.compile.{name}", "--", str(value))
    assert outcome.status == 3
    assert name in outcome.err
