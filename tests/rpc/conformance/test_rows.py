"""The conformance suite: bytes in, frames out, over a real socket. The rows are data, in ``rows/``.

They are run against a daemon of their own, or with ``--daemon-socket PATH`` against the one that serves there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conformance import Row, rows_of
from conformance_play import Play

ROWS = [row for file in sorted((Path(__file__).parent / "rows").glob("*.toml")) for row in rows_of(file)]


def as_parameter(row: Row) -> Any:
    marks = [pytest.mark.req(*row.requirements), *(getattr(pytest.mark, name) for name in row.marks)]
    return pytest.param(row, id=row.id, marks=marks)


@pytest.mark.parametrize("row", [as_parameter(row) for row in ROWS])
def test_row(row: Row, endpoint: Any) -> None:
    with Play(endpoint.socket, row) as play:
        before = endpoint.log.stat().st_size if endpoint.log is not None else 0
        play.run()
        play.end()
        # What a peer sent is in no error and in no log (RPC-119).
        errors = [frame["error"] for frame in play.frames if "error" in frame]
        assert play.token not in json.dumps(errors)
        if endpoint.log is not None:
            # Nobody comes or goes meanwhile, so that every line in it is whole.
            with endpoint.log.open("rb") as log:
                log.seek(before)
                text = log.read().decode()
            assert play.token not in text
            if row.faults is not None:
                records = [json.loads(line) for line in text.splitlines()]
                warned = [each for each in records if each["severity_text"] not in ("INFO", "DEBUG")]
                assert len(warned) == row.faults, [each["message"] for each in warned]


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
