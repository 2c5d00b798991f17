"""The description of the protocol is that of the methods that are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.rpc.description import examples
from zeroclaw_daemon.rpc.description.document import openrpc
from zeroclaw_daemon.rpc.description.examples import example_of
from zeroclaw_daemon.rpc.description.failures import failures_of
from zeroclaw_daemon.rpc.description.page import methods_page
from zeroclaw_daemon.rpc.description.schemas import params_schema, result_schema
from zeroclaw_daemon.rpc.description.words import as_plain, servers
from zeroclaw_daemon.rpc.errors import InvalidParams, code_of
from zeroclaw_daemon.rpc.methods.table import TABLE, Signature

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
DOCUMENT = openrpc("1.0")
METHODS: dict[str, Any] = {method["name"]: method for method in DOCUMENT["methods"]}
every_method = pytest.mark.parametrize("row", TABLE.values(), ids=list(TABLE))


@pytest.mark.req("RPC-056")
def test_every_method_of_the_table_is_described_and_no_other() -> None:
    assert [method["name"] for method in DOCUMENT["methods"]] == list(TABLE)
    assert set(servers()) == set(TABLE)
    page = methods_page()
    assert [line[4:-1] for line in page.splitlines() if line.startswith("## ")] == list(TABLE)


def test_the_document_is_there_for_programs() -> None:
    kept = json.loads((REFERENCE / "openrpc.json").read_text(encoding="utf-8"))
    assert kept["openrpc"] == "1.3.2"
    assert kept["info"]["title"] == "zeroclaw daemon"
    assert {method["name"] for method in kept["methods"]} == set(METHODS)


@every_method
def test_a_method_says_what_it_takes_answers_and_needs(row: Signature) -> None:
    method = METHODS[row.name]
    assert {param["name"]: param["required"] for param in method["params"]} == row.members
    assert method.get("x-grant") == (str(row.grant) if row.grant else None)
    assert method.get("x-local", False) is row.local
    assert method["summary"].endswith(".")
    assert "RPC-" not in json.dumps(method)
    assert "``" not in json.dumps(method)
    for schema in [param["schema"] for param in method["params"]] + [method["result"]["schema"]]:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert "$ref" not in json.dumps(schema)


@every_method
@pytest.mark.parametrize("written", [True, False])
def test_an_example_is_a_call_and_its_answer(
    row: Signature, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not written:  # as it is for a method that somebody adds
        monkeypatch.setattr(examples, "_WRITTEN", {})
    example = example_of(row)
    jsonschema_rs.validate(params_schema(row.params), dict(example.params))
    jsonschema_rs.validate(result_schema(row.result), example.result)
    if row.params is not None and (written or row.name not in ("file/attach", "session/approve")):
        row.params.parse(dict(example.params))
    assert set(row.members) >= set(example.params)
    if row.result.model_config.get("extra") != "allow":
        row.result.model_validate(example.result)


@every_method
@pytest.mark.req("RPC-237")
def test_the_errors_of_a_method_have_one_row_a_code_with_their_words(row: Signature) -> None:
    errors = METHODS[row.name]["errors"]
    codes = [error["code"] for error in errors]
    assert len(codes) == len(set(codes))
    told = {(error["code"], word) for error in errors for word in error["data"]["reason"]}
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    for code, word in told:
        [line] = [line for line in page.splitlines() if line.startswith(f"| `{word}` |")]
        assert f"| {code} |" in line
    assert {word for _, word in told} == {failure.code for failure in failures_of(row)}
    if not row.opens:
        assert {(-32010, "initialize_required"), (-32012, "forbidden")} <= told


plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)  # fmt: skip
anything = plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=8), plain, max_size=3)


TAKING = [row for row in TABLE.values() if row.params]
VALIDATORS = {row.name: jsonschema_rs.validator_for(params_schema(row.params)) for row in TAKING}


@settings(max_examples=300, deadline=None)
@given(row=st.sampled_from(TAKING), data=st.data())
def test_what_a_method_takes_fits_its_schema(row: Signature, data: st.DataObject) -> None:
    assert row.params is not None
    params: dict[str, Any] = dict(example_of(row).params)
    for name in data.draw(st.lists(st.sampled_from(sorted(row.members)), max_size=2, unique=True)):
        params[name] = data.draw(anything)
    try:
        row.params.parse(params)
    except InvalidParams:
        return
    VALIDATORS[row.name].validate(params)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Does it (RPC-060, RPC-240).\n\nMore of\nit.\n\n:raises X: never.", "Does it.\n\nMore of it."),
        ("``status``: yes (D-36). And (no).", "`status`: yes. And (no)."),
        ("", ""),
    ],
)
def test_words_are_those_of_the_code_without_what_is_for_programmers(text: str, plain: str) -> None:
    assert as_plain(text) == plain


def test_a_code_is_the_one_that_is_answered() -> None:
    error = InvalidParams("no")
    assert code_of(error) == -32602
    for method in METHODS.values():
        for found in method["errors"]:
            if "invalid_params" in found["data"]["reason"]:
                assert found["code"] == -32602
