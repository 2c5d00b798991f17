"""A tool class: what it declares, what a call answers, how it fails."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_sdk.guest import SECRET, Param, Secret, Tool, ToolError, log, secrets
from zeroclaw_sdk.guest.config import ConfigClass, ConfigInvalid
from zeroclaw_sdk.guest.exports import find_class
from zeroclaw_sdk.guest.faults import DefinitionInvalid, describe
from zeroclaw_sdk.guest.host import SecretError
from zeroclaw_sdk.guest.tool import ToolDefinition
from zeroclaw_sdk.testing import call, parameters_schema


@dataclass
class Config:
    replacement: str = "-"
    words: list[str] = field(default_factory=list)
    api_key: Secret = SECRET


class Sample(Tool):
    """Does a little
    of everything.

    Not part of the summary.
    """

    name = "sample"
    config: Config

    def run(
        self, action: str, count: Annotated[int, Param(minimum=0)] = 1, mode: Literal["x", "y"] = "x"
    ) -> object:
        """Act.

        :param action: what to do
        :param count: how often
        """
        match action:
            case "echo":
                return self.config.replacement * count
            case "secret":
                return self.config.api_key.get()
            case "other":
                return secrets.get("other")
            case "json":
                return {"count": count, "point": Config(words=["ä"]).words}
            case "nothing":
                return None
            case "refuse":
                raise ToolError("not today")
            case "log":
                log.warn(
                    "careful",
                    action=log.Action.RETRY,
                    outcome=log.Outcome.FAILURE,
                    duration_ms=-5,
                    attrs={"n": 1, "o": object},
                )
                return ""
            case _:
                return _inner(action)


def _inner(action: str) -> str:
    try:
        return str(int(action))
    except ValueError as error:
        raise LookupError("no such action") from error


def test_the_schema_comes_from_annotations_defaults_and_docstring():
    definition = ToolDefinition(Sample)
    assert definition.description == "Does a little of everything."
    assert parameters_schema(Sample) == {
        "type": "object",
        "properties": {
            "action": {"type": "string", "description": "what to do"},
            "count": {"type": "integer", "description": "how often", "minimum": 0, "default": 1},
            "mode": {"type": "string", "enum": ["x", "y"], "default": "x"},
        },
        "additionalProperties": False,
        "required": ["action"],
    }


def test_one_dataclass_stands_for_all_parameters():
    @dataclass
    class Arguments:
        name: str
        times: int = 2

    class Whole(Tool):
        name = "whole"

        def run(self, arguments):
            return arguments.name * arguments.times

    Whole.run.__annotations__["arguments"] = Arguments
    assert list(parameters_schema(Whole)["properties"]) == ["name", "times"]
    assert call(Whole, {"name": "ab"}).output == "abab"


def test_configuration_arrives_typed_and_the_arguments_stay_clean():
    assert call(Sample, {"action": "echo", "count": 3}, config={"replacement": "*"}).output == "***"
    assert call(Sample, {"action": "echo"}).output == "-"


def test_a_secret_is_asked_for_where_it_is_used():
    assert call(Sample, {"action": "secret"}, secrets={"api_key": "k"}).output == "k"
    assert call(Sample, {"action": "other"}, secrets={"other": "o"}).output == "o"
    with pytest.raises(SecretError) as raised:
        call(Sample, {"action": "secret"})
    assert raised.value.word == "not-found"


def test_a_config_object_shows_no_secret():
    config = ConfigClass.of(Config).read({})
    assert repr(config) == "Config(replacement='-', words=[], api_key=Secret())"


@pytest.mark.parametrize(
    ("action", "output"),
    [("json", '{"count": 1, "point": ["ä"]}'), ("nothing", ""), ("7", "7")],
)
def test_what_run_returns_becomes_text(action: str, output: str):
    answer = call(Sample, {"action": action})
    assert (answer.success, answer.output, answer.error) == (True, output, None)


def test_an_expected_failure_is_an_answer():
    answer = call(Sample, {"action": "refuse"})
    assert (answer.success, answer.output, answer.error) == (False, "", "not today")
    assert [record.function for record in answer.logs] == ["Sample.run"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("[]", "the arguments must be a JSON object"),
        ("{", "the arguments are not JSON"),
        ('{"action": NaN}', "the arguments are not JSON: NaN is no JSON value"),
        ("{}", "action: missing"),
        ('{"action": "echo", "count": -1}', "count: must be at least 0"),
        ('{"action": "echo", "counts": 1}', "counts: unknown"),
    ],
)
def test_wrong_arguments_are_answered_before_run_is_called(arguments: str, error: str):
    outcome = ToolDefinition(Sample).call(arguments)
    assert not outcome.success
    assert outcome.error is not None
    assert outcome.error.startswith(error)


@given(st.text())
def test_no_text_as_arguments_raises(text: str):
    assert not ToolDefinition(Sample).call(text).success


def test_log_records_carry_everything_and_name_the_speaker():
    [record] = call(Sample, {"action": "log"}).logs
    assert (record.level, record.message, record.action, record.outcome) == (
        "warn",
        "careful",
        "retry",
        "failure",
    )
    assert record.function == "Sample.run"
    assert record.duration_ms == 0
    assert record.attrs is not None
    assert json.loads(record.attrs) == {"n": 1, "o": "<class 'object'>"}


@pytest.mark.parametrize("level", list(log.Level))
def test_every_level_has_a_function(level: log.Level):
    class Speaks(Tool):
        name = "speaks"

        def run(self) -> None:
            getattr(log, level.value)("said")

    [record] = call(Speaks, {}).logs
    assert record.level == level.value


def test_the_words_of_a_record_are_the_contracts():
    from zeroclaw_host.contract import contract

    types = contract().interface("zeroclaw:plugin/logging").types
    assert tuple(log.Action) == types["plugin-action"].cases
    assert tuple(log.Level) == types["log-level"].cases
    assert tuple(log.Outcome) == types["plugin-outcome"].cases


@pytest.mark.req("PAINS-15")
def test_an_exception_is_told_with_type_message_and_the_authors_lines():
    with pytest.raises(LookupError) as raised:
        call(Sample, {"action": "zzz"})
    text = describe(raised.value, str(__file__.rpartition("/")[0]))
    lines = text.splitlines()
    assert lines[0] == "LookupError: no such action"
    assert any(
        line.startswith("  test_guest_tool.py:") and line.endswith("in run: return _inner(action)")
        for line in lines
    )
    assert any(line.endswith('in _inner: raise LookupError("no such action") from error') for line in lines)
    assert "caused by ValueError: invalid literal for int() with base 10: 'zzz'" in lines
    frames = [line for line in lines if line.startswith("  ")]
    assert all(line.startswith("  test_guest_tool.py:") for line in frames)


def test_a_runaway_recursion_and_a_long_message_are_told_in_short():
    def deeper(n: int) -> int:
        return deeper(n + 1)

    with pytest.raises(RecursionError) as raised:
        deeper(0)
    assert len(describe(raised.value, None).splitlines()) < 20
    assert len(describe(ValueError("x" * 100_000), None)) < 3000


def test_an_exception_that_cannot_say_its_message_is_told_all_the_same():
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "its message raised RuntimeError" in describe(Broken(), None)


class TestDefinitions:
    def test_a_tool_needs_a_name(self):
        class Nameless(Tool):
            def run(self) -> str:
                return ""

        with pytest.raises(DefinitionInvalid, match="name"):
            ToolDefinition(Nameless)

    def test_a_tool_needs_run(self):
        class Idle(Tool):
            name = "idle"

        with pytest.raises(DefinitionInvalid, match="run"):
            ToolDefinition(Idle)

    def test_run_is_not_async(self):
        class Later(Tool):
            name = "later"

            async def run(self) -> str:
                return ""

        with pytest.raises(DefinitionInvalid, match="async"):
            ToolDefinition(Later)

    def test_every_parameter_has_an_annotation(self):
        class Loose(Tool):
            name = "loose"

            def run(self, thing) -> str:
                return ""

        with pytest.raises(DefinitionInvalid, match="parameter thing has no annotation"):
            ToolDefinition(Loose)

    def test_every_parameter_can_be_given_by_name(self):
        class Many(Tool):
            name = "many"

            def run(self, *things: str) -> str:
                return ""

        with pytest.raises(DefinitionInvalid, match="things"):
            ToolDefinition(Many)

    def test_config_is_a_dataclass(self):
        class Odd(Tool):
            name = "odd"
            config: int

            def run(self) -> str:
                return ""

        with pytest.raises(DefinitionInvalid, match="config"):
            ToolDefinition(Odd)

    def test_a_module_defines_exactly_one_tool(self):
        module = ModuleType("app")
        with pytest.raises(DefinitionInvalid, match="no subclass"):
            find_class(module, Tool)
        module.Tool = Tool
        module.Sample = Sample
        module.Again = Sample
        assert find_class(module, Tool) is Sample

        class Further(Tool):
            name = "further"

        module.Further = Further
        with pytest.raises(DefinitionInvalid, match="exactly one"):
            find_class(module, Tool)


class TestConfigClasses:
    def test_agreement_with_the_manifest_is_silent(self):
        schema = {
            "properties": {
                "replacement": {"type": "string"},
                "words": {"type": "array"},
                "api_key": {"type": "string", "x-secret": True},
            }
        }
        assert ConfigClass.of(Config).compare(schema) == []

    @pytest.mark.parametrize(
        ("properties", "problem"),
        [
            ({"words": {"type": "string"}}, "words: array in the class, string in config_schema"),
            ({"api_key": {"type": "string"}}, "api_key: Secret in the class and x-secret"),
            (
                {"replacement": {"type": "string", "x-secret": True}},
                "replacement: Secret in the class and x-secret",
            ),
            ({"unknown": {"type": "string"}}, "unknown: a property of config_schema, but no field"),
            ({"words": None}, "words: a field of Config, but no property"),
        ],
    )
    def test_a_difference_is_named(self, properties: dict[str, object], problem: str):
        whole: dict[str, object] = {
            "replacement": {"type": "string"},
            "words": {"type": "array"},
            "api_key": {"type": "string", "x-secret": True},
        }
        whole |= properties
        schema = {"properties": {name: each for name, each in whole.items() if each is not None}}
        [found] = ConfigClass.of(Config).compare(schema)
        assert found.startswith(problem)

    def test_a_field_without_default_must_be_required(self):
        @dataclass
        class Strict:
            url: str

        schema = {"properties": {"url": {"type": "string"}}}
        assert ConfigClass.of(Strict).compare(schema) == [
            "url: has no default, so config_schema must require it"
        ]
        assert ConfigClass.of(Strict).compare({**schema, "required": ["url"]}) == []

    def test_a_class_without_schema_is_named(self):
        assert "no config_schema" in ConfigClass.of(Config).compare(None)[0]

    def test_values_that_do_not_fit_are_named_without_being_shown(self):
        with pytest.raises(ConfigInvalid, match=r"config\.words: expected an array, got a string") as raised:
            ConfigClass.of(Config).read({"words": "hunter2"})
        assert "hunter2" not in str(raised.value)

    def test_a_secret_is_written_with_its_default(self):
        @dataclass
        class Bare:
            key: Secret

        with pytest.raises(DefinitionInvalid, match=r"key: Secret = SECRET"):
            ConfigClass.of(Bare)
