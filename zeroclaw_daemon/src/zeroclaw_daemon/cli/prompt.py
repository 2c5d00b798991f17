"""``zeroclaw prompt``: say something to an agent and watch it answer."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from zeroclaw_daemon.cli.environment import environment
from zeroclaw_host.errors import UsageError
from zeroclaw_host.visible import json_text, visible, visible_lines

if TYPE_CHECKING:
    from zeroclaw_daemon.config.paths import Paths
    from zeroclaw_daemon.rpc.client import Client

DEFAULT_AGENT = "assistant"
_TOOL_TEXT_SHOWN = 2_000
"""Characters of a tool's arguments or output that are shown to a person; JSON output has everything."""


def prompt(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to say. `-` reads it from standard input.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="ALIAS", help="Whom to ask. Without it, the only agent, or `assistant`."
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Go on with, or begin, a conversation of this name."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event, then the result, as one JSON object a line.")
    ] = False,
) -> None:
    """Send a prompt to an agent of the running daemon and stream the answer.

    The answer goes to standard output; tool calls, their results and thoughts go to standard error. Without --session
    the conversation ends with the answer.
    """
    import anyio

    current = environment(context)
    current.json = as_json
    said = sys.stdin.read() if text == "-" else text
    if not said.strip():
        raise UsageError("there is nothing to say: the prompt is blank")
    view: View = JsonView() if as_json else TerminalView()
    anyio.run(_converse, current.paths, said, agent, session, view)


class View(Protocol):
    """Shows a turn as it happens."""

    def event(self, params: dict[str, Any]) -> None:
        """One ``session/update``."""
        ...

    def result(self, answer: dict[str, Any]) -> None:
        """The end of the turn."""
        ...


class JsonView:
    """Everything, one JSON object a line."""

    def event(self, params: dict[str, Any]) -> None:
        """Print the update as the daemon sent it."""
        print(json_text(params), flush=True)

    def result(self, answer: dict[str, Any]) -> None:
        """Print the result as an object of type ``result``."""
        print(json_text({"type": "result", **answer}), flush=True)


class TerminalView:
    """The answer on standard output; what the agent does for it on standard error."""

    def __init__(self) -> None:
        self._dim, self._plain = ("\x1b[2m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
        self._line_open = False

    def event(self, params: dict[str, Any]) -> None:
        """Print one update as it comes."""
        match params.get("type"):
            case "agent_message_chunk":
                self._answer(str(params.get("text", "")))
            case "agent_thought_chunk":
                self._beside(f"… {params.get('text', '')}")
            case "tool_call":
                arguments = json.dumps(params.get("rawInput"), ensure_ascii=False)
                self._beside(f"→ {params.get('name')} {arguments}")
            case "tool_result":
                self._beside(f"← {params.get('name')} {params.get('rawOutput', '')}")
            case _:
                return  # Later daemons may tell more than this command can show.

    def result(self, answer: dict[str, Any]) -> None:
        """End the line of the answer."""
        self._end_line()
        if answer.get("stopReason") == "cancelled":
            self._beside("the turn was cancelled")

    def _answer(self, text: str) -> None:
        if text:
            sys.stdout.write(visible_lines(text))
            sys.stdout.flush()
            self._line_open = not text.endswith("\n")

    def _beside(self, text: str) -> None:
        self._end_line()
        shown = text if len(text) <= _TOOL_TEXT_SHOWN else f"{text[:_TOOL_TEXT_SHOWN]} …"
        print(f"{self._dim}{visible_lines(shown)}{self._plain}", file=sys.stderr, flush=True)

    def _end_line(self) -> None:
        if self._line_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._line_open = False


async def _converse(paths: Paths, text: str, agent: str | None, session: str | None, view: View) -> None:

    from zeroclaw_daemon.cli.calling import daemon

    async with daemon(paths) as client:
        alias = agent or await _only_agent(client)
        opening: dict[str, Any] = {"agentAlias": alias, "chatMode": "acp", "keepSiblings": True}
        if session is not None:
            opening["sessionId"] = session
        opened = await client.call("session/new", opening)
        params = {"sessionId": opened["sessionId"], "prompt": text}
        try:
            view.result(await _turn(client, params, view))
        finally:
            if session is None:
                await client.call("session/close", {"sessionId": opened["sessionId"]})


async def _turn(client: Client, params: dict[str, Any], view: View) -> dict[str, Any]:
    """Take the turn, showing every update that belongs to it; its result."""
    import anyio

    answers: list[dict[str, Any]] = []
    over = anyio.Event()
    with client.notifications() as updates:

        async def show() -> None:
            async for update in updates:
                view.event(update.params)
                # The update that ends a turn is the last one, and comes before the answer (D-02).
                if update.params.get("type") == "turn_complete":
                    over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show)
            answers.append(await client.call("session/prompt", params))
            await over.wait()
            tasks.cancel_scope.cancel()
    return answers[0]


async def _only_agent(client: Client) -> str:
    """The agent that is meant when none is named.

    :raises UsageError: there are several and none is the built-in one.
    """
    answer: dict[str, Any] = await client.call("status")
    agents: list[str] = answer.get("agents", [DEFAULT_AGENT])
    if DEFAULT_AGENT in agents:
        return DEFAULT_AGENT
    if len(agents) == 1:
        return agents[0]
    raise UsageError(f"say whom to ask with --agent; there are {visible(', '.join(agents) or 'none')}")
