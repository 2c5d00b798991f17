"""Every remedy that the network authority prints, run as it is printed on a real file, and the refused request again.

Two tables make the cases: what the configuration says about an instance, and what a request of it asks for. What becomes of
each request in the end is written beside it: it passes, or a refusal is left that no configuration lifts.
"""

from __future__ import annotations

import io
import ipaddress
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pasting import HOSTILE, SHELLS

from zeroclaw_daemon.cli.remedies import Place, advise
from zeroclaw_daemon.config.egress_remedies import fit_remedies
from zeroclaw_daemon.config.file import load
from zeroclaw_daemon.config.network import granted
from zeroclaw_host.egress.decision import Decision, Reason, decide
from zeroclaw_host.egress.hosts import Address, RequestHost, parse_request_host
from zeroclaw_host.egress.policy import EgressPolicy, PolicyField, PolicyInvalid, PolicyUnavailable
from zeroclaw_host.egress.request import EgressRequest, TlsMode, Transport
from zeroclaw_host.egress.source import RowPolicies
from zeroclaw_host.errors import Remedy, RemedyAction
from zeroclaw_host.instance import InstanceIdentity
from zeroclaw_host.package.hosts import parse_hosts
from zeroclaw_host.package.manifest import Capability
from zeroclaw_host.visible import is_plain

TOOL = InstanceIdentity.default_tool("weather")
CHANNEL = InstanceIdentity("chat", Capability.CHANNEL, "ops")
BAD_ALIAS = InstanceIdentity("chat", Capability.CHANNEL, "ops-team")
PUBLIC = "93.184.216.34"


@dataclass(frozen=True)
class Case:
    """A request, and what is left of it once everything was done that was said: None where it passes."""

    host: str
    answer: tuple[str, ...] = (PUBLIC,)
    left: Reason | None = None
    port: int = 443
    tls: TlsMode = TlsMode.DIRECT
    profile: str | None = None
    permitted: bool = True

    def request(self, identity: InstanceIdentity) -> EgressRequest:
        return EgressRequest(
            identity=identity,
            transport=Transport.HTTP,
            host=self.host,
            port=self.port,
            tls=self.tls,
            tls_profile=self.profile,
            permitted=self.permitted,
        )


REQUESTS = {
    "public name": Case("api.example"),
    "private name": Case("intranet.example", ("10.1.2.3",)),
    "private address": Case("192.168.7.7", ("192.168.7.7",)),
    "this machine": Case("localhost", ("127.0.0.1", "::1")),
    "metadata name": Case("metadata.example", ("169.254.169.254",), Reason.METADATA_ADDRESS),
}
"""What is asked for under every configuration."""

MORE_REQUESTS = {
    "name in other letters": Case("API.Example."),
    "public IPv6 address": Case("[2606:4700::1111]", ("2606:4700::1111",)),
    "metadata address": Case("169.254.169.254", ("169.254.169.254",), Reason.METADATA_ADDRESS),
    "public address": Case(PUBLIC),
    "private IPv6 address": Case("[fd00::7]", ("fd00::7",)),
    "this link": Case("printer.local", ("10.0.0.9",)),
    "metadata beside others": Case("two.example", (PUBLIC, "100.100.100.200"), Reason.METADATA_ADDRESS),
    "metadata behind NAT64": Case("[64:ff9b::a9fe:a9fe]", ("64:ff9b::a9fe:a9fe",), Reason.METADATA_ADDRESS),
    "mixed": Case("mixed.example", (PUBLIC, "10.0.0.1"), Reason.MIXED_ADDRESSES),
    "no addresses": Case("nowhere.example", (), Reason.NO_ADDRESSES),
    "this machine elsewhere": Case("a.localhost", (PUBLIC,), Reason.LOCAL_NAME_ELSEWHERE),
    "address answered by another": Case(PUBLIC, ("1.1.1.1",), Reason.LITERAL_MISMATCH),
    "no host": Case("$(id).example.com", left=Reason.HOST_INVALID),
    "a quote": Case("it's.example.com", left=Reason.HOST_INVALID),
    "lines": Case("a\n.example.com", left=Reason.HOST_INVALID),
    "no port": Case("api.example", left=Reason.PORT_INVALID, port=0),
    "no permission": Case("api.example", left=Reason.PERMISSION_MISSING, permitted=False),
    "unknown profile": Case("api.example", left=Reason.HOST_NOT_GRANTED, profile="none"),
}
"""What is asked for under some."""

ROW = f'[[plugins.entries]]\nname = "{TOOL.key}"\n'
LEGACY = '[[plugins.entries]]\nname = "weather"\n'
VERSION = "schema_version = 1\n"
STATES = {
    "no file": None,
    "no row": VERSION,
    "no row of an old file": "[plugins]\nenabled = true\n",
    "a row without hosts": VERSION + ROW,
    "a wildcard": VERSION
    + ROW
    + 'egress_hosts = ["*.example.net"]\negress_allow_private = ["z.example.net"]\n',
    "a wildcard that is too wide": VERSION + ROW + 'egress_hosts = ["*.example", "*.com", "z.example.com"]\n',
    "space around an entry": VERSION + ROW + 'egress_hosts = [" api.example", "z.example"]\n',
    "a carve-out of nothing": VERSION
    + ROW
    + 'egress_hosts = ["z.example"]\negress_allow_private = ["10.1.2.3", "z.example"]\n',
    "both lists bad": VERSION
    + ROW
    + 'egress_hosts = ["*.com"]\negress_allow_private = ["*.com", "printer.local", "10.9.9.9"]\n',
    "a former row": VERSION + LEGACY + 'egress_hosts = ["z.example"]\negress_allow_private = ["z.example"]\n',
    "a former row that grants it": VERSION
    + LEGACY
    + 'egress_hosts = ["api.example", "10.0.0.5", "intranet.example"]\negress_allow_private = ["intranet.example"]\n',
    "a bad former row": VERSION
    + LEGACY
    + 'egress_hosts = ["*.com", "z.example"]\negress_allow_private = ["y.example"]\n',
    "a former row of an old file": LEGACY + 'egress_hosts = ["z.example"]\n',
    "a former row of an old file, and an alias of its name": LEGACY
    + 'egress_hosts = ["z.example"]\n[channels.plugin.weather]\npackage = "chat"\n',
    "bad NAT64 prefixes": f'{VERSION}security.nat64_prefixes = ["64:ff9b::/97"]\n{ROW}',
    "no connections": f"{VERSION}plugins.limits.max_connections_per_instance = 0\n{ROW}",
    "a deployment bad in two ways": f'{VERSION}security.nat64_prefixes = ["x"]\n'
    f"plugins.limits.max_connections_per_instance = 0\n{LEGACY}",
}
"""What the file says. Where it is nothing, there is none."""

NEVER_HELPED = {
    "metadata address",
    "metadata behind NAT64",
    "no host",
    "a quote",
    "lines",
    "no port",
    "no permission",
    "unknown profile",
}
"""What is known to be refused whatever is granted, before any address is looked up: nothing at all is printed for it."""

FEW_STATES = ("no row", "both lists bad", "a former row")

BAD_ROWS = {
    "a wildcard that is too wide",
    "space around an entry",
    "a carve-out of nothing",
    "both lists bad",
}
"""Every request is refused by these; one that nothing lifts is refused no further."""

VALUES = {
    "security.nat64_prefixes": "2001:db8::/96",
    "plugins.limits.max_connections_per_instance": "4",
}
"""What an operator answers where a command asks."""

NOT_LIFTED = {
    Reason.PERMISSION_MISSING: "the manifest asks for no such permission",
    Reason.POLICY_UNAVAILABLE: "the file has to be mended first, which says so itself",
    Reason.HOST_INVALID: "no entry can mean it",
    Reason.PORT_INVALID: "no destination has it",
    Reason.TLS_PROFILE_WITHOUT_TLS: "the guest asks for two things at once",
    Reason.TLS_PROFILE_UNKNOWN: "only the operator knows what it is to be",
    Reason.TLS_PROFILE_INVALID: "its secrets and hosts are the operator's",
    Reason.TLS_PROFILE_HOST: "whose certificate is trusted where is the operator's to say",
    Reason.LOCAL_NAME_ELSEWHERE: "the answer contradicts the name",
    Reason.NO_ADDRESSES: "there is nothing to connect to",
    Reason.LITERAL_MISMATCH: "the answer contradicts the address",
    Reason.METADATA_ADDRESS: "it hands out the machine's own credentials",
    Reason.MIXED_ADDRESSES: "the answer is an attack or a mistake",
}
"""The refusals for which no command is printed, and why there can be none."""


@dataclass
class Asking:
    """One instance of an installation, and a request that it repeats."""

    file: Path
    case: Case
    identity: InstanceIdentity = TOOL

    @property
    def request(self) -> EgressRequest:
        return self.case.request(self.identity)

    def decide(self) -> Decision:
        """What the file as it is now makes of the request."""
        answer: list[Address] = [ipaddress.ip_address(each) for each in self.case.answer]
        source = RowPolicies(lambda identity: granted(load(self.file, {}), identity))
        try:
            return decide(self.request, source.policy(self.identity), answer)
        except (PolicyInvalid, PolicyUnavailable) as error:
            return decide(self.request, error, answer)

    def commands(self, decision: Decision) -> Iterator[str]:
        """What is printed, completed where a command asks."""
        place = Place(str(self.file.parent), platform="posix")
        for remedy in fit_remedies(decision.remedies, self.identity, load(self.file, {})):
            command = advise(remedy, place).command
            assert command is not None, remedy
            path = remedy.arguments.get("path") or f"plugins.limits.{remedy.arguments.get('limit')}"
            asks = remedy.action in (RemedyAction.SET_CONFIG, RemedyAction.RAISE_LIMIT)
            yield f"{command} {VALUES[path]}" if asks and "value" not in remedy.arguments else command


def followed(them: Asking, run: Callable[[str], None]) -> tuple[Decision, list[Reason]]:
    """Run everything that is printed until nothing is; the last decision, and what was lifted before."""
    lifted: list[Reason] = []
    while (decision := them.decide()).remedies:
        assert decision.reason is not None
        assert decision.reason not in lifted, f"{decision.reason} was not lifted"
        lifted.append(decision.reason)
        for command in them.commands(decision):
            run(command)
    return decision, lifted


def asking(home, state: str | None, case: Case, identity: InstanceIdentity = TOOL) -> Asking:
    home.config_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if state is not None:
        home.configure(state)
    return Asking(home.config_file, case, identity)


@pytest.fixture
def run(zeroclaw) -> Callable[[str], None]:
    """Runs a printed command as it is, in this process."""

    def command(text: str) -> None:
        done = zeroclaw(*shlex.split(text)[1:])
        assert done.status == 0, (text, done.err)

    return command


@pytest.mark.req("PLG-183", "PLG-184", "PLG-195", "PLG-197", "PLG-206", "PLG-216", "PAINS-17")
@pytest.mark.parametrize(
    ("state", "asked"),
    [
        *((state, asked) for state in STATES for asked in REQUESTS),
        *((state, asked) for state in FEW_STATES for asked in MORE_REQUESTS),
    ],
)
def test_every_command_printed_for_a_refusal_is_run_and_the_request_then_passes(
    home, run, package, state: str, asked: str
) -> None:
    case = (REQUESTS | MORE_REQUESTS)[asked]
    if "old file" in state:  # a migration renames the rows of packages that are installed
        shutil.copytree(package("weather", more='permissions = ["http_client"]'), home.plugins / "weather")
    decision, lifted = followed(asking(home, STATES[state], case), run)
    expected = case.left
    if not lifted and state in BAD_ROWS and case.permitted:
        assert expected is not None, "nothing is printed, and something helps"
        expected = Reason.POLICY_INVALID
    assert decision.reason is expected
    assert all(reason.configuration_helps for reason in lifted)
    if asked in NEVER_HELPED:
        assert not lifted


def test_every_refusal_is_lifted_or_it_is_written_why_it_cannot_be() -> None:
    assert {reason for reason in Reason if not reason.configuration_helps} == set(NOT_LIFTED)


PROFILES = """
[[plugins.entries.tls_profiles]]
name = "corp"
hosts = ["corp.example"]
custom_ca_secret = "ca"

[[plugins.entries.tls_profiles]]
name = "other"
hosts = ["other.example", "never.example"]
"""


@pytest.mark.req("PLG-184", "PAINS-17")
@pytest.mark.parametrize(
    "hosts", [[], ["z.example"], ["corp.example", "other.example", "api.example"], ["*.com"]]
)
@pytest.mark.parametrize(
    ("case", "left"),
    [
        (Case("corp.example", profile="corp"), set[Reason]()),
        (
            Case("corp.example", profile="corp", tls=TlsMode.NONE),
            {Reason.HOST_NOT_GRANTED, Reason.TLS_PROFILE_WITHOUT_TLS},
        ),
        (Case("corp.example", profile="none"), {Reason.HOST_NOT_GRANTED, Reason.TLS_PROFILE_UNKNOWN}),
        (Case("api.example", profile="corp"), {Reason.HOST_NOT_GRANTED, Reason.TLS_PROFILE_HOST}),
        (Case("other.example", profile="other"), {Reason.HOST_NOT_GRANTED, Reason.TLS_PROFILE_INVALID}),
    ],
)
def test_a_request_that_names_a_profile_is_told_only_what_makes_it_pass(
    home, run, hosts: list[str], case: Case, left: set[Reason]
) -> None:
    row = f"{VERSION}{ROW}egress_hosts = {json.dumps(hosts)}\n{PROFILES}"
    before = home.configure(row) or home.config_file.read_text()
    decision, lifted = followed(asking(home, None, case), run)
    if not left:
        assert decision.allowed
    else:
        assert decision.reason in left | {Reason.POLICY_INVALID}
        assert not lifted
        assert home.config_file.read_text() == before


@pytest.mark.req("PLG-209", "PLG-206", "PAINS-17")
def test_a_channel_without_a_row_gets_one_with_its_grant(home, run) -> None:
    state = f'{VERSION}[channels.plugin.ops]\npackage = "chat"\n'
    them = asking(home, state, REQUESTS["this machine"], CHANNEL)
    decision, lifted = followed(them, run)
    assert decision.allowed
    assert lifted == [Reason.HOST_NOT_GRANTED]
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row == {
        "name": CHANNEL.key,
        "egress_hosts": ["localhost"],
        "egress_allow_private": ["localhost"],
    }


@pytest.mark.req("PLG-216", "PLG-217", "PAINS-17")
def test_a_former_row_keeps_what_it_granted_and_what_it_configured(home, run) -> None:
    state = STATES["a former row"] + '[plugins.entries.config]\nunits = "c"\n'
    decision, _ = followed(asking(home, state, REQUESTS["private address"]), run)
    assert decision.allowed
    [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
    assert row["name"] == TOOL.key
    assert row["egress_hosts"] == ["192.168.7.7", "z.example"]
    assert row["egress_allow_private"] == ["192.168.7.7", "z.example"]
    assert "units" in row["config"]


def test_an_alias_that_can_have_no_row_gets_no_command(home) -> None:
    """The table is renamed by hand (PLG-211); the instance is another one then, and says itself what it lacks."""
    snapshot = load(home.config_file, {})
    remedies = decide(REQUESTS["public name"].request(BAD_ALIAS), EgressPolicy.of([]), ()).remedies
    [only] = fit_remedies(remedies, BAD_ALIAS, snapshot)
    assert only.action is RemedyAction.RENAME_TABLE
    assert advise(only, Place("/c", platform="posix")).command is None


@pytest.mark.req("PLG-196", "PLG-201", "PLG-206", "PAINS-17")
@pytest.mark.parametrize(
    ("shell", "state"), [*((shell, "no row") for shell in SHELLS), ("fish", "a former row")]
)
def test_what_is_printed_is_pasted_into_a_real_shell(
    home, system_program: Callable[[str], str], shell: str, state: str
) -> None:
    program, *options = SHELLS[shell]
    directory = home.path / 'it\'s $HOME \\ `id` "here"'

    def paste(command: str) -> None:
        done = subprocess.run(
            [system_program(program), *options],
            input=f"{command}\n".encode(),
            env={**home.environment(), "LC_ALL": "C.UTF-8", "HISTFILE": os.devnull},
            cwd=home.path,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert b"error" not in done.stderr, done.stderr

    directory.mkdir(mode=0o700)
    file = directory / "config.toml"
    file.write_text(STATES[state] or "")
    decision, lifted = followed(Asking(file, REQUESTS["this machine"]), paste)
    assert decision.allowed
    assert lifted == [Reason.HOST_NOT_GRANTED]


@pytest.mark.req("PLG-197", "PLG-198")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_one_command_that_is_incomplete_changes_nothing_until_its_value_is_put_behind_it(
    home, zeroclaw, system_program: Callable[[str], str], shell: str
) -> None:
    program, *options = SHELLS[shell]
    home.configure(f'{VERSION}{ROW}egress_hosts = ["z.example"] # mine\n')
    before = home.config_file.read_bytes()
    incomplete = Remedy(RemedyAction.COMPLETE_CONFIG, {"path": PolicyField.HOSTS.path(TOOL)})
    command = advise(incomplete, Place(str(home.config_file.parent), platform="posix")).command
    assert command is not None
    as_printed = zeroclaw(*shlex.split(command)[1:])
    assert as_printed.status == 2
    assert "is missing" in as_printed.err
    assert home.config_file.read_bytes() == before
    for line, hosts in (
        (command, ["z.example"]),
        (f"{command} b.example,a.example", ["b.example", "a.example"]),
    ):
        subprocess.run(
            [system_program(program), *options],
            input=f"{line}\n".encode(),
            env={**home.environment(), "HISTFILE": os.devnull},
            capture_output=True,
            timeout=120,
            check=False,
        )
        [row] = tomllib.loads(home.config_file.read_text())["plugins"]["entries"]
        assert row["egress_hosts"] == hosts


class Terminal(io.StringIO):
    """Somebody who may be asked, and says nothing."""

    def isatty(self) -> bool:
        return True


@pytest.mark.req("PLG-198")
def test_the_incomplete_command_asks_nobody_even_where_somebody_is_there(
    home, zeroclaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure(f"{VERSION}{ROW}")
    monkeypatch.setattr(sys, "stdin", Terminal("a.example\n"))
    path = PolicyField.HOSTS.path(TOOL)
    assert zeroclaw("config", "set", "--no-interactive", path).status == 2
    assert home.config_file.read_text() == f"{VERSION}{ROW}"
    assert zeroclaw("config", "set", path).status == 0, "without the option, they are asked"
    assert "a.example" in home.config_file.read_text()


def test_a_row_that_was_renamed_is_told_under_its_new_name(home, zeroclaw) -> None:
    home.configure(STATES["a former row"])
    outcome = zeroclaw("config", "set", "plugins.entries.weather.name", TOOL.key)
    assert outcome.out == f"plugins.entries.{TOOL.key}.name = {TOOL.key}\n"


HOSTILE_HOST = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=40),
    st.from_regex(r"[a-z0-9.*$(){}'\"\\`;|& -]{1,40}", fullmatch=True),
    st.builds("{}.example.com".format, st.sampled_from(HOSTILE)),
)


@pytest.mark.req("PLG-184", "PLG-196")
@given(host=HOSTILE_HOST)
def test_whatever_host_a_guest_names_a_printed_command_holds_it_as_one_literal_host_or_not_at_all(
    host: str,
) -> None:
    decision = decide(Case(host).request(TOOL), EgressPolicy.of(["z.example"]), ())
    snapshot = load(Path("/nowhere/config.toml"), {})
    for remedy in (*decision.remedies, *fit_remedies(decision.remedies, TOOL, snapshot)):
        advice = advise(remedy, Place("/c", platform="posix"))
        assert is_plain(advice.words)
        assert advice.command is not None
        value = shlex.split(advice.command)[-1]
        entries = json.loads(value)[0]["value"] if value.startswith("[{") else value.split(",")
        named = parse_request_host(host)
        assert isinstance(named, RequestHost)
        assert named.text in entries
        assert parse_hosts(entries)
