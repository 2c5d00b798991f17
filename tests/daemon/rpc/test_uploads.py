"""``file/upload/*`` as a client meets it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any
from weakref import ref

import anyio
import pytest
from paused_folder import PausedFolder
from rosters import InForce, config_of, grants
from sending import (
    ADA_IS_ADMIN,
    CHUNK,
    FILE,
    at,
    attached,
    b64,
    begin,
    chunk,
    digest_of,
    refused_chunk,
    staged,
    stored,
    uploaded,
)

from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import Pause, ScriptedProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.clock import ManualClock
from zeroclaw_daemon.rpc.errors import AUTHENTICATION_REQUIRED, FORBIDDEN, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_daemon.uploads.staging import StagingLimits

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

ANN, BEN, ROOT = 5001, 5002, 5003
SENDER = grants(
    "sessions:create", "sessions:update", "sessions:read", "files:create", allowed_agents=["assistant"]
)


def people(**profiles: Any) -> InForce:
    """Ann and Ben may send files to their own sessions, Root may do everything."""
    found = {"limited": SENDER, "all": {"admin": True}, **profiles}
    users = {
        "ann": {"uid": ANN, "permission_profiles": ["limited"]},
        "ben": {"uid": BEN, "permission_profiles": ["limited"]},
        "root": {"uid": ROOT, "permission_profiles": ["all"]},
    }
    return InForce(config_of({"users": users, "permission_profiles": found}))


def judged_by(in_force: InForce) -> RosterAuthority:
    return RosterAuthority(in_force, None, os.geteuid())


def reason(error: Any) -> tuple[int, str]:
    return error["code"], error["data"]["reason"]


# Beginning.


@pytest.mark.req("RPC-163", "RPC-165", "RPC-167")
async def test_an_upload_begins_with_an_id_and_the_limits(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        params = {"session_id": session, "size_bytes": FILE, "filename": "a.txt", "sha256": " " + "AB" * 32}
        begun = await wire.call("file/upload/begin", params)
        assert begun == {"upload_id": begun["upload_id"], "chunk_bytes": 1048576, "max_bytes": 10485760}
        assert len(begun["upload_id"]) == 32
        assert daemon.server.staging.used_bytes >= FILE


@pytest.mark.req("RPC-164", "RPC-165", "RPC-166", "RPC-167", "RPC-260")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"session_id": None}, "invalid_params"),
        ({"size_bytes": None}, "invalid_params"),
        *(({"size_bytes": size}, "invalid_params") for size in (-1, 1.5, "5", True, 2**64)),
        ({"size_bytes": 2**64 - 1}, "file_too_large"),
        ({"size_bytes": FILE + 1}, "file_too_large"),
        ({"filename": "a" * 256}, "filename_too_long"),
        ({"filename": "é" * 128}, "filename_too_long"),
        ({"filename": 5}, "invalid_params"),
        ({"sha256": "not-hex"}, "sha256_invalid"),
        ({"sha256": "a" * 63}, "sha256_invalid"),
        ({"sha256": "a" * 65}, "sha256_invalid"),
        ({"sha256": "g" * 64}, "sha256_invalid"),
        ({"sha256": ""}, "sha256_invalid"),
    ],
)
async def test_an_upload_that_may_not_be_is_refused_and_stages_nothing(
    serving: Serving, change: dict[str, Any], word: str
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        params: dict[str, Any] = {"session_id": await wire.new_session(), "size_bytes": 6, **change}
        assert reason(await wire.fail("file/upload/begin", params)) == (INVALID_PARAMS, word)
        left_out = {name: value for name, value in params.items() if value is not None}
        assert reason(await wire.fail("file/upload/begin", left_out)) == (INVALID_PARAMS, word)
        assert daemon.server.staging.used_bytes == 0


@pytest.mark.req("RPC-166")
@pytest.mark.parametrize("name", ["a" * 255, "é" * 127 + "a"])
async def test_a_name_of_exactly_the_limit_is_taken(serving: Serving, name: str) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        await begin(wire, await wire.new_session(), 6, filename=name)


@pytest.mark.req("RPC-168")
async def test_an_upload_needs_a_live_session(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        error = await wire.fail("file/upload/begin", {"session_id": "none", "size_bytes": 1})
        assert reason(error) == (SESSION_NOT_FOUND, "session_not_found")
        assert daemon.server.staging.used_bytes == 0


@pytest.mark.req("RPC-169")
async def test_a_file_without_bytes_needs_no_chunk(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        entry = await uploaded(wire, await wire.new_session(), b"")
        assert (entry["size_bytes"], entry["ref_id"]) == (0, "sha256:" + digest_of(b""))
        assert stored(tmp_path) == [digest_of(b"")]


# Chunks.


@pytest.mark.req("RPC-170", "RPC-171", "RPC-172", "RPC-173", "RPC-174", "RPC-175", "RPC-180")
async def test_chunks_are_taken_in_order_and_may_come_again(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        upload = await begin(wire, await wire.new_session(), 6, sha256=digest_of(b"abcdef"))
        assert await chunk(wire, upload, 0, b"abc") == 3
        for offset, data, word in (
            (4, b"x", "chunk_leaves_gap"),
            (0, b"xyz", "chunk_differs"),
            (2, b"x", "chunk_differs"),
            (1, b"bcd", "chunk_differs"),
            (3, b"defg", "chunk_past_end"),
            (0, b"abcdefg", "chunk_past_end"),
        ):
            error = await refused_chunk(wire, upload, offset, data)
            assert reason(error) == (INVALID_PARAMS, word)
            assert error["data"]["next_offset"] == 3
        for offset, data in ((0, b"abc"), (1, b"bc"), (2, b"c"), (0, b"a")):
            assert await chunk(wire, upload, offset, data) == 3
        error = await wire.fail("file/upload/commit", {"upload_id": upload})
        assert (*reason(error), error["data"]["next_offset"]) == (INVALID_PARAMS, "upload_incomplete", 3)
        assert stored(tmp_path) == []
        assert await chunk(wire, upload, 3, b"def") == 6
        entry = await wire.call("file/upload/commit", {"upload_id": upload})
        assert at(entry).read_bytes() == b"abcdef"


@pytest.mark.req("RPC-176", "RPC-177", "RPC-178", "RPC-260")
async def test_a_chunk_that_may_not_be_is_refused_and_changes_nothing(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        upload = await begin(wire, await wire.new_session(), FILE)
        assert await chunk(wire, upload, 0, b"A" * CHUNK) == CHUNK
        texts = (
            "QUJD*",
            "QU JD",
            "QUJ",
            "QUI_",
            "QUJD\n",
            "QUJD====",
            "QUJD****",
            "=",
            "QQ==QQ==",
            "é",
            "\ud800",
        )
        for data, word in (
            (b"A" * (CHUNK + 1), "chunk_too_large"),
            ("", "chunk_empty"),
            *((text, "base64_invalid") for text in texts),
        ):
            assert reason(await refused_chunk(wire, upload, CHUNK, data)) == (INVALID_PARAMS, word)
        for offset in (-1, 1.5, "5", True, None, 2**64):
            error = await refused_chunk(wire, upload, offset, b"A")
            assert reason(error) == (INVALID_PARAMS, "invalid_params")
            assert "QQ==" not in str(error)
        assert (await refused_chunk(wire, upload, 2**64 - 1, b"A"))["data"]["next_offset"] == CHUNK


@pytest.mark.req("RPC-179")
async def test_an_upload_that_nobody_began_is_unknown(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        for error in (
            await refused_chunk(wire, "0" * 32, 0, b"A"),
            await wire.fail("file/upload/commit", {"upload_id": "0" * 32}),
        ):
            assert reason(error) == (INVALID_PARAMS, "upload_unknown")


# Committing.


@pytest.mark.req("RPC-181", "RPC-182", "RPC-185")
async def test_a_declared_digest_has_to_be_that_of_the_bytes(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        wrong = await staged(wire, session, b"abc", sha256=digest_of(b"abd"))
        assert reason(await wire.fail("file/upload/commit", {"upload_id": wrong})) == (
            INVALID_PARAMS, "upload_digest_mismatch",
        )  # fmt: skip
        assert daemon.server.staging.used_bytes == 0
        assert stored(tmp_path) == []
        assert reason(await wire.fail("file/upload/commit", {"upload_id": wrong}))[1] == "upload_unknown"
        right = await staged(wire, session, b"abc", sha256=digest_of(b"abc").upper())
        await wire.call("file/upload/commit", {"upload_id": right})
        assert reason(await wire.fail("file/upload/commit", {"upload_id": right})) == (
            INVALID_PARAMS, "upload_unknown",
        )  # fmt: skip


@pytest.mark.req("RPC-183", "RPC-184")
@pytest.mark.parametrize(
    ("data", "name", "stored_as", "marker"),
    [
        (b"hello", "notes.TXT", "{digest}.txt", "[Document: notes.TXT] {path}"),
        (b"hello", None, "{digest}", "[Document: upload] {path}"),
        (b"\x89PNG\r\n\x1a\nrest", "no image.txt", "{digest}.txt", "[IMAGE:{path}]"),
        (b"<svg/>", "picture.png", "{digest}.png", "[Document: picture.png] {path}"),
        (b"x", "../../../etc/pass\nwd]", "{digest}", "[Document: ../../../etc/pass\\x0awd)] {path}"),
    ],
)
async def test_a_file_lands_the_same_way_whole_or_in_chunks(
    serving: Serving, tmp_path: Path, data: bytes, name: str | None, stored_as: str, marker: str
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        more = {} if name is None else {"filename": name}
        one = await uploaded(wire, await wire.new_session(), data, **more)
        two = await attached(wire, await wire.new_session(), data, mime_type="image/png", **more)
        digest = digest_of(data)
        file = tmp_path / "uploads" / stored_as.format(digest=digest)
        path = str(file)
        assert one == two
        assert one == {
            "ref_id": f"sha256:{digest}",
            "marker": marker.format(path=path),
            "workspace_path": path,
            "size_bytes": len(data),
            "deduplicated": False,
        }
        assert file.read_bytes() == data
        assert stored(tmp_path) == [file.name]
        assert file.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "uploads").stat().st_mode & 0o777 == 0o700


@pytest.mark.req("RPC-184")
async def test_files_lie_in_the_workspace_of_the_agent_wherever_the_session_works(
    serving: Serving, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with serving(config="[agents.ada]\n") as daemon, daemon.connect() as wire:
        session = (await wire.call("session/new", {"agentAlias": "ada", "cwd": str(elsewhere)}))["sessionId"]
        entry = await uploaded(wire, session, b"abc")
        workspace = tmp_path / "config" / "agents" / "ada" / "workspace"
        assert Path(entry["workspace_path"]) == workspace / "uploads" / digest_of(b"abc")
        assert stored(elsewhere) == []


@pytest.mark.req("RPC-038", "RPC-173", "RPC-213")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_ten_mebibytes_with_a_lost_answer_land_once_and_again_are_known(
    serving: Serving, tmp_path: Path, socket: bool
) -> None:
    data = os.urandom(FILE)
    async with serving(socket=socket, capacity=4 * CHUNK) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        upload = await begin(wire, session, FILE, filename="big.bin", sha256=digest_of(data))
        for offset in range(0, FILE, CHUNK):
            piece = data[offset : offset + CHUNK]
            if (
                offset == 5 * CHUNK
            ):  # Its answer is lost: the client asks again and counts on the second one alone.
                assert await chunk(wire, upload, offset, piece) == offset + CHUNK
            assert await chunk(wire, upload, offset, piece) == offset + CHUNK
        entry = await wire.call("file/upload/commit", {"upload_id": upload})
        assert (entry["size_bytes"], entry["deduplicated"]) == (FILE, False)
        assert at(entry).read_bytes() == data
        assert await uploaded(wire, session, data, filename="big.bin") == {**entry, "deduplicated": True}
        assert stored(tmp_path) == [f"{digest_of(data)}.bin"]
        assert daemon.server.staging.used_bytes == 0


@pytest.mark.req("RPC-038", "RPC-257")
async def test_what_does_not_fit_in_one_line_is_sent_in_chunks(
    serving: Serving, tmp_path: Path, closed_transport: type[Exception]
) -> None:
    seven, nine = os.urandom(7 * CHUNK), os.urandom(9 * 1000 * 1000)
    async with serving(socket=True) as daemon:
        for data in (seven, nine):
            async with daemon.connect() as wire:
                session = await wire.new_session(sessionId="s")
                params = {"session_id": session, "files": [{"data_b64": b64(data)}]}
                frame = {"jsonrpc": "2.0", "method": "file/attach", "params": params, "id": 9}

                async def send(frame: Any = frame, wire: Any = wire) -> None:
                    with pytest.raises(closed_transport):  # The daemon reads no further.
                        await wire.send(frame)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(send)
                    error = (await wire.receive())["error"]
                    assert error["data"]["reason"] == "frame_too_large"
                    wire.close()
        async with daemon.connect() as wire:
            session = await wire.new_session(sessionId="s")
            for data in (seven, nine):
                entry = await uploaded(wire, session, data)
                assert at(entry).read_bytes() == data
            five = os.urandom(5 * CHUNK)
            assert (await attached(wire, session, five))["size_bytes"] == len(five)
        assert len(stored(tmp_path)) == 3


# Whose an upload is.


@pytest.mark.req("RPC-186")
async def test_an_upload_is_unknown_on_every_other_connection(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as one, daemon.connect() as two:
        upload = await begin(one, await one.new_session(), 3)
        assert await chunk(one, upload, 0, b"ab") == 2
        nowhere = await refused_chunk(two, "0" * 32, 2, b"c")
        assert await refused_chunk(two, upload, 2, b"c") == nowhere
        assert await two.fail("file/upload/commit", {"upload_id": upload}) == nowhere
        assert await chunk(one, upload, 2, b"c") == 3
        await one.call("file/upload/commit", {"upload_id": upload})


@pytest.mark.req("RPC-187", "RPC-193")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_a_connection_that_closes_takes_its_uploads_along(serving: Serving, socket: bool) -> None:
    async with serving(socket=socket) as daemon, daemon.connect() as other:
        async with daemon.connect() as wire:
            session = await wire.new_session()
            upload = await begin(wire, session, FILE)
            await chunk(wire, upload, 0, b"abc")
            assert daemon.server.staging.used_bytes > FILE
        await daemon.until(lambda: daemon.server.open_connections == 1)
        assert daemon.server.staging.used_bytes == 0
        assert reason(await refused_chunk(other, upload, 3, b"d"))[1] == "upload_unknown"


async def test_a_half_closed_connection_still_gets_its_file_stored(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        upload = await begin(wire, await wire.new_session(), 3)
        params = {"upload_id": upload, "offset": 0, "data_b64": b64(b"abc")}
        await wire.send(
            {"jsonrpc": "2.0", "method": "file/upload/chunk", "params": params, "id": 1},
            {"jsonrpc": "2.0", "method": "file/upload/commit", "params": {"upload_id": upload}, "id": 2},
        )
        wire.transport.end()
        assert [frame["id"] for frame in await wire.rest()] == [1, 2]
        assert stored(tmp_path) == [digest_of(b"abc")]


# Limits.


@pytest.mark.req("RPC-188")
async def test_a_connection_stages_four(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire, daemon.connect() as other:
        session = await wire.new_session()
        uploads = [await staged(wire, session, b"%d" % number) for number in range(4)]
        five = {"session_id": session, "size_bytes": 1}
        assert reason(await wire.fail("file/upload/begin", five)) == (INVALID_PARAMS, "upload_limit")
        await begin(other, session, 1)
        await wire.call("file/upload/commit", {"upload_id": uploads[2]})
        await wire.call("file/upload/begin", five)
        assert reason(await wire.fail("file/upload/begin", five))[1] == "upload_limit"


@pytest.mark.req("RPC-189")
async def test_all_connections_together_stage_256_mebibytes(serving: Serving) -> None:
    async with serving() as daemon, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(daemon.connect()) for _ in range(7)]
        session = await wires[0].new_session()
        for number in range(25):
            await begin(wires[number // 4], session, FILE)
        more = {"session_id": session, "size_bytes": FILE}
        assert reason(await wires[6].fail("file/upload/begin", more)) == (
            INVALID_PARAMS,
            "upload_budget_spent",
        )
        wires[0].close()
        await daemon.until(lambda: daemon.server.open_connections == 6)
        await wires[6].call("file/upload/begin", more)


@pytest.mark.req("RPC-190")
async def test_what_was_begun_finds_room_for_every_byte(serving: Serving) -> None:
    limits = StagingLimits(total_bytes=3000, per_connection=40)
    async with serving(staging=limits) as daemon, daemon.connect() as wire:
        session = await wire.new_session(sessionId="s")
        uploads: list[str] = []
        while True:
            answer = await wire.ask("file/upload/begin", {"session_id": session, "size_bytes": 500})
            if "error" in answer:
                assert answer["error"]["data"]["reason"] == "upload_budget_spent"
                break
            uploads.append(answer["result"]["upload_id"])
        assert len(uploads) == 5
        for upload in uploads:
            assert await chunk(wire, upload, 0, b"x" * 500) == 500


@pytest.mark.req("RPC-191", "RPC-192")
async def test_a_call_is_charged_for_every_text_that_is_kept_of_it(serving: Serving) -> None:
    async with serving(authority=judged_by(people())) as daemon, daemon.connect(uid=ANN) as ann:
        session = await ann.new_session()
        texts = (session, "user:ann", "assistant", "é.txt", "ab" * 32)
        await begin(ann, session, 100, filename="é.txt", sha256="AB" * 32)
        assert daemon.server.staging.used_bytes == 100 + sum(len(text.encode()) for text in texts)


@pytest.mark.req("RPC-194", "RPC-195", "RPC-259")
async def test_an_upload_that_rests_for_five_minutes_is_gone(serving: Serving) -> None:
    clock = ManualClock()
    async with serving(clock=clock) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        uploads = [await begin(wire, session, 6) for _ in range(4)]
        one_more = {"session_id": session, "size_bytes": 1}
        assert reason(await wire.fail("file/upload/begin", one_more))[1] == "upload_limit"
        clock.advance(299)
        await chunk(wire, uploads[0], 0, b"abc")
        clock.advance(1)
        for upload in uploads[1:]:
            assert reason(await refused_chunk(wire, upload, 0, b"a"))[1] == "upload_unknown"
        assert await chunk(wire, uploads[0], 3, b"def") == 6
        clock.advance(300)
        again = [await begin(wire, session, 1) for _ in range(4)]
        assert reason(await refused_chunk(wire, uploads[0], 0, b"abc"))[1] == "upload_unknown"
        assert await chunk(wire, again[3], 0, b"x") == 1


@pytest.mark.req("RPC-194")
async def test_what_a_silent_upload_holds_is_given_back_though_nobody_asks(serving: Serving) -> None:
    clock = ManualClock()
    async with serving(clock=clock) as daemon, daemon.connect() as wire:
        session, staging = await wire.new_session(), daemon.server.staging
        waits = clock.waits
        for _ in range(2):  # it waits again once there is none
            silent = await begin(wire, session, 1000)
            await daemon.until(lambda: clock.waits == waits + 1)
            clock.advance(200)
            going_on = await begin(wire, session, 6)
            await begin(wire, session, 500)
            clock.advance(99)
            await chunk(wire, going_on, 0, b"abc")
            assert staging.used_bytes > 1500
            clock.advance(1)
            await daemon.until(lambda: 500 < staging.used_bytes < 1000)
            await daemon.until(lambda: clock.waits == waits + 1)
            clock.advance(200)
            await daemon.until(lambda: staging.used_bytes < 500)
            await daemon.until(lambda: clock.waits == waits + 1)
            assert await chunk(wire, going_on, 3, b"def") == 6
            clock.advance(300)
            await daemon.until(lambda: staging.used_bytes == 0)
            assert clock.waits == waits
            assert reason(await refused_chunk(wire, silent, 0, b"a"))[1] == "upload_unknown"


@pytest.mark.req("RPC-203")
async def test_an_upload_keeps_no_session_in_memory(serving: Serving) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        upload = await begin(wire, session, 3)
        await wire.call("session/prompt", {"sessionId": session, "prompt": "what only this session holds"})
        kept = ref(daemon.server.sessions.get(session))
        await wire.call("session/close", {"sessionId": session})
        gc.collect()
        assert kept() is None
        await chunk(wire, upload, 0, b"abc")
        assert (await wire.fail("file/upload/commit", {"upload_id": upload}))["code"] == SESSION_NOT_FOUND


@pytest.mark.req("RPC-196", "RPC-197")
async def test_silent_uploads_make_room_and_active_ones_stay(serving: Serving) -> None:
    clock = ManualClock()
    async with (
        serving(clock=clock, staging=StagingLimits(total_bytes=3300)) as daemon,
        AsyncExitStack() as stack,
    ):
        wires = [await stack.enter_async_context(daemon.connect()) for _ in range(4)]
        session = await wires[0].new_session(sessionId="s")
        silent = [await begin(wire, session, 1000) for wire in wires[:3]]
        more = {"session_id": session, "size_bytes": 1000}
        assert reason(await wires[3].fail("file/upload/begin", more))[1] == "upload_budget_spent"
        clock.advance(300)
        new = (await wires[3].call("file/upload/begin", more))["upload_id"]
        for wire, upload in zip(wires, silent, strict=False):
            assert reason(await refused_chunk(wire, upload, 0, b"a"))[1] == "upload_unknown"
        assert daemon.server.staging.used_bytes < 1100
        await begin(wires[0], session, 2000)
        clock.advance(299)
        assert reason(await wires[1].fail("file/upload/begin", more))[1] == "upload_budget_spent"
        assert await chunk(wires[3], new, 0, b"a") == 1


# Who may.


@pytest.mark.req("RPC-198")
async def test_uploads_are_for_local_clients(serving: Serving, tmp_path: Path) -> None:
    async with serving(config=ADA_IS_ADMIN) as daemon:
        token = daemon.config.tokens.pair("ada").text
        async with daemon.connect(local=False, authToken=token) as far:
            session = await far.new_session()
            for method, params in (
                ("file/upload/begin", {"session_id": session, "size_bytes": 1}),
                ("file/upload/chunk", {"upload_id": "0" * 32, "offset": 0, "data_b64": "QQ=="}),
                ("file/upload/commit", {"upload_id": "0" * 32}),
                ("file/upload/begin", {}),
            ):
                error = await far.fail(method, params)
                assert (*reason(error), error["data"]["rule"]) == (FORBIDDEN, "forbidden", "local_only")
            assert (await attached(far, session, b"abc"))["size_bytes"] == 3


@pytest.mark.req("RPC-199", "RPC-257")
async def test_sending_files_takes_a_grant(serving: Serving, tmp_path: Path) -> None:
    in_force = people()
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        session = await ann.new_session()
        upload = await staged(ann, session, b"abc")
        in_force.config = people(limited=grants("sessions:create", allowed_agents=["*"])).config
        for method, params in (
            ("file/upload/begin", {"session_id": session, "size_bytes": 1}),
            ("file/upload/chunk", {"upload_id": upload, "offset": 0, "data_b64": "QQ=="}),
            ("file/upload/commit", {"upload_id": upload}),
            ("file/attach", {"session_id": session, "files": [{"data_b64": "QQ=="}]}),
        ):
            error = await ann.fail(method, params)
            assert (*reason(error), error["data"]["grant"]) == (FORBIDDEN, "forbidden", "files:create")
        assert stored(tmp_path) == []


@pytest.mark.req("RPC-200", "RPC-212")
async def test_a_limited_sender_sends_to_sessions_of_its_own(serving: Serving, tmp_path: Path) -> None:
    async with (
        serving(authority=judged_by(people())) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=BEN) as ben,
        daemon.connect(uid=ROOT) as root,
    ):
        of_ben = await ben.new_session()
        for session in (of_ben, "none"):
            for method, more in (
                ("file/upload/begin", {"size_bytes": 1}),
                ("file/attach", {"files": [{"data_b64": "QQ=="}]}),
            ):
                error = await ann.fail(method, {"session_id": session, **more})
                assert (*reason(error), error["data"]["rule"]) == (
                    FORBIDDEN,
                    "forbidden",
                    "session_not_owned",
                )
        assert stored(tmp_path) == []
        assert (await uploaded(root, of_ben, b"abc"))["size_bytes"] == 3


@pytest.mark.req("RPC-201", "RPC-212")
async def test_a_limited_sender_needs_the_sessions_agent(serving: Serving, tmp_path: Path) -> None:
    in_force = people()
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        session = await ann.new_session()
        in_force.config = people(limited={**SENDER, "allowed_agents": ["other"]}).config
        for method, more in (
            ("file/upload/begin", {"size_bytes": 1}),
            ("file/attach", {"files": [{"data_b64": "QQ=="}]}),
        ):
            error = await ann.fail(method, {"session_id": session, **more})
            assert (*reason(error), error["data"]["agent"]) == (FORBIDDEN, "forbidden", "assistant")
        assert stored(tmp_path) == []


WITHDRAWN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "the grant": lambda profile: {**profile, "grants": {**profile["grants"], "files": []}},
    "the agent": lambda profile: {**profile, "allowed_agents": ["other"]},
}


@pytest.mark.req("RPC-208", "RPC-210", "RPC-185")
@pytest.mark.parametrize("what", WITHDRAWN)
async def test_what_is_withdrawn_before_the_commit_refuses_it(
    serving: Serving, tmp_path: Path, what: str
) -> None:
    in_force = people()
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        upload = await staged(ann, await ann.new_session(), b"abc")
        in_force.config = people(limited=WITHDRAWN[what](SENDER)).config
        error = await ann.fail("file/upload/commit", {"upload_id": upload})
        assert (error["code"], error["data"]["rule"]) == (FORBIDDEN, RULES[what])
        assert daemon.server.staging.used_bytes == 0
        in_force.config = people().config
        error = await ann.fail("file/upload/commit", {"upload_id": upload})
        assert reason(error) == (INVALID_PARAMS, "upload_unknown")
        assert stored(tmp_path) == []


@pytest.mark.req("RPC-185", "RPC-208")
@pytest.mark.parametrize("what", ["incomplete", "unknown", "none"])
async def test_a_commit_that_comes_to_nothing_anyway_tells_its_sender_only_of_the_grant(
    serving: Serving, what: str
) -> None:
    in_force = people()
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        upload = await begin(ann, await ann.new_session(), 3)
        params = {"incomplete": {"upload_id": upload}, "unknown": {"upload_id": "0" * 32}, "none": {}}[what]
        in_force.config = people(limited=WITHDRAWN["the grant"](SENDER)).config
        error = await ann.fail("file/upload/commit", params)
        assert (error["code"], error["data"]["rule"]) == (FORBIDDEN, "grant_missing")
        in_force.config = people().config
        error = await ann.fail("file/upload/commit", {"upload_id": upload})
        over = what == "incomplete"
        assert reason(error) == (INVALID_PARAMS, "upload_unknown" if over else "upload_incomplete")
        assert (daemon.server.staging.used_bytes == 0) == over


@pytest.mark.req("RPC-185", "RPC-206", "RPC-261")
async def test_a_commit_tells_of_the_session_before_the_credential_and_of_that_before_the_grant(
    serving: Serving, tmp_path: Path
) -> None:
    async with serving(config=ADA_IS_ADMIN) as daemon:
        issued = daemon.config.tokens.pair("ada")
        async with daemon.connect(authToken=issued.text) as ada:
            session = await ada.new_session()
            closed, here = await staged(ada, session, b"abc"), await ada.new_session(keepSiblings=True)
            meant = await staged(ada, here, b"abc")
            await ada.call("session/close", {"sessionId": session})
            daemon.config.tokens.unpair(issued.token.id)
            for upload, code in ((closed, SESSION_NOT_FOUND), (meant, AUTHENTICATION_REQUIRED)):
                assert (await ada.fail("file/upload/commit", {"upload_id": upload}))["code"] == code
            assert daemon.server.staging.used_bytes == 0
    in_force = people()
    async with serving(authority=judged_by(in_force)) as daemon, daemon.connect(uid=ANN) as ann:
        session = await ann.new_session()
        upload = await staged(ann, session, b"abc")
        await ann.call("session/close", {"sessionId": session})
        in_force.config = people(limited=WITHDRAWN["the grant"](SENDER)).config
        assert (await ann.fail("file/upload/commit", {"upload_id": upload}))["code"] == SESSION_NOT_FOUND
    assert stored(tmp_path) == []


RULES = {
    "the grant": "grant_missing",
    "the agent": "agent_not_allowed",
    "administration": "session_not_owned",
}


@pytest.mark.req("RPC-212")
@pytest.mark.parametrize("what", RULES)
async def test_what_is_withdrawn_between_two_files_refuses_the_second(
    serving: Serving, tmp_path: Path, what: str
) -> None:
    in_force, steps = people(), PausedFolder()
    after = people(all=SENDER) if what == "administration" else people(limited=WITHDRAWN[what](SENDER))
    async with (
        serving(authority=judged_by(in_force), folder=steps) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=ROOT) as root,
    ):
        sender, session = root if what == "administration" else ann, await ann.new_session()
        params = {"session_id": session, "files": [{"data_b64": b64(b"one")}, {"data_b64": b64(b"two")}]}
        try:
            await sender.send({"jsonrpc": "2.0", "id": "f", "method": "file/attach", "params": params})
            await daemon.until(steps.reached.is_set)
            in_force.config = after.config
        finally:
            steps.go.set()
        error = (await sender.answer_to("f"))["error"]
        assert (error["code"], error["data"]["rule"], error["data"]["index"]) == (FORBIDDEN, RULES[what], 1)
        assert stored(tmp_path) == [digest_of(b"one")]


@pytest.mark.req("RPC-209", "RPC-185", "RPC-193")
async def test_who_is_no_administrator_any_more_commits_nothing_to_sessions_of_others(
    serving: Serving, tmp_path: Path
) -> None:
    in_force = people()
    async with (
        serving(authority=judged_by(in_force)) as daemon,
        daemon.connect(uid=ANN) as ann,
        daemon.connect(uid=ROOT) as root,
    ):
        upload = await staged(root, await ann.new_session(), b"abc")
        in_force.config = people(all=SENDER).config
        error = await root.fail("file/upload/commit", {"upload_id": upload})
        assert (error["code"], error["data"]["rule"]) == (FORBIDDEN, "session_not_owned")
        assert stored(tmp_path) == []
        assert daemon.server.staging.used_bytes == 0
        in_force.config = people().config
        error = await root.fail("file/upload/commit", {"upload_id": upload})
        assert reason(error) == (INVALID_PARAMS, "upload_unknown")


@pytest.mark.req("RPC-207")
async def test_who_was_unpaired_before_the_commit_commits_nothing(serving: Serving, tmp_path: Path) -> None:
    async with serving(config=ADA_IS_ADMIN) as daemon:
        issued = daemon.config.tokens.pair("ada")
        async with daemon.connect(authToken=issued.text) as ada:
            upload = await staged(ada, await ada.new_session(), b"abc")
            daemon.config.tokens.unpair(issued.token.id)
            error = await ada.fail("file/upload/commit", {"upload_id": upload})
            assert reason(error) == (AUTHENTICATION_REQUIRED, "authentication_failed")
        assert stored(tmp_path / "config" / "agents" / "assistant" / "workspace") == []


# The exact session.


@pytest.mark.req("RPC-203")
async def test_a_session_that_was_closed_gets_no_file(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        upload = await staged(wire, session, b"abc")
        await wire.call("session/close", {"sessionId": session})
        error = await wire.fail("file/upload/commit", {"upload_id": upload})
        assert reason(error) == (SESSION_NOT_FOUND, "session_not_found")
        assert stored(tmp_path) == []
        assert daemon.server.staging.used_bytes == 0


@pytest.mark.req("RPC-204")
async def test_another_session_of_the_same_id_gets_no_file(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        upload = await staged(wire, session, b"abc")
        await wire.call("session/close", {"sessionId": session})
        await wire.new_session(sessionId=session)
        error = await wire.fail("file/upload/commit", {"upload_id": upload})
        assert reason(error) == (SESSION_NOT_FOUND, "session_not_found")
        assert stored(tmp_path) == []
        assert len(daemon.server.sessions.get(session).attachments) == 0


@pytest.mark.req("RPC-205")
async def test_a_file_is_stored_while_a_turn_of_its_session_runs(serving: Serving, tmp_path: Path) -> None:
    pause = Pause()
    provider = ScriptedProvider([pause, TextDelta("done")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        await wire.send(
            {"jsonrpc": "2.0", "method": "session/prompt", "id": "p",
             "params": {"sessionId": session, "prompt": "hi"}}
        )  # fmt: skip
        await pause.reached.wait()
        await uploaded(wire, session, b"abc")
        assert stored(tmp_path) == [digest_of(b"abc")]
        assert (await wire.call("session/state", {"sessionId": session}))["state"] == "running"
        pause.go.set()
        assert (await wire.answer_to("p"))["result"]["content"] == "done"
