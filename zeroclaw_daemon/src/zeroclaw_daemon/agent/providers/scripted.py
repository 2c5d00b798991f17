"""A model that says what a script says. A public fake for tests of anything that runs turns."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from zeroclaw_daemon.agent.providers.base import ModelEvent, ModelRequest, ProviderError


@dataclass(frozen=True, slots=True)
class Pause:
    """A place in a script where the model waits. ``reached`` is set when it gets there; set ``go`` to let it go on."""

    reached: anyio.Event = field(default_factory=anyio.Event)
    go: anyio.Event = field(default_factory=anyio.Event)


Line: TypeAlias = ModelEvent | Pause | ProviderError
"""What a script is made of; an error is raised."""


class ScriptedProvider:
    """Answers each request with the next of its scripts, and keeps the requests.

    :param scripts: one for every request to come; a request beyond them fails.
    """

    def __init__(self, *scripts: Iterable[Line]) -> None:
        self._scripts = deque(tuple(script) for script in scripts)
        self.requests: list[ModelRequest] = []
        self.closed = 0
        """How many streams have ended, for whatever reason."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the next script."""
        self.requests.append(request)
        if not self._scripts:
            raise ProviderError("the script has no further answer")
        try:
            for line in self._scripts.popleft():
                match line:
                    case Pause(reached, go):
                        reached.set()
                        await go.wait()
                    case ProviderError():
                        raise line
                    case _:
                        yield line
        finally:
            self.closed += 1
