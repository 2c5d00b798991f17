"""A conversation in a terminal: lines in, turns out."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

import anyio

from zeroclaw_daemon.cli.calling import as_daemon_error, daemon, through_gateway
from zeroclaw_daemon.cli.config_values import MAX_INPUT_BYTES
from zeroclaw_daemon.cli.interrupts import Interrupts
from zeroclaw_daemon.cli.local_path import local_path
from zeroclaw_daemon.cli.output import report
from zeroclaw_daemon.cli.person import Person, refusing
from zeroclaw_daemon.cli.transcript import show
from zeroclaw_daemon.cli.turn_view import TurnView
from zeroclaw_daemon.cli.whom import close_conversation, open_conversation
from zeroclaw_daemon.client import ConnectionLost, DaemonClient, RemoteError, Turn
from zeroclaw_host.errors import UsageError, ZeroclawError
from zeroclaw_host.visible import visible

if TYPE_CHECKING:
    from zeroclaw_daemon.cli.environment import Environment
    from zeroclaw_daemon.rpc.methods.file_models import FileEntry
    from zeroclaw_daemon.rpc.methods.session import NewResult

PROMPT: Final = "> "
INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended."""
SHOWN_ON_RESUME: Final = 20
"""Entries of a transcript that are shown where it is gone on with."""

_HELP: Final = """\
/attach PATH   send a file with what you say next
/session       the id of this conversation
/help          this list
/quit          leave; the conversation is kept
//...          say something that begins with a slash
Ctrl-C stops the turn that runs; twice, it leaves. So does Ctrl-D."""


async def hold(current: Environment, *, agent: str | None, session: str | None, resume: str | None) -> int:
    """Hold a conversation until the person leaves; the exit status.

    :raises ZeroclawError: it cannot begin, or the daemon went away.
    """
    view = TurnView(sys.stdout, sys.stdout)
    person = Person(view) if Person.is_there() else None
    async with daemon(
        current.paths,
        approve=person.approve if person else refusing(view.beside),
        answer=person.answer if person else None,
        hear=view.event,
    ) as client:
        opened = await open_conversation(client, agent=agent, session=session, resume=resume)
        conversation = Conversation(client, opened, view, current, person=person, far=through_gateway())
        try:
            return await conversation.hold()
        finally:
            conversation.part()


class Conversation:
    """One session, and the person at the terminal.

    :param person: whoever sits there; None where nobody does.
    :param far: whether the connection has to be kept alive while a person thinks, as one through a gateway has.
    """

    def __init__(
        self,
        client: DaemonClient,
        opened: NewResult,
        view: TurnView,
        current: Environment,
        *,
        person: Person | None,
        far: bool,
    ) -> None:
        self._client = client
        self._opened = opened
        self._view = view
        self._current = current
        self._person = person
        self._asks = person is not None
        self._far = far
        self._interrupts = Interrupts()
        self._files: list[FileEntry] = []
        """What goes with the next thing that is said."""
        self._over: int | None = None
        self._failed = 0
        """The exit status of the first thing that failed, where nobody sits there who is told."""
        self._abandoned = False
        self._spoken = opened.message_count > 0
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/attach": self._attach,
            "/help": self._help,
            "/quit": self._quit,
            "/session": self._session,
        }

    @property
    def _id(self) -> str:
        return self._opened.session_id

    async def hold(self) -> int:
        """Say what there is to know, and take lines until the person leaves; the exit status."""
        await self._begin()
        with self._interrupts.caught():
            status = await self._go_on()
        if not self._abandoned:  # a turn that still runs would be waited for; it ends with the connection
            await close_conversation(self._client, self._id)
        return status

    async def _begin(self) -> None:
        """Say who is there, and what was said before."""
        if self._asks:
            self._view.beside(
                f"{self._opened.agent_alias} listens, in conversation {self._id}; /help says what there is"
            )
        if self._opened.message_count:
            show(await self._client.messages(self._id, limit=SHOWN_ON_RESUME), self._view)

    async def _go_on(self) -> int:
        """Take lines until there are no more, or the person leaves; the exit status."""
        warned = False
        while self._over is None:
            try:
                line = await self._next_line()
            except KeyboardInterrupt:
                print()
                if warned:
                    return INTERRUPTED
                warned = True
                self._view.beside("Ctrl-C once more leaves")
                continue
            except UsageError as error:  # what follows it is no line any more
                self._tell(error)
                break
            warned = False
            if line is None:
                if self._asks:
                    print()
                break
            if said := line.strip():
                await self._take(said)
        return self._over or self._failed

    def part(self) -> None:
        """Say how the conversation is gone on with."""
        self._view.end_line()
        if self._asks and self._spoken:
            resume = self._current.place.data_command("chat --resume", self._id)
            self._view.beside(f"to go on with this conversation: {resume}")

    async def _take(self, said: str) -> None:
        """Do what a line says. What goes wrong with it is told, and the conversation goes on while the daemon is there."""
        word, _, rest = said.partition(" ")
        try:
            if not said.startswith("/"):
                await self._turn(said)
            elif said.startswith("//"):
                await self._turn(said[1:])
            elif command := self._commands.get(word):
                await command(rest.strip())
            else:
                raise UsageError(f"there is no command {word}; /help lists them, and // says a slash")
        except ConnectionLost:
            raise
        except RemoteError as error:
            self._tell(as_daemon_error(error))
        except ZeroclawError as error:
            self._tell(error)

    def _tell(self, error: ZeroclawError) -> None:
        self._view.end_line()
        report(error, self._current.place, as_json=False)
        if not self._asks:
            self._failed = self._failed or error.kind.value

    async def _turn(self, said: str) -> None:
        """Say something and show what comes of it."""
        self._spoken = True
        files, self._files = self._files, []
        turn = self._client.prompt(self._id, said, attachments=files)
        presses = 0
        failed: ZeroclawError | None = None
        async with anyio.create_task_group() as tasks:

            def stop() -> None:
                nonlocal presses
                presses += 1
                if presses == 1:
                    self._view.beside("stopping; Ctrl-C once more leaves")
                    tasks.start_soon(self._stop, turn)
                else:
                    self._over, self._abandoned = INTERRUPTED, True
                    tasks.cancel_scope.cancel()

            with self._interrupts.calling(stop):
                failed = await self._follow(turn)
            tasks.cancel_scope.cancel()
        if self._over is not None:
            return
        if failed is not None:
            raise failed
        self._view.result(turn.result)

    async def _follow(self, turn: Turn) -> ZeroclawError | None:
        """Show what comes of a turn; its error, if it ends with one."""
        try:
            async for update in turn:
                self._view.event(update)
        except ZeroclawError as error:
            return error
        return None

    async def _stop(self, turn: Turn) -> None:
        try:
            await turn.cancel()
        except RemoteError as error:
            self._view.beside(error.message)

    # Commands.

    async def _help(self, rest: str) -> None:
        print(_HELP)

    async def _quit(self, rest: str) -> None:
        self._over = 0

    async def _session(self, rest: str) -> None:
        print(visible(self._id))

    async def _attach(self, rest: str) -> None:
        if not rest:
            raise UsageError("say which: /attach PATH")
        with anyio.CancelScope() as scope, self._interrupts.calling(scope.cancel):
            entry = await self._client.upload_file(self._id, local_path(rest))
            self._files.append(entry)
            self._view.beside(f"{rest} goes with what you say next, as {entry.marker}")
            return
        self._view.beside(f"{rest} is not sent")

    async def _next_line(self) -> str | None:
        """What is said next; None at the end of the input.

        :raises KeyboardInterrupt: Ctrl-C.
        """
        if self._person is None or not self._far:
            return self._read_line()
        with anyio.CancelScope() as scope, self._interrupts.calling(scope.cancel):
            return await self._person.line(PROMPT)
        raise KeyboardInterrupt

    def _read_line(self) -> str | None:
        """What a person types next, edited and remembered as the line editor does it; None at the end of the input.

        This holds up the event loop, on purpose: nothing goes on while a person thinks, and the line editor needs the
        main thread. A daemon on this machine does not ask whether we are still there.

        :raises KeyboardInterrupt: Ctrl-C.
        """
        with self._interrupts.ending():
            if not self._asks:
                return _piped_line()
            with suppress(ImportError):  # some builds of Python lack it; the terminal then edits the line
                import_module("readline")
            try:
                return input(PROMPT)
            except EOFError:
                return None


def _piped_line() -> str | None:
    """The next line of standard input where nobody types; None at its end.

    :raises UsageError: it is too long, or no UTF-8.
    """
    raw = sys.stdin.buffer.readline(MAX_INPUT_BYTES + 1)
    if len(raw) > MAX_INPUT_BYTES:
        raise UsageError(f"a line of standard input has more than {MAX_INPUT_BYTES} bytes")
    try:
        return raw.decode() or None
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None
