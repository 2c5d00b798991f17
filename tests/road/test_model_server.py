"""A prompt goes to a server of models and its answer comes back, for somebody who has only the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_origins import Answer, Origin
from model_streams import (
    anthropic_answer,
    asked_for,
    in_turn,
    message_end,
    message_start,
    openai_answer,
    openai_call,
    says,
    streamed,
    use_block,
)
from pages import Reader

KEY = "sk-hunter2-0123456789"
BUSY = says("429 Too Many Requests", {"error": {"message": "slow down"}}, retry_after="0")


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("openai", [BUSY, streamed(*openai_call("shout", {"text": "a"})), streamed(*openai_answer("Good ", "day"))]),
        (
            "anthropic",
            [
                BUSY,
                streamed(message_start(), *use_block(0, "toolu_1", "shout", '{"text":', ' "a"}'), *message_end("tool_use"), named=True),
                streamed(*anthropic_answer("Good ", "day"), named=True),
            ],
        ),
    ],
)  # fmt: skip
def test_a_prompt_is_answered_by_a_server(short_path: Path, kind: str, answers: list[Answer]) -> None:
    operator = Reader(short_path / "home")
    server = Origin(in_turn(answers))
    try:
        path = f"providers.models.{kind}.main"
        operator.types(
            f"zeroclaw config set {path}.uri http://127.0.0.1:{server.port}\n"
            f"zeroclaw config set {path}.model m1\n"
            f"echo {KEY} | zeroclaw config set {path}.api_key -\n"
            f"zeroclaw config set agents.ada.provider {kind}.main\n"
        )
        assert KEY not in (operator.home / ".zeroclaw" / "config.toml").read_text(encoding="utf-8")
        with operator.leaves_running("zeroclaw daemon"):
            assert operator.types("zeroclaw prompt 'say something'") == "Good day\n"
    finally:
        server.close()
    questions = asked_for(server.asked)
    assert len(questions) == 3
    assert questions[0] == questions[1]
    assert "there is no tool shout" in str(questions[2]["messages"][-1])
    log = (operator.home / ".zeroclaw" / "data" / "logs" / "daemon.jsonl").read_text(encoding="utf-8")
    assert "provider_retry" in log
    assert KEY not in log
