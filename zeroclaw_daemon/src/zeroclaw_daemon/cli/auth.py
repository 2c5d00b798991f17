"""``zeroclaw auth``: paired tokens, and who may do what."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from zeroclaw_daemon.cli.environment import Environment, JsonOption, environment, warned_snapshot
from zeroclaw_daemon.cli.output import say, say_json, table, warn
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, UsageError, ZeroclawError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.authority.explaining import Answer, Explanation
    from zeroclaw_daemon.authority.policy import Policy
    from zeroclaw_daemon.authority.rights import Rights, Rule
    from zeroclaw_daemon.authority.tokens import PairedTokens
    from zeroclaw_daemon.rpc.methods.table import Signature

app = typer.Typer(
    help="""Manage who may use the daemon.

The daemon's own user may do everything. Anybody else is a user of the configuration, with permission profiles, and is
known by its user number on the socket or by a paired token:

\b
  zeroclaw auth pair ada                   a token for the user ada, shown once
  zeroclaw auth list                       which tokens there are
  zeroclaw auth unpair 1a2b3c4d            make one worthless, at once
  zeroclaw auth explain ada config/set agents.ada.model

A client shows a token as authToken of `initialize`; commands take it from the environment variable ZEROCLAW_AUTH_TOKEN.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="A user of the configuration, by name.")]


class UserUnknown(ZeroclawError):
    """The configuration has no user of that name. ``details`` holds ``user`` and ``known``."""

    code = "user_unknown"
    kind = Kind.NOT_FOUND


@app.command("pair")
def pair(context: typer.Context, user: UserArgument, as_json: JsonOption = False) -> None:
    """Issue a token for a user and print it, this one time. Only its hash is kept.

    Standard output gets the token alone, so that it can be piped to where it is to be kept.
    """
    current = environment(context)
    current.json = as_json
    policy = _policy(current)
    if user not in policy.users:
        known = ", ".join(policy.users) or "none"
        raise UserUnknown(
            f"the configuration has no user {user}; there is {known}",
            remedy=None if policy.users else Remedy(RemedyAction.RUN_HELP, {"command": "config patch"}),
            details={"user": user, "known": sorted(policy.users)},
        )
    void = policy.users[user].rights.void
    if void is not None:
        warn(f"the token is worth nothing yet: {sentence(void)}")
    issued = _tokens(current).pair(user)
    if as_json:
        token = issued.token
        say_json({"id": token.id, "user": token.user, "created": token.created, "token": issued.text})
        return
    print(
        f"The token {issued.token.id} of {visible(user)}. It is shown this once: keep it where nobody else can read it.",
        file=sys.stderr,
    )
    say(issued.text)


@app.command("unpair")
def unpair(
    context: typer.Context,
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="The token's id, as `zeroclaw auth list` shows it.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Make a token worthless. A connection that was opened with it may do nothing more from its next request on."""
    current = environment(context)
    current.json = as_json
    token = _tokens(current).unpair(token_id)
    if as_json:
        say_json({"id": token.id, "user": token.user, "unpaired": True})
    else:
        say(f"The token {token.id} of {visible(token.user)} is worth nothing any more.")


@app.command("list", short_help="List the paired tokens.")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the paired tokens: id, user, time of pairing, and whether the user may do anything."""
    current = environment(context)
    current.json = as_json
    policy = _policy(current)
    tokens = _tokens(current).list()
    if as_json:
        say_json(
            [
                {
                    "id": token.id,
                    "user": token.user,
                    "created": token.created,
                    "usable": _worthless(policy, token.user) is None,
                }
                for token in tokens
            ]
        )
        return
    rows = [
        (token.id, token.user, token.created, _worthless(policy, token.user) or "usable") for token in tokens
    ]
    if not rows and sys.stdout.isatty():
        say("No token is paired. `zeroclaw auth pair USER` issues one.")
        return
    table(("ID", "USER", "PAIRED", "STATE"), rows)


@app.command("explain", short_help="Say whether a user may call a method, and why.")
def explain(
    context: typer.Context,
    user: Annotated[
        str,
        typer.Argument(
            metavar="USER",
            help="A user of the configuration, or shared-operator for the daemon's own user.",
        ),
    ],
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, e.g. config/set.")],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="For config methods: the path that would be written; for config/map-key-rename either name.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="For session methods: the agent.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="For session/prompt: a tool that would run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a user may call a method, and which rule of the configuration decides.

    It reads the configuration file, as a running daemon does at every request, and asks no daemon.
    """
    from zeroclaw_daemon.authority.explaining import explain as explained

    current = environment(context)
    current.json = as_json
    row = _method(method)
    _check_fits(row, path, agent, tool)
    policy = _policy(current)
    paths = () if path is None else row.written(path)
    found = explained(policy, user, row.grant, paths=paths, agent=agent, tool=tool)
    if as_json:
        say_json(_as_json(found, method))
        return
    say(f"{'allowed' if found.allowed else 'denied'}: {visible(user)} may {'' if found.allowed else 'not '}"
        f"call {method}")  # fmt: skip
    for answer in found.answers:
        verdict = "allowed" if answer.decision.allowed else "denied"
        say(f"  {verdict:<8} {visible(_asked(answer))}: {visible(sentence(answer.decision.rule))}")
    for line in _ceilings(row, found, path, agent, tool):
        say(f"  limit    {visible(line)}")
    for note in _notes(policy, user):
        say(f"  note     {visible(note)}")


def sentence(rule: Rule) -> str:
    """A rule in words."""
    return _SENTENCES[rule.kind.value].format(where=rule.where, entry=rule.entry)


_SENTENCES: Final[Mapping[str, str]] = {
    "ungated": "the method needs no grant",
    "shared_operator": "the daemon's own user may do everything while {where} is {entry}",
    "admin": "{where} is {entry}",
    "granted": "{where} has {entry}",
    "agent_allowed": "{where} has {entry}",
    "tool_allowed": "{where} has {entry}",
    "path_allowed": "{where} has {entry}",
    "nobody": "there is no such user: {where} has no {entry}",
    "ambiguous": "{where} is {entry} of another user as well, so neither is anybody",
    "profile_missing": "{where} names {entry}, which does not exist, so none of its profiles counts",
    "nothing_granted": "no permission profile of the user grants anything, so it cannot even connect",
    "grant_missing": "no permission profile of the user has {entry} in {where}",
    "agent_not_allowed": "no permission profile of the user has {entry} in {where}",
    "tool_not_allowed": "no permission profile of the user has {entry} in {where}",
    "path_not_allowed": "no entry of {where} in the user's permission profiles covers {entry}",
    "path_not_named": "{entry} decides who may do what, and the bare * of {where} does not cover that; name it there",
    "operator_distrusted": "{where} is {entry}, so the daemon's own user is looked up in users like everybody",
}
"""Each word of :class:`~zeroclaw_daemon.authority.rights.RuleKind` as a sentence."""


def _asked(answer: Answer) -> str:
    from zeroclaw_daemon.authority.rights import AgentUse, ConfigWrite, Grant, ToolUse

    match answer.question:
        case Grant():
            return f"the grant {answer.question}"
        case AgentUse(alias):
            return f"the agent {alias}"
        case ToolUse(name):
            return f"the tool {name}"
        case ConfigWrite(path):
            return f"the path {path}"
        case None:
            return "the method"


def _ceilings(
    row: Signature, found: Explanation, path: str | None, agent: str | None, tool: str | None
) -> list[str]:
    """What else the call would be judged by, where the command was not told it."""
    rights = found.rights
    if not found.allowed or rights.admin:
        return []
    lines: list[str] = []
    if row.writes and path is None:
        lines.append(_limit("paths it may write", rights.config_paths))
    if row.agent and agent is None:
        lines.append(_limit("agents it may use", rights.agents))
    if row.tools and tool is None:
        lines.append(_limit("tools that may run", _tools_of(rights)))
    return lines


def _limit(what: str, names: frozenset[str]) -> str:
    return f"{what}: {', '.join(sorted(names)) or 'none'}"


def _tools_of(rights: Rights) -> frozenset[str]:
    from zeroclaw_daemon.authority.rights import RUN_TOOLS

    return rights.tools if RUN_TOOLS in rights.grants else frozenset()


def _notes(policy: Policy, user: str) -> list[str]:
    from zeroclaw_daemon.authority.rights import SHARED_OPERATOR

    known = policy.users.get(user)
    if known is not None and user == SHARED_OPERATOR:
        return [
            f"this is about users.{user}, which has the name that is also the daemon's own user's; give it another one to ask "
            "about that"
        ]
    if known is None or known.uid != os.geteuid() or not policy.trust_daemon_uid:
        return []
    return [
        f"on the socket, user number {known.uid} is the shared operator while security.trust_daemon_uid is true, if the "
        "daemon runs as the user who asks this; these rights are then those of a paired token alone"
    ]


def _as_json(found: Explanation, method: str) -> dict[str, object]:
    return {
        "user": found.user,
        "principal_id": found.principal_id or None,
        "method": method,
        "allowed": found.allowed,
        "rules": [
            {
                "question": _asked(answer),
                "allowed": answer.decision.allowed,
                "rule": answer.decision.rule.kind.value,
                "where": answer.decision.rule.where,
                "entry": answer.decision.rule.entry,
                "words": sentence(answer.decision.rule),
            }
            for answer in found.answers
        ],
    }


def _method(name: str) -> Signature:
    from difflib import get_close_matches

    from zeroclaw_daemon.rpc.methods.table import TABLE

    found = TABLE.get(name)
    if found is None:
        close = get_close_matches(name, TABLE, n=3) or sorted(TABLE)
        raise UsageError(
            f"there is no method {name}; the closest are {', '.join(close)}",
            remedy=Remedy(RemedyAction.RUN_HELP, {"command": "auth explain"}),
        )
    return found


def _check_fits(row: Signature, path: str | None, agent: str | None, tool: str | None) -> None:
    """A question that the daemon would never ask for this method is a mistake of the person who asks."""
    for given, fits, what in (
        (path, bool(row.writes), "writes no configuration path"),
        (agent, row.agent, "uses no agent"),
        (tool, row.tools, "runs no tool"),
    ):
        if given is not None and not fits:
            raise UsageError(
                f"{row.name} {what}", remedy=Remedy(RemedyAction.RUN_HELP, {"command": "auth explain"})
            )


def _worthless(policy: Policy, user: str) -> str | None:
    """Why a token of this user is worth nothing; None where it is worth something."""
    known = policy.users.get(user)
    if known is None:
        return "no such user"
    return sentence(known.rights.void) if known.rights.void is not None else None


def _policy(current: Environment) -> Policy:
    from zeroclaw_daemon.authority.policy import Policy

    return Policy.of(warned_snapshot(current).config)


def _tokens(current: Environment) -> PairedTokens:
    from zeroclaw_daemon.authority.tokens import PairedTokens

    return PairedTokens(Path(current.paths.tokens_file))
