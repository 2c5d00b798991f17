"""Reading a file that a client names by its path."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from zeroclaw_daemon.attachments.local_file import PathRefused, check_path, read_local


@pytest.mark.req("RPC-258")
@given(st.text(alphabet="/.ab\0 é\ud800", max_size=12))
def test_a_path_is_taken_only_in_its_plain_form(path: str) -> None:
    normal = os.path.normpath(path) == path != "/" and not path.startswith("//") and "\0" not in path
    if path.startswith("/") and normal:
        components = check_path(path)
        assert "/" + "/".join(components) == path
        assert not {"", ".", ".."} & set(components)
    else:
        with pytest.raises(PathRefused) as caught:
            check_path(path)
        assert caught.value.details["fault"] == ("unclean" if path.startswith("/") else "relative")


@pytest.mark.req("RPC-258")
def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "file"
    file.write_bytes(b"x" * 10)
    assert read_local(str(file), 10) == b"x" * 10
    with pytest.raises(PathRefused) as caught:
        read_local(str(file), 9)
    assert caught.value.details["fault"] == "too_large"


@pytest.mark.req("RPC-258")
def test_a_file_that_says_it_is_empty_and_is_not_is_bounded_by_what_comes(tmp_path: Path) -> None:
    # The kernel's own files say that they have no bytes.
    content = read_local(f"/proc/{os.getpid()}/status", 1024 * 1024)
    assert content.startswith(b"Name:")
    with pytest.raises(PathRefused) as caught:
        read_local(f"/proc/{os.getpid()}/status", 10)
    assert caught.value.details["fault"] == "too_large"


@pytest.mark.req("RPC-258")
def test_a_pipe_that_nobody_writes_to_does_not_hold_the_reader(tmp_path: Path) -> None:
    pipe = tmp_path.resolve() / "pipe"
    os.mkfifo(pipe)
    faults: list[object] = []

    def read() -> None:
        with pytest.raises(PathRefused) as caught:
            read_local(str(pipe), 10)
        faults.append(caught.value.details["fault"])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(60)
    assert faults == ["not_regular"]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.req("RPC-258")
def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "file").write_bytes(b"x")
    (base / "link").symlink_to("file")
    before = open_descriptors()
    for name in ("file", "link", "none", "file/below"):
        for limit in (0, 10):
            with suppress(PathRefused):
                read_local(str(base / name), limit)
    assert open_descriptors() == before


@pytest.mark.req("RPC-258")
def test_what_may_not_be_read_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, whom no mode of a file holds: so the system's answer is given here."""
    file = tmp_path.resolve() / "file"
    file.write_bytes(b"x")
    real = os.open

    def refuse(path: str, flags: int, *rest: int, **named: int) -> int:
        if path == "file":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PathRefused) as caught:
        read_local(str(file), 10)
    assert caught.value.details["fault"] == "unreadable"
    assert "permission denied" in caught.value.message


@pytest.mark.req("RPC-258")
@pytest.mark.parametrize(
    "tail", ["/b" * 3000, "/" + "b" * 5000, "/é" * 2000], ids=["deep", "one name", "two bytes each"]
)
def test_a_path_that_is_longer_than_the_system_takes_names_no_file(tmp_path: Path, tail: str) -> None:
    file = tmp_path.resolve() / "file"
    file.write_bytes(b"x")
    with pytest.raises(PathRefused) as caught:
        read_local(f"{file}{tail}", 10)
    assert caught.value.details["fault"] == "missing"


@pytest.mark.req("RPC-258")
def test_the_words_of_a_refusal_do_not_fail_where_its_ancestors_cannot_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "file"
    file.write_bytes(b"x")
    with pytest.raises(PathRefused) as caught:
        read_local(f"{file}/{'n' * 300}/b", 10)
    assert caught.value.details["fault"] == "missing"
