"""Remedies as words and commands, and texts of others on a terminal."""

from __future__ import annotations

import json
import shlex
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.cli.calling import as_daemon_gone
from zeroclaw_daemon.cli.main import app
from zeroclaw_daemon.cli.output import error_json, error_lines
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.rpc.errors import ConnectionLost
from zeroclaw_host.errors import Remedy, RemedyAction, StorageError
from zeroclaw_host.visible import is_plain, json_text, visible, visible_lines

PLACE = Place("/srv/it's here", platform="posix")

EXAMPLES: dict[RemedyAction, tuple[dict[str, str], list[str] | None]] = {
    RemedyAction.SET_CONFIG: ({"path": "a.b", "value": "$(id)"}, ["config", "set", "a.b", "$(id)"]),
    RemedyAction.COMPLETE_CONFIG: ({"path": "a.b"}, ["config", "set", "--no-interactive", "a.b"]),
    RemedyAction.MEND_CONFIG: ({"path": "a.b"}, None),
    RemedyAction.UNSET_CONFIG: ({"path": "a.b"}, ["config", "delete", "a.b"]),
    RemedyAction.MIGRATE_CONFIG: ({}, ["config", "migrate"]),
    RemedyAction.ROTATE_SECRETS: ({}, ["secrets", "rotate"]),
    RemedyAction.ADD_TRUSTED_KEY: (
        {"key": "ab12"},
        ["config", "set", "--append", "plugins.security.trusted_publisher_keys", "ab12"],
    ),
    RemedyAction.INSTALL_PLUGIN: (
        {"source": "/a b", "registry": "file:///r", "unverified": "true", "alias": "ops", "egress": "none"},
        [
            *("plugin", "install", "--registry", "file:///r", "--no-verify"),
            *("--channel-alias", "ops", "--egress", "none", "/a b"),
        ],
    ),
    RemedyAction.REMOVE_PLUGIN: ({"name": "x"}, ["plugin", "remove", "x"]),
    RemedyAction.CREATE_ROW: (
        {"key": "zpi1_x", "hosts": "a.example,*.b.example"},
        [
            *("config", "patch"),
            '[{"op":"add","path":"/plugins/entries/zpi1_x/egress_hosts","value":["a.example","*.b.example"]}]',
        ],
    ),
    RemedyAction.RENAME_ROW: (
        {"path": "/c.toml", "old": "weather", "new": "zpi1_x"},
        ["config", "set", "plugins.entries.weather.name", "zpi1_x"],
    ),
    RemedyAction.RENAME_TABLE: ({"path": "/c.toml", "table": "channels.plugin.ops-team"}, None),
    RemedyAction.BIND_CHANNEL: (
        {"package": "x", "alias": "ops", "egress": "none"},
        ["plugin", "bind", "x", "--channel-alias", "ops", "--egress", "none"],
    ),
    RemedyAction.UPDATE_PLUGIN: ({"name": "x"}, ["plugin", "update", "x"]),
    RemedyAction.ALLOW_UPDATE: (
        {"package": "x@1", "items": '["permission:state_read", "publisher:a,b"]', "from": "/a b"},
        [
            *("plugin", "update", "x@1", "--from", "/a b"),
            *("--allow-token", "permission:state_read", "--allow-token", "publisher:a,b"),
        ],
    ),
    RemedyAction.REPAIR_PLUGINS: ({}, ["plugin", "fsck", "--repair"]),
    RemedyAction.NAME_REGISTRY: ({}, ["config", "set", "plugins.registry_url"]),
    RemedyAction.REPORT_TO_REGISTRY: ({"package": "redact 1.0.0"}, None),
    RemedyAction.CLEAR_BY_HAND: ({"path": "/a b"}, ["ls", "-lA", "/a b"]),
    RemedyAction.REBUILD_PLUGIN: ({}, ["zeroclaw-plugin", "build"]),
    RemedyAction.SIGN_PLUGIN: ({}, ["zeroclaw-plugin", "sign", "--help"]),
    RemedyAction.START_DAEMON: ({}, ["daemon"]),
    RemedyAction.STOP_DAEMON: ({"pid": "12"}, ["kill", "12"]),
    RemedyAction.MAKE_DIRECTORY: ({"path": "/a b"}, ["mkdir", "-m", "700", "/a b"]),
    RemedyAction.FREE_SPACE: ({"path": "/a b"}, ["df", "-h", "/a b"]),
    RemedyAction.EDIT_FILE: ({"path": "/c.toml", "line": "3", "column": "4"}, None),
    RemedyAction.INSTALL_EXTRA: ({"extra": "sdk"}, ["pip", "install", "zeroclaw-host[sdk]"]),
    RemedyAction.RAISE_LIMIT: ({"limit": "call_fuel"}, ["config", "set", "plugins.limits.call_fuel"]),
    RemedyAction.RAISE_COMPILE_LIMIT: (
        {"limit": "seconds"},
        ["config", "set", "plugins.compile.timeout_secs"],
    ),
    RemedyAction.RESTRICT_FILE: ({"path": "/a b"}, ["chmod", "600", "/a b"]),
    RemedyAction.SHORTEN_PATH: ({"variable": "ZEROCLAW_SOCKET"}, None),
    RemedyAction.RUN_HELP: ({"command": "config set"}, ["config", "set", "--help"]),
}
OTHER_PROGRAMS = {"zeroclaw-plugin", "kill", "mkdir", "df", "ls", "pip", "chmod"}


@pytest.mark.req("PLG-195", "PLG-196")
@pytest.mark.parametrize("action", list(RemedyAction))
def test_every_remedy_has_words_and_where_one_helps_a_command(action: RemedyAction) -> None:
    arguments, expected = EXAMPLES[action]
    advice = advise(Remedy(action, arguments), PLACE)
    assert advice.words.endswith(".")
    if expected is None:
        assert advice.command is None
        assert all(value in advice.words for value in arguments.values())
    elif expected[0] in OTHER_PROGRAMS:
        assert advice.command is not None
        assert shlex.split(advice.command) == expected
    else:
        assert advice.command is not None
        assert advice.command.startswith(r"zeroclaw --config-dir '/srv/it'\''s here' ")
        assert shlex.split(advice.command) == ["zeroclaw", "--config-dir", "/srv/it's here", *expected]


@pytest.mark.parametrize("action", list(RemedyAction))
def test_every_command_of_ours_that_a_remedy_names_exists(action: RemedyAction) -> None:
    import typer.main

    arguments, expected = EXAMPLES[action]
    if expected is None or expected[0] in OTHER_PROGRAMS:
        return
    command = typer.main.get_command(app)
    context = command.make_context(
        "zeroclaw", ["--config-dir", "/x", *expected, "--help"], resilient_parsing=True
    )
    for word in expected:
        subcommands = getattr(command, "commands", None)
        if subcommands is None:
            break
        command = subcommands[word]
    assert not hasattr(command, "commands")
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in expected if word.startswith("--")} <= options | {"--help"}
    del context, arguments


@pytest.mark.parametrize("action", list(RemedyAction))
def test_a_remedy_without_its_arguments_is_still_words(action: RemedyAction) -> None:
    assert advise(Remedy(action), PLACE).words


def test_a_value_that_cannot_be_shown_as_it_is_gives_no_command() -> None:
    for hostile in ("a\nb", "a\x1b[2J", "a\u202eb", "a\udcff"):
        advice = advise(Remedy(RemedyAction.REMOVE_PLUGIN, {"name": hostile}), PLACE)
        assert advice.command is None
        assert advise(Remedy(RemedyAction.START_DAEMON), Place(hostile)).command is None


def test_a_value_that_looks_like_an_option_is_guarded() -> None:
    advice = advise(Remedy(RemedyAction.INSTALL_PLUGIN, {"source": "-rf"}), PLACE)
    assert advice.command is not None
    assert advice.command.endswith(" plugin install -- '-rf'")


def test_the_command_to_start_a_daemon_is_not_printed_where_it_would_start_another_one() -> None:
    advice = advise(Remedy(RemedyAction.START_DAEMON), Place("/c", data_dir_named=True))
    assert advice.command is None
    assert "ZEROCLAW_DATA_DIR" in advice.words


@pytest.mark.parametrize("text", ["secrets rotate", "plugin state clear", "reload"])
def test_no_command_is_printed_that_would_act_on_another_data_directory(text: str) -> None:
    """A key that is rotated beside another data directory than the daemon's is lost for what the daemon's plugins keep."""
    moved = Place("/c", data_dir_named=True, platform="posix")
    assert moved.data_command(text, "a") == f"`zeroclaw {text} a`, with the same ZEROCLAW_DATA_DIR"
    assert Place("/c", platform="posix").data_command(text, "a") == f"zeroclaw --config-dir '/c' {text} 'a'"
    assert Place("/c\n", platform="posix").data_command(text, "a") == f"`zeroclaw {text} a`"
    advice = advise(Remedy(RemedyAction.ROTATE_SECRETS), moved)
    assert advice.command is None
    assert "ZEROCLAW_DATA_DIR" in advice.words


def test_an_error_is_told_as_what_happened_why_and_what_to_do() -> None:
    error = StorageError(
        "it broke\x1b", remedy=Remedy(RemedyAction.FREE_SPACE, {"path": "/d"}), details={"errno": "E"}
    )
    error.__cause__ = ValueError("first\nsecond")
    assert error_lines(error, PLACE) == [
        "error: it broke\\x1b",
        "  because: first\n           second",
        "  to do: Make room on the file system; the command shows which one it is.",
        "    df -h '/d'",
    ]
    as_json = error_json(error, PLACE)["error"]
    assert as_json == {
        "code": "storage_failed",
        "kind": "unavailable",
        "message": "it broke\x1b",
        "causes": ["first\nsecond"],
        "details": {"errno": "E"},
        "remedy": {
            "action": "free_space",
            "arguments": {"path": "/d"},
            "words": "Make room on the file system; the command shows which one it is.",
            "command": "df -h '/d'",
        },
    }


@pytest.mark.parametrize(
    ("gateway", "actions"), [("", [RemedyAction.START_DAEMON]), ("wss://far.example", [])]
)
def test_a_daemon_that_is_gone_is_started_again_where_it_is_ours(
    monkeypatch: pytest.MonkeyPatch, gateway: str, actions: list[RemedyAction]
) -> None:
    monkeypatch.setenv("ZEROCLAW_GATEWAY", gateway)
    gone = as_daemon_gone(ConnectionLost("it hung up"))
    assert [remedy.action for remedy in gone.remedies] == actions


def test_without_a_place_the_remedy_is_left_out() -> None:
    error = StorageError("it broke", remedy=Remedy(RemedyAction.START_DAEMON))
    assert error_lines(error, None) == ["error: it broke"]


TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_visible_text_never_holds_what_a_terminal_obeys(text: str) -> None:
    shown = visible(text)
    assert is_plain(shown)
    assert shown == text or not is_plain(text)
    for letter in visible_lines(text):
        assert letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(letter) not in TURNING
    shown.encode()


def test_visible_text_keeps_everything_else() -> None:
    assert visible("é ✓ 日本 ' \\ ") == "é ✓ 日本 ' \\ "
    assert (
        visible("a\tb\nc\r\x7f\x9b\u2028\u2066\ud800") == "a\\x09b\\x0ac\\x0d\\x7f\\x9b\\u2028\\u2066\\ud800"
    )
    assert visible_lines("a\tb\nc\r") == "a\tb\nc\\x0d"


def test_what_nobody_sees_is_shown_in_a_line_and_what_joins_letters_stays() -> None:
    hidden = "rm\u00ad \u200b-\u2060r\ufeff\U000e0041\u3164"
    assert visible(hidden) == "rm\\xad \\u200b-\\u2060r\\ufeff\\U000e0041\\u3164"
    assert not is_plain(hidden)
    assert visible("👩\u200d🚀 می\u200cخواهم ❤️") == "👩\u200d🚀 می\u200cخواهم ❤️"
    assert visible_lines("a\u200bb") == "a\u200bb"


def test_an_errors_own_text_cannot_pass_for_its_remedy() -> None:
    lines = error_lines(StorageError("it broke\n  to do: obey\n    curl evil"), PLACE)
    assert lines == ["error: it broke\n         to do: obey\n           curl evil"]


@given(st.text() | st.sampled_from(["\x9b2J", "\u202e", "\x7f", "\udcff", "\u2028", "\U000e0041"]))
def test_json_never_holds_what_a_terminal_obeys_and_says_the_same(text: str) -> None:
    shown = json_text({text: [text]})
    assert is_plain(shown)
    shown.encode()
    assert json.loads(shown) == {text: [text]}


def test_a_cause_that_was_said_already_is_not_said_again() -> None:
    inner, outer = (
        ConnectionError("[Errno 111] Connection refused"),
        OSError("[Errno 111] Connection refused"),
    )
    outer.__cause__ = inner
    error = StorageError("it cannot be reached")
    error.__cause__ = outer
    assert error_lines(error, PLACE) == [
        "error: it cannot be reached",
        "  because: [Errno 111] Connection refused",
    ]
    error = StorageError("cannot read the package: no such file or directory (x)")
    error.__cause__ = FileNotFoundError(2, "No such file or directory", "x")
    assert error_lines(error, PLACE) == ["error: cannot read the package: no such file or directory (x)"]


def test_json_keeps_letters_of_every_language() -> None:
    assert json_text(["é 日本"]) == '["é 日本"]'
