"""Asking a person: what counts as an answer, and how a question is taken back."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from zeroclaw_daemon.cli.person import Person, refusing
from zeroclaw_daemon.cli.turn_view import TurnView
from zeroclaw_daemon.client import Accepted, ApprovalRequest, Decision, Declined, Question, Verdict
from zeroclaw_daemon.client.questions import Choice, FieldKind, FormField

pytestmark = pytest.mark.anyio

REQUEST = ApprovalRequest(
    session_id="s",
    request_id="r",
    tool_name="bash\x1b",
    arguments_summary='{"command": "ls"}',
    timeout_secs=9,
)
TEA = (Choice("choice-0", "tea"), Choice("choice-1", "milk"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Keyboard:
    """The other side of standard input."""

    descriptor: int
    person: Person

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())


@pytest.fixture
def keyboard(monkeypatch) -> Iterator[Keyboard]:
    """A person whose terminal a test types at."""
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield Keyboard(controller, Person(TurnView(sys.stdout, sys.stdout)))
    os.close(controller)


async def asked(keyboard: Keyboard, capsys, question: Any, *lines: str) -> tuple[Any, str]:
    """Ask, and type each line once the question before it stands there; the answer, and what was shown."""
    shown, answers = "", []

    async def ask() -> None:
        person = keyboard.person
        call = person.approve if isinstance(question, ApprovalRequest) else person.answer
        answers.append(await call(question))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        for line in lines:
            with anyio.fail_after(60):
                while not (new := capsys.readouterr().out).endswith((": ", "? ")):
                    shown += new
                    await anyio.lowlevel.checkpoint()
            shown += new
            keyboard.type(line if line == "\x04" else f"{line}\n")
    return answers[0], shown + capsys.readouterr().out


def form(*fields: FormField) -> Question:
    return Question("s", "Well?", fields)


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["y"], Verdict(Decision.ALLOW_ONCE)),
        ([" YES "], Verdict(Decision.ALLOW_ONCE)),
        (["a"], Verdict(Decision.ALLOW_ALWAYS)),
        (["n"], Verdict(Decision.REJECT_ONCE)),
        (["", "yess", "no"], Verdict(Decision.REJECT_ONCE)),
        (["e", "ls -l"], Verdict(Decision.REJECT_WITH_EDIT, "ls -l")),
        (["\x04"], Verdict(Decision.REJECT_ONCE)),
        (["e", "\x04"], Verdict(Decision.REJECT_ONCE)),
    ],
)
async def test_only_a_clear_yes_lets_a_tool_run(keyboard, capsys, lines: list[str], verdict: Verdict) -> None:
    answer, shown = await asked(keyboard, capsys, REQUEST, *lines)
    assert answer == verdict
    assert shown.startswith('? bash\\x1b wants to run with {"command": "ls"}\n')


async def test_what_is_to_run_is_one_line_that_hides_nothing(keyboard, capsys) -> None:
    request = REQUEST.model_copy(update={"arguments_summary": "ls\u200b\nAllow it? y\U000e0041"})
    _, shown = await asked(keyboard, capsys, request, "n")
    assert shown.startswith("? bash\\x1b wants to run with ls\\u200b\\x0aAllow it? y\\U000e0041\n")


@pytest.mark.parametrize(
    ("field", "lines", "value"),
    [
        (FormField("f", "Name", FieldKind.TEXT), ["Ada"], "Ada"),
        (FormField("f", "", FieldKind.INTEGER), ["ten", "1.5", "10"], 10),
        (FormField("f", "", FieldKind.NUMBER), ["nan", "inf", "1e999", "1.5"], 1.5),
        (FormField("f", "", FieldKind.BOOLEAN), ["perhaps", "n"], False),
        (FormField("f", "", FieldKind.CHOICE, True, TEA), ["0", "3", "1 2", "٢", "2"], "choice-1"),
        (
            FormField("f", "", FieldKind.CHOICES, True, TEA, 2, 2),
            ["1", "1,1", "2, 1"],
            ["choice-1", "choice-0"],
        ),
    ],
)
async def test_a_field_takes_what_fits_it(
    keyboard, capsys, field: FormField, lines: list[str], value: Any
) -> None:
    answer, _ = await asked(keyboard, capsys, form(field), *lines)
    assert answer == Accepted({"f": value})


@pytest.mark.parametrize("nothing", ["", "\x04"])
async def test_an_empty_line_and_the_end_of_input_are_no_answer(keyboard, capsys, nothing: str) -> None:
    answer, _ = await asked(keyboard, capsys, form(FormField("f", "", FieldKind.TEXT)), nothing)
    assert answer == Declined()


async def test_what_need_not_be_answered_may_be_left_out(keyboard, capsys) -> None:
    fields = (FormField("a", "", FieldKind.TEXT, required=False), FormField("b", "", FieldKind.TEXT))
    answer, _ = await asked(keyboard, capsys, form(*fields), "", "here")
    assert answer == Accepted({"b": "here"})


async def test_what_was_typed_before_the_question_is_no_answer_to_it(keyboard, capsys) -> None:
    keyboard.type("y\n")
    answer, _ = await asked(keyboard, capsys, REQUEST, "n")
    assert answer == Verdict(Decision.REJECT_ONCE)


async def test_a_question_is_taken_back_in_the_middle_of_the_answer_and_the_next_begins_anew(
    keyboard, capsys
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keyboard.person.approve, REQUEST)
        while not capsys.readouterr().out.endswith(": "):
            await anyio.lowlevel.checkpoint()
        keyboard.type("y")
        tasks.cancel_scope.cancel()
    assert capsys.readouterr().out == "\n(nobody waits for the answer any more)\n"
    answer, _ = await asked(keyboard, capsys, REQUEST, "n")
    assert answer == Verdict(Decision.REJECT_ONCE)


async def test_two_questions_are_asked_one_after_the_other(keyboard, capsys) -> None:
    answers: list[Any] = []

    async def ask(title: str) -> None:
        answers.append(
            await keyboard.person.answer(Question("s", title, (FormField("f", "", FieldKind.TEXT),)))
        )

    shown = ""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "one")
        tasks.start_soon(ask, "two")
        for word in ("first", "second"):
            while not (new := capsys.readouterr().out).endswith(": "):
                shown += new
                await anyio.lowlevel.checkpoint()
            shown += f"{new}\n"
            keyboard.type(f"{word}\n")
    assert re.findall(r"^\? (.*)$", shown, re.MULTILINE) == ["one", "two"]
    assert answers == [Accepted({"f": "first"}), Accepted({"f": "second"})]


async def test_where_nobody_is_a_tool_is_refused_aloud() -> None:
    said: list[str] = []
    assert await refusing(said.append)(REQUEST) == Verdict(Decision.REJECT_ONCE)
    assert said == ["bash\x1b needs consent, and nobody is here to give it: it is not run"]
