"""What a file is to a model, and which files a session knows."""

from __future__ import annotations

import hashlib
import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from zeroclaw_daemon.attachments.content import SentFile, extension, is_image
from zeroclaw_daemon.attachments.index import Attachment, AttachmentIndex


@pytest.mark.req("RPC-183")
@pytest.mark.parametrize(
    ("content", "image"),
    [
        (b"\x89PNG\r\n\x1a\n", True),
        (b"\x89PNG\r\n\x1a\nmore", True),
        (b"\x89PNG\r\n\x1a", False),
        (b"\xff\xd8\xff\xe0", True),
        (b"\xff\xd8", False),
        (b"GIF87a", True),
        (b"GIF89a....", True),
        (b"GIF88a", False),
        (b"RIFF\x00\x01\x02\x03WEBP", True),
        (b"RIFF\x00\x01\x02\x03WAVE", False),
        (b"RIFF\x00\x01\x02\x03WEB", False),
        (b"BM\x00\x00\x00\x00", False),
        (b"\x00\x00\x00\x18ftypheic", False),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", False),
        (b"", False),
    ],
)
def test_an_image_is_known_by_how_it_begins(content: bytes, image: bool) -> None:
    assert is_image(content) is image
    assert is_image(bytearray(content)) is image
    assert SentFile.of(content, "x.png").marker("/p").startswith("[IMAGE:" if image else "[Document: x.png]")


@pytest.mark.req("RPC-183")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", ".txt"),
        ("A.TaR.GZ", ".gz"),
        ("a." + "x" * 16, "." + "x" * 16),
        ("a." + "x" * 17, ""),
        ("a.", ""),
        ("a", ""),
        ("", ""),
        (".bashrc", ".bashrc"),
        ("a.tx t", ""),
        ("a.txt ", ""),
        ("a.é", ""),
        ("a.٣", ""),
        ("a.t\n", ""),
        ("dir.d/file", ""),
        ("dir/file.c", ".c"),
        ("a.b/..", ""),
        ("a./etc", ""),
    ],
)
def test_an_extension_is_a_few_plain_letters_and_digits(name: str, expected: str) -> None:
    assert extension(name) == expected


@pytest.mark.req("RPC-183")
@given(st.text(), st.binary(max_size=64))
def test_whatever_a_file_is_called_its_stored_name_and_marker_are_one_plain_piece(
    name: str, content: bytes
) -> None:
    file = SentFile.of(content, name)
    digest = hashlib.sha256(content).hexdigest()
    assert file.ref_id == f"sha256:{digest}"
    assert re.fullmatch(rf"{digest}(\.[a-z0-9]{{1,16}})?", file.stored_name)
    marker = file.marker("/w/uploads/n")
    assert marker.isprintable() or not marker.isascii()
    assert "\n" not in marker
    assert marker.count("[") == marker.count("]") == 1
    assert marker.endswith(" /w/uploads/n") or marker == "[IMAGE:/w/uploads/n]"


def _attachment(number: int) -> Attachment:
    return Attachment(f"sha256:{number}", f"[m{number}]", "/w", f"/w/uploads/{number}.txt", number)


@pytest.mark.req("RPC-213")
def test_a_session_forgets_what_was_not_sent_for_the_longest_time() -> None:
    index = AttachmentIndex(limit=3)
    for number in (1, 2, 3):
        index.keep(_attachment(number))
    index.keep(_attachment(1))
    assert len(index) == 3
    index.keep(_attachment(4))
    assert [index.find(f"sha256:{n}") is not None for n in (1, 2, 3, 4)] == [True, False, True, True]
    assert len(index) == 3
    found = index.find("sha256:4")
    assert found is not None
    assert found.name == "4.txt"
