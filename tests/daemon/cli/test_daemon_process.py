"""The daemon as a process: where it listens, whom it lets in, how it starts and ends."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

INITIALIZE = '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}'
STATUS = '{"jsonrpc":"2.0","method":"status","params":{},"id":2}'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.req("RPC-001", "RPC-002", "RPC-003", "RPC-044", "RPC-047")
def test_with_nothing_configured_it_serves_in_the_home_directory(home, start_daemon) -> None:
    daemon = start_daemon()
    first, second = daemon.ask(home.socket, INITIALIZE, STATUS)
    assert (first["id"], first["result"]["protocolVersion"]) == (1, 1)
    assert (second["id"], second["result"]["serverPid"]) == (2, daemon.pid)
    assert second["result"]["agents"] == ["assistant"]
    assert daemon.process.poll() is None
    found = home.socket.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()
    assert not home.config_file.exists()


@pytest.mark.req("RPC-223")
def test_the_documented_session_works_with_socat(
    home, start_daemon, system_program: Callable[[str], str]
) -> None:
    start_daemon()
    done = subprocess.run(
        [system_program("socat"), "-t", "30", "-", f"UNIX-CONNECT:{home.socket}"],
        input=f"{INITIALIZE}\n{STATUS}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert all("result" in json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.req("RPC-004", "RPC-005", "RPC-006", "RPC-008")
@pytest.mark.parametrize(
    ("options", "env", "endpoint", "absent"),
    [
        (["--config-dir", "{h}/d"], {}, "d/data/daemon.sock", [".zeroclaw"]),
        ([], {"ZEROCLAW_CONFIG_DIR": "{h}/d"}, "d/data/daemon.sock", [".zeroclaw"]),
        (
            ["--config-dir", "{h}/d2"],
            {"ZEROCLAW_CONFIG_DIR": "{h}/d1"},
            "d2/data/daemon.sock",
            ["d1", ".zeroclaw"],
        ),
        ([], {"ZEROCLAW_DATA_DIR": "{h}/zc"}, "zc/daemon.sock", ["zc/data", ".zeroclaw/data"]),
        (["--config-dir", "{h}/d"], {"ZEROCLAW_DATA_DIR": "{h}/zc"}, "d/data/daemon.sock", ["zc"]),
        (
            ["--config-dir", "{h}/d"],
            {"ZEROCLAW_SOCKET": "{h}/x/my.sock"},
            "x/my.sock",
            ["d/data/daemon.sock"],
        ),
    ],
)
def test_the_settings_decide_where_it_listens(home, start_daemon, options, env, endpoint, absent) -> None:
    daemon = start_daemon(
        *(option.format(h=home.path) for option in options),
        env={name: value.format(h=home.path) for name, value in env.items()},
    )
    answers = daemon.ask(home.path / endpoint, INITIALIZE, STATUS)
    assert answers[1]["result"]["localIpcEndpoint"] == str(home.path / endpoint)
    assert [path for path in absent if (home.path / path).exists()] == []


@pytest.mark.req("RPC-007", "RPC-228")
def test_several_daemons_live_side_by_side_and_every_setting_reaches_the_one_meant(
    home, start_daemon, zeroclaw
) -> None:
    places = {name: str(home.path / name) for name in ("d1", "d2")}
    first = start_daemon("--config-dir", places["d1"])
    second = start_daemon("--config-dir", places["d2"])
    asked = {
        "flag": zeroclaw("--config-dir", places["d2"], "status", "--json"),
        "config": zeroclaw("status", "--json", env={"ZEROCLAW_CONFIG_DIR": places["d2"]}),
        "data": zeroclaw("status", "--json", env={"ZEROCLAW_DATA_DIR": places["d2"] + "/data"}),
        "socket": zeroclaw("status", "--json", env={"ZEROCLAW_SOCKET": places["d2"] + "/data/daemon.sock"}),
    }
    assert {name: outcome.json["serverPid"] for name, outcome in asked.items()} == dict.fromkeys(
        asked, second.pid
    )
    assert asked["flag"].json["dataDir"] == places["d2"] + "/data"
    assert second.stop()[0] == 0
    answer = zeroclaw("--config-dir", places["d1"], "status", "--json").json
    assert (answer["serverPid"], answer["dataDir"]) == (first.pid, places["d1"] + "/data")


@pytest.mark.req("RPC-228")
def test_without_a_daemon_the_error_names_the_path_and_the_way_to_start_one(home, zeroclaw) -> None:
    for command in (["status"], ["prompt", "hello"]):
        outcome = zeroclaw(*command)
        assert outcome.status == 7
        assert outcome.out == ""
        assert str(home.socket) in outcome.err
        assert "`zeroclaw daemon`" in outcome.err
        assert f"zeroclaw --config-dir '{home.path}/.zeroclaw' daemon" in outcome.err


@pytest.mark.req("RPC-009", "PAINS-19")
def test_a_second_daemon_says_who_is_there_and_how_to_stop_it_and_leaves(
    home, start_daemon, zeroclaw_process
) -> None:
    first = start_daemon()
    outcome = zeroclaw_process("daemon")
    assert outcome.status == 6
    assert str(home.socket) in outcome.err
    assert f"process {first.pid}" in outcome.err
    assert f"kill '{first.pid}'" in outcome.err
    assert first.ask(home.socket, INITIALIZE)[0]["id"] == 1


@pytest.mark.req("RPC-010", "PAINS-19")
def test_a_socket_that_a_killed_daemon_left_is_taken_over(home, start_daemon) -> None:
    first = start_daemon()
    assert first.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert home.socket.exists()
    second = start_daemon()
    assert second.ask(home.socket, INITIALIZE, STATUS)[1]["result"]["serverPid"] == second.pid


@pytest.mark.req("RPC-011")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_removes_its_socket_and_ends_well(home, start_daemon, number: int) -> None:
    status, said = start_daemon().stop(number)
    assert (status, "Traceback" in said) == (0, False)
    assert not home.socket.exists()
    assert home.log()[-1]["event"]["action"] == "stop"


@pytest.mark.req("RPC-011")
def test_it_leaves_a_socket_that_somebody_else_put_in_its_place(home, start_daemon) -> None:
    daemon = start_daemon()
    home.socket.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(home.socket))
        assert daemon.stop()[0] == 0
        assert home.socket.exists()


def test_a_hang_up_of_the_terminal_does_not_end_it(home, start_daemon) -> None:
    daemon = start_daemon()
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.ask(home.socket, INITIALIZE, STATUS)[1]["result"]["serverPid"] == daemon.pid
    assert daemon.stop()[0] == 0


@pytest.mark.req("RPC-048")
def test_the_data_directory_is_made_private_even_if_it_was_not(home, start_daemon) -> None:
    home.data.mkdir(parents=True)
    home.data.chmod(0o755)
    start_daemon()
    assert mode(home.data) == 0o700


@pytest.mark.req("RPC-048")
def test_the_data_directory_is_private_wherever_the_socket_is(home, start_daemon) -> None:
    home.data.mkdir(parents=True)
    home.data.chmod(0o755)
    start_daemon(env={"ZEROCLAW_SOCKET": str(home.path / "a" / "b" / "my.sock")})
    assert (mode(home.data), mode(home.path / "a"), mode(home.path / "a" / "b")) == (0o700, 0o700, 0o700)


@pytest.mark.req("RPC-048")
def test_everything_it_makes_is_private_whatever_the_umask(home, start_daemon) -> None:
    before = os.umask(0)
    try:
        start_daemon()
    finally:
        os.umask(before)
    open_to_others = [path for path in home.path.rglob("*") if path.lstat().st_mode & 0o077]
    assert open_to_others == []


@pytest.mark.req("RPC-049")
@pytest.mark.parametrize(
    ("before", "foreign", "after"),
    [(0o755, False, 0o700), (0o755, True, 0o755), (0o1777, True, 0o1777), (0o1777, False, 0o1777)],
)
def test_a_directory_named_by_the_socket_alone_is_closed_only_if_it_serves_nobody_else(
    home, start_daemon, before: int, foreign: bool, after: int
) -> None:
    place = home.path / "place"
    place.mkdir()
    place.chmod(before)
    if foreign:
        (place / "other").touch()
    daemon = start_daemon(env={"ZEROCLAW_SOCKET": str(place / "my.sock")})
    assert daemon.ask(place / "my.sock", INITIALIZE)[0]["id"] == 1
    assert (mode(place), mode(place / "my.sock")) == (after, 0o600)
    assert ("open to others" in daemon.ready) == (after != 0o700)


@pytest.mark.req("RPC-049")
def test_a_directory_that_strangers_can_write_to_is_refused_with_the_way_out(home, zeroclaw_process) -> None:
    place = home.path / "place"
    place.mkdir()
    (place / "other").touch()
    place.chmod(0o777)
    outcome = zeroclaw_process("daemon", env={"ZEROCLAW_SOCKET": str(place / "my.sock")})
    assert outcome.status == 4
    assert f"mkdir -m 700 '{place}'" in outcome.err
    assert not (place / "my.sock").exists()


@pytest.mark.req("RPC-050")
def test_the_modes_are_there_before_the_first_connection_is_taken(home, start_daemon) -> None:
    seen: list[tuple[int, int]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set() and not seen:
            with socket.socket(socket.AF_UNIX) as client:
                if client.connect_ex(str(home.socket)) == 0:
                    seen.append((mode(home.socket), mode(home.data)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        start_daemon()
        watcher.join(timeout=30)
    finally:
        over.set()
        watcher.join()
    assert seen == [(0o600, 0o700)]


@pytest.mark.req("RPC-229")
def test_a_path_too_long_for_a_socket_is_refused_and_the_longest_that_fits_is_served(
    home, start_daemon, zeroclaw_process
) -> None:
    room = 107 - len(str(home.path)) - len("//data/daemon.sock")
    fits, too_long = home.path / ("f" * room), home.path / ("t" * (room + 1))
    outcome = zeroclaw_process("--config-dir", str(too_long), "daemon")
    assert outcome.status == 3
    for part in (f"{too_long}/data/daemon.sock", "108", "107", "ZEROCLAW_SOCKET"):
        assert part in outcome.err
    assert [path for path in home.path.rglob("*") if path.is_socket()] == []
    daemon = start_daemon("--config-dir", str(fits))
    assert len(os.fsencode(fits / "data" / "daemon.sock")) == 107
    assert daemon.ask(fits / "data" / "daemon.sock", INITIALIZE)[0]["id"] == 1


@pytest.mark.req("RPC-230")
def test_a_variable_is_trimmed_expanded_and_blank_means_unset(home, start_daemon) -> None:
    daemon = start_daemon(
        env={"ZEROCLAW_SOCKET": " ~/x/my.sock ", "ZEROCLAW_CONFIG_DIR": "  ", "ZEROCLAW_DATA_DIR": ""}
    )
    answer = daemon.ask(home.path / "x" / "my.sock", INITIALIZE, STATUS)[1]["result"]
    assert answer["configDir"] == str(home.path / ".zeroclaw")


@pytest.mark.req("RPC-053")
def test_every_client_is_recorded_for_audit_by_process_and_user(home, start_daemon) -> None:
    daemon = start_daemon()
    daemon.ask(home.socket, INITIALIZE)
    daemon.stop()
    label = f"unix:pid={os.getpid()},uid={os.geteuid()}"
    audited = [
        r for r in home.log() if r["event"]["category"] == "audit" and r["attributes"]["peer"] == label
    ]
    assert [record["event"]["action"] for record in audited].count("connected") == 1


def test_what_clients_say_is_never_in_the_log(home, start_daemon) -> None:
    daemon = start_daemon()
    daemon.ask(
        home.socket, INITIALIZE, '{"planted-secret', '{"jsonrpc":"2.0","method":"planted-secret","id":3}'
    )
    daemon.ask(
        home.socket,
        INITIALIZE,
        '{"jsonrpc":"2.0","method":"session/new","params":{"agentAlias":"assistant","sessionId":"s"},"id":4}',
        '{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":"/fail planted-secret"},"id":5}',
    )
    daemon.stop()
    assert "planted-secret" not in (home.data / "logs" / "daemon.jsonl").read_text()


def test_a_daemon_that_does_not_trust_its_own_user_lets_nobody_in(home, start_daemon, zeroclaw) -> None:
    home.configure("[security]\ntrust_daemon_uid = false\n")
    daemon = start_daemon()
    assert daemon.ask(home.socket, INITIALIZE)[0]["error"]["code"] == -32010
    refused = zeroclaw("status")
    assert refused.status == 4
    assert "auth explain --help" in refused.err, "which command says why"


@pytest.mark.req("PLG-123", "PAINS-25")
def test_an_unreadable_plugins_section_is_reported_at_start_and_in_status(
    home, start_daemon, zeroclaw
) -> None:
    home.configure('[plugins]\nenabled = true\n\n[plugins.entries]\nname = "x"\n')
    before = home.config_file.read_bytes()
    daemon = start_daemon()
    status = zeroclaw("status", "--json").json
    assert status["pluginsEnabled"] is False
    where = f"{home.config_file}:4:1: plugins.entries"
    assert where in daemon.ready
    assert any(where in problem for problem in status["problems"])
    [record] = [r for r in home.log() if r["event"]["action"] == "config_section_dropped"]
    assert record["severity_text"] == "ERROR"
    assert where in record["message"]
    assert home.config_file.read_bytes() == before


@pytest.mark.req("PAINS-25")
def test_a_configuration_that_does_not_parse_keeps_the_daemon_from_starting(home, zeroclaw_process) -> None:
    home.configure("[gateway]\nport = \n")
    outcome = zeroclaw_process("daemon")
    assert outcome.status == 3
    assert f"{home.config_file}:2:8: " in outcome.err
    assert not home.socket.exists()


def test_a_file_broken_while_it_runs_leaves_the_last_good_one_in_force(home, start_daemon, zeroclaw) -> None:
    home.configure("[agents.ada]\n")
    daemon = start_daemon()
    assert zeroclaw("status", "--json").json["agents"] == ["ada"]
    home.configure("[agents.ada\n")
    status = zeroclaw("status", "--json").json
    assert status["agents"] == ["ada"]
    assert "config.toml:1:12" in status["problems"][0]
    home.configure("[agents.ada]\n[agents.bob]\n")
    status = zeroclaw("status", "--json").json
    assert (status["agents"], status["problems"]) == (["ada", "bob"], [])
    assert "config.toml:1:12" in daemon.stop()[1]


def test_the_log_that_cannot_be_opened_is_an_error_with_its_path(home, zeroclaw_process) -> None:
    (home.data / "logs" / "daemon.jsonl").mkdir(parents=True)
    outcome = zeroclaw_process("daemon")
    assert outcome.status == 7
    assert "daemon.jsonl" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("reader", ["gone", "asleep"])
def test_whoever_reads_its_words_cannot_stop_it_by_reading_nothing(home, start_daemon, reader: str) -> None:
    daemon = start_daemon()
    if reader == "gone":
        with open(os.devnull) as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), daemon.process.stderr.fileno())
    else:
        fcntl.fcntl(daemon.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    for _ in range(20):  # each line is a warning on standard error
        answers = daemon.ask(home.socket, INITIALIZE, *["no json"] * 15)
        assert len(answers) == 16
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(timeout=30) == 0


def test_a_pipe_in_the_place_of_its_configuration_is_not_waited_for(home, start_daemon) -> None:
    home.configure("[rpc]\nmax_local_connections = 7\n")
    daemon = start_daemon()
    home.config_file.unlink()
    os.mkfifo(home.config_file)
    _, status = daemon.ask(home.socket, INITIALIZE, STATUS)
    [problem] = status["result"]["problems"]
    assert "not a regular file" in problem
    assert "last good configuration" in problem


def test_a_shortage_of_descriptors_is_told_once_and_over_when_it_is_over(home, start_daemon) -> None:
    daemon = start_daemon()
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))  # noqa: PTH208
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (before + 4, before + 4))
    with socket.socket(socket.AF_UNIX) as first:
        first.settimeout(60)
        first.connect(str(home.socket))
        others = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for other in others:
            other.connect(str(home.socket))
        while len(os.listdir(f"/proc/{daemon.pid}/fd")) < before + 4:  # noqa: PTH208
            assert daemon.process.poll() is None
        home.configure("[agents.bob]\n")
        with first.makefile("rwb", buffering=0) as wire:
            wire.write(f"{INITIALIZE}\n{STATUS}\n".encode())
            wire.readline()
            assert json.loads(wire.readline())["result"]["agents"] == ["assistant"]
            for other in others:
                other.close()
            while len(os.listdir(f"/proc/{daemon.pid}/fd")) > before + 1:  # noqa: PTH208
                assert daemon.process.poll() is None
            wire.write(f"{STATUS}\n".encode())
            status = json.loads(wire.readline())["result"]
    assert status["agents"] == ["bob"]
    assert status["problems"] == []
    # A descriptor that is free for a moment lets one more client in, and the shortage that follows is another one.
    met = [
        action
        for record in home.log()
        if (action := record["event"]["action"]) in ("accept_failed", "connected")
    ]
    assert "accept_failed" in met
    assert ("accept_failed", "accept_failed") not in itertools.pairwise(met)
