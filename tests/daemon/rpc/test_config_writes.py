"""Writing the configuration over RPC: what is accepted, what is refused and where, and that nothing is ever half done."""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import property_cases
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroclaw_daemon.config.coercion import MASK
from zeroclaw_daemon.config.properties import get_property
from zeroclaw_daemon.config.saving import Steps
from zeroclaw_daemon.rpc.errors import FORBIDDEN, INTERNAL, INVALID_PARAMS
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_host.services.sealing import KeyFile

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Any]]

FILE = """\
schema_version = 1

# who may do what
[permission_profiles.operator]
admin = true

[users.example]  # the first
uid = 1000
permission_profiles = ["operator"]

[agents.ada]
model = "m1"  # small
"""

WITHOUT_USERS = FILE.replace(
    '[users.example]  # the first\nuid = 1000\npermission_profiles = ["operator"]\n', ""
)
PORTS = "rpc.max_local_connections"


def entries(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"sets": [{"prop": prop, "value": value} for prop, value in pairs]}


def key(number: int) -> str:
    return f"agents.a{number}.max_steps"


async def refused(daemon: Any, wire: Any, method: str, params: Any) -> Any:
    """Make a call that must change nothing at all; its error."""
    file, shown = daemon.config.file, await wire.call("config/get")
    before, status = file.read_bytes(), file.stat()
    error = await wire.fail(method, params)
    after = file.stat()
    assert file.read_bytes() == before
    assert (after.st_ino, after.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    assert await wire.call("config/get") == shown
    assert daemon.config.left_over == []
    return error


@pytest.mark.req("RPC-072", "RPC-073", "RPC-067")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_the_documented_example_gives_exactly_its_result(serving: Serving, socket: bool) -> None:
    async with serving(config=WITHOUT_USERS, socket=socket) as daemon, daemon.connect() as wire:
        await wire.send(
            b'{"jsonrpc":"2.0","method":"config/set-many","params":{"sets":[{"prop":"users.example.uid","value":1001},'
            b'{"prop":"users.example.permission_profiles","value":["operator"]}]},"id":2}'
        )
        answer = await wire.answer_to(2)
        assert answer == {
            "jsonrpc": "2.0",
            "result": {"props": ["users.example.uid", "users.example.permission_profiles"], "set": True},
            "id": 2,
        }
        written = tomllib.loads(daemon.config.text)
        assert written["users"] == {"example": {"uid": 1001, "permission_profiles": ["operator"]}}
        assert "# who may do what" in daemon.config.text
        shown = await wire.call("config/get", {"prop": "users.example.uid"})
        assert shown == {"prop": "users.example.uid", "value": "1001"}


@pytest.mark.req("RPC-073")
@pytest.mark.parametrize(
    "entry", [("users.example.uid", 1001), ("users.example.permission_profiles", ["operator"])]
)
async def test_each_entry_of_the_example_alone_is_refused(serving: Serving, entry: tuple[str, Any]) -> None:
    async with serving(config=WITHOUT_USERS) as daemon, daemon.connect() as wire:
        for method, params in (
            ("config/set", {"prop": entry[0], "value": entry[1]}),
            ("config/set-many", entries(entry)),
        ):
            error = await refused(daemon, wire, method, params)
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "config_candidate_invalid")


@pytest.mark.req("RPC-067", "RPC-069", "RPC-072")
@pytest.mark.parametrize("count", [1, 256])
async def test_a_batch_has_one_to_256_entries(serving: Serving, count: int) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        pairs = [(key(number), number + 1) for number in range(count)]
        result = await wire.call("config/set-many", entries(*pairs))
        assert result == {"props": [prop for prop, _ in pairs], "set": True}
        agents = tomllib.loads(daemon.config.text)["agents"]
        assert [agents[f"a{number}"]["max_steps"] for number in range(count)] == list(range(1, count + 1))


@pytest.mark.req("RPC-068", "RPC-069", "RPC-070", "RPC-085")
@pytest.mark.parametrize(
    ("params", "index"),
    [
        ({"sets": []}, None),
        (entries(*((key(number), 1) for number in range(257))), None),
        ({}, None),
        ({"sets": None}, None),
        ({"sets": {"prop": PORTS, "value": 1}}, None),
        ({"sets": [{"prop": "x"}]}, 0),
        ({"sets": [{"value": 1}]}, 0),
        ({"sets": [{"prop": PORTS, "value": 1}, {"prop": PORTS}]}, 1),
        ({"sets": [{"prop": PORTS, "value": 1}, {"prop": 7, "value": 1}]}, 1),
        ({"sets": [{"prop": PORTS, "value": 1}, {"prop": "", "value": 1}]}, 1),
        ({"sets": [PORTS]}, 0),
        ({"sets": [{"prop": "users.example", "value": None, "delete": True}]}, 0),
        ({"sets": [{"prop": PORTS, "value": 1, "delete": True}]}, 0),
        ({"sets": [{"prop": PORTS, "value": 1, "op": "delete"}]}, 0),
        ({"sets": [{"prop": PORTS, "value": 1}, {"prop": "users.example", "value": 1, "rename_to": "x"}]}, 1),
        ({"sets": [{"prop": PORTS, "value": 1}, {"path": "users", "key": "example"}]}, 1),
        ({"sets": [{"prop": PORTS, "value": 1}, {"path": "agents", "from": "ada", "to": "eve"}]}, 1),
        (
            {"sets": [{"method": "config/map-key-delete", "params": {"path": "users", "key": "example"}}]},
            0,
        ),
    ],
)
async def test_a_batch_that_is_not_well_formed_is_refused(
    serving: Serving, params: Any, index: int | None
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, "config/set-many", params)
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "invalid_params")
        assert error["data"].get("index") == index


@pytest.mark.req("RPC-085")
@pytest.mark.parametrize("prop", ["users.example", "users", "permission_profiles.operator", "agents.ada"])
async def test_no_entry_deletes_what_it_names(serving: Serving, prop: str) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        for value in (None, "", {}, []):
            error = await refused(daemon, wire, "config/set-many", entries((PORTS, 5), (prop, value)))
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "unknown_property")
            assert error["data"]["index"] == 1


@pytest.mark.req("RPC-074")
@pytest.mark.parametrize("count", [50])
async def test_a_batch_replaces_the_file_once(serving: Serving, count: int) -> None:
    saves: list[bytes] = []

    class Counted(Steps):
        def rename(self, source: Path, target: Path) -> None:
            saves.append(source.read_bytes())
            super().rename(source, target)

    async with serving(config=FILE, steps=Counted()) as daemon, daemon.connect() as wire:
        inode = daemon.config.file.stat().st_ino
        await wire.call("config/set-many", entries(*((key(number), 1) for number in range(count))))
        assert saves == [daemon.config.file.read_bytes()]
        assert daemon.config.file.stat().st_ino != inode
        assert daemon.config.left_over == []


@pytest.mark.req("RPC-075")
async def test_of_two_entries_for_one_property_the_later_one_wins(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        result = await wire.call(
            "config/set-many", entries((PORTS, 1), ("agents.ada.model", "m2"), (PORTS, 2))
        )
        assert result["props"] == [PORTS, "agents.ada.model", PORTS]
        assert (await wire.call("config/get", {"prop": PORTS}))["value"] == "2"
        assert tomllib.loads(daemon.config.text)["rpc"] == {"max_local_connections": 2}


GOOD = (PORTS, 7)
BAD_ENTRIES: dict[str, tuple[tuple[str, Any], str]] = {
    "an unknown property": (("plugins.enabld", True), "unknown_property"),
    "a value of another kind": (("agents.ada.max_steps", "many"), "property_value_invalid"),
    "a value out of range": (("agents.ada.max_steps", 0), "config_candidate_invalid"),
    "a name against the grammar": (("agents.default.model", "m"), "property_value_invalid"),
    "a mask for a secret": (("providers.models.openai.x.api_key", MASK), "property_value_invalid"),
}


@pytest.mark.req("RPC-076", "RPC-078")
@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("name", BAD_ENTRIES)
async def test_a_bad_entry_is_named_by_its_index_and_undoes_the_good_ones(
    serving: Serving, name: str, position: int
) -> None:
    bad, reason = BAD_ENTRIES[name]
    batch = [GOOD, ("agents.ada.model", "m2")]
    batch.insert(position, bad)
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, "config/set-many", entries(*batch))
        assert error["code"] == INVALID_PARAMS
        assert error["data"]["index"] == position
        assert error["data"]["reason"] == reason


@pytest.mark.req("RPC-078")
async def test_a_repeated_property_whose_earlier_entry_is_bad_is_refused_at_that_entry(
    serving: Serving,
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        batch = entries(GOOD, ("agents.ada.max_steps", "many"), GOOD, ("agents.ada.max_steps", 3))
        assert (await refused(daemon, wire, "config/set-many", batch))["data"]["index"] == 1


@pytest.mark.req("RPC-248")
@pytest.mark.parametrize(
    "batch",
    [
        entries(
            ("users.a.uid", 7), ("users.a.permission_profiles", ["operator"]),
            ("users.b.uid", 7), ("users.b.permission_profiles", ["operator"]),
        ),
        entries(("users.a.uid", 7), ("users.a.permission_profiles", ["nobody"])),
        entries(("agents.ada.provider", "openai.main")),
    ],
    ids=["two users of one number", "a profile that does not exist", "a provider that does not exist"],
)  # fmt: skip
async def test_a_candidate_that_is_wrong_as_a_whole_is_refused(serving: Serving, batch: Any) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, "config/set-many", batch)
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "config_candidate_invalid")
        assert error["data"]["problems"]


@pytest.mark.req("RPC-248")
async def test_two_entries_that_only_together_are_right_are_accepted(serving: Serving) -> None:
    batch = entries(("agents.ada.provider", "openai.main"), ("providers.models.openai.main.model", "gpt"))
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        await wire.call("config/set-many", batch)
        assert tomllib.loads(daemon.config.text)["agents"]["ada"]["provider"] == "openai.main"


def stored(daemon: Any, path: str) -> tuple[Any, str | None]:
    """What the file has at a path, unsealed, and what the daemon shows."""
    from zeroclaw_daemon.config.properties import segments_of

    node: Any = tomllib.loads(daemon.config.text)
    for segment in segments_of(path):
        if isinstance(node, list):
            node = next((row for row in node if row.get("name") == segment), None)
        else:
            node = None if node is None else node.get(segment)
    if isinstance(node, str) and node.startswith("enc2:"):
        node = KeyFile(Path(daemon.config.paths.key_file)).read().unseal(node)
    try:
        shown = get_property(daemon.config.source.current().config, path).shown
    except Exception as error:  # noqa: BLE001 — only compared
        shown = type(error).__name__
    return node, shown


@pytest.mark.req("RPC-071")
@pytest.mark.parametrize(("path", "given", "expected"), property_cases.ACCEPTED)
async def test_both_methods_take_a_value_alike(
    serving: Serving, path: str, given: Any, expected: Any
) -> None:
    found: list[Any] = []
    for method, params in (
        ("config/set", {"prop": path, "value": given}),
        ("config/set-many", entries((path, given))),
    ):
        async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
            await wire.call(method, params)
            found.append(stored(daemon, path))
    assert found[0] == found[1]
    assert found[0][0] == expected


@pytest.mark.req("RPC-071", "RPC-078")
@pytest.mark.parametrize(("path", "given", "word"), property_cases.REFUSED)
async def test_both_methods_refuse_a_value_alike(serving: Serving, path: str, given: Any, word: str) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        one = await refused(daemon, wire, "config/set", {"prop": path, "value": given})
        many = await refused(daemon, wire, "config/set-many", entries((path, given)))
        assert one["code"] == many["code"] == INVALID_PARAMS
        assert "index" not in one["data"]
        assert {**one["data"], "index": 0} == many["data"] or one["data"] == many["data"]
        assert one["message"] == many["message"]
        assert word in one["message"]


@pytest.mark.req("RPC-071")
@pytest.mark.parametrize(("path", "suggestion"), [case for case in property_cases.UNKNOWN if case[0]])
async def test_both_methods_suggest_the_closest_of_an_unknown_property(
    serving: Serving, path: str, suggestion: str
) -> None:
    async with serving(config=property_cases.FULL) as daemon, daemon.connect() as wire:
        for method, params in (
            ("config/set", {"prop": path, "value": "x"}),
            ("config/set-many", entries((path, "x"))),
        ):
            error = await refused(daemon, wire, method, params)
            assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "unknown_property")
            if suggestion:
                assert error["data"]["suggestions"][0] == suggestion


@pytest.mark.parametrize("value", [True, 5, "x", None, ["a"], {"a": 1}])
async def test_a_value_may_be_any_json_and_must_be_there(serving: Serving, value: Any) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, "config/set", {"prop": "agents.ada.model"})
        assert error["data"]["reason"] == "invalid_params"
        answer = await wire.ask("config/set", {"prop": "agents.ada.model", "value": value})
        assert ("result" in answer) is not isinstance(value, (list, dict))


async def test_a_comment_stands_behind_the_value(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        for comment in ("because", "because # not", "é"):
            call = {"prop": "agents.ada.model", "value": "m2", "comment": comment}
            assert await wire.call("config/set", call) == {"prop": "agents.ada.model", "set": True}
            assert (
                f'model = "m2"  # {comment}\n' in daemon.config.text
                or f'model = "m2" # {comment}\n' in daemon.config.text
            )
            assert "# small" not in daemon.config.text
        call = {
            "prop": "plugins.security.trusted_publisher_keys",
            "value": ["a", "b", "c"],
            "comment": "ours",
        }
        await wire.call("config/set", call)
        assert "# ours" in daemon.config.text
        assert tomllib.loads(daemon.config.text)["plugins"]["security"]["trusted_publisher_keys"] == [
            "a",
            "b",
            "c",
        ]
        for broken in ("two\nlines", "\x00", "a\rb", "x" * 513, 5):
            call = {"prop": "agents.ada.model", "value": "m3", "comment": broken}
            assert (await refused(daemon, wire, "config/set", call))["data"]["reason"] == "invalid_params"


@pytest.mark.req("RPC-245")
async def test_delete_takes_a_property_out_and_says_whether_it_was_there(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        prop = "agents.ada.model"
        assert await wire.call("config/delete", {"prop": prop}) == {"prop": prop, "deleted": True}
        assert (await wire.call("config/get", {"prop": prop}))["value"] == "<unset>"
        assert await wire.call("config/delete", {"prop": prop}) == {"prop": prop, "deleted": False}
        error = await refused(daemon, wire, "config/delete", {"prop": "agents.ada"})
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "unknown_property")
        error = await refused(daemon, wire, "config/delete", {"prop": "users.example.uid"})
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "config_candidate_invalid")


async def test_the_keys_of_a_map_can_be_listed_made_renamed_and_deleted(serving: Serving) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        of_agents = {"path": "agents"}
        assert await wire.call("config/map-keys", of_agents) == {"path": "agents", "keys": ["ada"]}
        assert await wire.call("config/map-key-create", {"path": "agents", "key": "ben"}) == {
            "path": "agents", "key": "ben", "created": True,
        }  # fmt: skip
        assert (await wire.call("config/map-keys", of_agents))["keys"] == ["ada", "ben"]
        renamed = await wire.call("config/map-key-rename", {"path": "agents", "from": "ada", "to": "eve"})
        assert renamed == {"path": "agents", "from": "ada", "to": "eve", "renamed": True}
        assert set((await wire.call("config/map-keys", of_agents))["keys"]) == {"eve", "ben"}
        assert 'model = "m1"  # small' in daemon.config.text
        assert (await wire.call("config/get", {"prop": "agents.eve.model"}))["value"] == "m1"
        assert await wire.call("config/map-key-delete", {"path": "agents", "key": "eve"}) == {
            "path": "agents", "key": "eve", "deleted": True,
        }  # fmt: skip
        assert (await wire.call("config/map-keys", of_agents))["keys"] == ["ben"]


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("config/map-keys", {"path": "agents.ada"}, "unknown_property"),
        ("config/map-keys", {"path": "rpc.max_local_connections"}, "unknown_property"),
        ("config/map-key-create", {"path": "agents", "key": "ada"}, "map_key_exists"),
        ("config/map-key-create", {"path": "agents", "key": "default"}, "property_value_invalid"),
        ("config/map-key-create", {"path": "agents", "key": "Not-Good"}, "property_value_invalid"),
        ("config/map-key-create", {"path": "users", "key": "new"}, "config_candidate_invalid"),
        ("config/map-key-delete", {"path": "agents", "key": "none"}, "map_key_not_found"),
        (
            "config/map-key-delete",
            {"path": "permission_profiles", "key": "operator"},
            "config_candidate_invalid",
        ),
        ("config/map-key-rename", {"path": "agents", "from": "none", "to": "x"}, "map_key_not_found"),
        (
            "config/map-key-rename",
            {"path": "agents", "from": "ada", "to": "default"},
            "property_value_invalid",
        ),
        (
            "config/map-key-rename",
            {"path": "permission_profiles", "from": "operator", "to": "boss"},
            "config_candidate_invalid",
        ),
        ("config/map-key-rename", {"path": "agents", "from": "ada"}, "invalid_params"),
    ],
)
async def test_a_key_that_cannot_be_is_refused(
    serving: Serving, method: str, params: Any, reason: str
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, method, params)
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, reason)


WRITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("config/set", {"prop": PORTS, "value": 5}),
    ("config/set-many", entries((PORTS, 5))),
    ("config/delete", {"prop": "agents.ada.model"}),
    ("config/map-key-create", {"path": "agents", "key": "ben"}),
    ("config/map-key-delete", {"path": "agents", "key": "ada"}),
    ("config/map-key-rename", {"path": "agents", "from": "ada", "to": "eve"}),
)


@pytest.mark.req("RPC-249")
async def test_a_write_keeps_what_was_changed_by_hand(serving: Serving) -> None:
    async with serving(config=FILE, socket=True) as daemon, daemon.connect() as wire:
        by_hand = FILE.replace("uid = 1000", "uid = 1002").replace("# the first", "# the first and only")
        daemon.config.file.write_text(by_hand)
        await wire.call("config/set-many", entries(("agents.ada.model", "m2")))
        assert daemon.config.text == by_hand.replace('"m1"', '"m2"')


@pytest.mark.req("RPC-249")
@pytest.mark.parametrize(("method", "params"), WRITES)
async def test_a_file_that_does_not_parse_refuses_every_write_and_keeps_its_bytes(
    serving: Serving, method: str, params: Any
) -> None:
    async with serving(config=FILE, socket=True) as daemon, daemon.connect() as wire:
        daemon.config.file.write_text(FILE + "\n[agents\nx = 1\n")
        error = await refused(daemon, wire, method, params)
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "config_syntax_invalid")
        assert error["data"]["path"] == str(daemon.config.file)
        line = FILE.count("\n") + 2
        assert (error["data"]["line"], error["data"]["column"]) == (line, len("[agents") + 1)
        assert f"{daemon.config.file}:{line}:" in error["message"]
        # The last good configuration is in force, and says so to whoever asks what is wrong.
        verdict = await wire.call("config/validate")
        assert verdict["valid"] is False
        assert verdict["error"].startswith(f"{daemon.config.file}:{line}:")
        daemon.config.file.write_text(FILE)
        assert (await wire.call("config/validate")) == {"valid": True}
        await wire.call(method, params)


@pytest.mark.req("RPC-249")
@pytest.mark.parametrize(("method", "params"), WRITES)
async def test_a_file_that_is_wrong_as_a_whole_refuses_every_write_and_keeps_its_bytes(
    serving: Serving, method: str, params: Any
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        daemon.config.file.write_text(FILE.replace("uid = 1000", 'uid = "1000"'))
        error = await refused(daemon, wire, method, params)
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "config_invalid")
        assert error["data"]["line"] == FILE[: FILE.index("uid")].count("\n") + 1


class Failing(Steps):
    """A disk that fails at one step, or rather just before it is done."""

    def __init__(self, step: str, number: int) -> None:
        self.step, self.number = step, number
        self.broken = True

    def _fail(self, step: str) -> None:
        if self.broken and step == self.step:
            raise OSError(self.number, os.strerror(self.number))

    def write(self, descriptor: int, data: bytes) -> None:
        super().write(descriptor, data[: len(data) // 2])
        self._fail("write")
        super().write(descriptor, data[len(data) // 2 :])

    def rename(self, source: Path, target: Path) -> None:
        self._fail("rename")
        super().rename(source, target)


@pytest.mark.req("RPC-077")
@pytest.mark.parametrize(("step", "number"), [("rename", errno.EROFS), ("write", errno.ENOSPC)])
@pytest.mark.parametrize(("method", "params"), WRITES)
async def test_a_save_that_fails_changes_nothing_and_leaves_nothing(
    serving: Serving, step: str, number: int, method: str, params: Any
) -> None:
    steps = Failing(step, number)
    async with serving(config=FILE, steps=steps) as daemon, daemon.connect() as wire:
        error = await refused(daemon, wire, method, params)
        assert (error["code"], error["data"]["reason"]) == (INTERNAL, "storage_failed")
        assert "index" not in error["data"]
        steps.broken = False
        await wire.call(method, params)


@pytest.mark.req("RPC-081", "RPC-072")
@pytest.mark.parametrize("socket", [False, True], ids=["memory", "socket"])
async def test_one_forbidden_path_refuses_the_whole_batch_and_changes_no_byte(
    serving: Serving, socket: bool
) -> None:
    """The documented example by somebody who may write the first of its paths alone."""
    text = f"""\
schema_version = 1
security.trust_daemon_uid = false

[permission_profiles.operator]
admin = true

[permission_profiles.clerk]
config_write_paths = ["users.example.uid"]
grants = {{ config = ["read", "update"] }}

[users.me]
uid = {os.geteuid()}
permission_profiles = ["clerk"]
"""
    async with serving(config=text, socket=socket) as daemon, daemon.connect() as wire:
        batch = entries(("users.example.uid", 1001), ("users.example.permission_profiles", ["operator"]))
        error = await refused(daemon, wire, "config/set-many", batch)
        assert (error["code"], error["data"]["reason"]) == (FORBIDDEN, "forbidden")
        assert (error["data"]["index"], error["data"]["path"]) == (1, "users.example.permission_profiles")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SOME_PATHS = st.sampled_from(
    [
        PORTS, "agents.ada.model", "agents.ada", "agents", "agents.new.tools", "users.example.uid", "users.other.uid",
        "permission_profiles.operator.grants", "permission_profiles.operator.grants.config", "schema_version",
        "plugins.entries", f"plugins.entries.{property_cases.ROW}", f"plugins.entries.{property_cases.ROW}.config.x",
        "providers.models.openai.x.api_key", "gateway.port", "..", "users..uid", "",
    ]
) | st.text(max_size=12)  # fmt: skip
ANY_PARAMS = st.one_of(
    st.fixed_dictionaries({}, optional={"prop": SOME_PATHS, "value": JSON, "comment": JSON | st.just("ok")}),
    st.fixed_dictionaries(
        {"sets": st.lists(st.fixed_dictionaries({"prop": SOME_PATHS, "value": JSON}), max_size=4) | JSON}
    ),
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["agents", "users", "plugins.entries", "providers.models.openai"])
            | SOME_PATHS
        },
        optional={"key": SOME_PATHS, "from": SOME_PATHS, "to": SOME_PATHS},
    ),
    st.fixed_dictionaries({"prefix": SOME_PATHS}),
    JSON,
)
CONFIG_METHODS = st.sampled_from([name for name in TABLE if name.startswith("config/")])


@pytest.mark.req("RPC-076", "RPC-237")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(CONFIG_METHODS, ANY_PARAMS), min_size=1, max_size=6))
async def test_whatever_is_asked_the_file_stays_good_and_changes_only_with_a_success(
    serving: Serving, calls: list[tuple[str, Any]]
) -> None:
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        for method, params in calls:
            before = daemon.config.file.read_bytes()
            call: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "id": 7}
            if isinstance(params, (dict, list)):
                call["params"] = params
            await wire.send(call)
            answer = await wire.answer_to(7)
            if "error" in answer:
                assert answer["error"]["code"] == INVALID_PARAMS, (method, params, answer)
                assert daemon.config.file.read_bytes() == before
            assert daemon.config.store.read().problems == ()
        assert daemon.config.left_over == []


async def test_a_write_is_an_audit_record_without_what_was_written(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    prop = "providers.models.openai.main.api_key"
    async with serving(config=FILE) as daemon, daemon.connect() as wire:
        await wire.call("config/set", {"prop": prop, "value": "hunter2"})
        [told] = [
            r.zeroclaw for r in caplog.records if getattr(r, "zeroclaw", {}).get("action") == "config_written"
        ]
        assert (told["category"], told["principal"], told["paths"]) == ("audit", "shared-operator", [prop])
        assert told["revision"] == daemon.config.source.current().revision
        assert b"hunter2" not in wire.raw
        assert "hunter2" not in daemon.config.text
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr([vars(record) for record in caplog.records])
