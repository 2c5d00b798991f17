"""A plugin remembers what it read: over restarts of the daemon, and of the server's own word for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from operators import Operator, built_example, commands_of
from origins import FeedService, Origin


@pytest.fixture(scope="module")
def feed_watch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, built by its author."""
    return built_example("feed-watch", tmp_path_factory.mktemp("feed-watch"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("PLG-177", "PLG-178", "PAINS-17")
def test_a_feed_is_read_on_from_where_it_was_after_a_restart(feed_watch: Path, short_path: Path) -> None:
    operator = Operator(short_path / "home", "feed-watch")
    operator.types(f"zeroclaw plugin install '{feed_watch}'")
    service = FeedService("two", "one")

    def news(**more: object) -> tuple[list[str], int]:
        answer = json.loads(operator.asks(url=f"{origin.url}/feed.xml", **more))
        return [entry["title"] for entry in answer["new"]], answer["more"]

    with Origin(service) as origin:
        with operator.leaves_running("zeroclaw daemon"):
            refusal = operator.asks(url=f"{origin.url}/feed.xml")
            assert refusal.startswith("error: this plugin may not reach 127.0.0.1")
            for command in commands_of(operator.records("plugin_egress_denied")[0]):
                operator.types(command)
            assert news() == (["two", "one"], 0)
            assert news() == ([], 0)
        asked = [request.headers.get("if-none-match") for request in origin.requests]
        assert asked == [None, service.etag], "the second answer was a 304"

        with operator.leaves_running("zeroclaw daemon"):
            assert news() == ([], 0), "a 304 after a restart, too"
            assert origin.requests[-1].headers["if-none-match"] == service.etag
            service.titles[:0] = ["four", "three"]
            assert news(max_entries=1) == (["four"], 1)
        with operator.leaves_running("zeroclaw daemon"):
            assert news() == (["three"], 0)
            assert "if-none-match" not in origin.requests[-1].headers, "there was more than was handed on"
            assert news() == ([], 0)
            assert origin.requests[-1].headers["if-none-match"] == service.etag
