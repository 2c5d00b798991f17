"""Results as they are written: what JSON can hold, all of it and in any form, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from zeroclaw_daemon.rpc.envelope import result_line
from zeroclaw_daemon.rpc.models import Result, SnakeResult
from zeroclaw_daemon.strict_json import MAX_DEPTH

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Inner(Result):
    tool_input: Any = None


class Found(Result):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="allow")

    first_name: str = "a"
    inner: tuple[Inner, ...] = ()


class Whole(SnakeResult):
    with_nulls = True

    first_name: str | None = None


@pytest.mark.req("RPC-232", "RPC-236")
@given(VALUES.filter(lambda value: value is not None))
@example("\ud800")
@example({"\ud800": ["\udfff"]})
@example(["NaN", "-Infinity"])
@example(nested(MAX_DEPTH))
@example(10**4000 // 9)
@example("a\r\n\u2028\x00\x7f")
def test_whatever_json_holds_is_written_on_one_line(value: Any) -> None:
    text = Found.model_validate({"inner": (Inner(tool_input={"it": value}),), "other": value}).encoded()
    assert json.loads(text) == {"firstName": "a", "inner": [{"toolInput": {"it": value}}], "other": value}
    line = result_line(text, "one")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "result": json.loads(text), "id": "one"}


@pytest.mark.req("RPC-233")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Found(inner=(Inner(tool_input={"it": [number]}),)).encoded()


def test_a_member_that_is_none_is_left_out_unless_all_are_told() -> None:
    assert Found(inner=(Inner(),)).encoded() == b'{"firstName":"a","inner":[{}]}'
    assert Found(inner=(Inner(),)).to_json() == {"firstName": "a", "inner": [{}]}
    assert Whole().encoded() == b'{"first_name":null}'
