"""The page of the configuration has every key there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_origin

import property_cases
from pydantic import BaseModel

from zeroclaw_daemon.config.file import parse
from zeroclaw_daemon.config.properties import list_properties, segments_of
from zeroclaw_daemon.config.schema import Config

PAGE = Path(__file__).resolve().parents[3] / "docs" / "config.md"


def described() -> set[str]:
    _, _, table = PAGE.read_text(encoding="utf-8").partition("<!-- begin: properties")
    lines = table.splitlines()
    return {line.split("`")[1] for line in lines if line.startswith("| `")}


def leaves(annotation: object, path: str) -> Iterator[str]:
    """Every value below a table, found by the types alone."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from leaves(field.annotation, f"{path}.{name}" if path else name)
        return
    arguments = get_args(annotation)
    if get_origin(annotation) is Mapping:
        yield from leaves(arguments[1], f"{path}.<name>")
    elif arguments and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
        yield from leaves(arguments[0], f"{path}.<name>")
    else:
        yield path


def test_every_key_is_described() -> None:
    found = set(leaves(Config, ""))
    assert len(found) > 60
    assert found <= described()


def test_every_path_that_list_prints_is_described() -> None:
    patterns = [tuple(each.split(".")) for each in described()]
    for each in list_properties(parse(property_cases.FULL.encode(), Path("c.toml")).config):
        segments = segments_of(each.path)
        assert any(
            len(pattern) == len(segments)
            and all(part in ("<name>", segment) for part, segment in zip(pattern, segments, strict=True))
            for pattern in patterns
        ), each.path
