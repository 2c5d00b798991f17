"""Close frames: names and numbers, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close

from zeroclaw_host.contract import contract
from zeroclaw_host.imports.websocket.closing import CODES, MAX_REASON_BYTES, CloseFrame
from zeroclaw_host.imports.websocket.refusal import Refused

NAMES = {
    "normal": 1000,
    "going-away": 1001,
    "protocol-error": 1002,
    "unsupported-data": 1003,
    "invalid-payload": 1007,
    "policy-violation": 1008,
    "message-too-big": 1009,
    "mandatory-extension": 1010,
    "internal-error": 1011,
    "service-restart": 1012,
    "try-again-later": 1013,
}
"""RFC 6455, section 7.4.1, and the IANA registry."""


def may_send(code: int) -> bool:
    return code in NAMES.values() or 3000 <= code <= 4999


def test_every_case_of_the_contract_but_other_has_a_number() -> None:
    assert dict(CODES) == NAMES
    cases = dict(contract().interface("zeroclaw:plugin/websocket").types)["close-code"].cases
    assert [name for name, _ in cases] == [*NAMES, "other"]


@pytest.mark.parametrize(("name", "number"), NAMES.items())
def test_a_name_becomes_its_number_and_back(name: str, number: int) -> None:
    record = {"code": (name, None), "reason": "x"}
    frame = CloseFrame.read(record)
    assert frame == CloseFrame(number, "x")
    assert frame.record() == record
    assert CloseFrame.read({"code": ("other", number), "reason": "x"}) == frame


@pytest.mark.parametrize("number", [3000, 3999, 4000, 4999])
def test_a_number_without_a_name_is_other_both_ways(number: int) -> None:
    record = {"code": ("other", number), "reason": ""}
    assert CloseFrame.read(record).record() == record


@pytest.mark.parametrize("number", [0, 1, 999, 1004, 1005, 1006, 1014, 1015, 1016, 2000, 2999, 5000, 65_535])
def test_a_code_that_nobody_may_send_is_refused(number: int) -> None:
    with pytest.raises(Refused, match="invalid-close"):
        CloseFrame.read({"code": ("other", number), "reason": ""})


def test_bad_gateway_has_no_name_and_is_told_as_a_number() -> None:
    assert CloseFrame(1014, "").record() == {"code": ("other", 1014), "reason": ""}


@pytest.mark.parametrize(("reason", "bytes_"), [("x" * 123, 123), ("é" * 61 + "x", 123)])
def test_a_reason_has_at_most_123_bytes(reason: str, bytes_: int) -> None:
    assert len(reason.encode()) == bytes_ == MAX_REASON_BYTES
    assert CloseFrame.read({"code": ("normal", None), "reason": reason}).reason == reason
    with pytest.raises(Refused, match="invalid-close"):
        CloseFrame.read({"code": ("normal", None), "reason": reason + "x"})


@given(number=st.integers(0, 65_535), reason=st.text(max_size=130))
def test_every_frame_is_sent_as_it_is_or_refused(number: int, reason: str) -> None:
    asked = {"code": ("other", number), "reason": reason}
    if not (may_send(number) and len(reason.encode()) <= 123):
        with pytest.raises(Refused, match="invalid-close"):
            CloseFrame.read(asked)
        return
    frame = CloseFrame.read(asked)
    data = Close(frame.code, frame.reason).serialize()
    assert len(data) <= 125
    assert Close.parse(data) == Close(number, reason)
