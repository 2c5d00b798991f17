"""What was said in a conversation before, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroclaw_host.visible import visible_lines

if TYPE_CHECKING:
    from zeroclaw_daemon.cli.turn_view import TurnView
    from zeroclaw_daemon.rpc.methods.session_reading import MessagesResult


def show(page: MessagesResult, view: TurnView) -> None:
    """The newest entries of a transcript, oldest first."""
    if page.start:
        view.beside(f"(not shown: {page.start} earlier)")
    for entry in page.messages:
        match entry.kind, entry.role:
            case "tool_call", _:
                view.called(entry.tool_name or "", entry.tool_input)
            case "tool_result", _:
                view.returned(entry.tool_name or "", entry.tool_output or "")
            case _, "user":
                view.end_line()
                print(f"> {visible_lines(entry.content)}", flush=True)
            case _, "assistant":
                view.answer(entry.content)
                view.end_line()
            case _:
                view.beside(entry.content)
