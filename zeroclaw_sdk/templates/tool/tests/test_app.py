"""Tests of the plugin as plain Python; no sandbox is needed for them."""

from app import {{class_name}}
from zeroclaw_sdk.testing import call


def test_it_greets_by_name():
    answer = call({{class_name}}, {"name": "Ada"})
    assert answer.output == "Hello, Ada."


def test_it_says_what_is_wrong_with_the_arguments():
    answer = call({{class_name}}, {"name": 7})
    assert not answer.success
    assert answer.error == "name: expected a string, got an integer"
