"""A turn as a person or a program sees it while it happens.

What models, tools and daemons say is made safe for a terminal, and what a tool takes and gives is bounded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from zeroclaw_host.visible import json_text, visible, visible_lines

if TYPE_CHECKING:
    from zeroclaw_daemon.client import PlanChanged, Update
    from zeroclaw_daemon.rpc.methods.session import PromptResult

TOOL_TEXT_SHOWN: Final = 2_000
"""Characters of a tool's arguments or output that are shown to a person; JSON output has everything."""
TOOL_LINES_SHOWN: Final = 20
"""Lines of it."""
_MARKS: Final = {"completed": "[x]", "in_progress": "[>]"}


class View(Protocol):
    """Shows a turn as it happens."""

    def event(self, update: Update) -> None:
        """One update."""
        ...

    def result(self, result: PromptResult) -> None:
        """The end of the turn."""
        ...


class JsonView:
    """Everything, one JSON object a line."""

    def event(self, update: Update) -> None:
        """Print the update as the daemon sent it."""
        print(json_text(update.params), flush=True)

    def result(self, result: PromptResult) -> None:
        """Print the result as an object of type ``result``."""
        print(json_text({"type": "result", **result.to_json()}), flush=True)


@dataclass(frozen=True, slots=True)
class Style:
    """How what goes beside an answer is told from it: terminal sequences, or nothing."""

    dim: str = ""
    plain: str = ""

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """The style for a stream: none away from a terminal, on a dumb one, and where ``NO_COLOR`` is set."""
        if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return cls()
        return cls("\x1b[2m", "\x1b[0m")


class TurnView:
    """The answer on one stream; what the agent does for it on another, or on the same.

    :param answers: where the answer goes, standard output if left out.
    :param others: where the rest goes, standard error if left out.
    """

    def __init__(self, answers: TextIO | None = None, others: TextIO | None = None) -> None:
        self._answers = answers or sys.stdout
        self._others = others or sys.stderr
        self._style = Style.of(self._others)
        self._open: TextIO | None = None
        """Where a line was begun that has not ended."""
        self._thinking = False

    def event(self, update: Update) -> None:
        """Print one update as it comes."""
        from zeroclaw_daemon import client

        match update:
            case client.AnswerChunk():
                self.answer(update.text)
            case client.ThoughtChunk():
                self._thought(update.text)
            case client.ToolCall():
                self.called(update.name, update.raw_input)
            case client.ToolResult():
                self.returned(update.name, update.raw_output)
            case client.PlanChanged():
                self._plan(update)
            case client.HistoryTrimmed():
                self.beside(
                    f"(the agent no longer hears the {update.dropped_messages} oldest messages of this conversation)"
                )
            case client.VerdictRefused():
                self.beside(f"the daemon did not take your decision: {update.message}")
            case client.TurnComplete(outcome="completed", reason="max_tokens"):
                self.beside("the answer is cut off: the model had no room for the rest")
            case _:
                return  # Later daemons may tell more than this command can show.

    def result(self, result: PromptResult) -> None:
        """End the line of the answer."""
        self.end_line()
        if result.stop_reason == "cancelled":
            self.beside("the turn was cancelled")

    def answer(self, text: str) -> None:
        """A piece of an answer."""
        if self._thinking:
            self.end_line()
        self._write(self._answers, visible_lines(text))

    def _thought(self, text: str) -> None:
        """A piece of reasoning, on the line of the piece before it."""
        if not self._thinking:
            self.end_line()
            text = f"… {text}"
        self._write(self._others, visible_lines(text), self._style)
        self._thinking = self._open is not None

    def _write(self, stream: TextIO, text: str, style: Style | None = None) -> None:
        if not text:
            return
        stream.write(f"{style.dim}{text}{style.plain}" if style else text)
        stream.flush()
        self._open = None if text.endswith("\n") else stream

    def called(self, name: str, arguments: Any) -> None:
        """A call of a tool."""
        self.beside(f"→ {name} {json.dumps(arguments, ensure_ascii=False)}")

    def returned(self, name: str, output: str) -> None:
        """What a tool gave back."""
        self.beside(f"← {name} {output}")

    def beside(self, text: str) -> None:
        """Something that is no part of the answer, on lines of its own."""
        self.end_line()
        print(
            f"{self._style.dim}{visible_lines(shortened(text))}{self._style.plain}",
            file=self._others,
            flush=True,
        )

    def end_line(self) -> None:
        """Have what comes next begin a line."""
        if self._open is not None:
            self._open.write("\n")
            self._open.flush()
        self._open, self._thinking = None, False

    def _plan(self, plan: PlanChanged) -> None:
        steps = [f"{_MARKS.get(entry.status, '[ ]')} {visible(entry.content)}" for entry in plan.entries]
        self.beside("\n".join(["the plan:", *steps] if steps else ["the plan is empty"]))


def shortened(text: str) -> str:
    """What is shown to a person of a long text: its beginning, and how much there is more."""
    lines: Sequence[str] = text[:TOOL_TEXT_SHOWN].split("\n")
    shown = "\n".join(lines[:TOOL_LINES_SHOWN])
    left = len(text) - len(shown)
    return f"{shown} … ({left} characters more)" if left > 0 and text[len(shown) :].strip() else shown
