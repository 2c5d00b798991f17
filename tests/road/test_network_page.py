"""The page on the network has every reason for which a connection is refused, and says of each whether something lifts it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zeroclaw_host.egress.decision import Reason
from zeroclaw_host.egress.records import ErrorKey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "network.md"


def reasons() -> dict[str, str]:
    """What lifts each reason, as the page has it."""
    section = PAGE.read_text(encoding="utf-8").partition("## Reasons, and what lifts them")[2]
    rows = re.findall(
        r"^\| (`[^|]+) \|[^|]*\| ([^|]+) \|$", section.partition("\n## ")[0], flags=re.MULTILINE
    )
    return {word: lifts for words, lifts in rows[1:] for word in re.findall(r"`(\w+)`", words)}


@pytest.mark.req("PLG-183", "PLG-184")
def test_every_reason_stands_on_the_page_and_a_command_only_where_one_is_printed() -> None:
    found = reasons()
    assert found.keys() == {reason.value for reason in Reason}
    for reason in Reason:
        assert ("the printed command" in found[reason]) == reason.configuration_helps, reason


@pytest.mark.req("PLG-352")
def test_what_a_grant_does_not_say_is_said() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "a plugin can send whatever the model passes to it to every host that it is granted" in page
    for key in (ErrorKey.DENIED, ErrorKey.CONNECTION_LIMIT, ErrorKey.TRUST_ANCHORS):
        assert f"`{key}`" in page
