"""Printed commands: what is pasted into a shell reaches the program as it was, and runs nothing else."""

from __future__ import annotations

import os
import subprocess
import unicodedata
from collections.abc import Callable

import pasting
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_host.quoting import POWERSHELL_MARKER, Word, cmd_can_pass, command, line, literal, words

SHELLS = ("dash", "bash", "zsh", "fish")

HOSTILE = (*pasting.HOSTILE, "*?[x]{a,b}~", "two\nlines", "tab\there", "^x")
"""What is pasted, and what a program hands on without a person in between."""

# Characters fish keeps for itself (its private encoding and its internal markers) cannot be given to it by anyone.
ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("'\\\"$`!*?~#&;|<>(){}[] \t\n%^=-"),
        st.characters(min_codepoint=1, exclude_categories=("Cs", "Co", "Cn")),
    ),
    max_size=30,
)


@pytest.fixture(params=SHELLS)
def arguments_seen_by(
    request: pytest.FixtureRequest, system_program: Callable[[str], str]
) -> Callable[[list[str]], list[str]]:
    """Runs a real shell over quoted arguments and says what the program was given."""
    shell = system_program(request.param)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}

    def run(values: list[str]) -> list[str]:
        script = "printf '%s\\0' end " + " ".join(literal(value) for value in values)
        done = subprocess.run(
            [shell, "-c", script], capture_output=True, check=True, timeout=30, env=environment
        )
        assert done.stderr == b""
        return done.stdout.decode().split("\0")[1:-1]

    return run


@pytest.mark.req("PLG-196", "PLG-201")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_reaches_the_program_unchanged(
    arguments_seen_by: Callable[[list[str]], list[str]], value: str
) -> None:
    assert arguments_seen_by([value]) == [value]


@pytest.mark.req("PLG-196", "PLG-201")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(ANY_TEXT, min_size=1, max_size=12))
def test_any_values_reach_the_program_unchanged_and_apart(
    arguments_seen_by: Callable[[list[str]], list[str]], values: list[str]
) -> None:
    assert arguments_seen_by(values) == values


@pytest.mark.req("PLG-195", "PLG-196")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_whole_printed_command_runs_with_its_arguments_verbatim(
    shell: str, system_program: Callable[[str], str]
) -> None:
    directory, host = "/tmp/it's $HOME \\ here", "$(id).example.com"
    printed = command(
        directory, *words("config set"), "plugins.entries.k.egress_hosts", host, platform="posix"
    )
    assert printed.startswith("zeroclaw --config-dir '")
    asked = printed.replace("zeroclaw", "printf '%s\\0' end", 1)
    done = subprocess.run([system_program(shell), "-c", asked], capture_output=True, check=True, timeout=30)
    expected = ["--config-dir", directory, "config", "set", "plugins.entries.k.egress_hosts", host]
    assert done.stdout.decode().split("\0")[1:-1] == expected


@pytest.mark.req("PLG-201")
def test_the_embedded_quote_is_written_as_specified() -> None:
    assert literal("/tmp/it's here") == r"'/tmp/it'\''s here'"


@pytest.mark.req("PLG-195")
def test_a_command_begins_with_the_directory_it_was_computed_for() -> None:
    assert (
        command("/srv/a", *words("plugin list"), platform="posix")
        == "zeroclaw --config-dir '/srv/a' plugin list"
    )


@pytest.mark.req("PLG-196")
def test_even_a_harmless_argument_is_quoted() -> None:
    printed = command("/srv/a", *words("plugin remove"), "redact", platform="posix")
    assert printed.endswith("plugin remove 'redact'")


@pytest.mark.parametrize("text", ["", "a b", "$x", "a'b", "ü", "a/b", "x;y"])
def test_data_cannot_pass_for_a_bare_word(text: str) -> None:
    with pytest.raises(ValueError, match="bare word"):
        Word(text)


@pytest.mark.parametrize("platform", ["posix", "windows"])
def test_a_value_no_argument_can_carry_is_refused(platform: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b", platform="windows" if platform == "windows" else "posix")


@pytest.mark.req("PLG-202")
@pytest.mark.parametrize(
    "value", [r"C:\Users\op erator\.zeroclaw", "a.example.com,b.example.com", "a&b|c<d>e^f", "it's"]
)
def test_on_windows_an_ordinary_value_stands_in_double_quotes_without_a_marker(value: str) -> None:
    printed = command(value, *words("plugin list"), platform="windows")
    assert printed == f'zeroclaw --config-dir "{value}" plugin list'


@pytest.mark.req("PLG-203", "PLG-204", "PLG-205")
@pytest.mark.parametrize("value", ['"', "%", "!", "$", "`", "C:\\", "\u201c", "\u201e"])
def test_on_windows_a_value_cmd_would_read_marks_the_whole_line(value: str) -> None:
    value = "x" + value
    assert not cmd_can_pass(value)
    printed = command(value, *words("plugin remove"), "it's", platform="windows")
    assert printed == f"{POWERSHELL_MARKER} zeroclaw --config-dir '{value}' plugin remove 'it''s'"
    assert printed.startswith("#")


@pytest.mark.req("PLG-203", "PLG-205")
@pytest.mark.parametrize("control", ["\n", "\r", "\a", "\x7f", "\x85", "\u2028"])
def test_on_windows_a_control_character_never_breaks_out_of_the_marked_line(control: str) -> None:
    printed = command(f"it's{control}x", *words("plugin list"), platform="windows")
    code = ord(control)
    expected = f"{POWERSHELL_MARKER} zeroclaw --config-dir (''+'it''s'+[char]{code}+'x') plugin list"
    assert printed == expected
    assert len(printed.splitlines()) == 1


@pytest.mark.req("PLG-203")
@pytest.mark.parametrize("position", range(3))
def test_one_such_argument_anywhere_marks_the_line(position: int) -> None:
    arguments = ["a", "b", "c"]
    arguments[position] = "100%"
    assert line("zeroclaw", *arguments, platform="windows").startswith(POWERSHELL_MARKER)


@pytest.mark.req("PLG-204")
@given(
    value=ANY_TEXT.filter(lambda text: not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text))
)
def test_powershell_reads_back_its_own_form(value: str) -> None:
    printed = literal(value + "%", platform="windows")
    assert read_powershell(printed) == value + "%"


def read_powershell(text: str) -> str:
    """PowerShell's rule for single-quoted texts: a quote of any style ends it unless another follows."""
    quotes = "'\u2018\u2019\u201a\u201b"
    assert text[0] in quotes
    out, i = "", 1
    while True:
        if text[i] in quotes:
            if i + 1 == len(text):
                return out
            assert text[i + 1] in quotes
            i += 1
        out += text[i]
        i += 1
