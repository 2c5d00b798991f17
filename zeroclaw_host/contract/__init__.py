"""The typed contract between host and plugins, as data.

``wit/v0`` (and ``wit/deps`` for the standard interfaces) is the source. ``tools/contract.py`` turns it into the files
beside this module, and a test compares the two. The host compares components with this data before it links them,
because the library below does not (PLG-038).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zeroclaw_host.contract.types import (
    BorrowType,
    EnumType,
    FlagsType,
    FunctionType,
    InterfaceType,
    ListType,
    OptionType,
    OwnType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
    WitType,
    WorldType,
)

PLUGIN_VERSION: Final = "0.1.0"
"""The version of the package ``zeroclaw:plugin``."""

_HERE = Path(__file__).parent


class Contract:
    """Every interface and world the host knows, by name without version."""

    def __init__(self, interfaces: Mapping[str, InterfaceType], worlds: Mapping[str, WorldType]) -> None:
        self.interfaces = interfaces
        self.worlds = worlds

    def interface(self, name: str) -> InterfaceType:
        """The interface of this name, such as ``zeroclaw:plugin/logging`` or ``wasi:io/poll``.

        :raises KeyError: the host knows no such interface.
        """
        return self.interfaces[name]

    def world(self, name: str) -> WorldType:
        """The world of this name, such as ``tool-plugin``.

        :raises KeyError: the contract has no such world.
        """
        return self.worlds[name]


@lru_cache(maxsize=1)
def contract() -> Contract:
    """The contract, read once per process."""
    interfaces: dict[str, InterfaceType] = {}
    worlds: dict[str, WorldType] = {}
    for path in sorted((_HERE / "data").glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for name, raw in data["interfaces"].items():
            interfaces[name] = _interface(name, raw)
        for name, raw in data["worlds"].items():
            worlds[name] = WorldType(name, tuple(raw["imports"]), tuple(raw["exports"]))
    return Contract(interfaces, worlds)


def wit_directory() -> Path:
    """The directory that holds ``v0`` and ``deps``: the checkout's own, or the copy a wheel carries."""
    checkout = _HERE.parent.parent / "wit"
    return checkout if checkout.is_dir() else _HERE.parent / "wit"


def ungated_wit() -> Path:
    """A directory with the contract without feature gates, for tools that cannot read them."""
    return _HERE / "ungated"


def _interface(name: str, raw: Mapping[str, Any]) -> InterfaceType:
    functions = {
        function: FunctionType(
            tuple((param, _type(kind)) for param, kind in signature["params"]), _optional(signature["result"])
        )
        for function, signature in raw["functions"].items()
    }
    types = {type_name: _type(kind) for type_name, kind in raw["types"].items()}
    return InterfaceType(name, functions, tuple(raw["resources"]), types)


def _optional(raw: Any) -> WitType | None:
    return None if raw is None else _type(raw)


def _type(raw: Any) -> WitType:
    if isinstance(raw, str):
        return Primitive(raw)
    [(word, body)] = raw.items()
    match word:
        case "list":
            return ListType(_type(body))
        case "tuple":
            return TupleType(tuple(map(_type, body)))
        case "record":
            return RecordType(tuple((name, _type(kind)) for name, kind in body))
        case "variant":
            return VariantType(tuple((name, _optional(kind)) for name, kind in body))
        case "enum":
            return EnumType(tuple(body))
        case "flags":
            return FlagsType(tuple(body))
        case "option":
            return OptionType(_type(body))
        case "result":
            return ResultType(_optional(body[0]), _optional(body[1]))
        case "own":
            return OwnType(body)
        case "borrow":
            return BorrowType(body)
        case _:
            raise ValueError(f"the contract data holds an unknown type {word}")
