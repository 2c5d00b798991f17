"""``file/attach``, files that were sent before, and prompts that name them."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import hypothesis.strategies as st
import pytest
from hypothesis import given
from rosters import InForce, config_of, grants
from sending import ADA_IS_ADMIN, FILE, at, attached, b64, digest_of, staged, stored, uploaded

from zeroclaw_daemon.agent.messages import UserMessage
from zeroclaw_daemon.agent.providers.base import TextDelta
from zeroclaw_daemon.agent.providers.scripted import ScriptedProvider
from zeroclaw_daemon.authority.roster import RosterAuthority
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INTERNAL, INVALID_PARAMS, SESSION_NOT_FOUND
from zeroclaw_daemon.rpc.methods import files
from zeroclaw_daemon.rpc.methods.files import decoded
from zeroclaw_daemon.sessions.durable import DurableSessions
from zeroclaw_daemon.uploads.errors import Base64Invalid
from zeroclaw_daemon.uploads.staging import StagingLimits

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]
Send = Callable[..., Awaitable[Any]]

ANN = 5001


def reason(error: Any) -> tuple[int, str]:
    return error["code"], error["data"]["reason"]


def ann_is_limited() -> RosterAuthority:
    profile = grants("sessions:create", "files:create", allowed_agents=["assistant"])
    users = {"ann": {"uid": ANN, "permission_profiles": ["limited"]}}
    in_force = InForce(config_of({"users": users, "permission_profiles": {"limited": profile}}))
    return RosterAuthority(in_force, None, os.geteuid())


async def refused_whole(wire: Any, session: str, data: bytes) -> Any:
    return await wire.fail("file/attach", {"session_id": session, "files": [{"data_b64": b64(data)}]})


async def refused_in_chunks(wire: Any, session: str, data: bytes) -> Any:
    return await wire.fail("file/upload/commit", {"upload_id": await staged(wire, session, data)})


ROADS: dict[str, Send] = {"whole": attached, "in chunks": uploaded}
REFUSALS: dict[str, Send] = {"whole": refused_whole, "in chunks": refused_in_chunks}


# Whole files.


@pytest.mark.req("RPC-257")
async def test_files_are_answered_in_the_order_of_the_request(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        files = [
            {"data_b64": b64(b"two"), "filename": "2.txt"},
            {
                "data_b64": b64(b"one"),
                "filename": "1.md",
                "mime_type": "text/markdown",
                "source": "clipboard",
            },
            {"data_b64": b64(b"two")},
        ]
        params = {"session_id": await wire.new_session(), "files": files}
        entries = (await wire.call("file/attach", params))["files"]
        assert [at(entry).name for entry in entries] == [
            f"{digest_of(b'two')}.txt", f"{digest_of(b'one')}.md", f"{digest_of(b'two')}.txt",
        ]  # fmt: skip
        assert [entry["deduplicated"] for entry in entries] == [False, False, True]
        assert entries[2] == {**entries[0], "deduplicated": True}
        assert len(stored(tmp_path)) == 2


@pytest.mark.req("RPC-257")
@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"data_b64": "QUJD*"}, "base64_invalid"),
        ({"data_b64": "QUJ"}, "base64_invalid"),
        ({"data_b64": "QUJD****"}, "base64_invalid"),
        ({"data_b64": b64(b"x"), "filename": "a" * 256}, "filename_too_long"),
        ({"data_b64": b64(b"x"), "filename": "é" * 128}, "filename_too_long"),
        ({"path": "relative"}, "path_refused"),
        ({"path": "/a/../b"}, "path_refused"),
        ({}, "invalid_params"),
        ({"data_b64": 5}, "invalid_params"),
    ],
)
async def test_a_request_with_one_wrong_file_stores_none(
    serving: Serving, tmp_path: Path, bad: dict[str, Any], word: str
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        params = {"session_id": await wire.new_session(), "files": [{"data_b64": b64(b"good")}, bad]}
        error = await wire.fail("file/attach", params)
        assert (*reason(error), error["data"]["index"]) == (INVALID_PARAMS, word, 1)
        assert stored(tmp_path) == []


@pytest.mark.req("RPC-257")
@pytest.mark.parametrize(
    "change",
    [{"session_id": None}, {"files": None}, {"files": []}, {"files": {}}, {"files": [{"data_b64": ""}] * 65}],
)
async def test_a_request_that_is_none_is_refused(serving: Serving, change: dict[str, Any]) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        params = {"session_id": await wire.new_session(), "files": [{"data_b64": "QQ=="}], **change}
        assert reason(await wire.fail("file/attach", params)) == (INVALID_PARAMS, "invalid_params")
        error = await wire.fail("file/attach", {"session_id": "none", "files": [{"data_b64": "QQ=="}]})
        assert reason(error) == (SESSION_NOT_FOUND, "session_not_found")


async def test_as_many_files_as_may_be_are_stored(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        files = [{"data_b64": b64(b"%d" % number)} for number in range(64)]
        params = {"session_id": await wire.new_session(), "files": files}
        assert len((await wire.call("file/attach", params))["files"]) == 64
        assert len(stored(tmp_path)) == 64


async def test_a_file_that_cannot_be_stored_leaves_those_before_it(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        (tmp_path / "uploads" / digest_of(b"two")).mkdir(parents=True)
        files = [{"data_b64": b64(data)} for data in (b"one", b"two", b"three")]
        error = await wire.fail("file/attach", {"session_id": session, "files": files})
        assert (*reason(error), error["data"]["index"]) == (INTERNAL, "storage_failed", 1)
        assert stored(tmp_path) == sorted([digest_of(b"one"), digest_of(b"two")])
        assert (await attached(wire, session, b"one"))["deduplicated"]


# Files of this machine.


@pytest.mark.req("RPC-258")
async def test_a_path_gives_the_same_entry_as_its_bytes(serving: Serving, tmp_path: Path) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        source = tmp_path / "letter.TXT"
        source.write_bytes(b"dear all")
        files = [{"path": str(source)}]
        params = {"session_id": await wire.new_session(), "files": files}
        [one] = (await wire.call("file/attach", params))["files"]
        other = await wire.new_session(keepSiblings=True)
        two = await attached(wire, other, b"dear all", filename="letter.TXT")
        assert one == two
        named = {"path": str(source), "filename": "x.md", "data_b64": b64(b"the bytes count")}
        [entry] = (await wire.call("file/attach", {**params, "files": [named]}))["files"]
        assert at(entry).read_bytes() == b"the bytes count"


@pytest.mark.req("RPC-258")
async def test_a_path_that_may_not_be_sent_is_refused(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "inside").write_bytes(b"x")
    (tmp_path / "way").symlink_to("directory")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", FILE + 1)
    os.truncate(tmp_path / "file", FILE)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        async with serving() as daemon, daemon.connect() as wire:
            session = await wire.new_session()
            for path, fault in (
                ("file", "relative"),
                (f"{tmp_path}/./file", "unclean"),
                (f"{tmp_path}/directory/../file", "unclean"),
                (f"{tmp_path}//file", "unclean"),
                (f"{tmp_path}/file/", "unclean"),
                (f"{tmp_path}/file\0", "unclean"),
                ("/", "unclean"),
                (f"{tmp_path}/none", "missing"),
                (f"{tmp_path}/file/none", "missing"),
                (f"{tmp_path}/\ud800", "missing"),
                (f"{tmp_path}/{'n' * 300}", "missing"),
                (f"{tmp_path}/link", "link"),
                (f"{tmp_path}/way/inside", "link"),
                (f"{tmp_path}/directory", "not_regular"),
                (f"{tmp_path}/pipe", "not_regular"),
                (f"{tmp_path}/socket", "not_regular"),
                ("/dev/null", "not_regular"),
                (f"{tmp_path}/large", "too_large"),
            ):
                error = await wire.fail("file/attach", {"session_id": session, "files": [{"path": path}]})
                assert (*reason(error), error["data"]["fault"]) == (INVALID_PARAMS, "path_refused", fault), (
                    path
                )
                assert error["data"]["index"] == 0
            assert stored(tmp_path) == []
            params = {"session_id": session, "files": [{"path": f"{tmp_path}/file"}]}
            assert (await wire.call("file/attach", params))["files"][0]["size_bytes"] == FILE


@pytest.mark.req("RPC-258")
async def test_the_files_of_one_call_have_20_mebibytes_together(serving: Serving, tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    for name, size in zip(names, (FILE, FILE - 1, 1), strict=True):
        (tmp_path / name).write_bytes(name.encode() * size)
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        files: list[dict[str, str]] = [{"path": str(tmp_path / name)} for name in names]
        params = {"session_id": session, "files": files}
        assert len((await wire.call("file/attach", params))["files"]) == 3
        error = await wire.fail("file/attach", {**params, "files": [*files, {"data_b64": b64(b"x")}]})
        assert (*reason(error), error["data"]["index"]) == (INVALID_PARAMS, "attach_too_large", 2)


@pytest.mark.req("RPC-258")
async def test_a_client_of_another_machine_names_no_path(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    async with serving(config=ADA_IS_ADMIN) as daemon:
        token = daemon.config.tokens.pair("ada").text
        async with daemon.connect(local=False, authToken=token) as far:
            session = await far.new_session()
            params = {"session_id": session, "files": [{"path": f"{tmp_path}/file"}]}
            error = await far.fail("file/attach", params)
            assert (*reason(error), error["data"]["rule"]) == (FORBIDDEN, "forbidden", "local_only")
            assert stored(tmp_path) == []
            assert (await attached(far, session, b"x"))["size_bytes"] == 1


@pytest.mark.req("RPC-257")
async def test_a_file_of_exactly_the_limit_is_sent_whole_and_one_byte_more_is_not(
    serving: Serving, tmp_path: Path
) -> None:
    assert StagingLimits().file_bytes == 10_485_760
    async with serving(staging=StagingLimits(file_bytes=4)) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        assert (await attached(wire, session, b"abcd"))["size_bytes"] == 4
        files = [{"data_b64": b64(b"ok")}, {"data_b64": b64(b"abcde")}]
        error = await wire.fail("file/attach", {"session_id": session, "files": files})
        assert (*reason(error), error["data"]["index"], error["data"]["max_bytes"]) == (
            INVALID_PARAMS,
            "file_too_large",
            1,
            4,
        )
        assert stored(tmp_path) == [digest_of(b"abcd")]


@pytest.mark.req("RPC-258")
async def test_a_limited_sender_names_paths_of_the_agents_workspace_alone(
    serving: Serving, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_bytes(b"secret")
    (tmp_path / "inside").write_bytes(b"mine")
    async with serving(authority=ann_is_limited()) as daemon, daemon.connect(uid=ANN) as ann:
        session = await ann.new_session()
        for path in (str(outside), f"{outside}-none", "/etc/passwd"):
            error = await ann.fail("file/attach", {"session_id": session, "files": [{"path": path}]})
            assert (error["code"], error["data"]["rule"]) == (FORBIDDEN, "path_outside_workspace")
        assert stored(tmp_path) == []
        params = {"session_id": session, "files": [{"path": str(tmp_path / "inside")}]}
        assert (await ann.call("file/attach", params))["files"][0]["size_bytes"] == 4
        async with daemon.connect() as operator:
            params = {"session_id": session, "files": [{"path": str(outside)}]}
            assert (await operator.call("file/attach", params))["files"][0]["size_bytes"] == 6


@pytest.mark.req("RPC-258")
async def test_paths_on_a_file_system_that_does_not_answer_hold_up_no_files_sent_whole(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    go, at_work = threading.Event(), threading.Semaphore(0)

    def stuck(path: str, limit: int) -> bytes:
        at_work.release()
        assert go.wait(60)
        return b"x"

    monkeypatch.setattr(files, "read_local", stuck)
    async with serving() as daemon, AsyncExitStack() as stack:
        stack.callback(go.set)
        wires = [await stack.enter_async_context(daemon.connect()) for _ in range(files.MAX_READ + 2)]
        session = await wires[0].new_session()
        params = {"session_id": session, "files": [{"path": str(tmp_path / "file")}]}
        frame = {"jsonrpc": "2.0", "id": 1, "method": "file/attach", "params": params}
        for wire in wires[:-1]:
            await wire.send(frame)
        for _ in range(files.MAX_READ):
            await anyio.to_thread.run_sync(at_work.acquire)
        assert (await attached(wires[-1], session, b"whole"))["size_bytes"] == 5
        assert (await uploaded(wires[-1], session, b"in chunks"))["size_bytes"] == 9
        assert not at_work.acquire(blocking=False)
        go.set()
        for wire in wires[:-1]:
            assert "result" in await wire.answer_to(1)


# Files that were sent before, and what became of them on disk.


@pytest.mark.req("RPC-213")
@pytest.mark.parametrize("again", ROADS)
@pytest.mark.parametrize("first", ROADS)
async def test_a_file_that_was_sent_before_is_the_same_entry(
    serving: Serving, tmp_path: Path, first: str, again: str
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        entry = await ROADS[first](wire, session, b"abc", filename="one.txt")
        assert not entry["deduplicated"]
        before = at(entry).stat().st_ino
        other_name = await ROADS[again](wire, session, b"abc", filename="two.md")
        assert other_name == {**entry, "deduplicated": True}
        assert (stored(tmp_path), at(entry).stat().st_ino) == ([f"{digest_of(b'abc')}.txt"], before)
        elsewhere = await ROADS[again](wire, await wire.new_session(), b"abc", filename="one.txt")
        assert elsewhere == entry


def _edited(file: Path, aside: Path) -> None:
    file.write_bytes(b"abd")


def _shortened(file: Path, aside: Path) -> None:
    file.write_bytes(b"ab")


def _deleted(file: Path, aside: Path) -> None:
    file.unlink()


def _folder_removed(file: Path, aside: Path) -> None:
    file.unlink()
    file.parent.rmdir()


def _link_to_same(file: Path, aside: Path) -> None:
    aside.write_bytes(b"abc")
    file.unlink()
    file.symlink_to(aside)


def _link_to_other(file: Path, aside: Path) -> None:
    aside.write_bytes(b"other")
    file.unlink()
    file.symlink_to(aside)


def _link_to_nothing(file: Path, aside: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent / "none")


def _hard_link(file: Path, aside: Path) -> None:
    aside.write_bytes(b"other")
    file.unlink()
    file.hardlink_to(aside)


def _hard_link_to_same(file: Path, aside: Path) -> None:
    aside.write_bytes(b"abc")
    file.unlink()
    file.hardlink_to(aside)


def _pipe(file: Path, aside: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _unreadable(file: Path, aside: Path) -> None:
    file.write_bytes(b"abd")
    file.chmod(0)


HAPPENED = {
    "edited": ("RPC-214", _edited),
    "shortened": ("RPC-214", _shortened),
    "unreadable": ("RPC-214", _unreadable),
    "deleted": ("RPC-215", _deleted),
    "its folder removed": ("RPC-215", _folder_removed),
    "a link to the same bytes": ("RPC-216", _link_to_same),
    "a link to other bytes": ("RPC-216", _link_to_other),
    "a link to nothing": ("RPC-216", _link_to_nothing),
    "a hard link to other bytes": ("RPC-216", _hard_link),
    "a hard link to the same bytes": ("RPC-216", _hard_link_to_same),
    "a pipe": ("RPC-216", _pipe),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize(
    "happened",
    [
        pytest.param(change, marks=pytest.mark.req(number), id=what)
        for what, (number, change) in HAPPENED.items()
    ],
)
async def test_what_became_of_a_file_is_put_right_when_it_is_sent_again(
    serving: Serving, tmp_path: Path, happened: Callable[[Path, Path], None], road: str
) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        entry = await ROADS[road](wire, session, b"abc", filename="one.txt")
        file, aside = at(entry), tmp_path / "aside"
        happened(file, aside)
        target = aside.read_bytes() if aside.exists() else None
        assert await ROADS[road](wire, session, b"abc", filename="other.md") == {
            **entry,
            "deduplicated": True,
        }
        assert (file.is_symlink(), file.is_file(), file.read_bytes()) == (False, True, b"abc")
        assert file.stat().st_nlink == 1
        assert (aside.read_bytes() if aside.exists() else None) == target
        assert stored(tmp_path) == [file.name]


@pytest.mark.req("RPC-216")
@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("what", ["link", "link to nothing", "file"])
async def test_a_folder_that_is_none_is_refused_and_nothing_is_written_behind_it(
    serving: Serving, tmp_path: Path, what: str, road: str, known: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with serving() as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        if known:
            entry = await ROADS[road](wire, session, b"abc")
            at(entry).rename(elsewhere / "kept")
            (tmp_path / "uploads").rmdir()
        if what == "file":
            (tmp_path / "uploads").write_bytes(b"")
        else:
            (tmp_path / "uploads").symlink_to(elsewhere if what == "link" else tmp_path / "none")
        before = sorted(elsewhere.iterdir())
        error = await REFUSALS[road](wire, session, b"abc")
        assert reason(error) == (INTERNAL, "uploads_folder_unsafe")
        assert error["data"]["path"] == str(tmp_path / "uploads")
        assert sorted(elsewhere.iterdir()) == before
        assert not (tmp_path / "none").exists()
        (tmp_path / "uploads").unlink()
        assert (await ROADS[road](wire, session, b"abc"))["deduplicated"] is known


# Prompts.


async def test_the_markers_of_files_reach_the_model_below_the_prompt(serving: Serving) -> None:
    provider = ScriptedProvider(*([TextDelta("seen")] for _ in range(3)))
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session = await wire.new_session()
        one = await attached(wire, session, b"hello", filename="one.txt")
        two = await uploaded(wire, session, b"GIF89a...")
        for prompt, entries in (("look", [one, two]), ("", [two]), ("look", [])):
            params = {"sessionId": session, "prompt": prompt, "attachments": entries}
            assert (await wire.call("session/prompt", params))["content"] == "seen"
        said = [m.text for m in provider.requests[-1].messages if isinstance(m, UserMessage)]
        assert said == [f"look\n{one['marker']}\n{two['marker']}", two["marker"], "look"]


async def test_a_prompt_names_only_files_of_its_session_and_only_by_what_they_are(serving: Serving) -> None:
    provider = ScriptedProvider([TextDelta("seen")])
    async with serving(provider=provider) as daemon, daemon.connect() as wire:
        session, other = await wire.new_session(), await wire.new_session(keepSiblings=True)
        entry = await attached(wire, session, b"hello")
        of_other = await attached(wire, other, b"other")
        for attachments, index in (([of_other], 0), ([entry, {"ref_id": "sha256:none"}], 1)):
            params = {"sessionId": session, "prompt": "look", "attachments": attachments}
            error = await wire.fail("session/prompt", params)
            assert (*reason(error), error["data"]["index"]) == (INVALID_PARAMS, "attachment_not_found", index)
        for attachments in ([{}], [{"ref_id": ""}], [{"ref_id": 5}], ["x"], {}, [entry] * 65):
            params = {"sessionId": session, "prompt": "look", "attachments": attachments}
            assert reason(await wire.fail("session/prompt", params)) == (INVALID_PARAMS, "invalid_params")
        assert not provider.requests
        lying = {"refId": entry["ref_id"], "marker": "[IMAGE:/etc/passwd]", "workspace_path": "/etc/passwd"}
        await wire.call("session/prompt", {"sessionId": session, "prompt": "look", "attachments": [lying]})
        assert provider.requests[0].messages == (UserMessage(f"look\n{entry['marker']}"),)


@pytest.mark.parametrize("attachments", [None, []])
async def test_a_blank_prompt_without_files_says_nothing(serving: Serving, attachments: Any) -> None:
    async with serving() as daemon, daemon.connect() as wire:
        params = {"sessionId": await wire.new_session(), "prompt": " \n", "attachments": attachments}
        assert reason(await wire.fail("session/prompt", params)) == (INVALID_PARAMS, "invalid_params")


@pytest.mark.parametrize("mode", ["acp", "chat"])
async def test_what_is_kept_of_a_prompt_shows_its_files_and_a_session_taken_up_again_wants_them_anew(
    serving: Serving, tmp_path: Path, mode: str
) -> None:
    durable = DurableSessions.at(tmp_path / "sessions")
    try:
        async with serving(durable=durable) as daemon, daemon.connect() as wire:
            session = await wire.new_session(chatMode=mode, sessionId="s")
            entry = await attached(wire, session, b"hello", filename="one.txt")
            params = {"sessionId": session, "prompt": "look", "attachments": [entry]}
            await wire.call("session/prompt", params)
            await wire.call("session/close", {"sessionId": session})
            shown = (await wire.call("session/messages", {"sessionId": session}))["messages"]
            assert shown[0]["content"] == f"look\n{entry['marker']}"
            await wire.new_session(chatMode=mode, sessionId="s")
            assert reason(await wire.fail("session/prompt", params))[1] == "attachment_not_found"
            again = await attached(wire, session, b"hello", filename="one.txt")
            assert again == entry
            await wire.call("session/prompt", params)
    finally:
        durable.close()


# The one parser of this family.


@given(st.binary(max_size=40))
def test_what_is_base64_is_read_as_its_bytes(data: bytes) -> None:
    assert decoded(b64(data)) == data


def test_every_short_text_of_letters_and_padding_is_judged_by_the_grammar() -> None:
    for length in range(10):
        for letters in product("Q=", repeat=length):
            _judge("".join(letters))


@given(st.text(alphabet="AQz9+/-_= \n*é\ud800", max_size=12))
def test_whatever_is_not_base64_is_refused(text: str) -> None:
    _judge(text)


def _judge(text: str) -> None:
    plain = re.fullmatch(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text)
    if plain is None:
        with pytest.raises(Base64Invalid):
            decoded(text)
    else:
        assert len(decoded(text)) == len(text) * 3 // 4 - text.count("=")
