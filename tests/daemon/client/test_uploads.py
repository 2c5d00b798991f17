"""Files in chunks, when replies are lost."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.client import RemoteError, UnexpectedAnswer
from zeroclaw_daemon.client.file_calls import TRIES, FileUnusable
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.errors import PeerSilent
from zeroclaw_host.errors import ZeroclawError

pytestmark = pytest.mark.anyio

DATA = b"0123456789"
BEGUN = {"upload_id": "u", "chunk_bytes": 4, "max_bytes": 100}
ENTRY = {
    "ref_id": "sha256:00",
    "marker": "[Document: f] uploads/00",
    "workspace_path": "uploads/00",
    "size_bytes": 10,
    "deduplicated": False,
}


class Upload:
    """An upload that goes on, and how it ended."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.ended: list[Any] = []

    async def run(self, client: Any, data: bytes = DATA) -> None:
        try:
            self.ended.append(await client.upload("s", data, filename="f"))
        except ZeroclawError as error:
            self.ended.append(error)

    async def time_out(self) -> None:
        """Let the reply that is waited for be late."""
        while not self._clock.waits:
            await anyio.lowlevel.checkpoint()
        self._clock.advance(30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def chunk(daemon: Any, offset: int, data: bytes) -> Any:
    """The next request, which must be this piece."""
    request = await daemon.asked("file/upload/chunk")
    assert request["params"]["offset"] == offset
    assert base64.b64decode(request["params"]["data_b64"]) == data
    return request


async def begin(daemon: Any) -> None:
    request = await daemon.asked("file/upload/begin")
    assert request["params"] == {
        "session_id": "s", "size_bytes": 10, "filename": "f", "sha256": hashlib.sha256(DATA).hexdigest(),
    }  # fmt: skip
    await daemon.answer(request, BEGUN)


async def test_a_piece_whose_reply_is_lost_is_sent_again(meet, clock) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client)
        await begin(daemon)
        await daemon.answer(await chunk(daemon, 0, b"0123"), {"received_bytes": 4})
        lost = await chunk(daemon, 4, b"4567")
        await upload.time_out()
        again = await chunk(daemon, 4, b"4567")
        await daemon.answer(lost, {"received_bytes": 8})  # too late, and to nobody
        await daemon.answer(again, {"received_bytes": 8})
        await daemon.answer(await chunk(daemon, 8, b"89"), {"received_bytes": 10})
        await daemon.answer(await daemon.asked("file/upload/commit"), ENTRY)
        await daemon.settle()
        assert upload.ended[0].marker == "[Document: f] uploads/00"


async def test_where_the_last_reply_is_lost_all_is_sent_again(meet, clock) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client)
        for deduplicated in (False, True):
            await begin(daemon)
            await daemon.answer(await chunk(daemon, 0, b"0123"), {"received_bytes": 10})
            commit = await daemon.asked("file/upload/commit")
            if not deduplicated:
                await upload.time_out()
        await daemon.answer(commit, {**ENTRY, "deduplicated": True})
        await daemon.settle()
        assert upload.ended[0].deduplicated is True


async def test_a_daemon_that_never_replies_is_given_up(meet, clock) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client)
        for _ in range(TRIES):
            await daemon.asked("file/upload/begin")
            await upload.time_out()
        await daemon.settle()
        assert isinstance(upload.ended[0], PeerSilent)


@pytest.mark.parametrize("received", [0, 11, -1])
async def test_a_count_that_makes_no_sense_ends_the_upload(meet, clock, received: int) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client)
        await begin(daemon)
        await daemon.answer(await chunk(daemon, 0, b"0123"), {"received_bytes": received})
        await daemon.settle()
        assert isinstance(upload.ended[0], UnexpectedAnswer)


async def test_a_refusal_is_the_callers_to_see(meet, clock) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client)
        await daemon.refuse(await daemon.asked("file/upload/begin"), -32602, "no", reason="upload_too_large")
        await daemon.settle()
        assert isinstance(upload.ended[0], RemoteError)
        assert upload.ended[0].reason == "upload_too_large"


async def test_an_empty_file_has_no_pieces(meet, clock) -> None:
    async with meet(clock=clock) as (client, daemon), anyio.create_task_group() as tasks:
        upload = Upload(clock)
        tasks.start_soon(upload.run, client, b"")
        await daemon.answer(await daemon.asked("file/upload/begin"), BEGUN)
        await daemon.answer(await daemon.asked("file/upload/commit"), ENTRY)
        await daemon.settle()
        assert upload.ended[0].ref_id == "sha256:00"


async def test_a_file_that_cannot_be_sent_is_refused_before_the_daemon_is_asked(meet, tmp_path) -> None:
    async with meet() as (client, daemon):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "large").write_bytes(b"x" * 11)
        for name, said in (
            ("pipe", "is no regular file"),
            ("large", "has more than 10 bytes"),
            ("missing", "cannot be read: No such file or directory"),
            (".", "is no regular file"),
            ("no\0path", "cannot be read: its name is none"),
        ):
            with pytest.raises(FileUnusable, match=said):
                await client.upload_file("s", tmp_path / name, limit=10)
        await daemon.settle()


async def test_a_file_of_exactly_the_limit_is_sent_under_its_name(meet, tmp_path) -> None:
    (tmp_path / "f").write_bytes(DATA)
    async with meet() as (client, daemon), anyio.create_task_group() as tasks:
        entries: list[Any] = []

        async def send() -> None:
            entries.append(await client.upload_file("s", tmp_path / "f", limit=10))

        tasks.start_soon(send)
        await begin(daemon)
        await daemon.answer(await chunk(daemon, 0, b"0123"), {"received_bytes": 10})
        await daemon.answer(await daemon.asked("file/upload/commit"), ENTRY)
        await daemon.settle()
        turn = client.prompt("s", "", attachments=entries)
        prompt = await daemon.asked("session/prompt")
        assert prompt["params"]["attachments"] == [ENTRY]
        await daemon.refuse(prompt, -32603, "no", reason="internal")
        with pytest.raises(RemoteError):
            await turn.finished()
