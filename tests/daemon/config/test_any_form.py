"""Changes of files that a person wrote: whatever the form, what was asked changes and nothing else."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daemon.config.test_draft import OPERATIONS, apply_to_model, without_emptiness
from zeroclaw_daemon.config.coercion import PropertyError
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.problems import ConfigCandidateInvalid, ConfigFileInvalid
from zeroclaw_daemon.config.sealed import count_secrets
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.services.sealing import KeyFile

ONE, TWO = (InstanceIdentity.default_tool(name).key for name in "ab")
TREE: dict[str, Any] = {
    "schema_version": 1,
    "secrets": {"encrypt": False},
    "plugins": {
        "enabled": False,
        "limits": {"call_fuel": 3},
        "entries": [
            {"name": ONE, "config": {"a": "1", "b c": 'é"'}, "tls_profiles": [{"name": "p", "hosts": ["h"]}]},
            {"name": TWO, "egress_hosts": ["x.example", "y.example", "z.example"]},
        ],
    },
    "agents": {"ada": {"model": "# no remark", "system_prompt": "one\ntwo ]] # no remark\n"}, "bob": {}},
    "gateway": {"port": 1},
    "permission_profiles": {"p": {"grants": {"config": ["read"], "system": ["read", "update"]}}},
    "providers": {"models": {"openai": {"x": {"model": "m"}}, "echo": {"y": {}}}},
}


class Hand:
    """Writes a tree as some person might: headers, dotted keys and inline tables by chance, and remarks everywhere."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.remarks: list[str] = []

    def text(self, tree: dict[str, Any]) -> str:
        self._table((), {key: value for key, value in tree.items() if self.odds(0.9) or key[0] == "s"})
        ends, last = self.chance.choice(["\n", "\r\n"]), self.chance.choice(["", "\n", "\n\n"])
        return "\n".join(self.lines).replace("\n", ends) + last.replace("\n", ends)

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def _remark(self) -> str:
        self.remarks.append(f"# remark {len(self.remarks):03}.")
        return self.remarks[-1]

    def _before(self) -> None:
        self.lines += [self._remark()] if self.odds(0.3) else []
        self.lines += [""] if self.odds(0.2) else []

    def _table(self, path: tuple[str, ...], table: dict[str, Any], stem: tuple[str, ...] = ()) -> None:
        later: list[tuple[str, Any]] = []
        for key, value in table.items():
            rows = isinstance(value, list) and isinstance(value[0], dict)
            if stem or not (rows or isinstance(value, dict)) or self.odds(0.25):
                if isinstance(value, dict) and value and self.odds(0.5):
                    self._table(path, value, (*stem, key))
                else:
                    self._before()
                    behind = f" {self._remark()}" if self.odds(0.3) else ""
                    name = ".".join(map(self._key, (*stem, key)))
                    self.lines.append(f"{name} = {self._value(value)}{behind}")
            else:
                later.append((key, value))
        for key, value in later:
            header = ".".join(map(self._key, (*path, key)))
            for each in value if isinstance(value, list) else [value]:
                self._before()
                self.lines.append(f"[[{header}]]" if isinstance(value, list) else f"[{header}]")
                self._table((*path, key), each)

    def _key(self, key: str) -> str:
        return f'"{key}"' if self.odds(0.1) else written_key(key)

    def _value(self, value: Any) -> str:
        match value:
            case dict():
                inner = (f"{self._key(key)} = {self._value(each)}" for key, each in value.items())
                return f"{{ {', '.join(inner)} }}"
            case list() if self.odds(0.4) and isinstance(value[0], str):
                return f"[\n  {', '.join(map(self._value, value)).replace(', ', f',{chr(10)}  ')}\n]"
            case list():
                return f"[{', '.join(map(self._value, value))}]"
            case str() if self.odds(0.4):
                return '"""' + value.replace('"', '\\"') + '"""'
            case _:
                return json.dumps(value, ensure_ascii=False)


def store_of(path: Path) -> ConfigStore:
    return ConfigStore(FileSource(path, {}), KeyFile(path.with_name(".secret_key")))


@given(chance=st.randoms(use_true_random=False), operation=OPERATIONS)
@settings(max_examples=150, deadline=None)
def test_one_change_of_a_file_of_any_form_changes_that_alone(
    tmp_path_factory: pytest.TempPathFactory, chance: Random, operation: tuple[Any, ...]
) -> None:
    hand = Hand(chance)
    text = hand.text(TREE)
    path = tmp_path_factory.mktemp("any") / "config.toml"
    path.write_bytes(text.encode())
    what, *arguments = operation
    model = tomllib.loads(text)
    methods = {"set": Draft.set, "unset": Draft.unset, "create": Draft.create_key}
    methods |= {"delete": Draft.delete_key, "rename": Draft.rename_key}
    try:
        store_of(path).commit(lambda draft: methods[what](draft, *arguments))
    except (PropertyError, ConfigCandidateInvalid, ConfigFileInvalid):
        what = "nothing"
    if what == "nothing":
        assert path.read_bytes() == text.encode()
        return
    changed = copy.deepcopy(model)
    apply_to_model(changed, what, *arguments)
    after = path.read_bytes().decode()
    assert without_emptiness(tomllib.loads(after)) == without_emptiness(changed)
    assert "\r\n" not in text or "\n" not in after.replace("\r\n", "")
    for remark in hand.remarks:
        if what in ("set", "create", "rename"):
            assert after.count(remark) == text.count(remark)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_ends_of_lines_stay_as_they_are_and_texts_of_several_lines_do_not_matter(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "config.toml"
    lines = ["schema_version = 1", "[agents.ada]", 'system_prompt = """', "one", 'two"""', "", "[gateway]"]
    path.write_bytes(end.join(lines).encode())
    keys = ["a" * 64, "b" * 64, "c" * 64]
    store_of(path).commit(lambda draft: draft.set("plugins.security.trusted_publisher_keys", keys))
    store_of(path).commit(lambda draft: draft.set("gateway.port", 5))
    after = path.read_bytes().decode()
    assert after.startswith(end.join(lines[:-1]))
    assert after.count("\n") == after.count(end)
    values = tomllib.loads(after)
    assert values["plugins"]["security"]["trusted_publisher_keys"] == keys
    assert values["gateway"] == {"port": 5}


def test_a_header_never_joins_a_last_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'schema_version = 1\n[[plugins.entries]]\nname = "{ONE}" # mine')
    store_of(path).commit(lambda draft: draft.create_key("plugins.entries", TWO))
    assert path.read_text() == (
        f'schema_version = 1\n[[plugins.entries]]\nname = "{ONE}" # mine\n\n[[plugins.entries]]\nname = "{TWO}"\n'
    ).replace("\n\n", "\n")


KEYS = """\
schema_version = 1
[plugins.security] # who
trusted_publisher_keys = [
  "aa", # Alice
  # Bob, until May
  "bb", # on loan
]
"""


def test_a_list_that_grows_or_shrinks_keeps_what_is_written_beside_its_elements(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(KEYS)
    name = "plugins.security.trusted_publisher_keys"
    store_of(path).commit(lambda draft: draft.append(name, "cc"))
    assert path.read_text() == KEYS.replace("loan\n", 'loan\n  "cc",\n')
    store_of(path).commit(lambda draft: draft.set(name, ["bb", "cc"]))
    assert path.read_text() == KEYS.replace('  "aa", # Alice\n', "").replace("loan\n", 'loan\n  "cc",\n')
    path.write_text(KEYS.replace('"bb", # on loan', '"bb"\n  # end'))
    store_of(path).commit(lambda draft: draft.append(name, "cc"))
    assert tomllib.loads(path.read_text())["plugins"]["security"]["trusted_publisher_keys"] == [
        "aa",
        "bb",
        "cc",
    ]
    assert all(remark in path.read_text() for remark in ("# Alice", "# Bob", "# end"))


def test_a_comment_behind_a_header_is_not_repeated_behind_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(KEYS)
    store_of(path).commit(lambda draft: draft.set("plugins.enabled", True))
    assert path.read_text().count("# who") == 1
    assert "[plugins.security] # who" in path.read_text()


def test_rows_are_made_inside_a_table_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("schema_version = 1\nplugins = { enabled = true } # short\n")
    store_of(path).commit(lambda draft: draft.create_key("plugins.entries", ONE))
    assert tomllib.loads(path.read_text())["plugins"] == {"enabled": True, "entries": [{"name": ONE}]}
    assert "# short" in path.read_text()


def test_a_row_that_begins_as_the_next_does_leaves_the_remarks_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    first = f'[[plugins.entries]]\nname = "{ONE}"\n\n'
    second = f'# about the second\n[[plugins.entries]]\n# here\nname = "{TWO}"\n'
    path.write_text(f"schema_version = 1\n{first}{second}")
    store_of(path).commit(lambda draft: draft.delete_key("plugins.entries", ONE))
    assert path.read_text() == f"schema_version = 1\n{second}"


APART = "schema_version = 1\n  [providers.models.openai]\n[providers.models.echo]\n[providers.models.openai.x]\nmodel = 'm'\n"


@pytest.mark.parametrize(
    ("text", "line"), [(APART, 5), (f"schema_version = 1\nx = {'[' * 120}{']' * 120}\n", 2)]
)
def test_a_form_that_commands_cannot_take_is_named_as_such_and_can_still_be_read(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigFileInvalid, match="edit the file by hand") as raised:
        store_of(path).commit(lambda draft: draft.set("gateway.port", 5))
    assert raised.value.code == "config_invalid"
    assert abs(int(str(raised.value.details["line"])) - line) <= 1
    assert path.read_text() == text
    assert count_secrets(path).sealed == 0


def test_a_change_that_the_form_does_not_take_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(KEYS)

    def change(draft: Draft) -> None:
        draft.set("gateway.port", 5)
        tomlkit.parse("[")

    with pytest.raises(ConfigCandidateInvalid, match="a form that this change cannot be made in"):
        store_of(path).commit(change)
    assert path.read_text() == KEYS
