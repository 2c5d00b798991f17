"""No secret appears in anything a person, a program or a log is shown.

Generated secrets are planted everywhere an operator keeps them; then every command and every method there is is tried,
with success and without, and whatever came out is searched. A command or a method that is not tried here fails the test.
"""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import logging
import os
import shutil
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import typer.main
from _pytest.mark import ParameterSet
from planted import Planted, generate, generate_pem

from zeroclaw_daemon.authority.principal import Evidence
from zeroclaw_daemon.authority.tokens import PairedTokens
from zeroclaw_daemon.cli.main import app
from zeroclaw_daemon.config.draft import Draft
from zeroclaw_daemon.config.resolver import EntryResolver
from zeroclaw_daemon.config.source import FileSource
from zeroclaw_daemon.config.store import ConfigStore
from zeroclaw_daemon.rpc.methods.table import TABLE
from zeroclaw_host.errors import ZeroclawError
from zeroclaw_host.instance import InstanceIdentity, InstanceScope
from zeroclaw_host.package.manifest import parse_manifest
from zeroclaw_host.services.sealing import KeyFile
from zeroclaw_host.services.state_store import DurableState

pytestmark = pytest.mark.req("PLG-135", "PLG-139")

IDENTITY = InstanceIdentity.default_tool("wat-echo")
SCHEMA = """permissions = ["config_read", "state_read", "state_write"]
[config_schema]
type = "object"
additionalProperties = false
[config_schema.properties.word]
type = "string"
[config_schema.properties.token]
type = "string"
x-secret = true
maxLength = 100
[config_schema.properties.client_key]
type = "string"
x-secret = true
"""
API_KEY = "providers.models.openai.main.api_key"

# --- what is tried ------------------------------------------------------------------------------------------------------

Invocations = Mapping[str, tuple[tuple[str, ...], ...]]

COMMANDS: Invocations = {
    "status": ((),),
    "reload": ((),),
    "prompt": (
        ("hello",),
        ('/tool wat_echo {"__config": "mine"}',),
        ("/fail now",),
        ("x", "--agent", "none"),
    ),
    "chat": ((), ("--agent", "none"), ("--resume", "none")),
    "rpc": (
        ("status",),
        ("config/get",),
        ("session/new", '{"agentAlias": "{typed}"}'),
        ("config/set", '{"prop": "providers.models.openai.main.api_kee", "value": "{typed}"}'),
        ("no/such", '{"{typed}'),
        ("--describe",),
    ),
    "sessions list": ((), ("--json",)),
    "sessions show": (("none",),),
    "sessions kill": (("none",),),
    "sessions delete": (("none",),),
    "config get": (("{row}.config.token",), ("{row}.config",), (API_KEY,), ("users.ada",), ("no.such",)),
    "config list": ((), ("{row}",), ("providers",), ("no.such",)),
    "config set": (
        ("{row}.config.token", "{typed}"),
        ("{row}.config.token", "{long}"),
        ("{row}.config.tokn", "{typed}"),
        ("{row}.config", "{typed}"),
        (API_KEY, "{typed}"),
        ("providers.models.openai.main.timeout_secs", "{typed}"),
        ("plugins.enabled", "{typed}"),
        ("no.such", "{typed}"),
        (API_KEY, "--no-interactive"),
    ),
    "config delete": (("agents.ada.model",), ("{row}.config.word",), ("no.such",)),
    "config patch": (
        ('[{"op": "add", "path": "/agents/ada", "value": {"model": "m"}}]',),
        ('[{"op": "replace", "path": "/providers/models/openai/main/api_key", "value": "{typed}"}]',),
        ('[{"op": "replace", "path": "/providers/models/openai/main/api_kee", "value": "{typed}"}]',),
        ('[{"op": "test", "path": "/providers/models/openai/main/api_key", "value": "{typed}"}]',),
        ('[{"op": "add", "path": "/agents", "value": "{typed}"}]',),
        ('[{"op": "{typed}", "path": "/agents", "value": 1}]',),
        ('{"{typed}',),
    ),
    "config validate": ((), ("{config_file}",), ("{home}/none",)),
    "config migrate": ((),),
    "config schema": ((),),
    "auth pair": (("ada",), ("nobody",)),
    "auth unpair": (("nobody",),),
    "auth list": ((),),
    "auth explain": (
        ("ada", "config/set", API_KEY),
        ("ada", "status"),
        ("nobody", "status"),
        ("ada", "no/such"),
    ),
    "secrets rotate": ((),),
    "secrets status": ((),),
    "plugin install": (("{source}",), ("{home}/none",), ("{home}/none.zip", "--no-verify")),
    "plugin update": (("--all", "--from", "{source}"), ("wat-echo", "--from", "{source}"), ("none",)),
    "plugin cache clear": ((),),  # what comes behind it compiles again
    "plugin fsck": ((), ("--repair",)),
    "plugin log": ((), ("--verify",)),
    "plugin migrate": (("--from", "{home}/none"),),
    "plugin search": (("echo", "--registry", "file://{home}/none.json"),),
    "plugin list": ((), ("--verify",)),
    "plugin info": (("wat-echo",), ("none",)),
    "plugin bind": (("wat-echo", "--channel-alias", "ops"), ("none", "--channel-alias", "ops")),
    "plugin egress": (("wat-echo",), ("wat-echo", "--json"), ("none",)),
    "plugin remove": (("none",),),
    "plugin cache list": ((),),
    "plugin cache prune": ((), ("--max-mb", "1")),
    "plugin state": ((), ("wat-echo",)),
    "plugin state list": ((), ("wat-echo",), ("none",)),
    "plugin state clear": (("none", "--yes"), ("{key}",), ("{key}", "--yes")),
}
"""Arguments to try each command with. `daemon` is tried as a process."""

DAEMON_COMMAND = "daemon"

METHODS: Mapping[str, tuple[Any, ...]] = {
    "initialize": ({"protocolVersion": 1}, {"protocolVersion": "{typed}"}, {"authToken": "{typed}"}),
    "status": ({}, {"x": "{typed}"}),
    "session/new": ({"agentAlias": "assistant"}, {"agentAlias": "{typed}"}, {"sessionId": 5}),
    "session/prompt": (
        {"sessionId": "s", "prompt": '/tool wat_echo {"__config": "mine"}'},
        {"sessionId": "none", "prompt": "hello"},
        {"sessionId": "s", "prompt": "/fail now"},
    ),
    "session/configure": (
        {"sessionId": "s", "overrides": {"model": "m"}},
        {"sessionId": "s", "overrides": {"temperature": "{typed}"}},
        {"sessionId": "none", "overrides": {"model": "m"}},
    ),
    "session/state": ({"sessionId": "s"}, {"sessionId": "none"}),
    "session/cancel": ({"sessionId": "s"}, {"sessionId": "none"}),
    "session/close": ({"sessionId": "none"}, {"sessionId": 5}),
    "session/kill": ({"sessionId": "none"}, {"sessionId": 5}),
    "session/delete": ({"sessionId": "none"}, {"sessionId": 5}),
    "session/approve": (
        {"sessionId": "s", "requestId": "none", "decision": "allow_once"},
        {"sessionId": "s", "requestId": "none", "decision": "{typed}"},
    ),
    "session/messages": ({"sessionId": "s"}, {"sessionId": "none"}, {"sessionId": "s", "cursor": "{typed}"}),
    "session/list": ({}, {"query": "word"}, {"limit": "{typed}"}),
    "session/list-acp": ({},),
    "file/attach": (
        {"session_id": "s", "files": [{"data_b64": "YWJj"}]},
        {"session_id": "s", "files": [{"data_b64": "{typed}"}]},
        {"session_id": "s", "files": [{"path": "/{typed}"}]},
    ),
    "file/upload/begin": ({"session_id": "none", "size_bytes": 3}, {"session_id": "s", "sha256": "{typed}"}),
    "file/upload/chunk": ({"upload_id": "none", "offset": 0, "data_b64": "{typed}"},),
    "file/upload/commit": ({"upload_id": "none"},),
    "config/get": ({}, {"prop": "{row}.config.token"}, {"prop": API_KEY}, {"prop": "no.such"}),
    "config/list": ({}, {"prefix": "{row}"}, {"prefix": "providers"}, {"prefix": "no.such"}),
    "config/set": (
        {"prop": "{row}.config.token", "value": "{typed}"},
        {"prop": "{row}.config.token", "value": "{long}"},
        {"prop": "{row}.config.tokn", "value": "{typed}"},
        {"prop": "{row}.config", "value": {"token": "{typed}"}},
        {"prop": "{row}.config.token", "value": ["{typed}"]},
        {"prop": API_KEY, "value": "{typed}", "comment": "new"},
        {"prop": API_KEY, "value": {"{typed}": "{typed}"}},
        {"prop": "plugins.enabled", "value": "{typed}"},
        {"prop": "no.such", "value": "{typed}"},
        {"prop": API_KEY, "value": "{typed}", "comment": 5},
    ),
    "config/set-many": (
        {"sets": [{"prop": API_KEY, "value": "{typed}"}, {"prop": "no.such", "value": "{typed}"}]},
        {"sets": [{"prop": API_KEY, "value": "{typed}", "comment": "{typed}"}]},
        {"sets": [{"prop": API_KEY, "value": "{typed}"}, {"prop": "agents.ada.model", "value": "m"}]},
        {"sets": "{typed}"},
    ),
    "config/delete": ({"prop": "agents.ada.model"}, {"prop": "no.such"}, {"prop": 5}),
    "config/validate": ({},),
    "config/reload": ({},),
    "config/map-keys": ({"path": "plugins.entries"}, {"path": "users"}, {"path": "no.such"}),
    "config/map-key-create": (
        {"path": "agents", "key": "eve"},
        {"path": "agents", "key": "ada"},
        {"path": "x"},
    ),
    "config/map-key-rename": (
        {"path": "agents", "from": "eve", "to": "eva"},
        {"path": "agents", "from": "x"},
    ),
    "config/map-key-delete": ({"path": "agents", "key": "eva"}, {"path": "agents", "key": "none"}),
}
"""Parameters to try each method with."""


def leaves(command: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[str, frozenset[str]]]:
    """Every command that does something, by its words, with its options."""
    inner = getattr(command, "commands", None)
    if not inner or getattr(command, "invoke_without_command", False):
        yield " ".join(name), frozenset(option for each in command.params for option in each.opts)
    for word, each in (inner or {}).items():
        yield from leaves(each, (*name, word))


def all_commands() -> dict[str, frozenset[str]]:
    return dict(leaves(typer.main.get_command(app)))


def test_every_command_and_every_method_is_tried() -> None:
    untried = all_commands().keys() - COMMANDS.keys() - {DAEMON_COMMAND}
    assert untried == set(), "say above with which arguments"
    assert COMMANDS.keys() - all_commands().keys() == set(), "these are gone"
    assert TABLE.keys() - METHODS.keys() == set(), "say above with which parameters"
    assert METHODS.keys() - TABLE.keys() == set(), "these are gone"


# --- where secrets are --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Plot:
    """A home in which secrets are planted."""

    home: Any
    planted: Planted
    key: str
    source: Path

    def config(self, **more: str) -> str:
        """The configuration as a person writes it, secrets in plain text."""
        known = {what: json.dumps(secret, ensure_ascii=False) for what, secret in self.planted.known.items()}
        words = {**known, "key": json.dumps(self.key), "agent": "", "provider": "", **more}
        return CONFIG.format(**words)

    def filled(self, value: Any) -> Any:
        """A value of the tables above with this home's names and secrets in it."""
        words = {
            "row": f"plugins.entries.{self.key}",
            "key": self.key,
            "typed": self.planted.known["typed"],
            "long": self.planted.known["long"],
            "home": str(self.home.path),
            "config_file": str(self.home.config_file),
            "source": str(self.source),
        }
        match value:
            case str():
                for name, word in words.items():
                    value = value.replace(f"{{{name}}}", word)
                return value
            case dict():
                return {self.filled(name): self.filled(each) for name, each in value.items()}
            case list() | tuple():
                return [self.filled(each) for each in value]
            case _:
                return value


CONFIG = """schema_version = 1
[plugins]
enabled = true
auto_discover = true

[[plugins.entries]]
name = {key}
config = {{ word = "hello", token = {token}, client_key = {client_key} }}
egress_hosts = ["db.example"]
tls_profiles = [{{ name = "db", hosts = ["db.example"], client_private_key_secret = "client_key", client_certificate_secret = "client_key" }}]

[providers.models.openai.main]
api_key = {api_key}
{provider}
[agents.assistant]
{agent}
[agents.ada]
model = "m"

[users.ada]
uid = 4242
permission_profiles = ["all"]

[permission_profiles.all]
admin = true
"""


@pytest.fixture
def plot(home: Any, zeroclaw: Any, package: Any) -> Plot:
    """A home with a plugin, its state, providers, users and tokens, all with secrets."""
    planted = Planted()
    for what in ("token", "api_key", "typed", "overriding", "environment"):
        planted.plant(what)
    planted.plant("long", "".join(generate("long") for _ in range(5)))
    planted.plant("client_key", generate_pem())
    home.env["OPENAI_API_KEY"] = planted.known["environment"]
    source = package(more=SCHEMA)
    installed = zeroclaw("plugin", "install", str(source), "--json")
    assert installed.status == 0, installed.err
    found = Plot(home, planted, installed.json["key"], source)
    home.configure(found.config())
    # A value of the plugin's own, and the names it gives to its values.
    database = DurableState(home.data / "plugin-state.db", KeyFile(home.config_file.parent / ".secret_key"))
    database.put(
        IDENTITY,
        planted.plant("state_key", f"planted-{token_hex(12)}"),
        planted.plant("state_value").encode(),
        None,
    )
    database.close()
    planted.plant("install_key", (home.config_file.parent / ".secret_key").read_text().strip())
    planted.plant("paired", PairedTokens(home.config_file.parent / "paired-tokens.json").pair("ada").text)
    return found


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[ZeroclawError]:
    """Every error of the product that comes into being in this process."""
    found: list[ZeroclawError] = []
    begin = ZeroclawError.__init__

    def noted(self: ZeroclawError, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        found.append(self)

    monkeypatch.setattr(ZeroclawError, "__init__", noted)
    return found


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words and the environment of every process that this one starts."""
    import subprocess

    found: list[str] = []
    begin = subprocess.Popen.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        words = arguments[0] if arguments else named.get("args")
        environment = named.get("env")
        found.append(repr(words) + repr(environment if environment is not None else dict(os.environ)))
        begin(self, *arguments, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return found


def texts_of(error: BaseException) -> str:
    """Everything about an error that somebody might print."""
    said = [repr(error), str(error), repr(error.args), "".join(traceback.format_exception(error))]
    if isinstance(error, ZeroclawError):
        said += [repr(error.details), repr(error.causes()), repr(error.remedy), repr(error.evidence())]
    return "\n".join(said)


def texts_of_record(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return record.getMessage() + repr(vars(record)) + (texts_of(error) if error else "")


# --- commands -----------------------------------------------------------------------------------------------------------


def sound(plot: Plot) -> None:
    """Everything is as it should be."""


def cut_off(plot: Plot) -> None:
    """The file ends in the middle of a secret."""
    text = plot.config()
    plot.home.configure(text[: text.index(plot.planted.known["api_key"]) + 20])


def misplaced(plot: Plot) -> None:
    """Secrets stand where other things belong."""
    wrong = json.dumps(plot.planted.known["typed"], ensure_ascii=False)
    plot.home.configure(
        plot.config(
            provider=f"timeout_secs = {wrong}\napi_kee = {wrong}\nuri = [{wrong}]", agent=f"tools = {wrong}"
        )
    )


def of_another_type(plot: Plot) -> None:
    """A list of secrets, and a table of them, where one is meant."""
    wrong = json.dumps(plot.planted.known["typed"], ensure_ascii=False)
    text = plot.config().replace("api_key = ", f"api_key = [{wrong}] # ", 1)
    plot.home.configure(text)


def one_table(plot: Plot) -> None:
    """The rows are one table, as is easily written."""
    plot.home.configure(plot.config().replace("[[plugins.entries]]", "[plugins.entries]"))


def too_long(plot: Plot) -> None:
    """A secret breaks the rules of the package it is for."""
    long = json.dumps(plot.planted.known["long"], ensure_ascii=False)
    plot.home.configure(plot.config(token=long))


def of_another_key(plot: Plot) -> None:
    """Secrets are sealed with a key that is gone."""
    plot.home.configure(plot.config(token='"enc2:AAAA"', api_key='"enc2:' + "ab" * 40 + '"'))
    (plot.home.config_file.parent / ".secret_key").write_text("f" * 64)


def key_that_is_none(plot: Plot) -> None:
    """The key file holds something else."""
    plot.home.configure(plot.config(token='"enc2:' + "ab" * 40 + '"'))
    (plot.home.config_file.parent / ".secret_key").write_text(plot.planted.known["typed"])


def damaged_tokens(plot: Plot) -> None:
    """The file of tokens holds tokens."""
    path = plot.home.config_file.parent / "paired-tokens.json"
    path.write_text(json.dumps({"tokens": [plot.planted.known["paired"], plot.planted.known["typed"]]}))


STATES: tuple[Callable[[Plot], None], ...] = (
    sound,
    cut_off,
    misplaced,
    of_another_type,
    one_table,
    too_long,
    of_another_key,
    key_that_is_none,
    damaged_tokens,
)


def cases(states: Iterable[Callable[[Plot], None]]) -> list[ParameterSet]:
    """Each state; only the sound one is soon through."""
    return [
        pytest.param(state, id=state.__name__, marks=() if state is sound else pytest.mark.slow)
        for state in states
    ]


@pytest.mark.parametrize("state", cases(STATES))
def test_no_command_shows_a_secret(
    plot: Plot,
    state: Callable[[Plot], None],
    zeroclaw: Any,
    errors: list[ZeroclawError],
    children: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, planted = plot.home, plot.planted
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody answers
    state(plot)
    before = home.config_file.read_bytes()
    override = {"ZEROCLAW_providers__models__openai__main__api_key": planted.known["overriding"]}
    statuses: set[int] = set()
    existing = all_commands()
    for command, tried in COMMANDS.items():
        options = existing.get(command, frozenset())
        for arguments in tried if command in existing else ():
            words = [*command.split(), *plot.filled(arguments)]
            for form in ([], ["--json"]) if "--json" in options else ([],):
                if state is not sound and home.config_file.read_bytes() != before:
                    home.config_file.write_bytes(before)  # each meets the file as it was
                outcome = zeroclaw(*words, *form, env=override)
                statuses.add(outcome.status)
                if command == "secrets rotate" and outcome.status == 0:
                    planted.known[f"install key {len(planted.known)}"] = (
                        home.key_file.path.read_text().strip()
                    )
                if command == "auth pair" and outcome.status == 0:
                    lines = [outcome.json["token"]] if form else outcome.out.split()
                    planted.known[f"pairing {len(planted.known)}"] = max(lines, key=len)  # shown this once
                else:
                    planted.check(f"`{' '.join((command, *form))}`", outcome.out)
                planted.check(f"`{' '.join((command, *form))}` (standard error)", outcome.err)
    for error in errors:
        planted.check(f"an error {type(error).__name__}", texts_of(error))
    for record in caplog.records:
        planted.check(f"a log record of {record.name}", texts_of_record(record))
    assert state is not sound or any("compiler" in words for words in children), "there were children"
    for words_of_child in children:
        planted.check("the command line of a child", words_of_child)
    assert {0} < statuses, "some went well and some did not"
    assert planted.looked_at > 100
    allowed = {".secret_key": tuple(planted.known), "paired-tokens.json": ("paired", "typed")}
    if state is not sound:
        allowed["config.toml"] = tuple(planted.known)
    if state is not damaged_tokens:
        del allowed["paired-tokens.json"]
    planted.check_files(home.path / ".zeroclaw", allowed=allowed)


# --- the daemon ---------------------------------------------------------------------------------------------------------

AUDIT = """
import os, sys

def note(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        with open(os.environ["AUDIT_FILE"], "a") as file:
            file.write(repr(arguments) + "\\n")

sys.addaudithook(note)
"""


@pytest.mark.parametrize(
    "state",
    cases([sound, misplaced, one_table, too_long, of_another_key, key_that_is_none, damaged_tokens]),
)
def test_no_method_and_no_log_shows_a_secret(
    plot: Plot, state: Callable[[Plot], None], start_daemon: Any, zeroclaw_process: Any
) -> None:
    home, planted = plot.home, plot.planted
    (home.path / "audit").mkdir()
    (home.path / "audit" / "sitecustomize.py").write_text(AUDIT)
    started = home.path / "audit" / "children"
    started.touch()
    env = {
        "PYTHONPATH": str(home.path / "audit"),
        "AUDIT_FILE": str(started),
        "ZEROCLAW_providers__models__openai__main__api_key": planted.known["overriding"],
    }
    if state in (one_table, damaged_tokens, too_long, of_another_key, key_that_is_none):
        state(plot)  # met at the start
    shutil.rmtree(home.data / "cache")  # so that it compiles
    daemon = start_daemon(env=env)
    state(plot)  # or while it runs
    heard = b"".join(talk(home.socket, requests) for requests in conversations(plot))
    status, said = daemon.stop()
    assert status == 0
    planted.check("what the daemon sends", heard.decode())
    planted.check("what the daemon says on the terminal", said)
    planted.check("the children of the daemon", started.read_text())
    assert state is not sound or "compiler" in started.read_text(), "it had children"
    answers = [json.loads(line) for line in heard.splitlines()]
    assert any("result" in answer for answer in answers)
    assert any("error" in answer for answer in answers)
    allowed = {".secret_key": tuple(planted.known)}
    if state is not sound:
        allowed["config.toml"] = tuple(planted.known)
    if state is damaged_tokens:
        allowed["paired-tokens.json"] = ("paired", "typed")
    planted.check_files(home.path / ".zeroclaw", allowed=allowed)
    if state in (cut_off, misplaced):
        refused = zeroclaw_process("daemon", env=env)
        assert refused.status != 0
        planted.check("a daemon that does not start", refused.out + refused.err)


def conversations(plot: Plot) -> Iterator[list[str]]:
    """What clients say: every method with each of its parameters, and words that are no requests."""
    hello = {"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": 1}, "id": 0}
    begin = {"method": "session/new", "params": {"agentAlias": "assistant", "sessionId": "s"}, "id": 1}
    calls = [(method, params) for method, tried in METHODS.items() for params in tried]
    requests = [
        {"jsonrpc": "2.0", "method": method, "params": plot.filled(params), "id": number}
        for number, (method, params) in enumerate(calls, 2)
    ]
    yield [json.dumps(each) for each in (hello, {"jsonrpc": "2.0", **begin}, *requests)]
    secret = plot.planted.known["typed"]
    for token in (secret, plot.planted.known["paired"], plot.planted.known["paired"][:-1] + "x", 5, [secret]):
        shown = {**hello, "params": {"protocolVersion": 1, "authToken": token, "clientInfo": {"name": "x"}}}
        yield [json.dumps(shown), json.dumps({"jsonrpc": "2.0", "method": "status", "id": 1})]
    yield [
        json.dumps(hello),
        f'{{"jsonrpc": "2.0", "{secret}',
        secret,
        json.dumps({"method": secret, "id": 7}),
    ]


def talk(endpoint: Path, lines: list[str]) -> bytes:
    """Say the lines, and hear everything that comes until the daemon has answered all."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(str(endpoint))
        client.sendall("".join(f"{line}\n" for line in lines).encode())
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answers:
            return answers.read()


# --- objects ------------------------------------------------------------------------------------------------------------


def test_no_object_shows_a_secret(plot: Plot) -> None:
    """Whatever of the product is alive while secrets are read and written: debuggers and error reports print objects."""
    home, planted = plot.home, plot.planted
    directory = home.config_file.parent
    key_file = KeyFile(directory / ".secret_key")
    store = ConfigStore(FileSource(home.config_file, {}), key_file)
    tokens = PairedTokens(directory / "paired-tokens.json")
    database = DurableState(home.data / "plugin-state.db", key_file)
    manifest = parse_manifest((plot.source / "manifest.toml").read_bytes())
    issued = tokens.pair("ada")
    planted.plant("issued", issued.text)
    kept: list[object] = [
        issued,
        tokens.find(planted.known["paired"]),
        Evidence(None, token=planted.known["paired"]),
        database.get(IDENTITY, planted.known["state_key"]),
        key_file.read(),
        key_file.read().unseal(key_file.read().seal(planted.known["typed"])).encode(),
    ]
    resolved = EntryResolver(store.current, key_file).resolve(InstanceScope.admit(IDENTITY, manifest))
    assert planted.known["token"] in resolved.secrets.values(), "the plugin itself has it"

    def change(draft: Draft) -> None:
        draft.set(API_KEY, planted.known["typed"])
        gc.collect()
        for thing in gc.get_objects():
            if type(thing).__module__.startswith("zeroclaw_"):
                planted.check(f"an object {type(thing).__qualname__}", f"{thing!r} {thing}")

    store.commit(change)
    assert planted.looked_at > 50
    assert all(kept)
    database.close()
