"""What a person sees on a terminal: tables with headings, and movement while something takes long."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest
from prepared_grants import HEAD, Prepared, row, tool_key

from zeroclaw_daemon.network.usage import Key, Outcome, Tally
from zeroclaw_daemon.network.usage_file import UsageFile

pytestmark = pytest.mark.usefixtures("compile_cache")


@pytest.fixture
def on_terminal(home):
    """Runs a command with a terminal of its own; everything it showed, and its exit status."""

    def run(*arguments: str) -> tuple[str, int]:
        controller, terminal = pty.openpty()
        program = subprocess.Popen(
            ["zeroclaw", *arguments],
            env={**home.environment(), "TERM": "xterm-256color", "COLUMNS": home.env.get("COLUMNS", "100")},
            cwd=home.path,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        shown = b""
        try:
            while True:
                try:
                    piece = os.read(controller, 4096)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
            return shown.decode(), program.wait(timeout=60)
        finally:
            program.kill()
            program.wait()
            os.close(controller)

    return run


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def test_an_install_shows_movement_and_a_list_has_headings(on_terminal, zeroclaw, package) -> None:
    shown, status = on_terminal("plugin", "install", str(package(description="[bold]not markup[/bold]")))
    assert status == 0
    assert "installing " in plain(shown)
    assert "\x1b[?25l" in shown
    assert "installed wat-echo 1.0.0" in plain(shown)
    table, status = on_terminal("plugin", "list", "--verify")
    assert status == 0
    lines = [line.split() for line in plain(table).splitlines() if line.strip()]
    assert ["NAME", "VERSION", "CAPABILITIES", "SIGNATURE", "LOADS", "DESCRIPTION"] in lines
    assert "[bold]not markup[/bold]" in plain(table)


def test_away_from_a_terminal_nothing_moves(zeroclaw, package) -> None:
    outcome = zeroclaw("plugin", "install", str(package()))
    assert "\x1b" not in outcome.out + outcome.err
    assert outcome.err == ""


def test_a_list_of_properties_fits_a_terminal_of_80_columns(home, on_terminal) -> None:
    home.configure("schema_version = 1\n[gateway]\nport = 80\n")
    home.env |= {"COLUMNS": "80", "ZEROCLAW_gateway__port": "99"}
    shown, status = on_terminal("config", "list")
    assert status == 0
    lines = plain(shown).replace("\r", "").splitlines()
    assert [line for line in lines if len(line) > 80] == []
    at = lines.index("gateway.port = 99")
    assert lines[at + 1] == "    The port it listens on."
    told = " ".join(line.strip() for line in lines[at + 2 : at + 5])
    assert "ZEROCLAW_gateway__port; without it, it would be 80" in told


def test_the_account_of_a_plugins_network_has_room_on_a_terminal(on_terminal, home) -> None:
    key = tool_key("weather")
    home.configure(HEAD + row(key, "*.weather.example", "old.example"))
    Prepared("weather", declares=("*.weather.example",)).install(home.plugins)
    home.data.mkdir(mode=0o700)
    ledger = UsageFile(home.data / "plugin-egress.db")
    used = Key(key, Outcome.OPENED, "http", "eu.weather.example", 443)
    ledger.add({used: Tally(2, 10, 20, ("93.184.216.34",), first=1_780_000_000_000, last=1_780_000_000_000)})
    ledger.close()
    shown, status = on_terminal("plugin", "egress", "weather")
    assert status == 0
    lines = [line.rstrip() for line in plain(shown).splitlines()]
    assert lines[0] == "weather"
    assert lines[1].split() == ["DESTINATION", "DECLARED", "GRANTED", "USED"]
    assert lines[2].split(maxsplit=3)[:3] == [
        "eu.weather.example:443",
        "*.weather.example",
        "*.weather.example",
    ]
    words = " ".join(line[60:].strip() for line in lines[2:6])
    assert "opened, 2 times by http; 10 bytes" in words
    assert any(line.split() == ["old.example", "no", "yes", "not", "used"] for line in lines)
