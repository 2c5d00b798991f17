"""The real socket: where it is, who may use it, and who has it."""

# ruff: noqa: ASYNC220, ASYNC240 - short calls of the file system are what is tested here

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from zeroclaw_daemon.authority.principal import PeerCredential
from zeroclaw_daemon.rpc.limits import ConnectionLimits, ServerLimits
from zeroclaw_daemon.rpc.transport import claim, unix
from zeroclaw_daemon.rpc.transport.base import AcceptFailed
from zeroclaw_daemon.rpc.transport.claim import (
    EndpointBusy,
    EndpointError,
    EndpointExposed,
    EndpointTooLong,
    credential_of,
    lock_path,
)
from zeroclaw_daemon.rpc.transport.unix import DaemonUnreachable, UnixListener, connect
from zeroclaw_host.errors import RemedyAction

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "state" / "data"


@pytest.mark.req("RPC-047", "RPC-048")
async def test_socket_and_directory_belong_to_their_owner_alone(data: Path) -> None:
    async with UnixListener(data / "daemon.sock", data_dir=data).opened():
        assert stat.S_ISSOCK((data / "daemon.sock").lstat().st_mode)
        assert mode(data / "daemon.sock") == 0o600
        assert (data / "daemon.sock").stat().st_uid == os.geteuid()
        assert mode(data) == mode(data.parent) == 0o700
        assert mode(lock_path(data / "daemon.sock")) == 0o600


@pytest.mark.req("RPC-048")
async def test_a_data_directory_that_was_open_is_closed_whatever_it_holds(data: Path) -> None:
    data.mkdir(parents=True, mode=0o755)
    (data / "other.db").touch()
    async with UnixListener(data / "daemon.sock", data_dir=data).opened():
        assert mode(data) == 0o700


@pytest.mark.req("RPC-048")
async def test_directories_made_for_a_named_socket_are_private(tmp_path: Path, data: Path) -> None:
    path = tmp_path / "a" / "b" / "my.sock"
    async with UnixListener(path, data_dir=data).opened():
        assert mode(path.parent) == mode(path.parent.parent) == 0o700
        assert not data.exists()


@pytest.mark.req("RPC-049")
async def test_an_own_directory_with_nothing_else_in_it_is_made_private(tmp_path: Path, data: Path) -> None:
    directory = tmp_path / "mine"
    directory.mkdir(mode=0o755)
    async with UnixListener(directory / "x.sock", data_dir=data).opened():
        assert mode(directory) == 0o700
    directory.chmod(0o755)
    async with UnixListener(directory / "x.sock", data_dir=data).opened():  # now the lock file is in it
        assert mode(directory) == 0o700


@pytest.mark.req("RPC-049")
async def test_an_own_directory_that_holds_other_things_is_left_as_it_is(
    tmp_path: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "home"
    directory.mkdir()
    directory.chmod(0o755)
    (directory / "letter").touch()
    async with UnixListener(directory / "x.sock", data_dir=data).opened():
        assert mode(directory) == 0o755
        assert mode(directory / "x.sock") == 0o600
    assert "open to others" in caplog.text


@pytest.mark.req("RPC-049")
async def test_a_sticky_directory_like_tmp_is_served_and_left_as_it_is(
    tmp_path: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    async with UnixListener(directory / "x.sock", data_dir=data).opened():
        assert mode(directory) == 0o1777
        assert mode(directory / "x.sock") == 0o600
    assert "open to others" in caplog.text


@pytest.mark.req("RPC-049")
async def test_a_directory_that_anybody_can_write_to_is_refused(tmp_path: Path, data: Path) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    (directory / "letter").touch()
    for exposed in (0o777, 0o770):
        directory.chmod(exposed)
        with pytest.raises(EndpointExposed) as caught:
            async with UnixListener(directory / "x.sock", data_dir=data).opened():
                pass
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.MAKE_DIRECTORY
        assert caught.value.remedy.arguments == {"path": str(directory)}
        assert [entry.name for entry in directory.iterdir()] == ["letter"]


@needs_root
@pytest.mark.req("RPC-049")
async def test_a_directory_of_another_user_is_refused(tmp_path: Path, data: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)
    with pytest.raises(EndpointExposed):
        async with UnixListener(directory / "x.sock", data_dir=data).opened():
            pass


@pytest.mark.req("RPC-050")
async def test_the_modes_are_set_between_bind_and_listen(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            order.append("bind")
            super().bind(address)

        def listen(self, *backlog: int) -> None:  # type: ignore[override]
            order.append(f"listen {mode(data / 'daemon.sock'):o} {mode(data):o}")
            super().listen(*backlog)

    monkeypatch.setattr(unix.socket, "socket", Watched)
    async with UnixListener(data / "daemon.sock", data_dir=data).opened():
        pass
    assert order == ["bind", "listen 600 700"]


@pytest.mark.req("RPC-050")
async def test_whoever_connects_first_finds_the_modes_in_place(data: Path) -> None:
    path = data / "daemon.sock"
    found: list[tuple[int, int]] = []

    def connect_until_it_works() -> None:
        while not found:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(path))
                except (FileNotFoundError, ConnectionRefusedError):
                    continue
                found.append((mode(path), mode(data)))

    client = threading.Thread(target=connect_until_it_works)
    client.start()
    async with UnixListener(path, data_dir=data).opened():
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(client.join)
    assert found == [(0o600, 0o700)]


CLIENT_AS_NOBODY = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError as error:
    print(error.errno)
"""


@needs_root
@pytest.mark.req("RPC-051")
async def test_another_user_cannot_connect(tmp_path: Path, data: Path) -> None:
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH and parent.is_relative_to("/tmp"):
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    async with UnixListener(directory / "x.sock", data_dir=data).opened():
        done = await anyio.run_process([sys.executable, "-c", CLIENT_AS_NOBODY, str(directory / "x.sock")])
    assert int(done.stdout) == errno.EACCES


@pytest.mark.req("RPC-229")
@pytest.mark.parametrize(("length", "fits"), [(107, True), (108, False)])
async def test_a_path_must_fit_a_socket_address(tmp_path: Path, length: int, fits: bool) -> None:
    base = Path("/tmp") / f"zc{os.getpid()}"
    name = "ü" * 5
    data = base / ("d" * (length - len(os.fsencode(base / name)) - 1))
    path = data / name
    assert len(os.fsencode(path)) == length
    try:
        if fits:
            async with UnixListener(path, data_dir=data).opened():
                (await connect(path)).close()
        else:
            with pytest.raises(EndpointTooLong) as caught:
                async with UnixListener(path, data_dir=data).opened():
                    pass
            assert caught.value.details == {"path": str(path), "length": 108, "limit": 107}
            assert caught.value.remedy is not None
            assert caught.value.remedy.arguments == {"variable": "ZEROCLAW_SOCKET"}
            assert not base.exists()
            with pytest.raises(EndpointTooLong):
                await connect(path)
    finally:
        for entry in (lock_path(path), data, base):
            if entry.is_dir():
                entry.rmdir()
            else:
                entry.unlink(missing_ok=True)


# Who has it.


@pytest.mark.req("RPC-009", "PAINS-19")
async def test_a_second_daemon_is_refused_by_name_and_the_first_goes_on(serving: Serving) -> None:
    async with serving(socket=True) as daemon, daemon.connect() as wire:
        for _ in range(2):
            with pytest.raises(EndpointBusy) as caught:
                async with UnixListener(daemon.path, data_dir=daemon.path.parent).opened():
                    pass
            assert caught.value.details == {"path": str(daemon.path), "pid": str(os.getpid())}
            assert str(os.getpid()) in caught.value.message
            assert caught.value.remedy is not None
            assert caught.value.remedy.action is RemedyAction.STOP_DAEMON
            assert caught.value.remedy.arguments == {"pid": str(os.getpid())}
        await wire.call("status")
        async with daemon.connect() as other:
            await other.call("status")


@pytest.mark.req("RPC-009", "PAINS-19")
async def test_a_listener_without_a_lock_is_not_disturbed_either(data: Path) -> None:
    data.mkdir(parents=True)
    path = data / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen(0)
        with pytest.raises(EndpointBusy) as caught:
            async with UnixListener(path, data_dir=data).opened():
                pass
        assert caught.value.details["pid"] == str(os.getpid())
        with pytest.raises(EndpointBusy):  # its queue is full now, which no less shows that somebody listens
            async with UnixListener(path, data_dir=data).opened():
                pass
        assert stat.S_ISSOCK(path.lstat().st_mode)


@pytest.mark.req("RPC-010", "PAINS-19")
async def test_a_socket_that_nobody_listens_at_is_replaced(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "data" / "daemon.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(path))
    async with serving(socket=True) as daemon, daemon.connect() as wire:
        assert daemon.path == path
        await wire.call("status")


DAEMON = """
import anyio, sys
from pathlib import Path
from zeroclaw_daemon.rpc.transport.unix import UnixListener

async def main():
    path = Path(sys.argv[1])
    async with UnixListener(path, data_dir=path.parent).opened():
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.req("RPC-010", "PAINS-19")
async def test_the_place_of_a_killed_daemon_is_taken_over(data: Path) -> None:
    path = data / "daemon.sock"
    with subprocess.Popen([sys.executable, "-c", DAEMON, str(path)], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"open\n"
        with pytest.raises(EndpointBusy) as caught:
            async with UnixListener(path, data_dir=data).opened():
                pass
        assert caught.value.details["pid"] == str(daemon.pid)
        daemon.send_signal(signal.SIGKILL)
    assert path.exists()
    async with UnixListener(path, data_dir=data).opened():
        (await connect(path)).close()
    assert not path.exists()


@pytest.mark.req("RPC-011")
async def test_the_end_removes_the_own_socket_and_leaves_a_strangers(data: Path) -> None:
    path = data / "daemon.sock"
    async with UnixListener(path, data_dir=data).opened():
        assert path.exists()
    assert not path.exists()
    assert lock_path(path).exists()
    with socket.socket(socket.AF_UNIX) as stranger:
        async with UnixListener(path, data_dir=data).opened():
            path.unlink()
            stranger.bind(str(path))
        assert stat.S_ISSOCK(path.lstat().st_mode)


async def test_a_file_that_is_no_socket_is_never_removed(data: Path) -> None:
    data.mkdir(parents=True)
    path = data / "daemon.sock"
    path.write_text("precious")
    with pytest.raises(EndpointError, match="no socket"):
        async with UnixListener(path, data_dir=data).opened():
            pass
    assert path.read_text() == "precious"


async def test_a_lock_that_is_open_to_others_or_a_link_is_refused(data: Path) -> None:
    data.mkdir(parents=True)
    path = data / "daemon.sock"
    lock = lock_path(path)
    lock.touch()
    lock.chmod(0o644)
    with pytest.raises(EndpointExposed):
        async with UnixListener(path, data_dir=data).opened():
            pass
    lock.unlink()
    lock.symlink_to(data / "elsewhere")
    with pytest.raises(EndpointError):
        async with UnixListener(path, data_dir=data).opened():
            pass
    assert not (data / "elsewhere").exists()


async def test_a_lock_swapped_while_it_is_taken_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data / "daemon.sock"
    real = fcntl.flock

    def swap(descriptor: int, operation: int) -> None:
        real(descriptor, operation)
        lock_path(path).unlink()
        lock_path(path).touch(mode=0o600)

    monkeypatch.setattr(claim.fcntl, "flock", swap)
    with pytest.raises(EndpointExposed, match="replaced"):
        async with UnixListener(path, data_dir=data).opened():
            pass
    assert not path.exists()


async def test_a_place_that_cannot_be_written_is_an_error_that_names_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, **_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(EndpointError, match="No space left"):
        async with UnixListener(data / "daemon.sock", data_dir=data).opened():
            pass


async def test_nothing_listening_is_an_error_with_a_remedy(data: Path) -> None:
    with pytest.raises(DaemonUnreachable) as caught:
        await connect(data / "daemon.sock")
    assert caught.value.details == {"path": str(data / "daemon.sock")}
    assert caught.value.remedy is not None
    assert caught.value.remedy.action is RemedyAction.START_DAEMON


async def test_an_accept_that_fails_for_a_passing_reason_is_not_the_end(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data / "daemon.sock"
    listener = UnixListener(path, data_dir=data)
    async with listener.opened():
        failures = [errno.EMFILE, errno.ECONNABORTED]
        real = socket.socket.accept

        def accept(self: socket.socket) -> Any:
            if failures:
                raise OSError(failures.pop(0), "passing")
            return real(self)

        monkeypatch.setattr(socket.socket, "accept", accept)
        for _ in range(2):
            with pytest.raises(AcceptFailed):
                await listener.accept()
        client = await connect(path)
        (await listener.accept()).close()
        client.close()


# What travels over it.


@pytest.mark.req("RPC-053")
async def test_the_kernel_says_who_is_calling(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with serving(socket=True) as daemon, daemon.connect():
        pass
    facts = [record.zeroclaw for record in caplog.records if hasattr(record, "zeroclaw")]
    label = f"unix:pid={os.getpid()},uid={os.geteuid()}"
    assert {fact["peer"] for fact in facts if fact["category"] == "audit"} == {label}


@pytest.mark.req("RPC-223", "RPC-015", "RPC-231")
async def test_the_documented_two_lines_get_two_results(serving: Serving) -> None:
    async with serving(socket=True) as daemon:

        def talk() -> bytes:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(daemon.path))
                client.sendall(
                    b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}\n'
                    b'{"jsonrpc":"2.0","method":"status","params":{},"id":2}\n'
                )
                client.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: client.recv(4096), b""))

        with anyio.fail_after(60):
            said = await anyio.to_thread.run_sync(talk)
    first, second, rest = said.split(b"\n")
    assert rest == b""
    assert json.loads(first)["id"] == 1
    assert json.loads(second)["id"] == 2
    assert json.loads(second)["result"]["serverVersion"] == "9.8.7"


@pytest.mark.req("RPC-223")
async def test_the_documented_session_works_with_socat(
    serving: Serving, system_program: Callable[[str], str]
) -> None:
    socat = system_program("socat")
    lines = (
        b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1},"id":1}\n'
        b'{"jsonrpc":"2.0","method":"status","params":{},"id":2}\n'
    )
    async with serving(socket=True) as daemon:
        with anyio.fail_after(60):
            done = await anyio.run_process(
                [socat, "-t", "5", "-", f"UNIX-CONNECT:{daemon.path}"], input=lines
            )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert all("result" in json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.req("RPC-016")
async def test_http_is_not_spoken(serving: Serving) -> None:
    async with serving(socket=True) as daemon, daemon.connect_raw() as wire:
        await wire.write(b"GET / HTTP/1.1\r\n")
        assert (await wire.receive())["error"]["code"] == -32700
        assert wire.raw.startswith(b"{")


@pytest.mark.req("RPC-017", "RPC-018", "PAINS-20")
async def test_only_line_ends_cut_frames(serving: Serving) -> None:
    async with serving(socket=True) as daemon, daemon.connect() as wire:
        line = json.dumps({"jsonrpc": "2.0", "method": "nö/such", "id": "ü€😀"}, ensure_ascii=False).encode()
        await wire.write(line + b"\n" + line + b"\r\n\n\r\n")
        assert [(await wire.receive())["id"] for _ in range(2)] == ["ü€😀"] * 2
        for byte in line + b"\n":
            await wire.write(bytes([byte]))
        assert (await wire.receive())["id"] == "ü€😀"
        await wire.assert_silent()


@pytest.mark.req("RPC-021", "RPC-023", "RPC-234", "PAINS-20")
async def test_eight_mebibytes_are_served_and_one_byte_more_is_the_end_but_no_reset(serving: Serving) -> None:
    limit = 8_388_608

    async with serving(socket=True) as daemon, daemon.connect() as wire:
        start, end = b'{"jsonrpc":"2.0","method":"status","id":1,"params":{"pad":"', b'"}}\n'
        await wire.write(start + b"x" * (limit - len(start) - len(end)) + end)
        assert "result" in await wire.answer_to(1)

        def flood() -> list[bytes]:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(daemon.path))
                client.sendall(b'{"jsonrpc":"2.0","method":"initialize","params":{},"id":1}\n')
                client.recv(65536)
                sender = threading.Thread(target=send_quietly, args=(client, b"x" * (limit + 1_000_000)))
                sender.start()
                received = [client.recv(65536), client.recv(65536)]
                client.shutdown(socket.SHUT_RDWR)
                sender.join()
                return received

        with anyio.fail_after(60):
            frame, after = await anyio.to_thread.run_sync(flood)
        assert json.loads(frame)["error"]["data"] == {"reason": "frame_too_large", "limit_bytes": limit}
        assert after == b""


def send_quietly(client: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        client.sendall(data)


@pytest.mark.req("RPC-233", "RPC-232")
async def test_what_cannot_be_held_leaves_the_connection_usable(serving: Serving) -> None:
    async with serving(socket=True) as daemon, daemon.connect() as wire:
        for line in (
            b"[" * 100_000,
            b"[" * 100_000 + b"]" * 100_000,
            b'{"id":1e400}',
            b"9" * 5_000,
            b"\xff",
            b"NaN",
        ):
            await wire.write(line + b"\n")
            answer = await wire.receive()
            assert (answer["error"]["code"], answer["id"]) == (-32700, None)
            await wire.call("status")
        assert not re.search(rb"NaN|Infinity", wire.raw)


@pytest.mark.req("PAINS-23", "RPC-036")
async def test_clients_that_vanish_leave_no_task_and_no_descriptor(serving: Serving) -> None:
    async with serving(socket=True) as daemon:

        async def vanish_in_the_middle(number: int) -> None:
            async with daemon.connect() as wire:
                session = await wire.new_session()
                prompt = {"sessionId": session, "prompt": "/slow 60000 a b c"}
                await wire.send(
                    {"jsonrpc": "2.0", "method": "session/prompt", "params": prompt, "id": number}
                )
                assert (await wire.receive())["method"] == "session/update"

        def held() -> tuple[int, int]:
            return len(list(Path("/proc/self/fd").iterdir())), len(anyio.get_running_tasks())

        before = held()
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                for number in range(15):
                    tasks.start_soon(vanish_in_the_middle, number)
            await daemon.until(lambda: daemon.server.open_connections == 0)
        assert all(now <= then for now, then in zip(held(), before, strict=True))


@pytest.mark.req("RPC-033", "RPC-034", "RPC-036", "RPC-234")
async def test_a_client_too_many_is_told_and_not_reset(serving: Serving) -> None:
    limits = ServerLimits(max_connections=2)
    async with serving(socket=True, limits=limits) as daemon, daemon.connect() as first:
        async with daemon.connect(), daemon.connect_raw() as third:
            await third.write(b'{"jsonrpc":"2.0","method":"initialize","params":{},"id":1}\n')
            frames = await third.rest()
            assert [frame["id"] for frame in frames] == [None]
            assert frames[0]["error"]["code"] == -32004
            assert frames[0]["error"]["data"] == {"reason": "connection_limit", "limit": 2}
        await daemon.until(lambda: daemon.server.open_connections == 1)
        async with daemon.connect() as again:
            assert (await again.call("status"))["connections"] == 2
        await first.call("status")


@pytest.mark.realtime
@pytest.mark.req("RPC-024")
async def test_the_handshake_deadline_works_in_real_time(serving: Serving) -> None:
    from zeroclaw_daemon.clock import SystemClock

    limits = ServerLimits(connection=ConnectionLimits(initialize_seconds=0.3))
    async with (
        serving(socket=True, limits=limits, clock=SystemClock()) as daemon,
        daemon.connect_raw() as wire,
    ):
        began = anyio.current_time()
        assert await wire.rest() == []
        assert anyio.current_time() - began >= 0.29


class Told:
    """A socket of whose peer the kernel says this."""

    def __init__(self, pid: int, uid: int) -> None:
        self.said = struct.pack("iII", pid, uid, 0)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return self.said[:size]


@pytest.mark.req("RPC-052", "RPC-053")
@pytest.mark.parametrize(
    ("pid", "uid", "known"),
    [(7, 1000, PeerCredential(7, 1000)), (0, 1000, PeerCredential(0, 1000)), (0, 2**32 - 1, None)],
    ids=["a process here", "a process outside the container", "nothing recorded"],
)
def test_a_peer_is_known_by_its_user_though_its_number_means_nothing_here(
    pid: int, uid: int, known: PeerCredential | None
) -> None:
    assert credential_of(cast("socket.socket", Told(pid, uid))) == known
