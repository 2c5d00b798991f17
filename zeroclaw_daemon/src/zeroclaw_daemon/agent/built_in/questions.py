"""The tools ``ask_user`` and ``poll``: the agent asks the person at the client (RPC-252)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from zeroclaw_daemon.agent.approval_policy import Reach
from zeroclaw_daemon.agent.asking import Answer, Answered, AnswerUnusable, Unanswered
from zeroclaw_daemon.agent.built_in.base import BuiltIn
from zeroclaw_daemon.agent.providers.base import ToolSpec
from zeroclaw_daemon.agent.surroundings import TurnSite
from zeroclaw_daemon.strict_json import JsonValue
from zeroclaw_host.worlds.kinds import ToolResult

MAX_QUESTION_CHARACTERS: Final = 4_000
MAX_OPTIONS: Final = 50
MAX_OPTION_CHARACTERS: Final = 500
_QUESTION: Final = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARACTERS}


class AskUser(BuiltIn):
    """Asks for an answer in the person's own words."""

    spec = ToolSpec(
        name="ask_user",
        description="Ask the user a question and wait for the answer, which they write in their own words.",
        parameters={
            "type": "object",
            "properties": {"question": _QUESTION},
            "required": ["question"],
            "additionalProperties": False,
        },
    )
    reach = Reach.CONVERSATION

    async def perform(self, arguments: Mapping[str, object], site: TurnSite) -> ToolResult:
        """Ask.

        :raises ZeroclawError: nobody can be asked, or what came back is no answer.
        """
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
        }
        question = cast("str", arguments["question"])
        answer = await site.surroundings.interlocutor.ask(question, schema, site.ask_seconds)
        return _result(answer, site, lambda content: _sole(content, "answer"))


class Poll(BuiltIn):
    """Has the person choose."""

    spec = ToolSpec(
        name="poll",
        description="Have the user choose among options, and wait for the choice.",
        parameters={
            "type": "object",
            "properties": {
                "question": _QUESTION,
                "options": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": MAX_OPTIONS,
                    "uniqueItems": True,
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_OPTION_CHARACTERS},
                },
                "multiple": {"type": "boolean", "description": "Whether several options may be chosen."},
            },
            "required": ["question", "options"],
            "additionalProperties": False,
        },
    )
    reach = Reach.CONVERSATION

    async def perform(self, arguments: Mapping[str, object], site: TurnSite) -> ToolResult:
        """Ask.

        :raises ZeroclawError: nobody can be asked, or what came back is no choice.
        """
        options = cast("Sequence[str]", arguments["options"])
        multiple = bool(arguments.get("multiple"))
        schema = _choices(options) if multiple else _choice(options)
        question = cast("str", arguments["question"])
        answer = await site.surroundings.interlocutor.ask(question, schema, site.ask_seconds)
        return _result(answer, site, lambda content: _chosen(content, options, multiple=multiple))


def _choice(options: Sequence[str]) -> JsonValue:
    return {
        "type": "object",
        "properties": {"choice": {"type": "string", "oneOf": _titled(options)}},
        "required": ["choice"],
    }


def _choices(options: Sequence[str]) -> JsonValue:
    several = {"type": "array", "minItems": 1, "maxItems": len(options), "items": {"anyOf": _titled(options)}}
    return {"type": "object", "properties": {"choices": several}, "required": ["choices"]}


def _titled(options: Sequence[str]) -> list[JsonValue]:
    return [{"const": _key(index), "title": option} for index, option in enumerate(options)]


def _key(index: int) -> str:
    return f"choice-{index}"


def _chosen(content: JsonValue, options: Sequence[str], *, multiple: bool) -> str:
    """What was chosen, one option a line. A client may also answer in other words, which are the answer then.

    :raises AnswerUnusable: it chose what it was not offered, or several where it might choose one.
    """
    titles = {_key(index): option for index, option in enumerate(options)}
    match content:
        case {"choice": str() as key}:
            keys: list[JsonValue] = [key]
        case {"choices": list()}:
            keys = cast("list[JsonValue]", content["choices"])
        case _:
            return _sole(content, "answer")
    if not keys or any(not isinstance(key, str) or key not in titles for key in keys):
        raise AnswerUnusable("the client chose what it was not offered")
    chosen = dict.fromkeys(titles[key] for key in keys)
    if len(chosen) > 1 and not multiple:
        raise AnswerUnusable("the client chose several options where it might choose one")
    return "\n".join(chosen)


def _sole(content: JsonValue, member: str) -> str:
    """The text of an answer that is this member alone, or the whole answer as JSON."""
    match content:
        case dict() if list(cast("dict[str, JsonValue]", content)) == [member] and isinstance(
            content[member], str
        ):
            return cast("str", content[member])
        case _:
            return json.dumps(content, ensure_ascii=False)


def _result(answer: Answer, site: TurnSite, told: Callable[[JsonValue], str]) -> ToolResult:
    match answer:
        case Answered(None):
            return ToolResult(True, "the user answered without saying anything")
        case Answered(content):
            return ToolResult(True, told(content))
        case Unanswered.DECLINED:
            return ToolResult(True, "no answer: the user declined to answer")
        case Unanswered.CANCELLED:
            return ToolResult(True, "no answer: the user cancelled the question")
        case Unanswered.SILENT:
            return ToolResult(True, f"no answer: the user said nothing for {site.ask_seconds} seconds")
