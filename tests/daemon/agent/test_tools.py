"""Tools by name; whatever goes wrong becomes words for the model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_daemon.agent.messages import MAX_ARGUMENT_DEPTH, ToolCall
from zeroclaw_daemon.agent.tools import ToolRegistry
from zeroclaw_daemon.records import ATTRIBUTE
from zeroclaw_host.errors import (
    GuestFailure,
    GuestTrap,
    OutOfFuel,
    PluginError,
    Remedy,
    RemedyAction,
    StorageError,
)
from zeroclaw_host.services.logging import CallSite
from zeroclaw_host.worlds.kinds import Tool, ToolResult

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Repeat(Tool):
    """A tool that does what its constructor says."""

    def __init__(
        self, name: str = "repeat", schema: Mapping[str, object] = SCHEMA, error: Exception | None = None
    ) -> None:
        self._name = name
        self._schema = schema
        self._error = error
        self.calls: list[tuple[Mapping[str, object], CallSite]] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def description(self) -> str:
        return f"does {self._name}"

    @property
    def parameters_schema(self) -> Mapping[str, object]:
        return self._schema

    async def execute(self, arguments: Mapping[str, object], *, call_site: CallSite) -> ToolResult:
        self.calls.append((arguments, call_site))
        if self._error is not None:
            raise self._error
        return ToolResult(True, str(arguments["text"]))


async def call(tool: Tool, arguments: str, name: str = "repeat") -> ToolResult:
    checked = ToolRegistry([tool]).checked(ToolCall("1", name, arguments))
    return checked if isinstance(checked, ToolResult) else await checked.run(CallSite({"agent": "a"}))


async def test_a_good_call_runs_the_tool_with_its_arguments() -> None:
    tool = Repeat()
    assert await call(tool, '{"text": "x", "times": 2}') == ToolResult(True, "x")
    assert tool.calls == [({"text": "x", "times": 2}, CallSite({"agent": "a"}))]


async def test_an_unknown_tool_is_a_failure_that_names_the_known_ones() -> None:
    result = await call(Repeat(), "{}", name="other")
    assert not result.success
    assert result.error == "there is no tool other; the tools are: repeat"
    nothing = ToolRegistry().checked(ToolCall("1", "x", "{}"))
    assert nothing == ToolResult(False, "", "there is no tool x; the tools are: none")


def nested(levels: int) -> str:
    """Arguments of so many containers inside each other."""
    return '{"other":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("{}", "text"),
        ('{"text": 1}', "text"),
        ('{"text": "x", "times": 0}', "times"),
        ('{"text": "x", "other": 1}', "other"),
        ("[]", "object"),
        ('"x"', "object"),
        ("{", "valid JSON"),
        ('{"text": NaN}', "valid JSON"),
        ("", "valid JSON"),
        (nested(MAX_ARGUMENT_DEPTH), "text"),
        (nested(MAX_ARGUMENT_DEPTH + 1), "nests too deep"),
    ],
)
async def test_wrong_arguments_never_reach_the_tool(arguments: str, says: str) -> None:
    tool = Repeat()
    result = await call(tool, arguments)
    assert not result.success
    assert says in (result.error or "")
    assert tool.calls == []


@given(st.text())
async def test_no_arguments_whatever_they_are_raise(arguments: str) -> None:
    assert not (await call(Repeat(), arguments)).success


async def test_a_failing_tool_is_told_with_its_causes() -> None:
    error = StorageError("the file cannot be read")
    error.__cause__ = OSError("no such device")
    result = await call(Repeat(error=error), '{"text": "x"}')
    assert result == ToolResult(False, "", "the file cannot be read: no such device")


async def test_a_cause_that_the_message_quotes_is_told_once() -> None:
    error = StorageError("the row cannot be read: no such file")
    error.__cause__ = StorageError("no such file")
    error.__cause__.__cause__ = OSError("no such device")
    result = await call(Repeat(error=error), '{"text": "x"}')
    assert result.error == "the row cannot be read: no such file: no such device"


async def test_a_plugin_that_died_is_told_in_its_own_words_and_not_in_the_hosts() -> None:
    traceback = "\n".join(["Traceback (most recent call last):", *(f"  line {n}" for n in range(50)), "E: x"])
    error = GuestTrap("the plugin raised E: x", details={"traceback": traceback, "backtrace": ("f", "g")})
    error.__cause__ = ValueError("planted-secret")
    result = await call(Repeat(error=error), '{"text": "x"}')
    told = (result.error or "").splitlines()
    assert told[:2] == ["the plugin raised E: x", "the plugin's traceback:"]
    assert told[2:] == [*(f"  line {n}" for n in range(39, 50)), "E: x"]


async def test_a_plugin_without_a_traceback_is_told_by_where_it_was_and_what_it_printed() -> None:
    error = GuestTrap("the plugin aborted", details={"backtrace": tuple("abc"), "stderr": "help!\n"})
    result = await call(Repeat(error=error), '{"text": "x"}')
    assert (result.error or "").splitlines() == [
        "the plugin aborted",
        "where in the plugin, innermost first:",
        *"abc",
        "the plugin's standard error:",
        "help!",
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OutOfFuel("no fuel left", remedy=Remedy(RemedyAction.RAISE_LIMIT, {"limit": "call_fuel"})), True),
        (GuestTrap("the plugin aborted"), True),
        (GuestFailure("the weather is bad"), False),
    ],
)
async def test_the_operator_is_told_of_calls_that_did_not_end_and_what_to_do(
    error: PluginError, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="zeroclaw_daemon"):
        await call(Repeat(error=error), '{"text": "x"}')
    facts = [getattr(found, ATTRIBUTE) for found in caplog.records]
    assert [(each["action"], each["code"], each["remedy"]) for each in facts] == (
        [("tool_failed", error.code, error.remedy)] if told else []
    )


async def test_a_tool_that_breaks_its_promise_fails_alone() -> None:
    result = await call(Repeat(error=KeyError("secret")), '{"text": "x"}')
    assert not result.success
    assert "KeyError" in (result.error or "")
    assert "secret" not in (result.error or "")


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "file:///etc/passwd"}, {"$ref": "http://127.0.0.1:1/schema"}],
)
async def test_a_schema_that_cannot_be_used_is_a_failure_and_fetches_nothing(schema: dict[str, Any]) -> None:
    tool = Repeat(schema=schema)
    result = await call(tool, '{"text": "x"}')
    assert not result.success
    assert "schema" in (result.error or "")
    assert tool.calls == []


async def test_many_faults_are_told_a_few_at_a_time() -> None:
    tool = Repeat(schema={"properties": {f"p{n}": {"type": "string"} for n in range(9)}})
    result = await call(tool, "{" + ",".join(f'"p{n}": 1' for n in range(9)) + "}")
    assert (result.error or "").endswith("; and more")
    assert (result.error or "").count(" is not of type ") == 5


async def test_five_faults_are_all_of_them() -> None:
    tool = Repeat(schema={"properties": {f"p{n}": {"type": "string"} for n in range(9)}})
    result = await call(tool, "{" + ",".join(f'"p{n}": 1' for n in range(5)) + "}")
    assert (result.error or "").count(" is not of type ") == 5
    assert "more" not in (result.error or "")


async def test_what_is_wrong_with_arguments_is_told_in_bounds_however_large_they_are() -> None:
    tool = Repeat(schema={"properties": {f"p{n}": {"type": "string", "maxLength": 9} for n in range(9)}})
    arguments = {f"p{n}": "x" * 100_000 for n in range(9)}
    told = (await call(tool, json.dumps(arguments))).error or ""
    assert len(told) < 2000
    assert told.startswith('the arguments do not fit: p0: "xxx')
    assert told.count('" is longer than 9 characters') == 5
    nested = (
        await call(Repeat(schema={"additionalProperties": False}), json.dumps({"k" * 100_000: 1}))
    ).error
    assert len(nested or "") < 500


async def test_the_name_of_a_tool_that_there_is_not_is_told_in_bounds() -> None:
    told = (await call(Repeat(), "{}", name="n" * 100_000)).error or ""
    assert told.startswith("there is no tool nnn")
    assert told.endswith("the tools are: repeat")
    assert len(told) < 200


def test_two_tools_may_not_have_one_name() -> None:
    with pytest.raises(ValueError, match="two tools"):
        ToolRegistry([Repeat(), Repeat()])


def test_the_model_is_told_of_every_tool_by_name() -> None:
    specs = ToolRegistry([Repeat("b"), Repeat("a")]).specs()
    assert [(spec.name, spec.description) for spec in specs] == [("a", "does a"), ("b", "does b")]
    assert specs[0].parameters == SCHEMA
