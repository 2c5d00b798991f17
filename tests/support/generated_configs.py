"""Configurations made at random from the schema itself, so that a new key is generated as soon as it exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin

from hypothesis import strategies as st

from zeroclaw_daemon.config.schema import BUILT_IN_PROVIDER, SCHEMA_VERSION
from zeroclaw_daemon.config.shape import ROOT, MapOf, Node, RowsOf, TableOf, Value, ValueKind, children, step
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Capability

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FILLED = st.builds(str.__add__, st.sampled_from("aZ0.-\"'#=[\\é漢"), TEXTS)
"""Texts that are not blank; nothing has to be thrown away to make one."""
PATHS = FILLED.map(lambda text: text.replace("\0", "/"))
SECRETS = FILLED.map(lambda text: f"s{text}")
PLAIN = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=6)
SEGMENTS = PLAIN.map(lambda text: text.replace(".", "_"))
ALIASES = st.from_regex(r"[a-z0-9](_?[a-z0-9]){0,3}", fullmatch=True)
_OFTEN = st.sampled_from([True, True, True, False])
IDENTITIES = st.builds(InstanceIdentity, PLAIN, st.sampled_from(Capability), PLAIN)


@st.composite
def configurations(draw: Draw) -> dict[str, Any]:
    """The values of a file that is valid as a whole, as a TOML parser gives them."""
    tree: dict[str, Any] = draw(_values(ROOT))
    if tree.get("users"):
        tree.setdefault("permission_profiles", {}).setdefault("op", {})
    profiles = sorted(tree.get("permission_profiles", {}))
    for number, (_, user) in enumerate(sorted(tree.get("users", {}).items())):
        user["uid"] = number
        user.pop("principal_id", None)
        user["permission_profiles"] = draw(st.lists(st.sampled_from(profiles), min_size=1, max_size=2))
    models = tree.get("providers", {}).get("models", {})
    known = [BUILT_IN_PROVIDER, *(f"{kind}.{alias}" for kind in models for alias in models[kind])]
    for agent in tree.get("agents", {}).values():
        if "provider" in agent:
            agent["provider"] = draw(st.sampled_from(known))
    gateway = tree.get("gateway", {})
    if "host" in gateway:  # one that is safe with whatever else is set, and at every step towards it
        gateway["host"] = draw(st.sampled_from(["127.0.0.1", "::1", "localhost"]))
    if "allowed_origins" in gateway:
        gateway["allowed_origins"] = draw(
            st.lists(st.sampled_from(["https://a.example", "http://[::1]:1"]), max_size=2)
        )
    return {"schema_version": SCHEMA_VERSION, **tree}


@cache
def _values(node: Node) -> st.SearchStrategy[Any]:
    match node:
        case Value():
            return _leaf(node)
        case TableOf():
            return _table(node)
        case MapOf():
            inner = step(node, "")
            assert inner is not None
            filled = st.dictionaries(_keys(node), _values(inner), min_size=1, max_size=2)
            return st.one_of(filled, filled, st.just({}))
        case RowsOf(model):
            return _rows(TableOf(model))


@st.composite
def _table(draw: Draw, node: TableOf, *, without: str = "schema_version") -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key in children(node):
        inner = step(node, key)
        assert inner is not None
        required = isinstance(inner, Value) and inner.required
        if key != without and (required or draw(_OFTEN)):
            table[key] = draw(_values(inner))
    return table


@st.composite
def _rows(draw: Draw, node: TableOf) -> list[dict[str, Any]]:
    instances = "egress_hosts" in node.model.model_fields
    names = IDENTITIES.map(lambda identity: identity.key) if instances else SEGMENTS
    found: list[str] = draw(
        st.lists(names, min_size=draw(st.sampled_from([1, 1, 0])), max_size=2, unique=True)
    )
    return [{"name": name, **draw(_table(node, without="name"))} for name in found]


def _leaf(value: Value) -> st.SearchStrategy[Any]:
    match value.kind:
        case ValueKind.BOOL:
            return st.booleans()
        case ValueKind.INTEGER:
            least = -(2**63) if value.minimum is None else int(value.minimum)
            most = 2**63 - 1 if value.maximum is None else int(value.maximum)
            return st.integers(least, most)
        case ValueKind.ENUM:
            return st.sampled_from(value.choices)
        case ValueKind.LIST:
            elements = st.sampled_from(value.choices) if value.choices else FILLED
            return st.lists(elements, min_size=int(value.filled), max_size=2)
        case ValueKind.SECRET:
            return SECRETS
        case _ if value.located:
            return PATHS
        case _:
            return FILLED if value.filled or value.optional else TEXTS


def _keys(node: MapOf) -> st.SearchStrategy[str]:
    if get_origin(node.key) is Literal:
        return st.sampled_from(get_args(node.key))
    return PLAIN if node.key is str else ALIASES


def keys_and_rows(
    values: Mapping[str, Any], node: Node = ROOT, path: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Every key of a map of tables and every row in the values: the path of the map, and the key."""
    found: list[tuple[str, str]] = []
    match node:
        case TableOf():
            for key, inner in values.items():
                below = step(node, key)
                if below is not None and not isinstance(below, Value):
                    found += keys_and_rows(inner, below, (*path, key))
        case MapOf():
            below = step(node, "")
            if below is not None and not isinstance(below, Value):
                for key, inner in values.items():
                    found += [(".".join(path), key), *keys_and_rows(inner, below, (*path, key))]
        case RowsOf(model):
            for row in values:
                assert isinstance(row, dict)
                name = str(row["name"])
                found += [(".".join(path), name), *keys_and_rows(row, TableOf(model), (*path, name))]
        case Value():
            pass
    return found
