"""Users, paired tokens and explanations: the commands, and what a running daemon makes of them."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from zeroclaw_daemon.authority.rights import Rule, RuleKind
from zeroclaw_daemon.cli.auth import sentence
from zeroclaw_daemon.rpc.methods.table import TABLE

PATIENCE = 60
"""Seconds after which a daemon that does not answer hangs."""
NOBODY_UID = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

ROSTER = """\
schema_version = 1

# who may use this daemon
[users.ada]
uid = 4100000001
permission_profiles = ["operator"]

[users.bob]
uid = 4100000002
permission_profiles = ["idle"]

[permission_profiles.operator]
allowed_agents = ["assistant"]
config_write_paths = ["agents.*", "memory.backend"]
[permission_profiles.operator.grants]
system = ["read"]
sessions = ["create", "read"]
config = ["read", "update"]

[permission_profiles.idle]
allowed_agents = ["*"]
"""


class Line:
    """A connection to a daemon: requests one at a time."""

    def __init__(self, client: socket.socket, answers: BinaryIO) -> None:
        self._client = client
        self._answers = answers
        self._id = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer."""
        self._id += 1
        frame = {"jsonrpc": "2.0", "method": method, "params": params, "id": self._id}
        self._client.sendall(json.dumps(frame).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert answer["id"] == self._id
        return answer

    def code(self, method: str, **params: Any) -> int:
        """The code of the error, or 0."""
        return self.ask(method, **params).get("error", {"code": 0})["code"]


@contextmanager
def line(path: Path) -> Iterator[Line]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(path))
        with client.makefile("rb") as answers:
            yield Line(client, answers)


def tokens_file(home) -> Path:
    return home.config_file.with_name("paired-tokens.json")


def test_whoever_may_only_talk_talks(home, zeroclaw, start_daemon) -> None:
    home.configure(
        ROSTER.replace('system = ["read"]\n', "").replace('["create", "read"]', '["create", "execute"]')
    )
    start_daemon()
    env = {"ZEROCLAW_AUTH_TOKEN": zeroclaw("auth", "pair", "ada", "--json").json["token"]}
    outcome = zeroclaw("prompt", "--agent", "assistant", "hello", env=env)
    assert (outcome.status, outcome.out, outcome.err) == (0, "hello\n", "")
    nobody = zeroclaw("prompt", "hello", env=env)
    assert (nobody.status, nobody.out) == (2, "")
    assert "say whom to ask with --agent" in nobody.err
    assert "system:read" in nobody.err


@pytest.mark.req("RPC-238", "RPC-052")
def test_a_paired_token_binds_its_user_until_it_is_unpaired(home, zeroclaw, start_daemon) -> None:
    home.configure(ROSTER)
    daemon = start_daemon()
    token = zeroclaw("auth", "pair", "ada", "--json").json
    with line(home.socket) as ada, line(home.socket) as other, line(home.socket) as owner:
        bound = ada.ask("initialize", authToken=token["token"], authProvider="native")["result"]
        assert (bound["principalId"], bound["authMethods"]) == ("user:ada", ["peercred", "native"])
        # Exactly her grants, though the peer is the daemon's own user.
        assert ada.code("status") == 0
        assert ada.code("config/get", prop="memory.backend") == 0
        assert ada.code("session/new", agentAlias="assistant") == 0
        assert ada.code("session/close", sessionId="x") == -32012
        assert ada.code("config/set", prop="gateway.port", value=1) == -32012
        assert ada.code("config/delete", prop="memory.backend") == -32012
        assert owner.ask("initialize")["result"]["principalId"] == "shared-operator"
        assert other.code("initialize", authToken=token["token"] + "0") == -32010
        assert other.code("initialize", authToken=token["token"], authProvider="oidc.corp") == -32010
        assert zeroclaw("auth", "unpair", token["id"]).status == 0
        assert ada.code("status") == -32010
        assert ada.code("initialize", authToken=token["token"]) == -32010
        assert ada.code("status") == -32010
        assert other.code("initialize", authToken=token["token"]) == -32010
        assert owner.code("status") == 0
        assert ada.ask("initialize")["result"]["principalId"] == "shared-operator"  # without the token
    daemon.stop()


@pytest.mark.req("RPC-238")
def test_a_token_is_shown_once_and_is_nowhere_else(home, zeroclaw_process, start_daemon) -> None:
    home.configure(ROSTER)
    daemon = start_daemon()
    done = zeroclaw_process("auth", "pair", "ada")
    token = done.out.strip()
    assert (done.status, done.out.count("\n")) == (0, 1)  # the token alone, so that it can be piped
    assert "shown this once" in done.err
    with line(home.socket) as ada:
        assert ada.code("initialize", authToken=token) == 0
        assert ada.code("session/close", sessionId="x") == -32012
        assert ada.code("initialize", authToken=f"{token}0") == -32010
        assert ada.ask("config/set", prop="agents.x.model", value="m")["result"]["set"]
        said = json.dumps([ada.ask("config/get"), ada.ask("config/list"), ada.ask("status")])
    seen = [zeroclaw_process("auth", "list", "--json"), zeroclaw_process("auth", "list")]
    seen.append(zeroclaw_process("status", env={"ZEROCLAW_AUTH_TOKEN": token}))
    seen.append(zeroclaw_process("status", env={"ZEROCLAW_AUTH_TOKEN": f"{token}0"}))
    status, err = daemon.stop()
    assert (status, [each.status for each in seen]) == (0, [0, 0, 0, 4])
    secret = token.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in err + said + done.err + "".join(each.out + each.err for each in seen)
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert tokens_file(home) in files
    assert home.data / "logs" / "daemon.jsonl" in files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    [row] = json.loads(tokens_file(home).read_text())["tokens"]
    assert row["sha256"] not in "".join(each.out for each in seen)
    assert stat.S_IMODE(tokens_file(home).stat().st_mode) == 0o600


@pytest.mark.req("RPC-239")
@pytest.mark.parametrize(
    ("old", "new", "read", "status"),
    [
        ('system = ["read"]', "system = []", -32012, 0),
        ('permission_profiles = ["operator"]', 'permission_profiles = ["idle"]', -32010, -32010),
        ("[users.ada]", "[users.eve]", -32010, -32010),
    ],
    ids=["a grant", "every grant", "the user"],
)
def test_an_edit_of_the_file_counts_at_the_next_request(
    home, zeroclaw, start_daemon, old: str, new: str, read: int, status: int
) -> None:
    home.configure(ROSTER)
    start_daemon()
    token = zeroclaw("auth", "pair", "ada").out.strip()
    with line(home.socket) as ada:
        assert ada.code("initialize", authToken=token) == 0
        assert ada.code("status") == 0
        home.configure(ROSTER.replace(old, new))
        assert ada.code("status") == read
        assert ada.code("config/get", prop="memory.backend") == status
        home.configure(ROSTER)
        assert ada.code("status") == 0


AS_ANOTHER_USER = """
import json, os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(60)
    try:
        client.connect(sys.argv[1])
    except PermissionError as error:
        print(json.dumps({"errno": error.errno}))
        sys.exit()
    client.sendall(sys.argv[3].encode() + b"\\n")
    print(client.makefile().readline())
"""


def as_another_user(path: Path, token: str | None = None) -> dict[str, Any]:
    """What the daemon answers to the handshake of a process of another user, or why it does not get so far."""
    params = {} if token is None else {"authToken": token}
    frame = json.dumps({"jsonrpc": "2.0", "method": "initialize", "params": params, "id": 1})
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, str(path), str(NOBODY_UID), frame],
        capture_output=True, text=True, check=True, timeout=2 * PATIENCE, cwd="/",
    )  # fmt: skip
    return json.loads(done.stdout)


@needs_root
@pytest.mark.req("RPC-051", "RPC-052", "RPC-053")
def test_another_user_cannot_connect_and_is_nobody_where_it_can(home, zeroclaw, start_daemon) -> None:
    home.configure(ROSTER)
    daemon = start_daemon()
    token = zeroclaw("auth", "pair", "ada").out.strip()
    home.path.chmod(0o711)
    assert as_another_user(home.socket) == {"errno": 13}
    # Suppose somebody opened the way: the daemon still knows who is who.
    home.config_file.parent.chmod(0o711)
    home.data.chmod(0o711)
    assert as_another_user(home.socket) == {"errno": 13}
    home.socket.chmod(0o666)
    assert as_another_user(home.socket)["error"]["code"] == -32010
    assert as_another_user(home.socket, token)["result"]["principalId"] == "user:ada"
    home.configure(ROSTER.replace("4100000002", str(NOBODY_UID)))
    assert as_another_user(home.socket)["error"]["code"] == -32010  # bob is known, and may do nothing
    home.configure(ROSTER.replace("4100000001", str(NOBODY_UID)))
    assert as_another_user(home.socket)["result"]["principalId"] == "user:ada"
    daemon.stop()
    audited = [record for record in home.log() if record["event"]["category"] == "audit"]
    peers = {record["attributes"].get("peer", "") for record in audited}
    assert any(peer.startswith("unix:pid=") and peer.endswith(f",uid={NOBODY_UID}") for peer in peers)


@pytest.mark.req("RPC-052", "RPC-239")
def test_the_own_user_is_one_of_the_roster_where_it_is_not_trusted(home, start_daemon) -> None:
    text = ROSTER.replace("4100000001", str(os.geteuid()))
    home.configure(text)
    start_daemon()
    with line(home.socket) as client:
        assert client.ask("initialize")["result"]["principalId"] == "shared-operator"
        assert client.code("session/close", sessionId="x") == -32000
        home.configure(f"{text}\n[security]\ntrust_daemon_uid = false\n")
        assert client.code("status") == -32010
        assert client.ask("initialize")["result"]["principalId"] == "user:ada"
        assert client.code("status") == 0
        assert client.code("session/close", sessionId="x") == -32012


def test_what_is_refused_is_recorded_and_what_was_sent_is_not(home, zeroclaw, start_daemon) -> None:
    home.configure(ROSTER)
    daemon = start_daemon()
    token = zeroclaw("auth", "pair", "ada").out.strip()
    with line(home.socket) as ada:
        assert ada.code("initialize", authToken=token) == 0
        assert ada.code("config/set", prop="gateway.planted", value="planted") == -32012
        assert ada.code("config/delete", prop="planted") == -32012
        assert ada.code("initialize", authToken="planted") == -32010
    daemon.stop()
    denied = [record for record in home.log() if record["event"]["action"] == "denied"]
    known = [
        {name: value for name, value in record["attributes"].items() if name not in ("peer",)}
        for record in denied
    ]
    ada = {"principal": "user:ada", "provider": "native"}
    assert known == [
        {"method": "config/set", "reason": "forbidden", "rule": "path_not_allowed", **ada},
        {
            "method": "config/delete", "reason": "forbidden", "rule": "grant_missing", "grant": "config:delete",
            **ada,
        },
        {"method": "initialize", "reason": "authentication_failed", **ada},
    ]  # fmt: skip
    assert {record["event"]["category"] for record in denied} == {"audit"}
    assert "planted" not in (home.data / "logs" / "daemon.jsonl").read_text()


@pytest.mark.req("RPC-238")
def test_tokens_that_cannot_be_trusted_are_worth_nothing_and_everybody_is_told(
    home, zeroclaw, start_daemon
) -> None:
    home.configure(ROSTER)
    token = zeroclaw("auth", "pair", "ada").out.strip()
    tokens_file(home).chmod(0o644)
    daemon = start_daemon()
    with line(home.socket) as ada, line(home.socket) as owner:
        assert ada.code("initialize", authToken=token) == -32010
        owner.ask("initialize")
        [problem] = owner.ask("status")["result"]["problems"]
        assert "may be read or written by others" in problem
        for command in (("list",), ("pair", "ada"), ("unpair", "00000000")):
            done = zeroclaw("auth", *command)
            assert (done.status, done.out) == (3, "")
            assert f"chmod 600 '{tokens_file(home)}'" in done.err
        tokens_file(home).chmod(0o600)
        assert ada.code("initialize", authToken=token) == 0
        assert owner.ask("status")["result"]["problems"] == []
    status, err = daemon.stop()
    assert status == 0
    assert err.count("no paired token is valid") == 1


def test_tokens_are_listed_with_what_they_are_worth(home, zeroclaw) -> None:
    home.configure(ROSTER)
    assert zeroclaw("auth", "list").out == ""
    assert zeroclaw("auth", "list", "--json").json == []
    ada = zeroclaw("auth", "pair", "ada", "--json").json
    done = zeroclaw("auth", "pair", "bob", "--json")
    assert "worth nothing yet" in done.err
    bob = done.json
    assert set(ada) == {"id", "user", "created", "token"}
    listed = zeroclaw("auth", "list", "--json").json
    assert listed == [
        {"id": ada["id"], "user": "ada", "created": ada["created"], "usable": True},
        {"id": bob["id"], "user": "bob", "created": bob["created"], "usable": False},
    ]
    home.configure(ROSTER.replace("[users.ada]", "[users.eve]"))
    rows = [row.split("\t") for row in zeroclaw("auth", "list").out.splitlines()]
    assert [(row[1], row[3][:12]) for row in rows] == [("ada", "no such user"), ("bob", "no permissio")]
    assert zeroclaw("auth", "unpair", ada["id"], "--json").json == {
        "id": ada["id"], "user": "ada", "unpaired": True,
    }  # fmt: skip
    assert [each["id"] for each in zeroclaw("auth", "list", "--json").json] == [bob["id"]]
    assert zeroclaw("auth", "unpair", ada["id"]).status == 5


def test_a_token_is_for_a_user_there_is(home, zeroclaw) -> None:
    home.configure(ROSTER)
    done = zeroclaw("auth", "pair", "adda")
    assert (done.status, done.out) == (5, "")
    assert "ada, bob" in done.err
    assert not tokens_file(home).exists()


EXPLAINED = [
    (("ada", "status"), True, ["granted"]),
    (("ada", "initialize"), True, ["ungated"]),
    (("bob", "initialize"), False, ["nothing_granted"]),
    (("bob", "status"), False, ["nothing_granted"]),
    (("eve", "status"), False, ["nobody"]),
    (("shared-operator", "config/delete", "users.x"), True, ["shared_operator", "shared_operator"]),
    (("ada", "config/set", "agents.x.model"), True, ["granted", "path_allowed"]),
    (("ada", "config/set", "gateway.port"), False, ["granted", "path_not_allowed"]),
    (("ada", "config/delete", "agents.x"), False, ["grant_missing", "path_allowed"]),
    (("ada", "session/new", "--agent", "assistant"), True, ["granted", "agent_allowed"]),
    (("ada", "session/new", "--agent", "other"), False, ["granted", "agent_not_allowed"]),
    (("ada", "session/configure", "--agent", "assistant"), False, ["grant_missing", "agent_allowed"]),
    (("ada", "config/map-key-delete", "agents.x"), False, ["grant_missing", "path_allowed", "path_allowed"]),
    (("ada", "config/map-key-rename", "memory.x"), False, ["granted", "path_not_allowed"]),
    (("shared-operator", "config/map-key-delete", "users.x"), True, ["shared_operator"] * 3),
    (("ada", "session/prompt", "--tool", "x"), False, ["grant_missing", "grant_missing", "grant_missing"]),
]


@pytest.mark.parametrize(("arguments", "allowed", "rules"), EXPLAINED)
def test_an_explanation_names_the_rule(
    home, zeroclaw, arguments: tuple[str, ...], allowed: bool, rules: list[str]
) -> None:
    home.configure(ROSTER)
    told = zeroclaw("auth", "explain", *arguments, "--json").json
    assert (told["allowed"], [rule["rule"] for rule in told["rules"]]) == (allowed, rules)
    done = zeroclaw("auth", "explain", *arguments)
    first, *lines = done.out.splitlines()
    assert (done.status, first.split(":")[0]) == (0, "allowed" if allowed else "denied")
    for rule, shown in zip(told["rules"], lines, strict=False):
        assert rule["words"] in shown


def test_an_explanation_points_at_properties_that_can_be_read(home, zeroclaw) -> None:
    home.configure(ROSTER)
    told = zeroclaw("auth", "explain", "ada", "config/set", "agents.x.model", "--json").json
    for rule in told["rules"]:
        assert rule["entry"] in zeroclaw("config", "get", rule["where"]).out
    shown = zeroclaw("auth", "explain", "ada", "config/set").out
    assert "paths it may write: agents.*, memory.backend" in shown
    shown = zeroclaw("auth", "explain", "ada", "session/new").out
    assert "agents it may use: assistant" in shown
    assert "tools" not in shown


def test_an_explanation_says_where_the_socket_makes_more_of_a_user(home, zeroclaw) -> None:
    home.configure(ROSTER.replace("4100000001", str(os.geteuid())))
    assert "is the shared operator" in zeroclaw("auth", "explain", "ada", "status").out
    assert "is the shared operator" not in zeroclaw("auth", "explain", "bob", "status").out
    home.configure(ROSTER + "[security]\ntrust_daemon_uid = false\n")
    told = zeroclaw("auth", "explain", "shared-operator", "status", "--json").json
    assert [rule["rule"] for rule in told["rules"]] == ["operator_distrusted"]
    home.configure(ROSTER.replace("users.bob", "users.shared-operator"))
    assert (
        "this is about users.shared-operator" in zeroclaw("auth", "explain", "shared-operator", "status").out
    )
    assert zeroclaw("auth", "explain", "ada", "status").out.count("note") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ada", "statuss"), "the closest are status"),
        (("ada", "status", "a.b"), "writes no configuration path"),
        (("ada", "config/set", "--agent", "x"), "uses no agent"),
        (("ada", "config/set", "--tool", "x"), "runs no tool"),
        (("ada", "session/new", "--tool", "x"), "runs no tool"),
    ],
)
def test_a_question_the_daemon_would_never_ask_is_refused(
    home, zeroclaw, arguments: tuple[str, ...], words: str
) -> None:
    home.configure(ROSTER)
    done = zeroclaw("auth", "explain", *arguments)
    assert (done.status, done.out) == (2, "")
    assert words in done.err


@pytest.mark.req("RPC-052")
def test_an_explanation_is_what_the_daemon_does(home, zeroclaw, start_daemon) -> None:
    """For every method: allowed as explained is not refused, denied as explained is."""
    home.configure(ROSTER)
    start_daemon()
    token = zeroclaw("auth", "pair", "ada").out.strip()
    explained = {name: zeroclaw("auth", "explain", "ada", name, "--json").json["allowed"] for name in TABLE}
    with line(home.socket) as ada:
        ada.ask("initialize", authToken=token)
        refused = {name: ada.code(name) == -32012 for name in TABLE if name != "initialize"}
    assert refused == {name: not allowed for name, allowed in explained.items() if name != "initialize"}


@pytest.mark.parametrize("kind", RuleKind)
def test_every_rule_has_words(kind: RuleKind) -> None:
    assert sentence(Rule(kind, "WHERE", "ENTRY")).isprintable()
