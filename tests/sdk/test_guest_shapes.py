"""Annotations as JSON Schema, and JSON as typed values."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_sdk.guest.annotations import object_of, shape_of
from zeroclaw_sdk.guest.faults import DefinitionInvalid
from zeroclaw_sdk.guest.shapes import Param, Shape


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Point:
    x: int
    "How far to the right."
    y: float = 0.5


@dataclass
class Everything:
    """All the shapes.

    Attributes:
        text: Some text
            on two lines.
        size: Large or small.
    """

    text: str
    point: Point
    flag: bool = False
    size: Size = Size.SMALL
    mode: Literal["a", "b", 3] = "a"
    tags: list[str] = field(default_factory=list)
    pairs: tuple[int, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    maybe: int | None = None
    free: Any = None
    bounded: Annotated[int, Param(minimum=1, maximum=5)] = 1


def read(shape: Shape, value: object) -> tuple[object, list[str]]:
    problems: list[str] = []
    return shape.read(value, "", problems), problems


def test_a_dataclass_becomes_a_closed_object_with_defaults_and_descriptions():
    schema = object_of(Everything).schema()
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["text", "point"]
    properties = schema["properties"]
    assert properties["text"] == {"type": "string", "description": "Some text on two lines."}
    assert properties["point"]["properties"]["x"] == {
        "type": "integer",
        "description": "How far to the right.",
    }
    assert properties["point"]["required"] == ["x"]
    assert properties["size"] == {
        "type": "string",
        "enum": ["small", "large"],
        "description": "Large or small.",
        "default": "small",
    }
    assert properties["mode"] == {"enum": ["a", "b", 3], "default": "a"}
    assert properties["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert properties["pairs"]["default"] == []
    assert properties["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["bounded"] == {"type": "integer", "minimum": 1, "maximum": 5, "default": 1}
    jsonschema_rs.meta.validate(schema)


def test_json_becomes_typed_values_and_defaults_fill_in():
    value, problems = read(
        object_of(Everything),
        {
            "text": "t",
            "point": {"x": 3.0},
            "size": "large",
            "pairs": [1, 2],
            "extra": {"k": 1},
            "free": {"a": [None]},
        },
    )
    assert problems == []
    assert value == Everything(
        text="t", point=Point(3, 0.5), size=Size.LARGE, pairs=(1, 2), extra={"k": 1.0}, free={"a": [None]}
    )
    assert type(value.point.x) is int


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "text: missing; point: missing"),
        ({"text": 1, "point": {"x": 1}}, "text: expected a string, got an integer"),
        ({"text": "", "point": {"x": True}}, "point.x: expected an integer, got a boolean"),
        ({"text": "", "point": {"x": 1.5}}, "point.x: expected an integer, got a number"),
        ({"text": "", "point": {"x": 1, "z": 1}}, "point.z: unknown"),
        ({"text": "", "point": [1]}, "point: expected an object, got an array"),
        ({"text": "", "point": {"x": 1}, "size": "huge"}, "size: expected one of 'small', 'large'"),
        ({"text": "", "point": {"x": 1}, "mode": True}, "mode: expected one of 'a', 'b', 3"),
        ({"text": "", "point": {"x": 1}, "tags": ["a", None]}, "tags[1]: expected a string, got null"),
        ({"text": "", "point": {"x": 1}, "extra": {"k": "v"}}, "extra.k: expected a number, got a string"),
        ({"text": "", "point": {"x": 1}, "maybe": "x"}, "maybe: expected an integer or null, got a string"),
        ({"text": "", "point": {"x": 1}, "bounded": 0}, "bounded: must be at least 1"),
        ({"text": "", "point": {"x": 1}, "bounded": 6}, "bounded: must be at most 5"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(value: object, problem: str):
    _, problems = read(object_of(Everything), value)
    assert "; ".join(problems) == problem


@pytest.mark.parametrize("bounded", [1, 5])
def test_a_bound_itself_is_inside(bounded: int):
    _, problems = read(object_of(Everything), {"text": "", "point": {"x": 1}, "bounded": bounded})
    assert problems == []


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (Annotated[str, Param(min_length=2)], "a", ": must have at least 2 characters"),
        (Annotated[str, Param(max_length=2)], "abc", ": must have at most 2 characters"),
        (Annotated[str, Param(pattern="^a+$")], "ab", ": must match ^a+$"),
        (Annotated[list[int], Param(max_length=1)], [1, 2], ": must have at most 1 elements"),
        (Annotated[float, Param(minimum=0)], -0.5, ": must be at least 0"),
    ],
)
def test_lengths_patterns_and_bounds_are_enforced(annotation: object, value: object, problem: str):
    _, problems = read(shape_of(annotation, "x"), value)
    assert problems == [problem]


def test_an_alternative_of_the_right_kind_says_what_is_wrong_inside():
    _, problems = read(shape_of(Point | None, "x"), {"x": "left"})
    assert problems == ["x: expected an integer, got a string"]


def test_a_dataclass_that_checks_itself_is_heard():
    @dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("n must be even")

    _, problems = read(object_of(Even), {"n": 3})
    assert problems == ["n must be even"]


@pytest.mark.parametrize("annotation", [bytes, set[str], dict[int, str], tuple[int, str], complex, "nowhere"])
def test_an_annotation_without_a_json_form_is_refused_by_name(annotation: object):
    with pytest.raises(DefinitionInvalid, match=r"Thing\.field"):
        shape_of(annotation, "Thing.field")


def test_a_value_is_never_part_of_a_problem():
    _, problems = read(object_of(Everything), {"text": "", "point": {"x": "hunter2"}, "mode": "hunter2"})
    assert "hunter2" not in " ".join(problems)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)

SHAPES: Sequence[object] = [
    str,
    int,
    float,
    bool,
    Any,
    list[int],
    list[str | None],
    dict[str, bool],
    Literal["a", 1],
    Size,
    int | str,
    Point | None,
    Point,
    Annotated[str, Param(min_length=1, max_length=3)],
    Annotated[int, Param(minimum=-2, maximum=2)],
]


@given(json_values, st.sampled_from(SHAPES))
def test_the_reader_agrees_with_its_own_schema(value: object, annotation: object):
    shape = shape_of(annotation, "x")
    _, problems = read(shape, value)
    assert jsonschema_rs.is_valid(shape.schema(), value) == (not problems)
    json.dumps(shape.schema())
