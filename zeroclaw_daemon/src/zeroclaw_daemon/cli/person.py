"""Asking a person at a terminal, while a turn goes on.

The terminal edits the line, and the event loop waits for it: so a question can be taken back in the middle of the answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from zeroclaw_host.visible import visible, visible_lines

if TYPE_CHECKING:
    from zeroclaw_daemon.cli.turn_view import TurnView
    from zeroclaw_daemon.client import ApprovalRequest, Question, Verdict
    from zeroclaw_daemon.client.daemon import Approver
    from zeroclaw_daemon.client.questions import Answer, FormField
    from zeroclaw_daemon.strict_json import JsonValue

_LINE_BYTES: Final = 64 * 1024
_YES: Final = ("y", "yes")
_NO: Final = ("n", "no")


class InputEnded(Exception):
    """The person will type nothing more."""


class Person:
    """Whoever sits at the terminal. Asked one thing at a time.

    :param view: what the questions are shown beside.
    """

    def __init__(self, view: TurnView) -> None:
        import anyio

        self._view = view
        self._free = anyio.Lock()
        self._unread = b""

    @staticmethod
    def is_there() -> bool:
        """Whether there is a terminal to ask at, to read from and to write to."""
        return sys.stdin.isatty() and sys.stdout.isatty()

    async def approve(self, request: ApprovalRequest) -> Verdict:
        """Ask whether a tool may run."""
        from zeroclaw_daemon.client import Decision, Verdict

        async with self._free:
            # One line: nothing in it may look like a line of ours, or be there unseen.
            self._show(visible(f"{request.tool_name} wants to run with {request.arguments_summary}"))
            while True:
                try:
                    said = await self._line("Allow it? [y]es, [a]lways in this conversation, [n]o, [e]dit: ")
                    match said.lower():
                        case "y" | "yes":
                            return Verdict(Decision.ALLOW_ONCE)
                        case "a" | "always":
                            return Verdict(Decision.ALLOW_ALWAYS)
                        case "n" | "no":
                            return Verdict(Decision.REJECT_ONCE)
                        case "e" | "edit":
                            instead = await self._line("What is to be done instead? ")
                            return Verdict(Decision.REJECT_WITH_EDIT, instead)
                        case _:
                            continue
                except InputEnded:
                    return Verdict(Decision.REJECT_ONCE)

    async def answer(self, question: Question) -> Answer:
        """Ask what an agent wants to know. An empty line, and the end of the input, are no answer."""
        from zeroclaw_daemon.client import Accepted, Declined

        async with self._free:
            self._show(question.message)
            content: dict[str, JsonValue] = {}
            for field in question.fields:
                try:
                    value = await self._field(field)
                except InputEnded:
                    return Declined()
                if value is not None:
                    content[field.name] = value
                elif field.required:
                    return Declined()
            return Accepted(content) if content else Declined()

    async def _field(self, field: FormField) -> JsonValue:
        """One value; None where there is to be none."""
        for number, choice in enumerate(field.choices, 1):
            print(f"  {number}) {visible(choice.title)}", flush=True)
        asked = f"{visible(field.title)}: " if field.title else ""
        while said := await self._line(f"{asked}{_HINTS[field.kind.value]}: "):
            value = _READERS[field.kind.value](field, said)
            if value is not None:
                return value
        return None

    def _show(self, text: str) -> None:
        import termios

        self._view.end_line()
        # What was typed before the question was seen is no answer to it.
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._unread = b""
        print(f"? {visible_lines(text)}", flush=True)

    async def line(self, prompt: str) -> str | None:
        """What the person types next of their own accord; None where they will type nothing more."""
        print(prompt, end="", flush=True)
        try:
            return await self._typed()
        except InputEnded:
            return None

    async def _line(self, prompt: str) -> str:
        """What the person answers.

        :raises InputEnded: nothing more will come.
        """
        import anyio

        print(prompt, end="", flush=True)
        try:
            return await self._typed()
        except anyio.get_cancelled_exc_class():
            print("\n(nobody waits for the answer any more)", flush=True)
            raise

    async def _typed(self) -> str:
        """What is typed up to the end of the line.

        :raises InputEnded: nothing more will come.
        """
        import anyio

        descriptor = sys.stdin.fileno()
        while b"\n" not in self._unread:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, _LINE_BYTES)
            if not data:
                raise InputEnded
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode(errors="replace").strip()


def refusing(say: Callable[[str], None]) -> Approver:
    """Where nobody can be asked, a tool that needs consent is not run, and that is said."""

    async def refuse(request: ApprovalRequest) -> Verdict:
        from zeroclaw_daemon.client import Decision, Verdict

        say(f"{request.tool_name} needs consent, and nobody is here to give it: it is not run")
        return Verdict(Decision.REJECT_ONCE)

    return refuse


def _chosen(field: FormField, said: str) -> JsonValue:
    numbers = _numbers(said, len(field.choices))
    return field.choices[numbers[0] - 1].value if numbers is not None and len(numbers) == 1 else None


def _all_chosen(field: FormField, said: str) -> JsonValue:
    numbers = _numbers(said, len(field.choices))
    most = len(field.choices) if field.most is None else field.most
    if numbers is None or not field.least <= len(numbers) <= most:
        return None
    return [field.choices[number - 1].value for number in numbers]


def _numbers(said: str, most: int) -> list[int] | None:
    """Different numbers from 1 to ``most``; None where something else was said."""
    words = said.replace(",", " ").split()
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        return None
    numbers = list(dict.fromkeys(map(int, words)))
    return numbers if all(1 <= number <= most for number in numbers) else None


def _truth(field: FormField, said: str) -> JsonValue:
    return True if said.lower() in _YES else False if said.lower() in _NO else None


def _integer(field: FormField, said: str) -> JsonValue:
    try:
        return int(said)
    except ValueError:
        return None


def _number(field: FormField, said: str) -> JsonValue:
    try:
        value = float(said)
    except ValueError:
        return None
    return value if value - value == 0 else None  # no JSON has infinity


_READERS: Final[dict[str, Callable[[FormField, str], JsonValue]]] = {
    "string": lambda field, said: said,
    "number": _number,
    "integer": _integer,
    "boolean": _truth,
    "choice": _chosen,
    "choices": _all_chosen,
}
_HINTS: Final = {
    "string": "your answer",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "[y]es or [n]o",
    "choice": "the number of one",
    "choices": "the numbers of those you choose, with commas between",
}
"""By kind of field, as :class:`~zeroclaw_daemon.client.questions.FieldKind` names them."""
