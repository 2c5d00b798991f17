"""Attacks on the contract: imports and exports that are not what they seem, or not what a plugin may have."""

from __future__ import annotations

from forge import Forge

from attacks.attack import HARMLESS, Attack, Stage, answering, beside
from zeroclaw_host.contract import ungated_wit

CONTRACT = "the comparison with the contract"
LARGE_TYPE = "".join(
    ["(type $t0 (tuple u8 u8))", *(f"(type $t{n} (tuple $t{n - 1} $t{n - 1}))" for n in range(1, 60))]
)


def imported(name: str, *items: str) -> str:
    """An import of an interface with these items in it."""
    return f'(import "{name}" (instance {" ".join(items)}))'


def refused(name: str, text: str, says: str, **more: object) -> Attack:
    """An attack that is found out before anything of it runs."""
    return Attack(
        name=name,
        build=beside(text),
        bound=CONTRACT,
        code="component_mismatch",
        says=says,
        stage=Stage.LINKING,
        **more,  # type: ignore[arg-type]
    )


def unreadable(name: str, text: str, says: str) -> Attack:
    """An attack that the compiler refuses."""
    return Attack(
        name=name,
        build=beside(text),
        bound="the compiler",
        code="component_invalid",
        says=says,
        stage=Stage.COMPILING,
    )


def without(export: str) -> Attack:
    return Attack(
        name=f"no export {export}",
        build=lambda: Forge(wit=_less(export)).component(
            returns={"tool.execute": HARMLESS}, without=[export]
        ),
        bound=CONTRACT,
        code="component_mismatch",
        says=export.partition(".")[2],
        stage=Stage.LINKING,
    )


def _less(export: str) -> str:
    """The contract without a function."""
    lines = (ungated_wit() / "plugin.wit").read_text(encoding="utf-8").splitlines(keepends=True)
    interface, function = export.split(".")
    start = next(number for number, line in enumerate(lines) if line.strip() == f"interface {interface} {{")
    gone = next(
        number for number in range(start, len(lines)) if lines[number].strip().startswith(f"{function}: func")
    )
    return "".join(lines[:gone] + lines[gone + 1 :])


SECRETS = "zeroclaw:plugin/secrets@0.1.0"

FOREIGN = (
    refused(
        "an import whose argument has another type",
        imported(SECRETS, '(export "get" (func (param "name" u32) (result u64)))'),
        "parameter name: it is u32, the contract has string",
    ),
    refused(
        "an import whose result has another type",
        imported(SECRETS, '(export "get" (func (param "name" string) (result u64)))'),
        "result: it is u64",
    ),
    refused(
        "an import with one argument more",
        imported(SECRETS, '(export "get" (func (param "name" string) (param "owner" string) (result string)))'),
        "it takes 2 parameters, the contract 1",
    ),
    refused(
        "an enum with one case less",
        imported(
            SECRETS,
            '(type $e (enum "access-denied" "not-found")) (export "secret-error" (type $f (eq $e)))',
            '(export "get" (func (param "name" string) (result (result string (error $f)))))',
        ),
        "case",
    ),
    refused(
        "a record with its fields in another order",
        imported(
            "zeroclaw:plugin/state@0.1.0",
            '(type $r (record (field "revision" u64) (field "value" (list u8)))) (export "state-entry" (type $s (eq $r)))',
            '(type $e (enum "invalid-key" "access-denied" "not-found" "conflict" "quota-exceeded" "unavailable"))',
            '(export "state-error" (type $f (eq $e)))',
            '(export "get" (func (param "key" string) (result (result (option $s) (error $f)))))',
        ),
        "field",
    ),
    refused(
        "a function where a resource belongs",
        imported("wasi:io/poll@0.2.12", '(export "pollable" (func))'),
        "no such function",
    ),
    refused(
        "a resource the host does not define",
        imported("wasi:io/poll@0.2.12", '(export "everything" (type (sub resource)))'),
        "defines no resource everything",
    ),
    refused(
        "one resource passed off as another",
        """(import "wasi:io/error@0.2.0" (instance $errors (export "error" (type (sub resource)))))
        (alias export $errors "error" (type $error))
        (import "wasi:io/poll@0.2.1" (instance (alias outer 1 $error (type $r)) (export "pollable" (type $p (eq $r)))
          (export "[method]pollable.block" (func (param "self" (borrow $p))))))""",
        "pollable",
    ),
    refused(
        "a borrow turned into an ownership",
        imported(
            "wasi:io/poll@0.2.12",
            '(export "pollable" (type $p (sub resource)))',
            '(export "poll" (func (param "in" (list (own $p))) (result (list u32))))',
        ),
        "owned",
    ),
    refused(
        "a type that unfolds into thirty thousand",
        LARGE_TYPE[: LARGE_TYPE.index("(type $t15 ")]
        + imported(SECRETS, '(alias outer 1 $t14 (type $t)) (export "get" (func (param "name" $t)))'),
        "a tuple",
    ),
    unreadable(
        "a type that unfolds into more than there are atoms in a grain of sand",
        LARGE_TYPE + imported(SECRETS, '(alias outer 1 $t59 (type $t)) (export "get" (func (param "name" $t)))'),
        "effective type size",
    ),
)  # fmt: skip

FORBIDDEN = (
    refused("an import outside the contract", imported("evil:shell/run@1.0.0", '(export "system" (func))'), "no such interface"),
    refused(
        "a function that a known interface does not have",
        imported(SECRETS, '(export "set" (func (param "name" string)))'),
        "no such function",
    ),
    *(
        refused(f"{name}, which is the {world} world's", imported(f"zeroclaw:plugin/{name}@0.1.0", '(export "x" (func))'), "does not offer")
        for world, name in (("channel", "config"), ("channel", "inbound"))
    ),
    *(
        refused(
            f"{what} without the permission",
            imported(name, '(export "x" (func))'),
            f"does not request the permission {permission}",
        )
        for what, name, permission in (
            ("HTTP", "wasi:http/outgoing-handler@0.2.12", "http_client"),
            ("a socket", "zeroclaw:plugin/sockets@0.1.0", "socket_client"),
            ("a web socket", "zeroclaw:plugin/websocket@0.1.0", "websocket_client"),
        )
    ),
    refused("WASI of another generation", imported("wasi:cli/environment@0.3.0"), "does not offer version 0.3.0"),
    refused("a contract of another version", imported("zeroclaw:plugin/secrets@0.2.0"), "does not offer version 0.2.0"),
    refused("a contract without a version", imported("zeroclaw:plugin/secrets"), "does not offer version none"),
    refused("a function instead of an interface", '(import "system" (func))', "no interface of the host"),
    refused("a core module to be supplied", '(import "evil" (core module))', "no interface of the host"),
    refused(
        "a core module named as the shared ones are",
        f'(import "core-module-x{"0" * 64}" (core module))',
        "no interface of the host",
    ),
    unreadable("a component to be supplied", '(import "evil" (component))', "component imports are not supported"),
    refused(
        "a module inside an interface",
        imported("wasi:io/poll@0.2.12", '(export "poll" (core module))'),
        "neither a function nor a type",
    ),
    refused("an interface inside an interface", imported("wasi:io/poll@0.2.12", '(export "poll" (instance))'), "neither"),
    unreadable(
        "an asynchronous function",
        imported("wasi:random/random@0.2.12", '(export "get-random-u64" (func async (result u64)))'),
        "async",
    ),
    refused(
        "three thousand imports",
        "".join(f'(import "evil:number{number}/x" (instance))' for number in range(3000)),
        "at most 256",
    ),
    refused(
        "a hundred interfaces of a hundred functions each",
        "".join(
            imported(f"evil:number{number}/x", *(f'(export "f{each}" (func))' for each in range(100)))
            for number in range(100)
        ),
        "no such interface",
    ),
    refused("an import with a name of eighty thousand letters", imported(f"evil:{'long' * 20_000}/x@1.0.0"), "no such interface"),
    refused(
        "a thousand functions of one interface",
        imported(SECRETS, *(f'(export "get{number}" (func))' for number in range(1000))),
        "at most 256",
    ),
)  # fmt: skip

MISSING = (
    without("tool.execute"),
    without("plugin-info.plugin-name"),
    Attack(
        name="the exports of another world",
        build=lambda: Forge("memory-plugin").component(),
        bound=CONTRACT,
        code="component_mismatch",
        says="zeroclaw:plugin/tool: the component does not export",
        stage=Stage.LINKING,
    ),
    Attack(
        name="twenty thousand exports",
        build=beside("".join(f'(export "more{number}" (func $name))' for number in range(20_000))),
        bound=CONTRACT,
        code="component_mismatch",
        says="at most 256",
        stage=Stage.LINKING,
    ),
    Attack(
        name="two imports of one interface, of different versions",
        build=beside(
            "".join(
                imported(f"wasi:random/random@0.2.{patch}", '(export "get-random-u64" (func (result u64)))')
                for patch in (1, 99)
            )
        ),
        bound="nothing: both are the host's own",
        code=None,
    ),
    Attack(
        name="an answer of the right shape",
        build=answering(HARMLESS),
        bound="nothing: this is what an honest tool does",
        code=None,
    ),
)

ATTACKS = (*FOREIGN, *FORBIDDEN, *MISSING)
