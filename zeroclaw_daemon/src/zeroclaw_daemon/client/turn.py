"""One prompt and what comes of it, as a client follows it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from zeroclaw_daemon.client.updates import Update
from zeroclaw_daemon.rpc.mailbox import Mailbox
from zeroclaw_daemon.rpc.methods.session import PromptResult
from zeroclaw_host.errors import ZeroclawError


class Turn:
    """A prompt that was sent. Iterate over it for the updates, in their order; ``result`` is there when they end.

    A turn that is no longer iterated over goes on; :meth:`cancel` ends it.
    """

    def __init__(self, session_id: str, generation: int, cancel: Callable[[str], Awaitable[object]]) -> None:
        self.session_id = session_id
        self.generation = generation
        self._cancel = cancel
        # Updates wait here for their reader: whoever prompts is trusted to read, as the daemon is trusted to stop.
        self._updates = Mailbox[Update](sys.maxsize)
        self._result: PromptResult | None = None
        self._error: ZeroclawError | None = None

    def __aiter__(self) -> Turn:
        """The updates, ``turn_complete`` last."""
        return self

    async def __anext__(self) -> Update:
        """The next update.

        :raises RemoteError: the daemon answered the prompt with an error; every update before it was given.
        :raises ConnectionLost: the daemon went away in the middle of the turn.
        """
        try:
            return await anext(self._updates)
        except StopAsyncIteration:
            if self._error is not None:
                raise self._error from None
            raise

    @property
    def result(self) -> PromptResult:
        """What the daemon answered.

        :raises RuntimeError: the turn is not over, or it failed.
        """
        if self._result is None:
            raise RuntimeError("a turn has a result once it has ended well")
        return self._result

    async def finished(self) -> PromptResult:
        """Wait for the end; the result. Updates that nobody took are passed over.

        :raises RemoteError: the daemon answered with an error.
        :raises ConnectionLost: the daemon went away.
        """
        async for _ in self:
            pass
        return self.result

    async def cancel(self) -> None:
        """Tell the daemon to stop what runs in the session, which then ends with what there is: this turn, unless others of the
        session are before it. Does nothing once this turn is over.

        :raises RemoteError: there is no running turn any more, or it may not be stopped.
        :raises ConnectionLost: the daemon is gone.
        """
        if self._result is None and self._error is None:
            await self._cancel(self.session_id)

    # What the client does with it.

    def take(self, update: Update) -> None:
        """Something happened in it."""
        self._updates.put_nowait(update)

    def end(self, outcome: PromptResult | ZeroclawError) -> None:
        """It was answered, or never will be."""
        if isinstance(outcome, ZeroclawError):
            self._error = outcome
        else:
            self._result = outcome
        self._updates.close()
