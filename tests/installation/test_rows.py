from __future__ import annotations

import pytest

from zeroclaw_host.installation.rows import MemoryRowStore, RowSeed, owns_state, seed_for
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.manifest import Manifest


def manifest(
    *permissions: str, hosts: tuple[str, ...] = (), capabilities: tuple[str, ...] = ("tool",), **more: object
) -> Manifest:
    return Manifest.model_validate(
        {
            "name": "demo",
            "version": "1",
            "capabilities": capabilities,
            "permissions": permissions,
            "wasm_path": "plugin.wasm",
            "egress": {"hosts": hosts},
            **more,
        }
    )


@pytest.mark.req("PLG-133")
@pytest.mark.parametrize(
    ("package", "owed"),
    [
        (manifest(), False),
        (manifest("state_read", "state_write"), False),
        (manifest("file_read", "memory_read"), False),
        (manifest("config_read", config_schema={"type": "object"}), True),
        (manifest(hosts=("api.example.org",)), True),
        (manifest("http_client"), True),
        (manifest("websocket_client"), True),
        (manifest("socket_client"), True),
    ],
)
def test_a_row_is_owed_only_for_state_the_host_owns(package: Manifest, owed: bool) -> None:
    assert owns_state(package) is owed
    assert (seed_for(package) is not None) is owed


@pytest.mark.req("PLG-132")
def test_the_key_is_that_of_the_default_tool_binding() -> None:
    seed = seed_for(manifest("http_client"))
    assert seed is not None
    assert seed.key == "zpi1_WyJkZW1vIiwidG9vbCIsImRlbW8iXQ"


@pytest.mark.req("PLG-134")
@pytest.mark.parametrize("capability", ["channel", "memory", "skill"])
def test_what_is_no_tool_has_no_default_binding_and_no_row(capability: str) -> None:
    assert seed_for(manifest("http_client", capabilities=(capability,))) is None


def test_a_row_starts_with_the_declared_hosts_only_for_a_package_that_asks_for_http() -> None:
    with_http = seed_for(manifest("http_client", hosts=("api.example.org",)))
    without = seed_for(manifest("socket_client", hosts=("api.example.org",)))
    assert with_http is not None
    assert without is not None
    assert with_http.egress_hosts == ("api.example.org",)
    assert without.egress_hosts == ()


def test_a_row_that_exists_is_never_changed_and_never_undone() -> None:
    store = MemoryRowStore()
    seed = RowSeed(InstanceIdentity.default_tool("demo"), ("a.example.org",))
    first = store.prepare(seed)
    assert first.creates
    first.commit()
    second = store.prepare(RowSeed(seed.identity, ("b.example.org",)))
    assert not second.creates
    second.commit()
    second.undo()
    assert store.rows == {seed.key: ("a.example.org",)}
    first.undo()
    first.undo()
    assert store.rows == {}
