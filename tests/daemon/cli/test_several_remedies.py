"""A refusal that takes several commands: whoever tells it tells all of them, in their order."""

from __future__ import annotations

import json
import logging
import os
import shlex
from dataclasses import asdict
from pathlib import Path

import pytest

from zeroclaw_daemon.cli.calling import as_daemon_error
from zeroclaw_daemon.cli.output import error_json, error_lines
from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.daemon_log import DaemonLogHandler, LogFile
from zeroclaw_daemon.records import record, remedies_of
from zeroclaw_daemon.rpc.envelope import ErrorObject
from zeroclaw_daemon.rpc.errors import RemoteError, error_object
from zeroclaw_daemon.terminal import Terminal, TerminalHandler
from zeroclaw_host.egress.decision import decide
from zeroclaw_host.egress.failures import EgressRefused
from zeroclaw_host.egress.policy import EgressPolicy
from zeroclaw_host.egress.request import EgressRequest, Transport
from zeroclaw_host.errors import Remedy, RemedyAction, UsageError
from zeroclaw_host.instance import InstanceIdentity

PLACE = Place("/srv/it's here", platform="posix")
WEATHER = InstanceIdentity.default_tool("weather")
ROW = f"plugins.entries.{WEATHER.key}"
COMMANDS = [
    ["config", "set", f"{ROW}.egress_hosts", "localhost,z.example"],
    ["config", "set", f"{ROW}.egress_allow_private", "localhost"],
]
WORDS = [
    "Let weather reach localhost, z.example, and nothing else.",
    "Let weather reach private addresses of localhost, and of nothing else.",
]


@pytest.fixture
def refused() -> EgressRefused:
    request = EgressRequest(
        identity=WEATHER, transport=Transport.HTTP, host="localhost", port=80, permitted=True
    )
    return EgressRefused(decide(request, EgressPolicy.of(["z.example"]), ()))


def arguments(command: str) -> list[str]:
    program, option, directory, *rest = shlex.split(command)
    assert (program, option, directory) == ("zeroclaw", "--config-dir", PLACE.config_dir)
    return rest


@pytest.mark.req("PLG-184", "PAINS-17")
def test_a_command_tells_them_all(refused: EgressRefused) -> None:
    lines = error_lines(refused, PLACE)
    assert lines[1::2] == [f"  to do: {WORDS[0]}", f"  then: {WORDS[1]}"]
    assert [arguments(line) for line in lines[2::2]] == COMMANDS
    told = error_json(refused, PLACE)["error"]
    assert isinstance(told, dict)
    assert told["remedy"] == told["remedies"][0]
    assert [arguments(each["command"]) for each in told["remedies"]] == COMMANDS
    assert [each["words"] for each in told["remedies"]] == WORDS


@pytest.mark.req("PLG-184", "PAINS-17", "RPC-237")
def test_an_answer_carries_them_all_and_the_command_that_asked_tells_them(refused: EgressRefused) -> None:
    sent = error_object(refused)
    data = json.loads(json.dumps(sent.data))
    assert data["remedy"] == data["remedies"][0]
    arrived = as_daemon_error(RemoteError(ErrorObject(sent.code, sent.message, data)))
    assert arrived.remedies == refused.remedies
    assert arrived.remedy == refused.remedies[0]
    assert not {"remedy", "remedies"} & arrived.details.keys()


def test_steps_of_which_one_is_not_known_are_no_steps(refused: EgressRefused) -> None:
    sent = error_object(refused)
    data = json.loads(json.dumps(sent.data))
    data["remedies"][0]["action"] = "what_a_later_release_does"
    arrived = as_daemon_error(RemoteError(ErrorObject(sent.code, sent.message, data)))
    assert not set(map(str, arrived.remedies)) & set(map(str, refused.remedies))


def test_one_remedy_is_told_as_ever() -> None:
    error = UsageError("no", remedy=Remedy(RemedyAction.START_DAEMON))
    assert error.remedies == (error.remedy,)
    assert UsageError("no").remedies == ()
    assert UsageError("no").remedy is None
    data = error_object(error).data
    assert isinstance(data, dict)
    assert "remedies" not in data
    told = error_json(error, PLACE)["error"]
    assert isinstance(told, dict)
    assert "remedies" not in told


@pytest.mark.req("PLG-184", "PAINS-17")
def test_the_daemons_log_and_its_terminal_tell_them_all(refused: EgressRefused, tmp_path: Path) -> None:
    logger = logging.Logger("zeroclaw_daemon.test")
    file = LogFile(tmp_path / "daemon.jsonl")
    reader, writer = os.pipe()
    terminal = Terminal(writer)
    logger.addHandler(DaemonLogHandler(file, lambda remedy: asdict(advise(remedy, PLACE))))
    logger.addHandler(TerminalHandler(terminal, PLACE))
    record(logger, logging.WARNING, "refused", action="connect", remedies=refused.remedies)
    record(logger, logging.WARNING, "alone", action="connect", remedy=refused.remedy)
    terminal.close(60)
    file.close()
    os.close(writer)
    with os.fdopen(reader) as shown:
        lines = shown.read().splitlines()
    assert [line.split(":")[0].strip() for line in lines if not line.startswith("    ")] == [
        *("warning", "to do", "then"),
        *("warning", "to do"),
    ]
    assert [arguments(line) for line in lines if line.startswith("    ")] == [*COMMANDS, COMMANDS[0]]
    both, alone = (
        json.loads(line)["attributes"] for line in (tmp_path / "daemon.jsonl").read_text().splitlines()
    )
    assert [arguments(each["command"]) for each in both["remedies"]] == COMMANDS
    assert both["remedy"] == both["remedies"][0]
    assert arguments(alone["remedy"]["command"]) == COMMANDS[0]
    assert "remedies" not in alone


def test_what_is_no_remedy_is_none() -> None:
    assert remedies_of({"remedy": "x"}) == ()
    assert remedies_of({"remedies": ["x", None]}) == ()
    assert remedies_of({}) == ()
