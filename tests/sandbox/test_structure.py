"""A component's imports and exports are compared with the contract before anything is linked."""

from __future__ import annotations

import time

import pytest

from zeroclaw_host.contract import ungated_wit
from zeroclaw_host.errors import ComponentMismatch, RemedyAction
from zeroclaw_host.package.manifest import Capability, Permission
from zeroclaw_host.sandbox.interface import HostFunction, interface
from zeroclaw_host.sandbox.structure import MAX_EXTERNS, Comparison
from zeroclaw_host.sandbox.values import Ok
from zeroclaw_host.worlds.surface import surface_of

SECRETS = '(import "zeroclaw:plugin/secrets@0.1.0" "get" (func $get (param {core})))'


def contract_text() -> str:
    return (ungated_wit() / "plugin.wit").read_text(encoding="utf-8")


def changed(old: str, new: str) -> str:
    text = contract_text()
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def refusal(sandbox):
    """The error a component is refused with, as a tool without permissions."""

    def load(component: bytes, grants: frozenset[Permission] = frozenset()) -> ComponentMismatch:
        with pytest.raises(ComponentMismatch) as caught:
            sandbox.load(component, surface_of(Capability.TOOL, grants))
        assert caught.value.remedy is not None
        assert caught.value.remedy.action is RemedyAction.REBUILD_PLUGIN
        return caught.value

    return load


@pytest.mark.req("PLG-038")
def test_a_component_of_the_tool_world_is_accepted(embed, tool_core, sandbox):
    sandbox.load(embed(tool_core()), surface_of(Capability.TOOL, frozenset()))


@pytest.mark.req("PLG-016", "PLG-038")
def test_an_import_the_host_does_not_know_is_refused_by_name(wat, refusal):
    error = refusal(wat('(component (import "evil:host/shell@1.0.0" (instance (export "run" (func)))))'))
    assert error.details["interface"] == "evil:host/shell@1.0.0"
    assert "no such interface" in error.message


@pytest.mark.req("PLG-038")
def test_a_function_import_outside_any_interface_is_refused(wat, refusal):
    assert refusal(wat('(component (import "run" (func)))')).details["interface"] == "run"


@pytest.mark.req("PLG-038")
def test_a_core_module_import_is_refused(wat, refusal):
    assert refusal(wat('(component (import "code" (core module)))')).details["interface"] == "code"


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize("item", ["core module", "instance"])
def test_an_interface_holds_functions_and_types_only(item, wat, refusal):
    error = refusal(wat(f'(component (import "wasi:io/poll@0.2.0" (instance (export "poll" ({item})))))'))
    assert (error.details["interface"], error.details["function"]) == ("wasi:io/poll@0.2.0", "poll")


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize("name", ["wasi:random/random@0.2.0", "wasi:clocks/monotonic-clock@0.2.0"])
def test_an_asynchronous_import_is_refused(name, wat, refusal):
    function = "now" if "clock" in name else "get-random-u64"
    error = refusal(
        wat(
            "(component (core func (canon waitable-set.new))"
            f' (import "{name}" (instance (export "{function}" (func async (result u64))))))'
        )
    )
    assert error.details["function"] == function
    assert "asynchronous" in error.message


def many(count: int) -> str:
    return " ".join(
        f'(import "wasi:io/poll@0.2.{number}" (instance (export "pollable" (type (sub resource)))))'
        for number in range(count)
    )


@pytest.mark.parametrize(
    "text",
    [
        many(MAX_EXTERNS + 1),
        "(component $c)"
        + "".join(
            f'(instance $i{number} (instantiate $c)) (export "a:b/c{number}" (instance $i{number}))'
            for number in range(MAX_EXTERNS + 1)
        ),
        '(import "wasi:io/poll@0.2.0" (instance '
        + "".join(f'(export "f{number}" (func))' for number in range(MAX_EXTERNS + 1))
        + "))",
    ],
    ids=["imports", "exports", "functions"],
)
def test_more_names_than_any_real_component_has_are_not_even_compared(text, wat, refusal, monkeypatch):
    monkeypatch.setattr(Comparison, "imports", None)
    assert f"at most {MAX_EXTERNS}" in refusal(wat(f"(component {text})")).message


def test_as_many_imports_as_allowed_are_compared_in_no_time(wat, sandbox):
    component = wat(f"(component {many(MAX_EXTERNS)})")
    sandbox.cache.load(component)
    started = time.monotonic()
    with pytest.raises(ComponentMismatch, match="does not export"):
        sandbox.load(component, surface_of(Capability.TOOL, frozenset()))
    assert time.monotonic() - started < 5


def test_a_name_without_end_is_cut_where_it_is_told(wat, refusal):
    error = refusal(wat('(component (import "a:' + "b" * 60_000 + '/c" (instance)))'))
    assert len(error.message) < 2000
    assert all(len(str(value)) < 2000 for value in error.details.values())


@pytest.mark.req("PLG-038")
def test_a_function_the_interface_does_not_have_is_refused(wat, refusal):
    error = refusal(
        wat('(component (import "zeroclaw:plugin/secrets@0.1.0" (instance (export "list" (func)))))')
    )
    assert error.details["function"] == "list"


@pytest.mark.req("PLG-038", "PAINS-9")
@pytest.mark.parametrize(
    ("old", "new", "core", "function", "difference"),
    [
        ("get: func(name: string) -> result<string, secret-error>", "get: func(name: u32) -> u64", "i32) (result i64", "get", "parameter name: it is u32, the contract has string"),
        ("get: func(name: string) -> result<string, secret-error>", "get: func() -> result<string, secret-error>", "i32", "get", "it takes 0 parameters, the contract 1"),
        ("get: func(name: string) -> result<string, secret-error>", "get: func(name: string)", "i32 i32", "get", "it has no result"),
        ("get: func(name: string) -> result<string, secret-error>", "get: func(name: string) -> result<string>", "i32 i32 i32", "get", "err has no payload"),
        ("get: func(name: string) -> result<string, secret-error>", "get: func(name: string) -> result<list<u8>, secret-error>", "i32 i32 i32", "get", "ok: it is a list, the contract has string"),
    ],
)  # fmt: skip
def test_a_function_of_another_type_is_refused_with_the_difference(
    old, new, core, function, difference, embed, tool_core, refusal
):
    component = embed(
        tool_core("unreachable", imports=SECRETS.format(core=core), extra="(func (drop (ref.func $get)))(elem declare func $get)"),
        wit=changed(old, new),
    )  # fmt: skip
    error = refusal(component)
    assert error.details["interface"] == "zeroclaw:plugin/secrets@0.1.0"
    assert error.details["function"] == function
    assert difference in str(error.details["difference"])


@pytest.mark.req("PLG-038", "PAINS-9")
@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("not-found,", "", "result: err: the enum secret-error lacks the case not-found"),
        ("not-found,", "not-found, expired,", "the enum secret-error has the further case expired"),
        ("not-found,", "not-found, expired, late,", "has the further case expired and 1 more"),
        ("access-denied,", "", "the enum secret-error lacks the case access-denied"),
    ],
)
def test_an_enum_that_drifted_by_one_case_is_refused_naming_the_case(
    old, new, difference, embed, tool_core, refusal
):
    text = contract_text()
    start = text.index("enum secret-error")
    end = text.index("}", start)
    drifted = text[:start] + text[start:end].replace(old, new) + text[end:]
    component = embed(
        tool_core("(call $get (local.get 0) (local.get 1) (i32.const 512)) unreachable", imports=SECRETS.format(core="i32 i32 i32")),
        wit=drifted,
    )  # fmt: skip
    error = refusal(component)
    assert error.details["function"] == "get"
    assert difference in str(error.details["difference"])


@pytest.mark.req("PLG-038")
@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("    error: option<string>,\n", "", "the record tool-result lacks the field error"),
        (
            "    success: bool,\n",
            "    success: bool,\n    cost: u64,\n",
            "the record tool-result has the further field cost",
        ),
        (
            "    success: bool,\n    output: string,\n",
            "    output: string,\n    success: bool,\n",
            "another order",
        ),
        ("    success: bool,\n", "    success: u8,\n", "field success: it is u8, the contract has bool"),
    ],
)
def test_an_exported_record_that_drifted_is_refused_naming_the_field(
    old, new, difference, embed, tool_core, refusal
):
    error = refusal(embed(tool_core("unreachable"), wit=changed(old, new)))
    assert error.details["interface"] == "zeroclaw:plugin/tool@0.1.0"
    assert error.details["function"] == "execute"
    assert difference in str(error.details["difference"])


@pytest.mark.req("PLG-003", "PLG-029", "PLG-038")
def test_missing_exports_are_all_named(wat, refusal):
    differences = str(refusal(wat("(component)")).details["differences"])
    assert "zeroclaw:plugin/plugin-info" in differences
    assert "zeroclaw:plugin/tool" in differences


@pytest.mark.req("PLG-038")
def test_another_version_of_the_contract_is_refused(embed, tool_core, refusal):
    core = tool_core("unreachable").replace("@0.1.0", "@0.2.0")
    error = refusal(embed(core, wit=changed("zeroclaw:plugin@0.1.0", "zeroclaw:plugin@0.2.0")))
    assert "0.2.0" in error.message


@pytest.mark.parametrize(
    ("version", "fits"), [("0.2.0", True), ("0.2.12", True), ("0.3.0", False), ("0.2.0-rc", False)]
)
def test_wasi_is_answered_at_any_patch_version_of_0_2(version, fits, wat, sandbox):
    component = wat(f'(component (import "wasi:random/random@{version}" (instance (export "get-random-u64" (func (result u64))))))')  # fmt: skip
    with pytest.raises(ComponentMismatch) as caught:
        sandbox.load(component, surface_of(Capability.TOOL, frozenset()))
    assert ("wasi:random" in caught.value.message) is not fits, "the exports are missing either way"


@pytest.mark.req("PLG-007", "PLG-016", "PLG-103")
@pytest.mark.parametrize(
    ("interface_name", "permission"),
    [
        ("zeroclaw:plugin/sockets@0.1.0", "socket_client"),
        ("zeroclaw:plugin/websocket@0.1.0", "websocket_client"),
        ("wasi:http/types@0.2.0", "http_client"),
        ("wasi:http/outgoing-handler@0.2.0", "http_client"),
    ],
)
def test_a_transport_without_its_permission_is_refused_naming_the_permission(
    interface_name, permission, wat, refusal
):
    error = refusal(wat(f'(component (import "{interface_name}" (instance)))'))
    assert error.details["interface"] == interface_name
    assert permission in error.message


@pytest.mark.req("PLG-103")
@pytest.mark.parametrize("name", ["config", "inbound"])
def test_what_only_channels_import_is_no_tools(name, wat, refusal):
    assert (
        f"zeroclaw:plugin/{name}"
        in refusal(wat(f'(component (import "zeroclaw:plugin/{name}@0.1.0" (instance)))')).message
    )


@pytest.mark.req("PLG-008", "PLG-103")
def test_a_memory_plugin_imports_the_log_and_nothing_else_of_the_host(wat, sandbox):
    everything = frozenset(Permission)
    surface = surface_of(Capability.MEMORY, everything)
    assert {name for name in surface.interfaces if name.startswith("zeroclaw:")} == {
        "zeroclaw:plugin/logging"
    }
    with pytest.raises(ComponentMismatch, match="wasi:http"):
        sandbox.load(wat('(component (import "wasi:http/types@0.2.0" (instance)))'), surface)


def test_a_resource_that_only_looks_like_the_hosts_is_refused(wat, refusal):
    component = wat("""(component
      (import "wasi:cli/stdout@0.2.0" (instance
        (export "output-stream" (type $stream (sub resource)))
        (export "get-stdout" (func (result (own $stream)))))))""")
    assert "resource" in refusal(component).message


def test_a_type_made_to_unfold_without_end_is_refused_at_once(wat, refusal):
    layers = "".join(f"(type $t{n} (tuple $t{n - 1} $t{n - 1}))" for n in range(1, 17))
    component = wat(f"""(component
      (import "zeroclaw:plugin/secrets@0.1.0" (instance
        (type $t0 (tuple u8 u8)) {layers}
        (export "get" (func (param "name" $t16) (result u64))))))""")
    assert "a tuple" in refusal(component).message


def test_a_component_may_import_less_and_export_more(embed, tool_core, surface, execute):
    wit = contract_text().replace(
        "world tool-plugin {", "world tool-plugin {\n  export extra: interface { f: func(); }\n"
    )
    component = embed(tool_core(extra='(func (export "extra#f"))'), wit=wit)
    asked = interface("zeroclaw:plugin/secrets", HostFunction("get", lambda frame, name: Ok("never")))
    assert isinstance(execute(component, surface(asked)), Ok)
