"""What a turn finds around it, and its tools with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zeroclaw_daemon.agent.asking import Interlocutor, Nobody
from zeroclaw_daemon.agent.events import TurnEvent
from zeroclaw_daemon.clock import Clock, SystemClock
from zeroclaw_host.services.logging import CallSite


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a turn takes place.

    :param interlocutor: who is asked.
    :param workspace: the absolute directory that commands run in.
    :param environment: what commands find in their environment besides the daemon's own. It may hold secrets (RPC-247).
    """

    interlocutor: Interlocutor = field(default_factory=Nobody)
    workspace: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class TurnSite(CallSite):
    """The call site of one tool call in a turn. What a tool adds to ``events`` happens in the turn once it has run.

    :param ask_seconds: how long a question of the tool waits for its answer.
    """

    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)
    ask_seconds: int = 300
    events: list[TurnEvent] = field(default_factory=list[TurnEvent], repr=False)
