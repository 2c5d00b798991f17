"""One table of forms that a manifest or a schema may not have, each with the words of its refusal.

Every form is a whole manifest and goes through admission, as at an install. Beside it is a component of which it declares
nothing, so that the form alone is what is refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from zeroclaw_host.errors import ConfigSchemaError, ManifestError, PackageError
from zeroclaw_host.package.admission import admit
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.signature import SignaturePolicy

Make = Callable[..., bytes]
Keys = dict[str, Any]

NAME = "name: must be 1 to 128 characters"
PLACE = "wasm_path: must name a file inside"
RELATIVE = "wasm_path: must be relative to the package"
PARTS = "wasm_path: must use / between its parts and hold no control characters"
TAKEN = "wasm_path: must not name manifest.toml or anything in skills/"
DIGEST = "wasm_sha256: must be 64 hexadecimal digits"
CHANNEL = "provides: must be the snake_case id of a built-in channel"

BYTES: list[tuple[str, str, bytes, str]] = [
    ("nothing", "PLG-068", b"", "name: is required"),
    ("cut within a key", "PLG-068", b"nam", "manifest.toml:1:"),
    ("cut within a value", "PLG-068", b'name = "de', "manifest.toml:1:"),
    ("no text", "PLG-068", b'name = "\xff"', "UTF-8"),
    ("a key twice", "PLG-364", b'name = "a"\nname = "b"\n', "manifest.toml:2:"),
    ("a table twice", "PLG-364", b"[egress]\n[egress]\n", "manifest.toml:2:"),
]

MANIFESTS: list[tuple[str, str, Keys, str]] = [
    ("no name", "PLG-014", {"name": None}, "name: is required"),
    ("an empty name", "PLG-014", {"name": ""}, NAME),
    ("a capital", "PLG-014", {"name": "Foo"}, NAME),
    ("129 characters", "PLG-014", {"name": "a" * 129}, NAME),
    ("a hyphen ahead", "PLG-014", {"name": "-a"}, NAME),
    ("a hyphen behind", "PLG-014", {"name": "a-"}, NAME),
    ("a dot ahead", "PLG-014", {"name": ".a"}, NAME),
    ("a dot behind", "PLG-014", {"name": "a."}, NAME),
    ("an underscore ahead", "PLG-014", {"name": "_a"}, NAME),
    ("an underscore behind", "PLG-014", {"name": "a_"}, NAME),
    ("a space in a name", "PLG-014", {"name": "a b"}, NAME),
    ("a slash in a name", "PLG-014", {"name": "a/b"}, NAME),
    ("the folder above for a name", "PLG-014", {"name": ".."}, NAME),
    ("a name beyond ASCII", "PLG-014", {"name": "ä"}, NAME),
    ("a line break in a name", "PLG-014", {"name": "a\n"}, NAME),
    ("a NUL in a name", "PLG-014", {"name": "a\0b"}, NAME),
    ("an at sign in a name", "PLG-014", {"name": "a@1"}, NAME),
    ("no version", "PLG-364", {"version": None}, "version: is required"),
    ("an empty version", "PLG-364", {"version": ""}, "version: must"),
    ("a blank version", "PLG-364", {"version": "  "}, "version: must"),
    ("a line break in a version", "PLG-364", {"version": "1\n2"}, "version: must"),
    ("a version that turns the text around", "PLG-364", {"version": "1\u202e2"}, "version: must"),
    ("no capability", "PLG-002", {"capabilities": []}, "capabilities: must not be empty"),
    ("no list of capabilities", "PLG-002", {"capabilities": None}, "capabilities: is required"),
    ("a capability by itself", "PLG-002", {"capabilities": "tool"}, "capabilities: must be a list"),
    ("an unknown capability", "PLG-002", {"capabilities": ["foo"]}, "foo is not one of tool, channel, memory, observer, skill"),
    ("a capability in other letters", "PLG-002", {"capabilities": ["tool", "Tool"]}, "Tool is not one of"),
    ("a number for a capability", "PLG-002", {"capabilities": [1]}, "int is not one of"),
    ("an unknown permission", "PLG-012", {"permissions": ["everything"]}, "everything is not one of http_client"),
    ("a permission in other letters", "PLG-012", {"permissions": ["HTTP_CLIENT"]}, "HTTP_CLIENT is not one of http_client"),
    ("an empty permission", "PLG-012", {"permissions": [""]}, "is not one of http_client"),
    ("a permission by itself", "PLG-012", {"permissions": "x"}, "permissions: must be"),
    ("a tool without a component", "PLG-004", {"wasm_path": None}, "wasm_path: is required"),
    ("an observer without a component", "PLG-004", {"wasm_path": None, "capabilities": ["observer"]}, "wasm_path: is required"),
    ("a skill and tool without a component", "PLG-004", {"wasm_path": None, "capabilities": ["skill", "tool"]}, "wasm_path: is required"),
    ("an empty path", "PLG-364", {"wasm_path": ""}, "wasm_path: must not be empty"),
    ("the package for a path", "PLG-364", {"wasm_path": "."}, PLACE),
    ("an absolute path", "PLG-364", {"wasm_path": "/p.wasm"}, RELATIVE),
    ("a path above", "PLG-364", {"wasm_path": "../p.wasm"}, PLACE),
    ("a path up and down", "PLG-364", {"wasm_path": "a/../p.wasm"}, PLACE),
    ("a path that ends above", "PLG-364", {"wasm_path": "a/.."}, PLACE),
    ("a drive", "PLG-364", {"wasm_path": "c:/p.wasm"}, RELATIVE),
    ("a drive without a slash", "PLG-364", {"wasm_path": "c:p.wasm"}, RELATIVE),
    ("a backslash", "PLG-364", {"wasm_path": "a\\p.wasm"}, PARTS),
    ("a folder for a path", "PLG-364", {"wasm_path": "a/"}, PLACE),
    ("a NUL in a path", "PLG-364", {"wasm_path": "p\0"}, PARTS),
    ("a line break in a path", "PLG-364", {"wasm_path": "p\n"}, PARTS),
    ("the manifest for a component", "PLG-364", {"wasm_path": "manifest.toml"}, TAKEN),
    ("the manifest by a longer way", "PLG-364", {"wasm_path": "./manifest.toml"}, TAKEN),
    ("a component among the skills", "PLG-364", {"wasm_path": "skills/p.wasm"}, TAKEN),
    ("the skills for a component", "PLG-364", {"wasm_path": "skills"}, TAKEN),
    ("an empty digest", "PAINS-14", {"wasm_sha256": ""}, DIGEST),
    ("63 digits", "PAINS-14", {"wasm_sha256": "a" * 63}, DIGEST),
    ("65 digits", "PAINS-14", {"wasm_sha256": "a" * 65}, DIGEST),
    ("a letter beyond f", "PAINS-14", {"wasm_sha256": "g" * 64}, DIGEST),
    ("a digest with its algorithm", "PAINS-14", {"wasm_sha256": "sha256:" + "a" * 64}, DIGEST),
    ("a space ahead of a digest", "PAINS-14", {"wasm_sha256": " " + "a" * 64}, DIGEST),
    ("digits beyond ASCII", "PAINS-14", {"wasm_sha256": "ａ" * 64}, DIGEST),
    ("a digest of nothing", "PAINS-14", {"capabilities": ["skill"], "wasm_path": None, "wasm_sha256": "a" * 64}, "is there without wasm_path"),
    ("an empty channel", "PLG-364", {"provides": ""}, CHANNEL),
    ("a channel with a capital", "PLG-364", {"provides": "Telegram"}, CHANNEL),
    ("a channel with a hyphen", "PLG-364", {"provides": "gmail-push"}, CHANNEL),
    ("a channel with an underscore ahead", "PLG-364", {"provides": "_x"}, CHANNEL),
    ("a channel with two underscores", "PLG-364", {"provides": "a__b"}, CHANNEL),
    ("a channel with a digit ahead", "PLG-364", {"provides": "1a"}, CHANNEL),
    ("every host", "PLG-181", {"egress": {"hosts": ["*"]}}, "'*' would stand for every host"),
    ("a host with a port", "PLG-173", {"egress": {"hosts": ["b:1"]}}, "'b:1' names"),
    ("a host by itself", "PLG-364", {"egress": {"hosts": "a.b"}}, "egress.hosts: must be"),
    ("a number for a host", "PLG-364", {"egress": {"hosts": [1]}}, "must be"),
    ("a list for the destinations", "PLG-364", {"egress": []}, "egress: must be"),
    ("a number for a name", "PLG-364", {"name": 1}, "name: must be"),
    ("a number for a version", "PLG-364", {"version": 1.0}, "version: must be"),
    ("a list for a description", "PLG-364", {"description": []}, "description: must be"),
    ("a number for an author", "PLG-364", {"author": 1}, "author: must be"),
    ("a truth for a path", "PLG-364", {"wasm_path": True}, "wasm_path: must be"),
    ("a number for a digest", "PLG-364", {"wasm_sha256": 1}, "wasm_sha256: must be"),
    ("a number for a channel", "PLG-364", {"provides": 3}, "provides: must be"),
    ("a number for a signature", "PLG-364", {"signature": 1}, "signature: must be"),
    ("a table for a key", "PLG-364", {"publisher_key": {}}, "publisher_key: must be"),
    ("a text for a schema", "PLG-364", {"config_schema": "x"}, "config_schema: must be"),
]  # fmt: skip


def schema(properties: Any = None, **more: Any) -> Keys:
    """A closed schema, with keywords changed, added, or left out (None)."""
    closed: Keys = {
        "type": "object",
        "additionalProperties": False,
        "properties": {} if properties is None else properties,
    }
    return {key: value for key, value in (closed | more).items() if value is not None}


def prop(**keywords: Any) -> Keys:
    """A schema of one property, a string unless it says otherwise."""
    return schema({"p": {"type": "string"} | keywords})


def named(**definitions: Any) -> Keys:
    """A schema with definitions nothing refers to."""
    return schema(**{"$defs": definitions})


def in_a_pattern(pattern: str) -> Keys:
    return prop(pattern=pattern)


def in_a_pattern_of_names(pattern: str) -> Keys:
    return prop(type="object", patternProperties={pattern: True})


def in_a_definition(pattern: str) -> Keys:
    return named(unused={"pattern": pattern})


ONE_TYPE = "config_schema/properties/p must have one type of string, boolean, integer, number, array, object"
LOCAL = "must be # or begin with #/: references stay inside the schema"
LINEAR = "is no pattern of the linear-time dialect, or needs a program larger than 256 KiB"
CIRCLE = "leads back to itself"
ADDRESS = "a schema has no address"
TOP = "top-level"
BY_NAME = "its name"
SECRET = {"type": "string", "x-secret": True}

SCHEMAS: list[tuple[str, str, Keys, str]] = [
    ("no type at the root", "PLG-140", schema(type=None), "config_schema/type must"),
    ("a text at the root", "PLG-140", schema(type="string"), "config_schema/type must"),
    ("a list of types at the root", "PLG-140", schema(type=["object"]), "config_schema/type must"),
    ("a root that says nothing of others", "PLG-140", schema(additionalProperties=None), "config_schema/additionalProperties must"),
    ("an open root", "PLG-140", schema(additionalProperties=True), "config_schema/additionalProperties must"),
    ("a root closed by a number", "PLG-140", schema(additionalProperties=0), "config_schema/additionalProperties must"),
    ("a root that describes others", "PLG-140", schema(additionalProperties={}), "config_schema/additionalProperties must"),
    ("no properties", "PLG-140", {"type": "object", "additionalProperties": False}, "config_schema/properties must"),
    ("a list of properties", "PLG-140", schema(properties=[]), "config_schema/properties must"),
    ("another dialect", "PLG-140", schema(**{"$schema": "http://json-schema.org/draft-07/schema#"}), "config_schema/$schema must"),
    ("properties by pattern", "PLG-141", schema(patternProperties={}), "config_schema/patternProperties"),
    ("a rule of names", "PLG-141", schema(propertyNames={}), "config_schema/propertyNames"),
    ("a rule of the rest", "PLG-141", schema(unevaluatedProperties={}), "config_schema/unevaluatedProperties"),
    ("a property that says nothing", "PLG-140", schema({"p": {}}), ONE_TYPE),
    ("a property that is null", "PLG-140", schema({"p": {"type": "null"}}), ONE_TYPE),
    ("a property of several types", "PLG-140", schema({"p": {"type": ["string"]}}), ONE_TYPE),
    ("a property whose type is a number", "PLG-140", schema({"p": {"type": 1}}), ONE_TYPE),
    ("a property by its values alone", "PLG-140", schema({"p": {"enum": ["a"]}}), ONE_TYPE),
    ("a property that leads nowhere", "PLG-140", schema({"p": {"$ref": "#/$defs/none"}}), ONE_TYPE),
    ("a property that may be anything", "PLG-140", schema({"p": True}), ONE_TYPE),
    ("more than 64 KiB", "PLG-141", prop(description="x" * 65536), "larger than 65536 bytes"),
    ("more than 256 properties", "PLG-141", schema({f"p{n}": {"type": "string"} for n in range(257)}), "256 properties"),
    ("an address at the root", "PLG-141", schema(**{"$id": "https://example.com/s"}), ADDRESS),
    ("an address at a property", "PLG-141", prop(**{"$id": "x"}), ADDRESS),
    ("a property that is called like an address", "PLG-141", schema({"$id": {"type": "string"}}), ADDRESS),
    ("an address deep within", "PLG-141", named(x={"not": {"$id": "#x"}}), ADDRESS),
    ("an address in an example", "PLG-141", schema(examples=[{"$id": 1}]), ADDRESS),
    *(
        (f"{keyword} to {words}", "PLG-141", schema({"p": {"type": "array", "items": {keyword: target}}}), LOCAL)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef")
        for words, target in (
            ("the network", "https://example.com/s"), ("a file beside", "s.json"), ("an anchor", "#anchor"),
            ("nothing", ""), ("a file of the machine", "file:///etc/passwd"), ("a host", "//x#/a"),
        )
    ),
    *(
        (f"{words} {where}", "PLG-141", make(pattern), LINEAR)
        for words, pattern in (
            ("looking ahead", "(?=a)b"), ("looking ahead for nothing", "(?!a)b"), ("looking back", "(?<=a)b"),
            ("a back-reference", r"(a)\1"), ("an atomic group", "(?>a)"), ("an open group", "("),
            ("a range backwards", "a{2,1}"),
        )
        for where, make in (
            ("in a pattern", in_a_pattern),
            ("in a pattern of names", in_a_pattern_of_names),
            ("in a definition", in_a_definition),
        )
    ),
    *(
        (f"a program beyond 256 KiB: {words}", "PLG-141", prop(pattern=pattern), LINEAR)
        for words, pattern in (
            ("letters", r"\pL{100}"), ("word characters", r"^\w{5000}x"), ("one letter", "a{20000}"),
            ("ranges of ranges", "(?:[a-z]{100}){100}"), ("repeated ranges", "[a-z]+{3000}"),
            # The validator needs no program for these, and would accept them at any length.
            ("a long beginning", "^" + "a" * 20_000), ("a long word", "^" + "a" * 20_000 + "$"),
            ("a choice of words", f"^({'|'.join(f'w{n:05}' for n in range(5000))})$"),
            ("a class again and again", "^[a-z]{999999999}$"), ("no spaces", r"^\S{1,60000}$"),
        )
    ),
    ("nothing to repeat", "PLG-141", prop(pattern="*a"), LINEAR),
    ("a length that is a text", "PLG-140", prop(minLength="1"), "is not valid JSON Schema"),
    ("items that are a number", "PLG-140", prop(type="array", items=1), "is not valid JSON Schema"),
    ("a requirement that is no list", "PLG-140", schema(required="p"), "is not valid JSON Schema"),
    ("a date", "PLG-140", prop(default=datetime.date(2026, 1, 1)), "config_schema/properties/p/default"),
    ("a time", "PLG-140", prop(default=datetime.time(1)), "config_schema/properties/p/default"),
    ("no number", "PLG-140", prop(default=float("nan")), "config_schema/properties/p/default"),
    ("infinity", "PLG-140", prop(default=float("inf")), "config_schema/properties/p/default"),
    ("a root that leads to itself", "PLG-141", schema(allOf=[{"$ref": "#"}]), CIRCLE),
    ("two that lead to each other", "PLG-141", named(a={"anyOf": [{"$ref": "#/$defs/b"}]}, b={"not": {"$ref": "#/$defs/a"}}), CIRCLE),
    ("a condition that leads to its root", "PLG-141", schema(dependentSchemas={"p": {"if": {"$ref": "#"}}}), CIRCLE),
    ("a secret that is none", "PLG-142", prop(**{"x-secret": False}), "must be true"),
    ("a secret that is a number", "PLG-142", prop(**{"x-secret": 1}), "must be true"),
    ("a secret that is a word", "PLG-142", prop(**{"x-secret": "true"}), "must be true"),
    ("a secret number", "PLG-142", prop(type="integer", **{"x-secret": True}), "a string only"),
    ("a secret within an object", "PLG-142", prop(type="object", properties={"q": SECRET}), TOP),
    ("a secret within a list", "PLG-142", prop(type="array", items={"x-secret": True}), TOP),
    ("a secret definition", "PLG-142", schema({"p": {"$ref": "#/$defs/s"}}, **{"$defs": {"s": SECRET}}), TOP),
    ("a secret at another place", "PLG-142", schema({"p": {"$ref": "#/hidden/s"}}, hidden={"s": SECRET}), TOP),
    ("a secret in a combination", "PLG-142", prop(allOf=[{"x-secret": True}]), TOP),
    ("a secret root", "PLG-142", schema(**{"x-secret": True}), TOP),
    ("a secret with a space in its name", "PLG-142", schema({"a b": SECRET}), BY_NAME),
    ("a secret with a name beyond ASCII", "PLG-142", schema({"ä": SECRET}), BY_NAME),
    ("a secret with a long name", "PLG-142", schema({"p" * 129: SECRET}), BY_NAME),
    ("a secret without a name", "PLG-142", schema({"": SECRET}), BY_NAME),
]  # fmt: skip

TOGETHER: list[tuple[str, str, Keys, str]] = [
    ("a schema nobody may read", "PLG-010", {"config_schema": schema()}, "needs the permission config_read"),
    ("a permission to read what there is not", "PLG-011", {"permissions": ["config_read"]}, "needs a config_schema"),
    (
        "a secret of a memory, which could not read it",
        "PLG-142",
        {"capabilities": ["memory"], "permissions": ["config_read"], "config_schema": prop(**{"x-secret": True})},
        "tool or a channel",
    ),
]  # fmt: skip


class Package:
    """A package whose manifest is given as bytes."""

    origin = "package"

    def __init__(self, manifest: bytes) -> None:
        self._manifest = manifest

    def read_manifest(self) -> bytes:
        return self._manifest

    def read_component(self, wasm_path: str) -> bytes:
        del wasm_path
        return b"\0asm\r\0\1\0"

    def read_skills(self) -> SkillTree:
        return SkillTree({"a/SKILL.md": b"---\nname: a\ndescription: b\n---\n"}, frozenset({"a"}))


def refuse(manifest: bytes, kind: type[PackageError], code: str, words: str) -> None:
    with pytest.raises(kind) as caught:
        admit(Package(manifest), SignaturePolicy())
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.message.startswith("package/manifest.toml:")


def forms(table: list[tuple[str, str, Any, str]]) -> list[Any]:
    return [
        pytest.param(form, words, marks=pytest.mark.req(number), id=name)
        for name, number, form, words in table
    ]


@pytest.mark.parametrize(("manifest", "words"), forms(BYTES))
def test_bytes_that_are_no_manifest_are_refused(manifest: bytes, words: str) -> None:
    refuse(manifest, ManifestError, "manifest_invalid", words)


@pytest.mark.parametrize(("keys", "words"), forms(MANIFESTS))
def test_a_manifest_of_another_form_is_refused(manifest_text: Make, keys: Keys, words: str) -> None:
    refuse(manifest_text(**keys), ManifestError, "manifest_invalid", words)


@pytest.mark.parametrize(("raw", "words"), forms(SCHEMAS))
def test_a_schema_of_another_form_is_refused(manifest_text: Make, raw: Keys, words: str) -> None:
    manifest = manifest_text(permissions=["config_read"], config_schema=raw)
    refuse(manifest, ConfigSchemaError, "config_schema_invalid", words)


@pytest.mark.parametrize(("keys", "words"), forms(TOGETHER))
def test_what_does_not_go_together_is_refused(manifest_text: Make, keys: Keys, words: str) -> None:
    refuse(manifest_text(**keys), ConfigSchemaError, "config_schema_invalid", words)


@pytest.mark.parametrize("table", [MANIFESTS + TOGETHER, SCHEMAS], ids=["manifests", "schemas"])
def test_no_form_of_a_table_is_there_twice(table: list[tuple[str, str, Keys, str]]) -> None:
    assert (
        len({repr(form) for _, _, form, _ in table}) == len(table) == len({name for name, *_ in table}) >= 60
    )


def test_the_ordinary_forms_around_them_are_accepted(manifest_text: Make) -> None:
    for keys in ({}, {"permissions": ["config_read"], "config_schema": prop(pattern="^[a-z]{1,20}$")}):
        assert admit(Package(manifest_text(**keys)), SignaturePolicy()).manifest.name == "demo"
