"""Talking to the daemon from a command: finding it, and reading its refusals as errors of ours."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

from zeroclaw_daemon.client import DaemonClient, open_daemon
from zeroclaw_daemon.client.daemon import Approver, Hearer
from zeroclaw_daemon.client.opening import GATEWAY_VARIABLE
from zeroclaw_daemon.client.questions import Answerer
from zeroclaw_daemon.config.paths import Paths
from zeroclaw_daemon.rpc import errors
from zeroclaw_daemon.rpc.errors import ConnectionLost, RemoteError
from zeroclaw_host.errors import Kind, Remedy, RemedyAction, ZeroclawError


class DaemonError(ZeroclawError):
    """The daemon could not do what was asked. ``details`` holds ``code`` and ``reason``, as it sent them."""

    code = "daemon_error"
    kind = Kind.UNAVAILABLE


class DaemonGone(DaemonError):
    """The daemon went away in the middle of something."""

    code = "daemon_gone"


class DaemonRefused(DaemonError):
    """The caller may not do this."""

    code = "daemon_refused"
    kind = Kind.REFUSED


class DaemonFoundInvalid(DaemonError):
    """What was asked is not well-formed."""

    code = "daemon_found_invalid"
    kind = Kind.INVALID


class DaemonFoundNothing(DaemonError):
    """The session, agent or method asked for does not exist."""

    code = "daemon_found_nothing"
    kind = Kind.NOT_FOUND


class DaemonLimit(DaemonError):
    """The daemon holds as much as it may."""

    code = "daemon_limit"
    kind = Kind.LIMIT


_CLASSES: Final[Mapping[int, type[DaemonError]]] = {
    errors.INVALID_PARAMS: DaemonFoundInvalid,
    errors.PROTOCOL_MISMATCH: DaemonFoundInvalid,
    errors.SESSION_NOT_FOUND: DaemonFoundNothing,
    errors.UNKNOWN_METHOD: DaemonFoundNothing,
    errors.INVALID_REQUEST: DaemonFoundInvalid,
    errors.SESSION_LIMIT: DaemonLimit,
    errors.CONNECTION_LIMIT: DaemonLimit,
    errors.AUTHENTICATION_REQUIRED: DaemonRefused,
    errors.FORBIDDEN: DaemonRefused,
}


_BY_REASON: Final[Mapping[str, type[DaemonError]]] = {
    "agent_not_found": DaemonFoundNothing,
    "config_invalid": DaemonFoundInvalid,
    "config_syntax_invalid": DaemonFoundInvalid,
}
"""What a reason says more exactly than its code."""


def as_daemon_error(error: RemoteError) -> DaemonError:
    """The daemon's answer as an error with an exit status and, where it sent any, its remedies."""
    kind = _BY_REASON.get(error.reason or "") or _CLASSES.get(error.error.code, DaemonError)
    facts = _mapping(error.error.data)
    details: dict[str, object] = {
        key: value for key, value in facts.items() if key not in ("remedy", "remedies")
    }
    details["code"] = error.error.code
    remedies = _remedies(facts)
    if not remedies and kind is DaemonRefused:
        remedies = (Remedy(RemedyAction.RUN_HELP, {"command": "auth explain"}),)  # it says which rule refuses
    return kind(_message(error, facts), remedies=remedies, details=details)


def _message(error: RemoteError, facts: Mapping[str, object]) -> str:
    known, problems = facts.get("known"), facts.get("problems")
    if error.reason == "invalid_params" and isinstance(problems, list):
        each = [_mapping(problem) for problem in cast("list[object]", problems)]
        said = "; ".join(f"{one.get('member')}: {one.get('problem')}" for one in each)
        return f"parameters that do not fit: {said}"
    if error.reason == "agent_not_found" and isinstance(known, list):
        return f"{error.message}; there are: {', '.join(map(str, cast('list[object]', known))) or 'none'}"
    return error.message


def numbered(error: RemoteError) -> DaemonError:
    """As :func:`as_daemon_error`, with code and reason in its words, for somebody who writes a client."""
    found = as_daemon_error(error)
    word = f"{error.error.code} {error.reason}" if error.reason else str(error.error.code)
    return type(found)(f"{found.message} ({word})", remedies=found.remedies, details=found.details)


def about(error: RemoteError, session: str) -> DaemonError:
    """As :func:`as_daemon_error`, with the session that it is about in its words, for a command that is about several."""
    found = as_daemon_error(error)
    return type(found)(f"{session}: {found.message}", remedies=found.remedies, details=found.details)


def as_daemon_gone(error: ConnectionLost) -> DaemonError:
    """The end of the connection as an error that says what to do: the daemon's last words, or that it is gone."""
    if error.last_words is not None:
        return as_daemon_error(RemoteError(error.last_words))
    return DaemonGone(
        f"the daemon is gone: {error.message}",
        # Nobody starts a daemon from another machine.
        remedy=None if through_gateway() else Remedy(RemedyAction.START_DAEMON),
        details=error.details,
    )


def through_gateway() -> bool:
    """Whether commands talk with the daemon whose gateway the environment names."""
    return bool(os.environ.get(GATEWAY_VARIABLE, "").strip())


@asynccontextmanager
async def daemon(
    paths: Paths,
    *,
    approve: Approver | None = None,
    answer: Answerer | None = None,
    hear: Hearer | None = None,
) -> AsyncGenerator[DaemonClient]:
    """A connection to the daemon of this installation, introduced (RPC-228). See :func:`.client.open_daemon`.

    :raises DaemonError: the daemon refused something, or went away.
    :raises ZeroclawError: nothing answers there.
    """
    try:
        async with open_daemon(paths, approve=approve, answer=answer, hear=hear) as client:
            yield client
    except RemoteError as error:
        raise as_daemon_error(error) from None
    except ConnectionLost as error:
        raise as_daemon_gone(error) from None


def _remedies(facts: Mapping[str, object]) -> tuple[Remedy, ...]:
    """All that is to be done. Steps of which one is not known here are of no use, and are left out as a whole."""
    several = facts.get("remedies")
    given = cast("list[object]", several) if isinstance(several, list) and several else [facts.get("remedy")]
    found = [_remedy(each) for each in given]
    return () if None in found else tuple(each for each in found if each is not None)


def _remedy(data: object) -> Remedy | None:
    facts = _mapping(data)
    try:
        action = RemedyAction(facts.get("action"))
    except ValueError:
        return None  # A newer daemon may know remedies that this command does not.
    return Remedy(action, {name: str(value) for name, value in _mapping(facts.get("arguments")).items()})


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
