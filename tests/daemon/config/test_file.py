"""The configuration file: read whole or with a place for every fault, changed in place, saved in one step."""

from __future__ import annotations

import os
import resource
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from config_stores import append_property, set_properties
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.document.location import Place, Places
from zeroclaw_daemon.config.file import load, parse
from zeroclaw_daemon.config.problems import (
    ConfigCandidateInvalid,
    ConfigFileInvalid,
    ConfigSyntaxInvalid,
    Problem,
)
from zeroclaw_daemon.config.saving import ConfigBusy, Steps, write_lock
from zeroclaw_daemon.config.schema import Config
from zeroclaw_daemon.config.source import ConfigSource
from zeroclaw_host.errors import RemedyAction, StorageError, ZeroclawError

COMMENTED = """\
schema_version = 1
# kept for the auditors
[plugins]
enabled = false   # until friday
auto_discover = false

# Who may publish.
[plugins.security]
signature_mode = "strict"

[agents.ada]
model = "m1" # small
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def problems(file: Path) -> list[str]:
    with pytest.raises(ConfigFileInvalid) as caught:
        load(file)
    return [str(problem).removeprefix(str(file)) for problem in caught.value.problems]


def test_without_a_file_everything_is_at_its_default(file: Path) -> None:
    snapshot = load(file)
    assert snapshot.config == Config()
    assert not snapshot.exists
    assert not snapshot.plugins_dropped


@pytest.mark.req("PLG-023")
def test_the_default_bounds_of_a_guest_are_those_specified() -> None:
    limits = Config().plugins.limits
    assert (limits.call_fuel, limits.call_timeout_ms, limits.max_memory_mb) == (1_000_000_000, 30_000, 256)
    assert (limits.max_table_elements, limits.max_instances) == (100_000, 64)
    assert limits.max_connections_per_instance == 16
    assert limits.as_limits().call_fuel == 1_000_000_000


@pytest.mark.req("PLG-127", "PLG-348", "PLG-349")
def test_plugins_are_off_and_undiscovered_unless_somebody_says_otherwise() -> None:
    assert not Config().plugins.enabled
    assert not Config().plugins.auto_discover


@pytest.mark.req("PAINS-25")
@pytest.mark.parametrize(
    ("text", "line", "column", "word"),
    [
        ("[plugins\n", 1, 9, "TOML"),
        ("a = 1\nb = \n", 2, 5, "TOML"),
        ("[gateway]\nport = 1\nport = 2\n", 3, 9, "TOML"),
        ('x = """never closed\n', 2, 1, "TOML"),
    ],
)
def test_a_syntax_error_is_reported_with_its_place(
    file: Path, text: str, line: int, column: int, word: str
) -> None:
    with pytest.raises(ConfigSyntaxInvalid, match=word) as caught:
        load(write(file, text))
    assert caught.value.problems[0].place == Place(line, column)
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.EDIT_FILE
    assert caught.value.remedy.arguments == {"path": str(file), "line": str(line), "column": str(column)}


@pytest.mark.req("PAINS-25")
def test_bytes_that_are_not_utf8_are_reported_with_their_place(file: Path) -> None:
    file.write_bytes(b'[memory]\nbackend = "\xff"\n')
    with pytest.raises(ConfigSyntaxInvalid, match="UTF-8") as caught:
        load(file)
    assert caught.value.problems[0].place == Place(2, 12)


@pytest.mark.req("PAINS-25")
def test_every_fault_is_reported_with_its_own_place(file: Path) -> None:
    write(
        file,
        "colour = 1\n"
        "[gateway]\n"
        "prot = 80\n"
        "  port = 70000\n"
        "[agents.default]\n"
        '[agents."ops-team"]\n'
        "[rpc]\n"
        "max_local_connections = 0\n"
        "[security]\n"
        'trust_daemon_uid = "yes"\n'
        '[memory]\nbackend = "sqlite"\n',
    )
    assert problems(file) == [
        ":1:1: colour: unknown key",
        ":3:1: gateway.prot: unknown key; did you mean port?",
        ":4:3: gateway.port: must be at most 65535",
        ":5:1: agents.default: the agent name default is reserved",
        ":6:1: agents.ops-team: a name here is 1 to 63 lowercase letters, digits and single underscores, "
        "beginning and ending with a letter or a digit",
        ":8:1: rpc.max_local_connections: must be at least 1",
        ":10:1: security.trust_daemon_uid: true or false is wanted here",
    ]


def test_faults_of_the_whole_are_reported(file: Path) -> None:
    write(file, '[users.a]\nuid = 1\npermission_profiles = ["p"]\n')
    assert problems(file) == [
        ":3:1: users.a.permission_profiles: there is no permission profile p; there is none"
    ]
    write(file, '[agents.a]\nprovider = "openai.x"\n')
    assert problems(file) == [":2:1: agents.a.provider: there is no provider openai.x; there is echo"]


@pytest.mark.req("PLG-123", "PAINS-25")
def test_single_brackets_where_rows_are_meant_turn_plugins_off_aloud(file: Path) -> None:
    write(file, '[plugins]\nenabled = true\n\n[plugins.entries]\nname = "zpi1_x"\n\n[gateway]\nport = 1234\n')
    snapshot = load(file)
    assert not snapshot.config.plugins.enabled
    assert snapshot.plugins_dropped
    assert [(p.property, p.place) for p in snapshot.problems] == [("plugins.entries", Place(4, 1))]
    assert "[[plugins.entries]]" in snapshot.problems[0].message
    assert snapshot.config.gateway.port == 1234


@pytest.mark.req("PLG-123")
def test_any_unreadable_plugins_section_counts_as_absent_as_a_whole(file: Path) -> None:
    snapshot = load(write(file, '[plugins]\nenabled = true\n[plugins.security]\nsignature_mod = "strict"\n'))
    assert not snapshot.config.plugins.enabled
    assert [str(p).removeprefix(str(file)) for p in snapshot.problems] == [
        ":4:1: plugins.security.signature_mod: unknown key; did you mean signature_mode?"
    ]


@pytest.mark.req("PLG-226", "PAINS-25")
def test_a_key_that_moved_is_unknown_and_told_its_new_place(file: Path) -> None:
    snapshot = load(
        write(file, '[plugins]\nenabled = true\n[plugins.security]\nnat64_prefixes = ["64:ff9b:1::/48"]\n')
    )
    assert [str(p).removeprefix(str(file)) for p in snapshot.problems] == [
        ":4:1: plugins.security.nat64_prefixes: unknown key; it is security.nat64_prefixes now"
    ]


@pytest.mark.req("PLG-021")
@pytest.mark.parametrize(
    "name",
    [
        "call_fuel",
        "call_timeout_ms",
        "max_memory_mb",
        "max_table_elements",
        "max_instances",
    ],
)
@pytest.mark.parametrize("bad", [0, -1])
def test_a_bound_of_zero_is_an_error_that_names_its_path(file: Path, name: str, bad: int) -> None:
    snapshot = load(
        write(file, f"schema_version = 1\n[plugins]\nenabled = true\n[plugins.limits]\n{name} = {bad}\n")
    )
    [problem] = snapshot.problems
    assert problem.property == f"plugins.limits.{name}"
    assert problem.message == "must be at least 1"
    assert problem.place == Place(5, 1)
    with pytest.raises(ConfigFileInvalid, match=f"plugins.limits.{name}"):
        set_properties(file, [("plugins.auto_discover", "true")])
    with pytest.raises(ConfigCandidateInvalid, match=f"plugins.limits.{name}"):
        set_properties(write(file, ""), [(f"plugins.limits.{name}", str(bad))])
    assert load(write(file, f"[plugins.limits]\n{name} = 1\n")).problems == ()


@pytest.mark.req("PLG-121")
def test_an_unknown_signature_mode_is_read_as_strict_with_a_warning(file: Path) -> None:
    snapshot = load(write(file, '[plugins.security]\nsignature_mode = "stirct"\n'))
    assert snapshot.config.plugins.security.signature_mode == "strict"
    assert [("stirct" in notice, "strict is in force" in notice) for notice in snapshot.notices] == [
        (True, True)
    ]
    assert load(write(file, '[plugins.security]\nsignature_mode = "Permissive"\n')).notices == ()


def test_duplicate_rows_are_refused(file: Path) -> None:
    row = '[[plugins.entries]]\nname = "zpi1_a"\n'
    problem = load(write(file, row + row)).problems[0]
    assert str(problem) == f"{file}:4:1: plugins.entries.1.name: another row is named zpi1_a already"


def test_a_secret_shows_in_no_repr_and_no_error(file: Path) -> None:
    write(
        file,
        '[[plugins.entries]]\nname = "zpi1_a"\nconfig = { token = "hunter2" }\n[providers.models.openai.x]\napi_key = "hunter2"\n',
    )
    assert "hunter2" not in repr(load(file))
    write(
        file,
        '[providers.models.openai.x]\napi_key = ["hunter2"]\n[providers.models.openai.y]\ntimeout_secs = "hunter2"\n',
    )
    with pytest.raises(ConfigFileInvalid) as caught:
        load(file)
    assert "hunter2" not in str(caught.value) + repr(caught.value) + str(caught.value.details)
    assert caught.value.__cause__ is None


def test_a_file_of_a_newer_layout_is_refused(file: Path) -> None:
    assert problems(write(file, "schema_version = 2\n")) == [
        ":1:1: schema_version: a layout of a later release; this one knows 1"
    ]


def test_setting_a_property_keeps_comments_order_and_everything_else(file: Path) -> None:
    write(file, COMMENTED)
    set_properties(file, [("plugins.enabled", "true"), ("agents.ada.model", "m2")])
    assert file.read_text() == COMMENTED.replace("enabled = false ", "enabled = true ", 1).replace(
        '"m1"', '"m2"'
    )


def test_a_change_that_changes_nothing_writes_nothing(file: Path) -> None:
    write(file, COMMENTED)
    before = file.stat()
    set_properties(file, [("plugins.enabled", "false")])
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_new_file_is_private_and_carries_its_version(file: Path) -> None:
    target = file.parent / "fresh" / "config.toml"
    snapshot = set_properties(target, [("gateway.port", "1")])
    assert snapshot.config.gateway.port == 1
    assert tomllib.loads(target.read_text()) == {"schema_version": 1, "gateway": {"port": 1}}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    assert sorted(p.name for p in target.parent.iterdir()) == ["config.toml", "config.toml.lock"]


def test_a_save_makes_the_file_private(file: Path) -> None:
    write(file, "").chmod(0o644)
    set_properties(file, [("gateway.port", 1)])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_linked_file_is_changed_where_it_is(file: Path) -> None:
    real = write(file.with_name("real.toml"), COMMENTED)
    file.symlink_to(real)
    set_properties(file, [("plugins.enabled", True)])
    assert file.is_symlink()
    assert tomllib.loads(real.read_text())["plugins"]["enabled"] is True


def test_links_that_go_round_are_an_error_of_the_file(file: Path) -> None:
    file.symlink_to(file.with_name("other.toml"))
    file.with_name("other.toml").symlink_to(file)
    with pytest.raises(StorageError, match="too many levels of symbolic links") as caught:
        set_properties(file, [("plugins.enabled", True)])
    assert caught.value.details["errno"] == "ELOOP"


def test_a_file_where_a_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(StorageError, match=r"not a directory \(.*/taken\)$"):
        set_properties(tmp_path / "taken" / "config.toml", [("plugins.enabled", True)])


@pytest.mark.req("RPC-249")
def test_a_file_that_does_not_parse_is_never_overwritten(file: Path) -> None:
    write(file, "[plugins\nenabled = true\n")
    with pytest.raises(ConfigSyntaxInvalid, match=r":1:9: "):
        set_properties(file, [("gateway.port", 1)])
    assert file.read_text() == "[plugins\nenabled = true\n"


def test_all_properties_of_a_change_are_set_or_none(file: Path) -> None:
    write(file, COMMENTED)
    with pytest.raises(ZeroclawError, match="Unknown property"):
        set_properties(file, [("plugins.enabled", True), ("plugins.enabld", True)])
    assert file.read_text() == COMMENTED


def test_one_change_repairs_a_broken_value(file: Path) -> None:
    write(file, "schema_version = 1\n[plugins.limits]\ncall_fuel = 0 # oops\n")
    set_properties(file, [("plugins.limits.call_fuel", "5")])
    assert file.read_text() == "schema_version = 1\n[plugins.limits]\ncall_fuel = 5 # oops\n"


def test_appending_to_a_list_keeps_what_is_there_and_adds_nothing_twice(file: Path) -> None:
    for key in ("aa", "bb", "aa"):
        append_property(file, "plugins.security.trusted_publisher_keys", key)
    assert load(file).config.plugins.security.trusted_publisher_keys == ("aa", "bb")


class Failing(Steps):
    """Fails at one step."""

    def __init__(self, step: str) -> None:
        self.step = step

    def write(self, descriptor: int, data: bytes) -> None:
        if self.step == "write":
            super().write(descriptor, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if self.step == ("sync directory" if directory else "sync"):
            raise OSError(5, "Input/output error")
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        if self.step == "rename":
            raise OSError(30, "Read-only file system")
        super().rename(source, target)


@pytest.mark.req("RPC-077")
@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync directory"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(file: Path, step: str) -> None:
    write(file, COMMENTED)
    with pytest.raises(StorageError) as caught:
        set_properties(file, [("plugins.enabled", True)], steps=Failing(step))
    assert file.read_text() == COMMENTED
    assert sorted(p.name for p in file.parent.iterdir()) == ["config.toml", "config.toml.lock"]
    if step == "write":
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.FREE_SPACE


def test_a_writer_that_waits_too_long_says_what_holds_it_up(file: Path) -> None:
    clock = iter(range(100))
    with (
        write_lock(file),
        pytest.raises(ConfigBusy, match="3 seconds"),
        write_lock(file, wait=3, now=lambda: float(next(clock)), sleep=lambda seconds: None),
    ):
        pass


def test_an_environment_variable_overrides_a_property_and_never_reaches_the_file(file: Path) -> None:
    env = {
        "ZEROCLAW_gateway__port": "99",
        "ZEROCLAW_agents__bob__model": "m",
        "ZEROCLAW_DATA_DIR": "/x",
        "OTHER": "1",
    }
    snapshot = load(write(file, "schema_version = 1\n[gateway]\nport = 1\n"), env)
    assert snapshot.config.gateway.port == 99
    assert snapshot.config.agents["bob"].model == "m"
    assert snapshot.overridden == {"gateway.port", "agents.bob.model"}
    assert snapshot.revision != load(file).revision
    set_properties(file, [("gateway.enabled", True)])
    assert file.read_text() == "schema_version = 1\n[gateway]\nport = 1\nenabled = true\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ZEROCLAW_gateway__prot", "1", "Unknown property gateway.prot"),
        ("ZEROCLAW_gateway__port", "x", "must be a whole number"),
        ("ZEROCLAW_plugins__entries__zpi1_q__egress_hosts", "a", "Unknown property|no row"),
    ],
)
def test_a_wrong_override_names_the_variable(file: Path, name: str, value: str, message: str) -> None:
    write(file, '[[plugins.entries]]\nname = "zpi1_a"\n')
    with pytest.raises(ConfigFileInvalid, match=message) as caught:
        load(file, {name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("plugins = 3\n", "ZEROCLAW_plugins__enabled"),
        ("[[plugins.limits]]\n", "ZEROCLAW_plugins__limits__call_fuel"),
        ("[gateway]\n[plugins]\nentries = 1\n", "ZEROCLAW_plugins__entries__zpi1_a__config__x"),
    ],
)
def test_an_override_never_hides_what_is_wrong_with_the_file(file: Path, text: str, name: str) -> None:
    value = "true" if name.endswith("enabled") else "5"
    snapshot = load(write(file, text), {name: value})
    assert snapshot.plugins_dropped
    assert not snapshot.config.plugins.enabled
    assert snapshot.problems[0].place is not None


def test_an_override_of_a_row_that_is_missing_is_not_blamed_on_the_file(file: Path) -> None:
    name = "ZEROCLAW_plugins__entries__zpi1_a__config__x"
    with pytest.raises(ConfigFileInvalid, match=f"{name}: .*: there is no row named zpi1_a"):
        load(write(file, "[plugins]\nenabled = true\n"), {name: "1"})


def test_a_byte_order_mark_is_called_by_its_name(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[gateway]\nport = 1\n")
    with pytest.raises(ConfigFileInvalid, match=r":1:1: the file begins with a byte order mark") as caught:
        load(file)
    assert caught.value.code == "config_syntax_invalid"


def test_a_value_out_of_range_from_a_variable_is_not_blamed_on_the_file(file: Path) -> None:
    with pytest.raises(ConfigFileInvalid, match="environment variable") as caught:
        load(write(file, "[gateway]\nport = 1\n"), {"ZEROCLAW_gateway__port": "70000"})
    assert caught.value.problems[0].place is None


def test_a_source_sees_an_edit_at_the_next_use_and_keeps_the_last_good_file(file: Path) -> None:
    errors: list[ZeroclawError] = []
    source = ConfigSource(
        write(file, "schema_version = 1\n[gateway]\nport = 1\n"), {}, on_error=errors.append
    )
    first = source.current()
    assert source.current() is first
    set_properties(file, [("gateway.port", 2)])
    assert source.current().config.gateway.port == 2
    write(file, "[gateway\nport = 33\n")
    assert source.current().config.gateway.port == 2
    assert source.current().config.gateway.port == 2
    assert len(errors) == 1
    assert source.error is errors[0]
    write(file, "[gateway]\nport = 4444\n")
    assert source.current().config.gateway.port == 4444
    assert source.error is None
    file.unlink()
    assert source.current().config == Config()


def test_positions_are_found_in_every_way_a_table_can_be_written() -> None:
    text = (
        "# c\r\n"
        "a.b.c = 1\r\n"
        'x = { y = 2, "q z" = 3 }\r\n'
        "[[r]]\r\n"
        "[[r]]\r\n"
        "  k = 1\r\n"
        "[deep.er]\r\n"
        "k = 2\r\n"
        "[z]\r\n"
        "[deep.est]\r\n"
        'k = """\r\n[r]\r\n"""\r\n'
    )
    expected = {
        ("a", "b", "c"): Place(2, 1),
        ("a",): Place(2, 1),
        ("x", "q z"): Place(3, 14),
        ("r", 1, "k"): Place(6, 3),
        ("r", 1, "missing"): Place(5, 1),
        ("r",): Place(4, 1),
        ("deep",): Place(7, 1),
        ("deep", "est", "k"): Place(11, 1),
        ("nowhere",): None,
    }
    places = Places(text)
    assert {path: places.of(path) for path in expected} == expected


@given(data=st.binary(max_size=60))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    parsed_or_problems(data)


@given(
    keys=st.lists(
        st.sampled_from(
            ["plugins", "entries", "limits", "agents", "a", "enabled", "gateway", "port", "users"]
        ),
        min_size=1,
        max_size=4,
    ),
    value=st.sampled_from(["1", "true", '"x"', "[]", "[1]", "{}", "[{}]", '{ name = "x" }', "1979-05-27"]),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere_is_accepted_or_reported(keys: list[str], value: str) -> None:
    found = parsed_or_problems(f"{'.'.join(keys)} = {value}\n".encode())
    assert all(problem.place is not None or problem.property == "" for problem in found)


def parsed_or_problems(data: bytes) -> tuple[Problem, ...]:
    """What is wrong with a file's bytes; whatever is raised other than a located error fails the test."""
    try:
        return parse(data, Path("c.toml")).problems
    except ConfigFileInvalid as error:
        return error.problems


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_regular_file_is_an_error_and_is_not_waited_for(
    file: Path, make: Callable[[Path], None]
) -> None:
    make(file)
    with pytest.raises(StorageError, match=r"regular file|is a directory"):
        load(file)


def test_a_source_tries_again_what_it_could_not_read_though_the_file_is_the_same(file: Path) -> None:
    errors: list[ZeroclawError] = []
    source = ConfigSource(write(file, "[gateway]\nport = 1\n"), {}, on_error=errors.append)
    write(file, "[gateway]\nport = 2222\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        ports = [source.current().config.gateway.port for _ in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ports == [1, 1, 1]
    assert len(errors) == 1
    assert source.current().config.gateway.port == 2222
    assert source.error is None
