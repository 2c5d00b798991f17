"""Every command that a remedy is printed as, pasted into every shell it is printed for, with values that shells read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pasting import HOSTILE, SHELLS, UNSHOWABLE, Shell

from zeroclaw_daemon.cli.advice import Alternative
from zeroclaw_daemon.cli.remedies import Advice, Place, advice_lines, advise, bind_command
from zeroclaw_host import quoting
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.visible import is_plain

Case = tuple[dict[str, str], list[str]]


def guarded(words: str, *arguments: str) -> list[str]:
    """The words, then the arguments, kept from looking like options."""
    guard = ["--"] if any(argument.startswith("-") for argument in arguments) else []
    return [*words.split(), *guard, *arguments]


def hosts_of(text: str) -> list[str]:
    return [host for host in text.split(",") if host]


def row_patch(key: str, hosts: str) -> str:
    pointer = f"/plugins/entries/{key.replace('~', '~0').replace('/', '~1')}/egress_hosts"
    return json.dumps([{"op": "add", "path": pointer, "value": hosts_of(hosts)}], separators=(",", ":"))


OURS: dict[RemedyAction, Callable[[str], Case]] = {
    RemedyAction.SET_CONFIG: lambda h: ({"path": h, "value": h}, guarded("config set", h, h)),
    RemedyAction.COMPLETE_CONFIG: lambda h: ({"path": h}, guarded("config set --no-interactive", h)),
    RemedyAction.UNSET_CONFIG: lambda h: ({"path": h}, guarded("config delete", h)),
    RemedyAction.MIGRATE_CONFIG: lambda h: ({}, ["config", "migrate"]),
    RemedyAction.ROTATE_SECRETS: lambda h: ({}, ["secrets", "rotate"]),
    RemedyAction.ADD_TRUSTED_KEY: lambda h: (
        {"key": h},
        guarded("config set --append", "plugins.security.trusted_publisher_keys", h),
    ),
    RemedyAction.INSTALL_PLUGIN: lambda h: (
        {"source": h, "registry": f"/r{h}", "alias": f"a{h}", "egress": f"e{h}"},
        [
            *("plugin", "install", "--registry", f"/r{h}", "--channel-alias", f"a{h}", "--egress", f"e{h}"),
            *guarded("", h),
        ],
    ),
    RemedyAction.REMOVE_PLUGIN: lambda h: ({"name": h}, guarded("plugin remove", h)),
    RemedyAction.UPDATE_PLUGIN: lambda h: ({"name": h}, guarded("plugin update", h)),
    RemedyAction.ALLOW_UPDATE: lambda h: (
        {
            "package": f"x{h}",
            "items": json.dumps([h, f"publisher:{h}"]),
            "from": f"/{h}",
            "registry": f"/r{h}",
        },
        [
            *("plugin", "update", f"x{h}", "--from", f"/{h}", "--registry", f"/r{h}"),
            *("--allow-token", h, "--allow-token", f"publisher:{h}"),
        ],
    ),
    RemedyAction.CREATE_ROW: lambda h: (
        {"key": f"k{h}", "hosts": f"a.example,{h}"},
        ["config", "patch", row_patch(f"k{h}", f"a.example,{h}")],
    ),
    RemedyAction.RENAME_ROW: lambda h: (
        {"path": h, "old": f"o{h.replace('.', '')}", "new": h},
        guarded("config set", f"plugins.entries.o{h.replace('.', '')}.name", h),
    ),
    RemedyAction.BIND_CHANNEL: lambda h: (
        {"package": f"p{h}", "alias": f"a{h}", "egress": f"e{h}"},
        ["plugin", "bind", f"p{h}", "--channel-alias", f"a{h}", "--egress", f"e{h}"],
    ),
    RemedyAction.REPAIR_PLUGINS: lambda h: ({}, ["plugin", "fsck", "--repair"]),
    RemedyAction.NAME_REGISTRY: lambda h: ({}, ["config", "set", "plugins.registry_url"]),
    RemedyAction.START_DAEMON: lambda h: ({}, ["daemon"]),
    RemedyAction.RAISE_LIMIT: lambda h: ({"limit": h}, ["config", "set", f"plugins.limits.{h}"]),
    RemedyAction.RAISE_COMPILE_LIMIT: lambda h: ({"limit": h}, ["config", "set", f"plugins.compile.{h}"]),
}
"""Commands of ours: the remedy's arguments that hold a value, and what the program is to be given."""

OTHERS: dict[RemedyAction, Callable[[str], Case]] = {
    RemedyAction.CLEAR_BY_HAND: lambda h: ({"path": h}, guarded("ls -lA", h)),
    RemedyAction.REBUILD_PLUGIN: lambda h: ({}, ["zeroclaw-plugin", "build"]),
    RemedyAction.SIGN_PLUGIN: lambda h: ({}, ["zeroclaw-plugin", "sign", "--help"]),
    RemedyAction.STOP_DAEMON: lambda h: ({"pid": h}, guarded("kill", h)),
    RemedyAction.MAKE_DIRECTORY: lambda h: ({"path": h}, guarded("mkdir -m 700", h)),
    RemedyAction.FREE_SPACE: lambda h: ({"path": h}, guarded("df -h", h)),
    RemedyAction.INSTALL_EXTRA: lambda h: ({"extra": h}, ["pip", "install", f"zeroclaw-host[{h}]"]),
    RemedyAction.RESTRICT_FILE: lambda h: ({"path": h}, guarded("chmod 600", h)),
}
"""Commands of other programs."""

WORDS_ALONE = {
    RemedyAction.MEND_CONFIG,
    RemedyAction.RENAME_TABLE,
    RemedyAction.REPORT_TO_REGISTRY,
    RemedyAction.EDIT_FILE,
    RemedyAction.SHORTEN_PATH,
}
"""What a person has to do without a command."""

NOT_FROM_DATA = {RemedyAction.RUN_HELP}
"""Commands that hold nothing but our own words."""


def cases(value: str, platform: quoting.Platform) -> list[tuple[str, list[str]]]:
    """Every command printed with this value in every place, the configuration directory's too, and its arguments."""
    place = Place(f"/srv/{value}", platform=platform)
    found: list[tuple[str, list[str]]] = []
    for table, start in ((OURS, ["zeroclaw", "--config-dir", place.config_dir]), (OTHERS, [])):
        for action, case in table.items():
            arguments, expected = case(value)
            command = advise(Remedy(action, arguments), place).command
            assert command is not None, action
            found.append((command, [*start, *expected]))
    unbound = bind_command(place, f"p{value}", None, "none")
    assert unbound is not None
    bind = [*("plugin", "bind", f"p{value}", "--channel-alias", "ALIAS", "--egress", "none")]
    return [*found, (unbound, ["zeroclaw", "--config-dir", place.config_dir, *bind])]


def test_no_remedy_is_left_out_here() -> None:
    assert {*OURS, *OTHERS, *WORDS_ALONE, *NOT_FROM_DATA} == set(RemedyAction)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, system_program: Callable[[str], str], tmp_path: Path) -> Shell:
    program, *options = SHELLS[request.param]
    return Shell((system_program(program), *options), tmp_path)


@pytest.mark.req("PLG-195", "PLG-196", "PLG-197", "PLG-199", "PLG-201", "PLG-206")
def test_every_printed_command_pasted_into_a_shell_has_each_value_as_one_argument(shell: Shell) -> None:
    printed = [case for value in HOSTILE for case in cases(value, "posix")]
    assert shell.paste([line for line, _ in printed]) == [arguments for _, arguments in printed]


@pytest.mark.req("PLG-196", "PLG-205")
@pytest.mark.parametrize("platform", ["posix", "windows"])
@pytest.mark.parametrize("value", UNSHOWABLE)
def test_a_value_that_no_line_shows_is_in_no_command(value: str, platform: quoting.Platform) -> None:
    place = Place("/srv/a", platform=platform)
    for action, case in {**OURS, **OTHERS}.items():
        arguments, _ = case(value)
        advice = advise(Remedy(action, arguments), place)
        assert is_plain("".join(advice_lines([advice], "")))
        if not arguments or action is RemedyAction.CREATE_ROW:  # JSON writes them as its own escapes
            assert advice.command is not None
        else:
            assert advice.command is None
    assert all(
        advise(Remedy(action, case("x")[0]), Place(f"/srv/{value}", platform=platform)).command is None
        for action, case in OURS.items()
    )


@pytest.mark.req("PLG-206")
@pytest.mark.parametrize("value", UNSHOWABLE)
def test_a_patch_says_in_escapes_what_no_line_shows(value: str) -> None:
    if value == "\udcff":
        return  # which no UTF-8 holds, and the patch says so when it is applied
    command = advise(
        Remedy(RemedyAction.CREATE_ROW, {"key": "k", "hosts": value}), Place("/c", platform="posix")
    )
    assert command.command is not None
    patch = command.command.split(" config patch ")[1]
    assert is_plain(patch)
    assert json.loads(patch.replace(r"'\\'", "\\").strip("'"))[0]["value"] == [value]


@pytest.mark.parametrize("action", list(RemedyAction))
@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from(["path", "value", "items", "egress", "command", "package", "old"]), st.text()
    )
)
def test_whatever_a_remedy_of_another_release_names_it_is_told(
    action: RemedyAction, arguments: dict[str, str]
) -> None:
    advice = advise(Remedy(action, arguments), Place("/c", platform="posix"))
    assert all(map(is_plain, advice_lines([advice], "")))


@pytest.mark.req("PLG-202", "PLG-203", "PLG-204", "PLG-205", "PLG-206")
@pytest.mark.parametrize("value", HOSTILE)
def test_on_windows_every_line_is_literal_in_both_shells_or_marked_and_literal_in_powershell(
    value: str,
) -> None:
    for line, arguments in cases(value, "windows"):
        marker = f"{quoting.POWERSHELL_MARKER} "
        if line.startswith(marker):
            assert read_powershell(line.removeprefix(marker)) == arguments
        else:
            assert read_cmd(line) == read_powershell(line) == arguments


@pytest.mark.req("PLG-202", "PLG-203", "PLG-204", "PLG-206")
@pytest.mark.parametrize(
    ("directory", "remedy", "line"),
    [
        (
            r"C:\Users\op erator\.zeroclaw",
            Remedy(
                RemedyAction.SET_CONFIG,
                {"path": "plugins.entries.k.egress_hosts", "value": "a.example,b.example"},
            ),
            r'zeroclaw --config-dir "C:\Users\op erator\.zeroclaw" config set "plugins.entries.k.egress_hosts" '
            '"a.example,b.example"',
        ),
        (
            r"C:\z",
            Remedy(RemedyAction.COMPLETE_CONFIG, {"path": "plugins.entries.k.egress_hosts"}),
            r'zeroclaw --config-dir "C:\z" config set --no-interactive "plugins.entries.k.egress_hosts"',
        ),
        (
            r"C:\z",
            Remedy(RemedyAction.CREATE_ROW, {"key": "k", "hosts": "a.example,it's"}),
            r"# PowerShell only, cmd.exe cannot pass this value literally: zeroclaw --config-dir 'C:\z' config patch "
            """'[{"op":"add","path":"/plugins/entries/k/egress_hosts","value":["a.example","it''s"]}]'""",
        ),
        (
            "C:\\",
            Remedy(RemedyAction.BIND_CHANNEL, {"package": "chat", "egress": "none"}),
            "# PowerShell only, cmd.exe cannot pass this value literally: zeroclaw --config-dir 'C:\\' plugin bind 'chat' "
            "--channel-alias ALIAS --egress none",
        ),
        (
            r"C:\100%",
            Remedy(RemedyAction.RENAME_ROW, {"path": r"C:\100%\config.toml", "old": "chat", "new": "zpi1_x"}),
            "# PowerShell only, cmd.exe cannot pass this value literally: zeroclaw --config-dir 'C:\\100%' config set "
            "'plugins.entries.chat.name' 'zpi1_x'",
        ),
    ],
)
def test_whole_lines_on_windows(
    monkeypatch: pytest.MonkeyPatch, directory: str, remedy: Remedy, line: str
) -> None:
    def windows() -> quoting.Platform:
        return "windows"

    monkeypatch.setattr(quoting, "current_platform", windows)
    assert advise(remedy, Place(directory)).command == line


@pytest.mark.req("PLG-201", "PLG-206")
def test_whole_lines_elsewhere() -> None:
    place = Place("/tmp/it's here", platform="posix")
    row = Remedy(RemedyAction.CREATE_ROW, {"key": "k", "hosts": "a.example,b.example"})
    assert advise(row, place).command == (
        r"zeroclaw --config-dir '/tmp/it'\''s here' config patch "
        """'[{"op":"add","path":"/plugins/entries/k/egress_hosts","value":["a.example","b.example"]}]'"""
    )


def test_steps_are_told_in_their_order() -> None:
    advice = (Advice("First.", "a 'b'"), Advice("By hand."), Advice("Last.", "c"), Alternative("Instead."))
    assert advice_lines(advice, "  ") == [
        "  to do: First.",
        "    a 'b'",
        "  then: By hand.",
        "  then: Last.",
        "    c",
        "  or: Instead.",
    ]


_SINGLE, _DOUBLE = "'\u2018\u2019\u201a\u201b", '"\u201c\u201d\u201e'


def read_powershell(line: str) -> list[str]:
    """PowerShell's words: in quotes of one kind, of any style, two stand for one; between double ones `$` and a backtick mean something."""
    found: list[str] = []
    i = 0
    while i < len(line):
        if line[i] == " ":
            i += 1
        elif line[i] in _SINGLE + _DOUBLE:
            kind = _SINGLE if line[i] in _SINGLE else _DOUBLE
            word, i = "", i + 1
            while line[i] not in kind or line[i + 1 : i + 2] in tuple(kind):
                assert kind is _SINGLE or line[i] not in "$`"
                i += line[i] in kind
                word, i = word + line[i], i + 1
            found.append(word)
            i += 1
            assert line[i : i + 1] in ("", " ")
        else:
            word = line[i:].split(" ", 1)[0]
            assert all(c.isalnum() or c in "-" for c in word), word
            found.append(word)
            i += len(word)
    return found


def read_cmd(line: str) -> list[str]:
    """cmd.exe and a program's own reading of its line: a double quote begins and ends, `%` and `!` are read everywhere."""
    assert not set(line) & set("%!\r\n")
    found: list[str] = []
    for index, part in enumerate(line.split('"')):
        if index % 2:
            assert not part.endswith("\\")
            found.append(part)
        else:
            assert not set(part) & set("&|<>^()")
            found += part.split()
    return found
